"""The demonstration's report."""

import html
import json
import re
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from inorder.demo.report import Counts, Output, Results, console_table, contact_sheet, write_report
from tests.conftest import picture

HOSTILE_KEY = """gallery/<script>alert('1')</script>"quoted" & </code>.jpg"""
OFF = Counts(
    **{"keys": 100, "slow": 20, "stale": 17, "missing": 1, "events": 203, "processed": 202},
    **{"repeated": 21, "superseded": 11, "duplicates": 12, "parked": 13, "lost": 2, "retried": 0},
    seconds=41.27,
)
ON = replace(OFF, stale=0, missing=0, lost=0, events=204, processed=183, duplicates=3, seconds=55.5)
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
    cell = contact_sheet([MISSING])  # is hatched
    row = [cell.getpixel((x, cell.height // 2)) for x in range(cell.width)]
    assert sum(one != other for one, other in pairwise(row)) > 10
    # The stale cell, and no other, has a red frame.
    sheet = contact_sheet([FRESH, STALE, FRESH, FRESH])
    width, height, red = sheet.width // 2, sheet.height // 2, (255, 31, 31)
    for corner in ((0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)):
        assert sheet.getpixel((width + corner[0], corner[1])) == red
    sheet.paste("black", (width, 0, 2 * width, height))
    assert red not in {colour for _, colour in sheet.getcolors(sheet.width * sheet.height) or []}


def test_console_table_shows_every_measure_and_highlights_stale_outputs() -> None:
    def printed(off: Counts) -> list[str]:
        console = Console(width=100, force_terminal=True, color_system="standard", no_color=False)
        with console.capture() as capture:
            console.print(console_table({"off": (off, []), "on": (ON, [])}, "Coordination"))
        return capture.get().splitlines()

    rows = [re.sub("\x1b\\[[0-9;]*m", "", line).strip("│").split("│") for line in printed(OFF)]
    expected = """
        Object keys|100|100; Slow old pictures, 1 in 6|20|20; Events delivered|203|204;
        Processed|202|183; Processed again|21|21; Superseded|11|11; Duplicates dropped|12|3;
        Retried after a fault|0|0; Parked|13|13; Without an outcome|2|0; Stale outputs|17|0;
        Missing outputs|1|0; Seconds|41.3|55.5"""
    assert [[cell.strip() for cell in row] for row in rows if len(row) == 3] == [
        each.strip().split("|") for each in expected.split(";")
    ]
    red, green = "\x1b[1;31m", "\x1b[32m"
    (stale,) = [line for line in printed(OFF) if "Stale" in line]
    assert red in stale
    assert green in stale
    assert red not in "".join(printed(ON))
