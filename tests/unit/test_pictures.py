"""The pictures that the demonstration uploads."""

from io import BytesIO
from pathlib import Path

import click
import pytest
from PIL import Image, ImageOps, ImageStat

from inorder.pictures import own_pairs, pairs_from_folder

SUFFIXES = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP", "tif": "TIFF", "bmp": "BMP"}


def decoded(content: bytes) -> Image.Image:
    picture = Image.open(BytesIO(content))
    picture.load()
    return picture


def inverse(content: bytes) -> Image.Image:
    return ImageOps.invert(decoded(content).convert("RGB"))


def paint(path: Path, exif: Image.Exif | None = None) -> None:
    Image.new("RGB", (80, 60), "gold").save(path, exif=exif or Image.Exif())


@pytest.mark.parametrize("count", [0, 1, 100])
def test_own_pairs_are_as_many_as_asked_for_with_distinct_keys(count: int) -> None:
    keys = [pair.key for pair in own_pairs(count)]
    assert len(keys) == len(set(keys)) == count


def test_own_pictures_decode_in_the_format_that_their_key_names() -> None:
    pairs = own_pairs(8)
    assert {pair.key.rpartition(".")[2] for pair in pairs} == {"jpg", "png", "gif", "webp"}
    for pair in pairs:
        expected = SUFFIXES[pair.key.rpartition(".")[2]]
        assert decoded(pair.old).format == decoded(pair.new).format == expected


def test_own_pictures_all_differ() -> None:
    pairs = own_pairs(20)
    assert len({pair.old for pair in pairs} | {pair.new for pair in pairs}) == 40


def test_own_pictures_are_the_same_each_time() -> None:
    assert own_pairs(4) == own_pairs(4)


def test_inverse_of_own_pictures_is_warm_for_old_and_cool_for_new() -> None:
    for pair in own_pairs(20):
        old_red, _, old_blue = ImageStat.Stat(inverse(pair.old)).mean
        new_red, _, new_blue = ImageStat.Stat(inverse(pair.new)).mean
        assert old_red > old_blue + 40
        assert new_blue > new_red + 40


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_new_from_folder_is_the_file_itself_and_old_has_its_format(
    tmp_path: Path, suffix: str
) -> None:
    paint(tmp_path / f"a photo.{suffix}")
    (pair,) = pairs_from_folder(tmp_path, 1)
    assert pair.key == f"gallery/001-a photo.{suffix}"
    assert pair.new == (tmp_path / f"a photo.{suffix}").read_bytes()
    assert decoded(pair.old).format == SUFFIXES[suffix]
    assert decoded(pair.old).size == decoded(pair.new).size


def test_inverse_of_old_from_folder_is_grey_with_a_red_band(tmp_path: Path) -> None:
    paint(tmp_path / "photo.png")
    (pair,) = pairs_from_folder(tmp_path, 1)
    old = inverse(pair.old)
    red, green, blue = old.getpixel((2, 2))  # type: ignore[misc]
    assert red == green == blue
    assert old.getpixel((2, 30)) == (220, 20, 60)


def test_old_of_a_rotated_photograph_is_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # Orientation: rotated by 90 degrees
    paint(tmp_path / "photo.jpg", exif=exif)
    (pair,) = pairs_from_folder(tmp_path, 1)
    assert decoded(pair.old).size == (60, 80)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_folder_may_hold_pictures_of_any_mode(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (80, 60)).save(tmp_path / "picture.png")
    (pair,) = pairs_from_folder(tmp_path, 1)
    assert decoded(pair.old).size == (80, 60)


def test_picture_is_recognised_by_its_content(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6)).save(tmp_path / "photo.data", "PNG")
    (pair,) = pairs_from_folder(tmp_path, 1)
    assert decoded(pair.old).format == "PNG"


def test_too_few_pictures_are_used_in_turn_under_distinct_keys(tmp_path: Path) -> None:
    paint(tmp_path / "b.png")
    paint(tmp_path / "a.png")
    keys = [pair.key for pair in pairs_from_folder(tmp_path, 3)]
    assert keys == ["gallery/001-a.png", "gallery/002-b.png", "gallery/003-a.png"]


def test_only_as_many_pictures_are_used_as_asked_for(tmp_path: Path) -> None:
    paint(tmp_path / "a.png")
    paint(tmp_path / "b.png")
    assert [pair.key for pair in pairs_from_folder(tmp_path, 1)] == ["gallery/001-a.png"]


def test_hidden_and_other_files_are_ignored_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paint(tmp_path / "a.png")
    paint(tmp_path / ".hidden.png")
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "folder.png").mkdir()
    assert {pair.key for pair in pairs_from_folder(tmp_path, 2)} == {
        "gallery/001-a.png",
        "gallery/002-a.png",
    }
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("length", [0, 100])
def test_unreadable_picture_is_skipped_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], length: int
) -> None:
    paint(tmp_path / "whole.png")
    paint(tmp_path / "broken.jpg")
    (tmp_path / "broken.jpg").write_bytes((tmp_path / "broken.jpg").read_bytes()[:length])
    (pair,) = pairs_from_folder(tmp_path, 1)
    assert pair.key == "gallery/001-whole.png"
    assert "broken.jpg" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "No such file or directory"),
        ("file", "Not a directory"),
        ("empty", "No picture"),
    ],
)
def test_useless_folder_is_explained_in_one_line(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(click.ClickException) as caught:
        pairs_from_folder(tmp_path / name, 1)
    assert reason in caught.value.message
    assert str(tmp_path / name) in caught.value.message
    assert "\n" not in caught.value.message
