"""The demonstration's report."""

import json
from dataclasses import asdict
from html.parser import HTMLParser
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from rich.console import Console

from inorder.report import Counts, Output, console_table, contact_sheet, write_report
from tests.conftest import picture

HOSTILE_KEY = """gallery/<script>alert('1')</script>"quoted" & </code>.jpg"""
OFF = Counts(
    keys=100,
    stale=17,
    missing=1,
    events=203,
    processed=202,
    superseded=11,
    duplicates=12,
    parked=13,
    seconds=41.27,
)
ON = Counts(
    keys=100,
    stale=0,
    missing=0,
    events=204,
    processed=183,
    superseded=18,
    duplicates=3,
    parked=5,
    seconds=55.5,
)
PICTURE = picture((0, 128, 128))
FRESH, STALE = Output("fresh.png", PICTURE, "new"), Output("stale.png", PICTURE, "old")
MISSING, OTHER = Output("missing.png", None, "missing"), Output("other.png", PICTURE, "other")


class Page(HTMLParser):
    """The elements of a page, and the text in its elements, by tag."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, [])
        if tag not in ("meta", "img"):
            self._open.append(tag)
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.texts[tag][-1] += data

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element with the tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    def words(self, tag: str) -> list[str]:
        """Return the text of each element with the tag, with its white space collapsed."""
        return [" ".join(text.split()) for text in self.texts[tag]]


def printed(off: Counts, on: Counts, *, colours: bool) -> list[str]:
    system = "standard" if colours else None
    console = Console(width=100, force_terminal=colours, color_system=system, no_color=False)
    with console.capture() as capture:
        console.print(console_table(off, on))
    return capture.get().splitlines()


@pytest.fixture
def page(tmp_path: Path) -> Page:
    outputs_off = [FRESH, FRESH, STALE, MISSING, OTHER, Output(HOSTILE_KEY, PICTURE, "old")]
    return Page(write_report(tmp_path, OFF, ON, outputs_off, [FRESH] * 6))


def test_sheet_shows_each_state_differently() -> None:
    broken = [Output("x.png", content, "new") for content in (b"", PICTURE[:60])]
    sheets = [contact_sheet([each]).tobytes() for each in (FRESH, STALE, MISSING, OTHER, *broken)]
    assert len(set(sheets)) == 5
    assert sheets[-1] == sheets[-2]  # what cannot be decoded is unknown


def test_sheet_frames_the_stale_cell_and_no_other_in_red() -> None:
    sheet = contact_sheet([FRESH, STALE, FRESH, FRESH])
    width, height = sheet.width // 2, sheet.height // 2
    red = (255, 31, 31)
    stale = sheet.crop((width, 0, 2 * width, height))
    for corner in ((0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)):
        assert stale.getpixel(corner) == red
    sheet.paste("black", (width, 0, 2 * width, height))
    assert red not in {colour for _, colour in sheet.getcolors(sheet.width * sheet.height) or []}


def test_sheet_hatches_the_missing_cell() -> None:
    cell = contact_sheet([MISSING])
    row = [cell.getpixel((x, cell.height // 2)) for x in range(cell.width)]
    assert sum(one != other for one, other in pairwise(row)) > 10


@pytest.mark.parametrize("count", [0, 1, 100, 250])
def test_sheet_is_bounded_however_many_outputs_there_are(count: int) -> None:
    sheet = contact_sheet([MISSING] * count)
    assert 0 < sheet.width <= 900
    assert 0 < sheet.height <= 900
    assert count != 100 or sheet.width == 900  # wide enough to be read


def test_console_table_shows_every_measure_without_and_with_coordination() -> None:
    rows = [line.strip("│").split("│") for line in printed(OFF, ON, colours=False)]
    assert {tuple(cell.strip() for cell in row) for row in rows if len(row) == 3} == {
        ("Object keys", "100", "100"),
        ("Events delivered", "203", "204"),
        ("Processed", "202", "183"),
        ("Superseded", "11", "18"),
        ("Duplicates dropped", "12", "3"),
        ("Parked", "13", "5"),
        ("Stale outputs", "17", "0"),
        ("Missing outputs", "1", "0"),
        ("Seconds", "41.3", "55.5"),
    }


def test_console_table_highlights_stale_outputs() -> None:
    red, green = "\x1b[1;31m", "\x1b[32m"
    (stale,) = [line for line in printed(OFF, ON, colours=True) if "Stale" in line]
    assert red in stale
    assert green in stale
    assert red not in "".join(printed(ON, ON, colours=True))


def test_report_has_what_was_counted_and_a_sheet_of_each_and_replaces_an_earlier_one(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "out" / "demo"
    write_report(folder, ON, OFF, [FRESH], [STALE])
    assert write_report(folder, OFF, ON, [STALE], [FRESH]) == folder / "report.html"
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
    [caption, _] = Page(folder / "report.html").words("figcaption")
    assert caption == "Coordination off: 1 of 1 outputs shows the old picture"


def test_page_lists_the_stale_keys_as_text_or_says_that_there_are_none(page: Page) -> None:
    assert page.texts["code"] == ["stale.png", HOSTILE_KEY]
    assert "script" not in page.texts
    assert page.words("li") == page.words("code")
    assert page.words("p")[-1] == "None."


def test_page_may_load_nothing_but_its_own_images(page: Page) -> None:
    (policy,) = [meta for meta in page.attributes("meta") if "http-equiv" in meta]
    assert policy["http-equiv"] == "Content-Security-Policy"
    directives = {name: rest for name, *rest in map(str.split, str(policy["content"]).split(";"))}
    assert directives["default-src"] == ["'none'"]
    assert directives["img-src"] == ["'self'"]
    links = [attributes[name] for _, attributes in page.elements for name in attributes]
    assert not [link for link in links if link and "//" in link]


def test_page_shows_both_sheets_with_captions_that_count(page: Page) -> None:
    images = page.attributes("img")
    assert [each["src"] for each in images] == ["contact-sheet-off.png", "contact-sheet-on.png"]
    assert all(image["alt"] for image in images)
    assert page.words("figcaption") == [
        "Coordination off: 2 of 6 outputs show the old picture, 1 missing, 1 unexpected",
        "Coordination on: 0 of 6 outputs show the old picture",
    ]


def test_page_has_all_numbers_under_scoped_headers_and_explains_the_outcomes(page: Page) -> None:
    assert {header.get("scope") for header in page.attributes("th")} == {"col", "row"}
    for row in ("Events delivered 203 204", "Stale outputs 17 0", "Seconds 41.3 55.5"):
        assert row in page.words("table")[0]
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(level <= above + 1 for above, level in pairwise(levels))
    assert page.words("dt") == ["Processed", "Duplicate", "Superseded", "Parked"]
