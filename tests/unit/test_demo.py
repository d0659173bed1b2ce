"""The demonstration's parts that need no stack: pictures, costs, deliveries, and its report."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageColor, ImageOps

from inorder.demo.pictures import own_pairs, pairs_from_folder
from inorder.demo.report import (
    FRAMES,
    LARGEST_CELL,
    Counts,
    FinalOutput,
    caption,
    contact_sheet,
    write_report,
)
from inorder.demo.run import _inverse, shows
from tests.conftest import picture


@pytest.mark.parametrize(
    ("name", "file_format", "mode"),
    [("photo.jpg", "JPEG", "RGB"), ("picture.data", "PNG", "P"), ("picture.data", "PNG", "I;16")],
)
def test_pictures_from_a_folder_keep_their_format_which_their_content_tells(
    tmp_path: Path, name: str, file_format: str, mode: str
) -> None:
    file = tmp_path / name
    Image.new(mode, (80, 60)).save(file, file_format)
    (pair,) = pairs_from_folder(tmp_path, 1, print)
    assert (pair.key, pair.new) == (f"gallery/001-{name}", file.read_bytes())
    old = Image.open(BytesIO(pair.old))
    assert (old.format, old.size) == (file_format, (80, 60))
    inverse = ImageOps.invert(old.convert("RGB"))
    red, green, blue = inverse.getpixel((2, 2))  # type: ignore[misc]
    assert max(red, green, blue) - min(red, green, blue) < 5  # grey, as no new one is


def test_pictures_are_used_in_turn_and_others_are_ignored_or_skipped_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("b.png", "a.png", ".hidden.png"):
        (tmp_path / name).write_bytes(PICTURE)
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "folder.png").mkdir()
    keys = [pair.key for pair in pairs_from_folder(tmp_path, 3, print)]
    assert keys == ["gallery/001-a.png", "gallery/002-b.png", "gallery/003-a.png"]
    assert capsys.readouterr().out == ""
    (tmp_path / "a.png").write_bytes(PICTURE[:60])
    assert [pair.key for pair in pairs_from_folder(tmp_path, 1, print)] == ["gallery/001-b.png"]
    assert "a.png" in capsys.readouterr().out


PICTURE = picture((0, 128, 128))
JPEG, PNG, GIF, WEBP = own_pairs(4)


def test_an_output_is_known_by_its_colours_whatever_the_fence_has_added() -> None:
    for pair in (JPEG, PNG, GIF, WEBP):
        assert shows(_inverse(pair.new) + b"stamp", pair.new)
        assert not shows(_inverse(pair.new), pair.old)
    for output in (b"", b"no picture", _inverse(JPEG.new)):
        assert not shows(output, PNG.new)


OFF = Counts(
    **{"keys": 100, "slow": 20, "stale": 17, "missing": 1, "events": 203, "processed": 202},
    **{"repeated": 21, "superseded": 11, "duplicates": 12, "parked": 13, "lost": 2},
    **{"retried": 0, "wrong": 18},
    seconds=41.27,
)
ON = replace(OFF, stale=0, missing=0, lost=0, wrong=0, events=204)
FRESH, STALE = FinalOutput("fresh.png", PICTURE, "new"), FinalOutput("stale.png", PICTURE, "old")
MISSING = FinalOutput("missing.png", None, "missing")
OTHER = FinalOutput("other.png", b"no picture", "other")


def test_a_report_has_the_counts_and_a_marked_picture_of_each_output(tmp_path: Path) -> None:
    outputs = [FRESH, STALE, MISSING, OTHER]
    results = {"off": (OFF, outputs), "on": (ON, [FRESH])}
    write_report(tmp_path, {"off": (ON, [STALE])})
    file = write_report(tmp_path, results)
    assert {path.name for path in tmp_path.iterdir()} == {"summary.json", "outputs.png"}
    counts = {"off": asdict(OFF), "on": asdict(ON)}
    assert json.loads((tmp_path / "summary.json").read_text()) == counts
    assert caption("off", outputs) == "off: 1 of 4 stale, 1 missing, 1 unexpected"
    assert caption("on", [FRESH]) == "on: 0 of 1 stale"
    sheet = contact_sheet(outputs)
    cells = [
        (column * LARGEST_CELL, row) for row in (0, LARGEST_CELL * 3 // 4) for column in (0, 1)
    ]
    frames = [ImageColor.getrgb(FRAMES[each.state]) for each in outputs]
    assert [sheet.getpixel(cell) for cell in cells] == frames
    with Image.open(file) as together:
        assert together.width > 3 * LARGEST_CELL  # a sheet of two columns, and one of one
