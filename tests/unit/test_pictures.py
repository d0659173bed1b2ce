"""The pictures that the demonstration uploads."""

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageOps, ImageStat

from inorder.demo.pictures import own_pairs, pairs_from_folder
from inorder.errors import Failure

FORMATS = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP", "tif": "TIFF", "bmp": "BMP"}


def decoded(content: bytes) -> Image.Image:
    picture = Image.open(BytesIO(content))
    picture.load()
    return picture


def inverse(content: bytes) -> Image.Image:
    return ImageOps.invert(decoded(content).convert("RGB"))


def paint(path: Path, exif: Image.Exif | None = None) -> None:
    Image.new("RGB", (80, 60), "gold").save(path, exif=exif or Image.Exif())


def test_own_pictures_are_distinct_and_the_same_each_time() -> None:
    pairs = own_pairs(8)
    assert len({pair.key for pair in pairs}) == 8
    assert len({pair.old for pair in pairs} | {pair.new for pair in pairs}) == 16
    assert pairs[:4] == own_pairs(4)
    assert own_pairs(0) == []
    assert {pair.key.rpartition(".")[2] for pair in pairs} == {"jpg", "png", "gif", "webp"}


def test_own_pictures_look_warm_if_old_and_cool_if_new_once_they_are_inverted() -> None:
    for pair in own_pairs(8):
        expected = FORMATS[pair.key.rpartition(".")[2]]
        assert decoded(pair.old).format == decoded(pair.new).format == expected
        old_red, _, old_blue = ImageStat.Stat(inverse(pair.old)).mean
        new_red, _, new_blue = ImageStat.Stat(inverse(pair.new)).mean
        assert old_red > old_blue + 40
        assert new_blue > new_red + 40


@pytest.mark.parametrize("suffix", FORMATS)
def test_pictures_from_a_folder_keep_their_format(tmp_path: Path, suffix: str) -> None:
    paint(tmp_path / f"a photo.{suffix}")
    (pair,) = pairs_from_folder(tmp_path, 1, print)
    assert pair.key == f"gallery/001-a photo.{suffix}"
    assert pair.new == (tmp_path / f"a photo.{suffix}").read_bytes()
    assert (decoded(pair.old).format, decoded(pair.old).size) == (FORMATS[suffix], (80, 60))


def test_inverse_of_an_old_picture_is_grey_with_a_red_band(tmp_path: Path) -> None:
    paint(tmp_path / "photo.png")
    (pair,) = pairs_from_folder(tmp_path, 1, print)
    red, green, blue = inverse(pair.old).getpixel((2, 2))  # type: ignore[misc]
    assert red == green == blue
    assert inverse(pair.old).getpixel((2, 30)) == (220, 20, 60)


def test_old_picture_of_a_rotated_photograph_is_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # Orientation: rotated by 90 degrees
    paint(tmp_path / "photo.jpg", exif=exif)
    (pair,) = pairs_from_folder(tmp_path, 1, print)
    assert decoded(pair.old).size == (60, 80)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_folder_may_hold_pictures_of_any_mode(tmp_path: Path, mode: str) -> None:
    # The format is recognised by the content, not by the name.
    Image.new(mode, (80, 60)).save(tmp_path / "picture.data", "PNG")
    (pair,) = pairs_from_folder(tmp_path, 1, print)
    assert (decoded(pair.old).format, decoded(pair.old).size) == ("PNG", (80, 60))


def test_pictures_are_used_in_turn_and_other_files_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("b.png", "a.png", ".hidden.png"):
        paint(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "folder.png").mkdir()
    keys = [pair.key for pair in pairs_from_folder(tmp_path, 3, print)]
    assert keys == ["gallery/001-a.png", "gallery/002-b.png", "gallery/003-a.png"]
    assert [pair.key for pair in pairs_from_folder(tmp_path, 1, print)] == keys[:1]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("length", [0, 100])
def test_unreadable_picture_is_skipped_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], length: int
) -> None:
    paint(tmp_path / "whole.png")
    paint(tmp_path / "broken.jpg")
    (tmp_path / "broken.jpg").write_bytes((tmp_path / "broken.jpg").read_bytes()[:length])
    (pair,) = pairs_from_folder(tmp_path, 1, print)
    assert pair.key == "gallery/001-whole.png"
    assert "broken.jpg" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "reason"),
    [("no", "No such file or directory"), ("file", "Not a directory"), ("empty", "No picture")],
)
def test_useless_folder_is_explained_in_one_line(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(Failure) as caught:
        pairs_from_folder(tmp_path / name, 1, print)
    assert reason in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)
