"""The demonstration's parts that need no stack: pictures, costs, deliveries, and its report."""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from unittest.mock import Mock

import pytest
from PIL import Image, ImageOps, ImageStat
from rich.console import Console

from inorder.aws.stack import Stack
from inorder.demo import deployed as deployed_demo
from inorder.demo import run as demo
from inorder.demo.deployed import estimate
from inorder.demo.pictures import own_pairs, pairs_from_folder
from inorder.demo.report import (
    MEASURES,
    Counts,
    Output,
    Results,
    console_table,
    contact_sheet,
    write_report,
)
from inorder.demo.run import _inverse, choices, shows
from inorder.errors import Failure
from inorder.model.policies import policy
from tests.conftest import picture

FORMATS = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP", "tif": "TIFF", "bmp": "BMP"}


def decoded(content: bytes) -> Image.Image:
    picture = Image.open(BytesIO(content))
    picture.load()
    return picture


def inverse(content: bytes) -> Image.Image:
    return ImageOps.invert(decoded(content).convert("RGB"))


def paint(path: Path) -> None:
    Image.new("RGB", (80, 60), "gold").save(path)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((f"a photo.{suffix}", "RGB") for suffix in FORMATS),
        *(("picture.data", mode) for mode in ("1", "L", "LA", "P", "RGBA", "I;16")),
    ],
)
def test_pictures_from_a_folder_keep_their_format_which_their_content_tells(
    tmp_path: Path, name: str, mode: str
) -> None:
    file, file_format = tmp_path / name, FORMATS.get(name.rpartition(".")[2], "PNG")
    rotated = Image.Exif()
    rotated[0x0112] = 6  # Orientation: by 90 degrees
    exif = {"exif": rotated} if file_format == "JPEG" else {}
    Image.new(mode, (80, 60)).save(file, file_format, **exif)
    (pair,) = pairs_from_folder(tmp_path, 1, print)
    assert (pair.key, pair.new) == (f"gallery/001-{name}", file.read_bytes())
    old = decoded(pair.old)
    assert (old.format, old.size) == (file_format, (60, 80) if exif else (80, 60))
    # The inverse of an old one is grey with a red band.
    red, green, blue = inverse(pair.old).getpixel((2, 2))  # type: ignore[misc]
    assert max(red, green, blue) - min(red, green, blue) < 5
    band = inverse(pair.old).crop((2, old.height // 2 - 2, old.width - 2, old.height // 2 + 2))
    assert ImageStat.Stat(band).mean[0] > 190


def test_pictures_are_used_in_turn_and_others_are_ignored_or_skipped_with_a_warning(
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
    for length in (0, 60):
        (tmp_path / "a.png").write_bytes((tmp_path / "b.png").read_bytes()[:length])
        assert [pair.key for pair in pairs_from_folder(tmp_path, 1, print)] == ["gallery/001-b.png"]
        assert "a.png" in capsys.readouterr().out


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


JPEG, PNG, GIF, WEBP = own_pairs(4)


def test_an_output_is_known_by_its_colours_if_its_bytes_differ() -> None:
    for pair in (JPEG, PNG, WEBP):
        file = BytesIO()  # as another processor's encoder may write it
        with Image.open(BytesIO(_inverse(pair.new))) as picture:
            picture.save(file, picture.format, quality=70, compress_level=1)
        assert shows(file.getvalue(), pair.new)
        assert not shows(file.getvalue(), pair.old)
    assert shows(_inverse(GIF.new) + b"stamp", GIF.new)
    part = BytesIO()
    with Image.open(BytesIO(_inverse(PNG.new))) as picture:
        picture.crop((0, 0, 24, 18)).save(part, "PNG")
    for output in (b"", b"no picture", part.getvalue(), _inverse(JPEG.new)):
        assert not shows(output, PNG.new)


def test_the_requests_of_each_kind_are_counted_and_a_hundred_keys_cost_a_few_cents() -> None:
    numbers = [number for number, _ in estimate(10, policy("latest-wins"), 1769)]
    assert numbers == [60, 130, 40, 60, 40, 140, 60]
    numbers = [number for number, _ in estimate(10, policy("first-wins"), 1769)]
    assert numbers[2:4] == [20, 40]  # it ignores deletions, which cost nothing then
    for name in (*choices(), "uncoordinated"):
        cheap, dear = (
            sum(number * price.dollars for number, price in estimate(100, policy(name), memory))
            for memory in (1769, 10240)
        )
        assert 0.01 < cheap < dear < 0.2, name


def test_a_stack_without_known_pictures_is_refused() -> None:
    complaints: list[tuple[dict[str, str], str]] = [
        ({"Policy": "latest-wins", "WorkFunctionArn": "arn"}, "function of its own"),
        ({"Policy": "mine"}, "the policy 'mine', unknown here"),
        ({}, "the policy '', unknown here"),
        ({"Policy": "content-hash"}, "makes no pictures"),
    ]
    for parameters, complaint in complaints:
        stack = Stack("name", "in", "out", "table", "arn", "url", "function", parameters)
        with pytest.raises(Failure, match=complaint):
            deployed_demo.policy_of(stack)


def test_keys_whose_events_do_not_arrive_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(demo, "GAP_SECONDS", 0)
    stack = Stack("name", "in", "out", "table", "arn", "url", "function", {})
    aws = Mock(poll_seconds=0, stack=stack, **{"arrived.return_value": {}})
    run = demo.Run(aws, policy("latest-wins"), aws, [PNG, GIF], executions_at_once=9)
    names = "gallery/picture-002.png, gallery/picture-003.gif"
    with pytest.raises(TimeoutError, match=f"^Waited 0 s for the two events of 2 keys: {names}.$"):
        run._deliver(lambda: None)


HOSTILE_KEY = """gallery/<script>alert('1')</script>"quoted" & </code>.jpg"""
OFF = Counts(
    **{"keys": 100, "slow": 20, "stale": 17, "missing": 1, "events": 203, "processed": 202},
    **{
        "repeated": 21,
        "superseded": 11,
        "duplicates": 12,
        "parked": 13,
        "lost": 2,
        "retried": 0,
        "wrong": 18,
    },
    seconds=41.27,
)
ON = replace(
    OFF, stale=0, missing=0, lost=0, wrong=0, events=204, processed=183, duplicates=3, seconds=55.5
)
PICTURE = picture((0, 128, 128))
FRESH, STALE = Output("fresh.png", PICTURE, "new"), Output("stale.png", PICTURE, "old")
MISSING, OTHER = Output("missing.png", None, "missing"), Output("other.png", PICTURE, "other")


def text_of(page: str) -> str:
    """Give the text of a page without its tags, with its white space collapsed."""
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def test_report_has_counts_and_sheets_replaces_another_and_loads_nothing_else(
    tmp_path: Path,
) -> None:
    file = write_report(tmp_path, {"my-stack": (ON, [FRESH, STALE])}, "Stack")
    said = text_of(file.read_text())
    assert "This was done with stack my-stack." in said
    assert "1 of 2 outputs shows the old picture" in said  # the verb is singular
    outputs_off = [FRESH, FRESH, STALE, MISSING, OTHER, Output(HOSTILE_KEY, PICTURE, "old")]
    results: Results = {"off": (OFF, outputs_off), "on": (ON, [FRESH] * 6)}
    assert write_report(tmp_path, results, "Coordination") == file == tmp_path / "report.html"
    page = file.read_text(encoding="utf-8")
    names = {"summary.json", "contact-sheet-off.png", "contact-sheet-on.png", "report.html"}
    assert {path.name for path in tmp_path.iterdir()} == names
    counts = {"off": asdict(OFF), "on": asdict(ON)}
    assert json.loads((tmp_path / "summary.json").read_text()) == counts
    codes = re.findall("<code>(.*?)</code>", page)
    assert [html.unescape(code) for code in codes] == ["stale.png", HOSTILE_KEY]
    assert "default-src 'none'; img-src 'self';" in page
    assert not re.search("<script|//", page)
    images = re.findall(r'<img [^>]*src="([^"]*)"', page)
    assert images == ["contact-sheet-off.png", "contact-sheet-on.png"]
    assert len(re.findall(r'<img [^>]*alt="[^"]+"', page)) == 2
    for expected in (
        "2 of 6 outputs show the old picture, 1 missing, 1 unexpected",
        *("0 of 6 outputs show the old picture", "Events delivered 203 204"),
        *("Stale outputs 17 0", "Seconds 41.3 55.5", "None."),
    ):
        assert expected in text_of(page)
    outcomes = ["Processed", "Duplicate", "Superseded", "Parked"]
    assert re.findall("<dt>(.*?)</dt>", page) == outcomes


def test_sheet_is_bounded_and_shows_each_state_differently() -> None:
    for count in (0, 1, 100, 250):
        sheet = contact_sheet([MISSING] * count)
        assert 0 < sheet.width <= 900
        assert 0 < sheet.height <= 900
        assert count != 100 or sheet.width == 900  # wide enough to be read
    broken = [Output("x.png", content, "new") for content in (b"", PICTURE[:60])]
    sheets = [contact_sheet([each]).tobytes() for each in (FRESH, STALE, MISSING, OTHER, *broken)]
    assert len(set(sheets)) == 5
    assert sheets[-1] == sheets[-2]  # what cannot be decoded is unknown


def test_console_table_has_each_measure_and_highlights_stale_outputs() -> None:
    def printed(off: Counts) -> list[str]:
        console = Console(width=100, force_terminal=True, color_system="standard", no_color=False)
        with console.capture() as capture:
            console.print(console_table({"off": (off, []), "on": (ON, [])}, "Coordination"))
        return capture.get().splitlines()

    assert len([line for line in printed(OFF) if "│" in line]) == len(MEASURES)
    red, green = "\x1b[1;31m", "\x1b[32m"
    (stale,) = [line for line in printed(OFF) if "Stale" in line]
    assert red in stale
    assert green in stale
    assert red not in "".join(printed(ON))
