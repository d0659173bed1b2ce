"""The demonstration's report."""

import html
import json
import re
from dataclasses import asdict, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops
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


def printed(off: Counts, on: Counts, *, colours: bool) -> list[str]:
    system: Any = "standard" if colours else None
    console = Console(width=100, force_terminal=colours, color_system=system, no_color=False)
    with console.capture() as capture:
        results: Results = {"off": (off, []), "on": (on, [])}
        console.print(console_table(results, "Coordination"))
    return capture.get().splitlines()


def text_of(page: str) -> str:
    """Give the text of a page without its tags, with its white space collapsed."""
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def test_page_explains_counts_and_outcomes_as_text_and_loads_only_its_images(
    tmp_path: Path,
) -> None:
    outputs_off = [FRESH, FRESH, STALE, MISSING, OTHER, Output(HOSTILE_KEY, PICTURE, "old")]
    results: Results = {"off": (OFF, outputs_off), "on": (ON, [FRESH] * 6)}
    page = write_report(tmp_path, results, "Coordination").read_text(encoding="utf-8")
    codes = re.findall("<code>(.*?)</code>", page)
    assert [html.unescape(code) for code in codes] == ["stale.png", HOSTILE_KEY]
    assert "<script" not in page
    assert page.count("None.") == 1
    assert "default-src 'none'; img-src 'self';" in page
    assert "//" not in page
    images = re.findall(r'<img [^>]*src="([^"]*)"', page)
    assert images == ["contact-sheet-off.png", "contact-sheet-on.png"]
    assert len(re.findall(r'<img [^>]*alt="[^"]+"', page)) == 2
    for expected in (
        "2 of 6 outputs show the old picture, 1 missing, 1 unexpected",
        *("0 of 6 outputs show the old picture", "Events delivered 203 204"),
        *("Stale outputs 17 0", "Seconds 41.3 55.5"),
    ):
        assert expected in text_of(page)
    outcomes = ["Processed", "Duplicate", "Superseded", "Parked"]
    assert re.findall("<dt>(.*?)</dt>", page) == outcomes


def test_sheet_shows_each_state_differently() -> None:
    broken = [Output("x.png", content, "new") for content in (b"", PICTURE[:60])]
    sheets = [contact_sheet([each]).tobytes() for each in (FRESH, STALE, MISSING, OTHER, *broken)]
    assert len(set(sheets)) == 5
    assert sheets[-1] == sheets[-2]  # what cannot be decoded is unknown
    cell = contact_sheet([MISSING])  # is hatched
    row = [cell.getpixel((x, cell.height // 2)) for x in range(cell.width)]
    assert sum(one != other for one, other in pairwise(row)) > 10
    # The stale cell, and no other, has a red frame.
    sheet = contact_sheet([FRESH, STALE, FRESH, FRESH])
    width, height = sheet.width // 2, sheet.height // 2
    red = (255, 31, 31)
    stale = sheet.crop((width, 0, 2 * width, height))
    for corner in ((0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)):
        assert stale.getpixel(corner) == red
    sheet.paste("black", (width, 0, 2 * width, height))
    assert red not in {colour for _, colour in sheet.getcolors(sheet.width * sheet.height) or []}


def test_sheet_is_bounded_however_many_outputs_there_are() -> None:
    for count in (0, 1, 100, 250):
        sheet = contact_sheet([MISSING] * count)
        assert 0 < sheet.width <= 900
        assert 0 < sheet.height <= 900
        assert count != 100 or sheet.width == 900  # wide enough to be read


def test_console_table_shows_every_measure_and_highlights_stale_outputs() -> None:
    rows = [line.strip("│").split("│") for line in printed(OFF, ON, colours=False)]
    assert {tuple(cell.strip() for cell in row) for row in rows if len(row) == 3} == {
        ("Object keys", "100", "100"),
        ("Slow old pictures, 1 in 6", "20", "20"),
        ("Events delivered", "203", "204"),
        ("Processed", "202", "183"),
        ("Processed again", "21", "21"),
        ("Superseded", "11", "11"),
        ("Duplicates dropped", "12", "3"),
        ("Retried after a fault", "0", "0"),
        ("Parked", "13", "13"),
        ("Without an outcome", "2", "0"),
        ("Stale outputs", "17", "0"),
        ("Missing outputs", "1", "0"),
        ("Seconds", "41.3", "55.5"),
    }
    red, green = "\x1b[1;31m", "\x1b[32m"
    (stale,) = [line for line in printed(OFF, ON, colours=True) if "Stale" in line]
    assert red in stale
    assert green in stale
    assert red not in "".join(printed(ON, ON, colours=True))


def test_report_has_counts_and_sheets_and_replaces_another(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "demo"
    write_report(folder, {"my-stack": (ON, [FRESH])}, "Stack")
    assert "This was done with stack my-stack." in text_of((folder / "report.html").read_text())
    results: Results = {"off": (OFF, [STALE]), "on": (ON, [FRESH])}
    assert write_report(folder, results, "Coordination") == folder / "report.html"
    names = {"summary.json", "contact-sheet-off.png", "contact-sheet-on.png", "report.html"}
    assert {path.name for path in folder.iterdir()} == names
    assert json.loads((folder / "summary.json").read_text()) == {
        "off": asdict(OFF),
        "on": asdict(ON),
    }
    for name, output in (("off", STALE), ("on", FRESH)):
        sheet = Image.open(BytesIO((folder / f"contact-sheet-{name}.png").read_bytes()))
        assert not ImageChops.difference(sheet, contact_sheet([output])).getbbox()
    # One stale output: the verb is singular.
    assert "1 of 1 outputs shows the old picture" in text_of((folder / "report.html").read_text())
