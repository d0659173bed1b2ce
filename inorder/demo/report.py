"""The demonstration's report: a table for the console, and a page with two contact sheets."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image, ImageDraw, ImageOps
from rich.table import Table
from rich.text import Text

from inorder.demo.pictures import SLOW_EVERY

SHEET_WIDTH = 900
LARGEST_CELL = 180
BACKGROUND, BLANK, STROKE = "#1b1f24", "#3a414a", "#7d8794"
FRAMES = {"new": BACKGROUND, "old": "#ff1f1f", "missing": BACKGROUND, "other": "#ffb000"}

MEASURES = {
    "keys": "Object keys",
    "slow": f"Slow old pictures, 1 in {SLOW_EVERY}",
    "events": "Events delivered",
    "processed": "Processed",
    "repeated": "Processed again",
    "superseded": "Superseded",
    "duplicates": "Duplicates dropped",
    "retried": "Retried after a fault",
    "parked": "Parked",
    "lost": "Without an outcome",
    "stale": "Stale outputs",
    "missing": "Missing outputs",
    "wrong": "Wrong, says the audit",
    "seconds": "Seconds",
}
FAULTS = ("stale", "missing", "lost", "wrong")  # the measures that must be zero


@dataclass(frozen=True)
class Counts:
    """What the demonstration counted in one stack.

    `slow` is how many old pictures the function was slow with, `repeated` how often an event was
    processed that had been processed before, `retried` how many executions ended because of a
    fault, each followed by another one, and `lost` how many ended otherwise than in one of the
    outcomes. `wrong` is what `inorder audit` found, which does not look at the pictures.
    """

    keys: int
    slow: int
    stale: int
    missing: int
    events: int
    processed: int
    repeated: int
    superseded: int
    duplicates: int
    retried: int
    parked: int
    lost: int
    wrong: int
    seconds: float

    @property
    def has_faults(self) -> bool:
        """Whether one of `FAULTS` is not zero."""
        return any(getattr(self, fault) for fault in FAULTS)


@dataclass(frozen=True)
class Output:
    """The output of one key when all executions have ended; no content if it is missing."""

    key: str
    content: bytes | None
    state: Literal["new", "old", "missing", "other"]


Results = Mapping[str, tuple[Counts, Sequence[Output]]]  # by the name of the table's column


def contact_sheet(outputs: Sequence[Output]) -> Image.Image:
    """Draw all outputs as a grid of thumbnails, with those that are not the new picture marked.

    It has at most `SHEET_WIDTH` pixels, however many outputs there are.
    """
    columns = max(1, math.ceil(math.sqrt(len(outputs))))
    rows = max(1, math.ceil(len(outputs) / columns))
    width = min(LARGEST_CELL, SHEET_WIDTH // columns)
    height = width * 3 // 4
    sheet = Image.new("RGB", (columns * width, rows * height), BACKGROUND)
    for index, output in enumerate(outputs):
        row, column = divmod(index, columns)
        sheet.paste(_cell(output, width, height), (column * width, row * height))
    return sheet


def console_table(results: Results, heading: str) -> Table:
    """Tabulate the counts; the heading says what the results' names are: ``Coordination``."""
    table = Table(heading)
    for name in results:
        table.add_column(name, justify="right")
    for measure, label in MEASURES.items():
        cells = [
            Text(_number(counts, measure), _style(counts, measure))
            for counts, _ in results.values()
        ]
        table.add_row(label, *cells)
    return table


def write_report(folder: Path, results: Results, heading: str) -> Path:
    """Write the page, its contact sheets and `summary.json`, over those of an earlier report."""
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.glob("contact-sheet-*.png"):
        earlier.unlink()
    summary = json.dumps({name: asdict(counts) for name, (counts, _) in results.items()}, indent=2)
    (folder / "summary.json").write_text(summary + "\n", encoding="utf-8")
    for name, (_, outputs) in results.items():
        contact_sheet(outputs).save(folder / f"contact-sheet-{name}.png")
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    html = templates.get_template("report.html.jinja").render(
        results=results,
        heading=heading,
        measures=MEASURES,
        faults=FAULTS,
        number=_number,
        slow_every=SLOW_EVERY,
    )
    page = folder / "report.html"
    page.write_text(html, encoding="utf-8")
    return page


def _number(counts: Counts, measure: str) -> str:
    value = getattr(counts, measure)
    return f"{value:.1f}" if measure == "seconds" else str(value)


def _style(counts: Counts, measure: str) -> str:
    if measure not in FAULTS:
        return ""
    return "bold red" if getattr(counts, measure) else "green"


def _cell(output: Output, width: int, height: int) -> Image.Image:
    """Draw one output, framed in the colour of its state."""
    border = max(1, width // 24)
    size = (width - 2 * border, height - 2 * border)
    picture = _hatching(size) if output.content is None else _thumbnail(output.content, size)
    cell = ImageOps.expand(picture, border, fill=FRAMES[output.state])
    if output.state == "old":
        # A cross as well, for those who cannot tell the frame by its colour.
        draw, side = ImageDraw.Draw(cell), height / 3
        draw.rectangle((width - side, 0, width, side), fill=FRAMES["old"])
        _write(draw, "X", (width - side / 2, side / 2), 0.8 * side)
    return cell


def _thumbnail(content: bytes, size: tuple[int, int]) -> Image.Image:
    try:
        with Image.open(BytesIO(content)) as picture:
            picture.draft("RGB", size)  # a large JPEG is decoded at a fraction of its size
            return ImageOps.fit(ImageOps.exif_transpose(picture).convert("RGB"), size)
    except Exception:  # a broken picture can raise almost anything in Pillow
        unknown = Image.new("RGB", size, BLANK)
        _write(ImageDraw.Draw(unknown), "?", (size[0] / 2, size[1] / 2), size[1] / 2)
        return unknown


def _hatching(size: tuple[int, int]) -> Image.Image:
    width, height = size
    hatching = Image.new("RGB", size, BACKGROUND)
    draw = ImageDraw.Draw(hatching)
    for x in range(-height, width, 8):
        draw.line((x, height, x + height, 0), fill=STROKE, width=2)
    return hatching


def _write(draw: ImageDraw.ImageDraw, sign: str, middle: tuple[float, float], size: float) -> None:
    draw.text(middle, sign, "white", anchor="mm", font_size=size, stroke_width=size / 24)
