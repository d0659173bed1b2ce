"""The demonstration's report."""

import json
from dataclasses import asdict, fields
from html.parser import HTMLParser
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from rich.console import Console

from inorder.report import Counts, Output, console_table, contact_sheet, write_report

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


class Page(HTMLParser):
    """The elements of a page, and the text in its elements, by tag."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, [])
        if tag not in ("meta", "img"):
            self._open.append(tag)
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave the element."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Add the text to all elements that it is in."""
        for tag in self._open:
            self.texts[tag][-1] += data

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element with the tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    def words(self, tag: str) -> list[str]:
        """Return the text of each element with the tag, with its white space collapsed."""
        return [" ".join(text.split()) for text in self.texts[tag]]


def picture(colour: str = "teal") -> bytes:
    content = BytesIO()
    Image.new("RGB", (240, 180), colour).save(content, "PNG")
    return content.getvalue()


def printed(off: Counts, on: Counts, *, colours: bool) -> list[str]:
    console = Console(
        width=100,
        force_terminal=colours,
        color_system="standard" if colours else None,
        no_color=False,
    )
    with console.capture() as capture:
        console.print(console_table(off, on))
    return capture.get().splitlines()


FRESH = Output("fresh.png", picture(), "new")
STALE = Output("stale.png", picture(), "old")
MISSING = Output("missing.png", None, "missing")
OTHER = Output("other.png", picture(), "other")


@pytest.fixture
def page(tmp_path: Path) -> Page:
    outputs_off = [FRESH, FRESH, STALE, MISSING, OTHER, Output(HOSTILE_KEY, picture(), "old")]
    return Page(write_report(tmp_path, OFF, ON, outputs_off, [FRESH] * 6))


def test_sheet_shows_each_state_differently() -> None:
    sheets = [contact_sheet([output]) for output in (FRESH, STALE, MISSING, OTHER)]
    assert len({sheet.tobytes() for sheet in sheets}) == 4


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


@pytest.mark.parametrize("content", [b"", b"not a picture", picture()[:60]])
def test_sheet_shows_undecodable_content_as_unknown(content: bytes) -> None:
    unknown = contact_sheet([Output("broken.png", content, "new")])
    fresh = contact_sheet([FRESH])
    assert ImageChops.difference(unknown, fresh).getbbox()


@pytest.mark.parametrize("count", [0, 1, 2, 100, 250])
def test_sheet_is_bounded_however_many_outputs_there_are(count: int) -> None:
    sheet = contact_sheet([MISSING] * count)
    assert 0 < sheet.width <= 900
    assert 0 < sheet.height <= 900


def test_sheet_of_a_hundred_is_wide_enough_to_be_read() -> None:
    assert contact_sheet([MISSING] * 100).width == 900


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


def test_summary_has_exactly_what_was_counted(tmp_path: Path) -> None:
    write_report(tmp_path, OFF, ON, [], [])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary == {"off": asdict(OFF), "on": asdict(ON)}
    assert list(summary["off"]) == [field.name for field in fields(Counts)]


def test_report_replaces_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "demo"
    write_report(folder, OFF, ON, [STALE], [STALE])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert write_report(folder, ON, ON, [FRESH], [FRESH]) == folder / "report.html"
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    names = {"summary.json", "contact-sheet-off.png", "contact-sheet-on.png", "report.html"}
    assert set(before) == set(after) == names
    assert all(before[name] != after[name] for name in names)


def test_each_of_both_has_its_own_sheet(tmp_path: Path) -> None:
    write_report(tmp_path, OFF, ON, [STALE], [FRESH])
    for name, output in (("off", STALE), ("on", FRESH)):
        with Image.open(tmp_path / f"contact-sheet-{name}.png") as sheet:
            assert not ImageChops.difference(sheet, contact_sheet([output])).getbbox()


def test_hostile_key_is_text_in_the_page(page: Page) -> None:
    assert page.texts["code"] == ["stale.png", HOSTILE_KEY]
    assert "script" not in page.texts


def test_page_lists_the_stale_keys_or_says_that_there_are_none(page: Page) -> None:
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


def test_page_captions_count_the_outputs(page: Page) -> None:
    assert page.words("figcaption") == [
        "Coordination off: 2 of 6 outputs show the old picture, 1 missing, 1 unexpected",
        "Coordination on: 0 of 6 outputs show the old picture",
    ]


def test_page_caption_is_grammatical_for_a_single_stale_output(tmp_path: Path) -> None:
    page = Page(write_report(tmp_path, OFF, ON, [STALE, FRESH], [FRESH]))
    assert page.words("figcaption")[0] == "Coordination off: 1 of 2 outputs shows the old picture"


def test_page_shows_both_sheets_side_by_side_with_alternative_texts(page: Page) -> None:
    images = page.attributes("img")
    sheets = ["contact-sheet-off.png", "contact-sheet-on.png"]
    assert [image["src"] for image in images] == sheets
    assert all(image["alt"] for image in images)


def test_page_table_has_all_numbers_under_scoped_headers(page: Page) -> None:
    assert {header.get("scope") for header in page.attributes("th")} == {"col", "row"}
    table = page.words("table")[0]
    assert "Events delivered 203 204" in table
    assert "Stale outputs 17 0" in table
    assert "Seconds 41.3 55.5" in table


def test_page_headings_skip_no_level(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(level <= above + 1 for above, level in pairwise(levels))


def test_page_explains_every_outcome(page: Page) -> None:
    assert page.words("dt") == ["Processed", "Duplicate", "Superseded", "Parked"]
