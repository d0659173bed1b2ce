"""The demonstration's report: a table for the terminal, and a picture of all outputs."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw, ImageOps
from rich.table import Table
from rich.text import Text

SHEET_WIDTH = 900
LARGEST_CELL = 180
MARGIN, LETTERS = 16, 20  # around the sheets, and the size of their captions, in pixels
BACKGROUND, BLANK = "#1b1f24", "#3a414a"
FRAMES = {"new": BACKGROUND, "old": "#ff1f1f", "missing": BACKGROUND, "other": "#ffb000"}

MEASURES = {
    "keys": "Object keys",
    "events": "Events delivered",
    "processed": "Processed",
    "repeated": "Processed again",
    "superseded": "Superseded",
    "duplicates": "Duplicates dropped",
    "waited": "Ended as waiting",
    "retried": "Retried after a fault",
    "parked": "Parked",
    "lost": "Without an outcome",
    "stale": "Stale outputs",
    "missing": "Missing outputs",
    "wrong": "Wrong, says the audit",
}
FAULTS = ("stale", "missing", "lost", "wrong")  # the measures that must be zero


@dataclass(frozen=True)
class Counts:
    """What the demonstration counted in one stack.

    `repeated` is how often an event was processed that had been processed before, `waited` how many
    executions of long work ended because another one had the lock, `retried` how many ended because
    of a fault, each followed by another one, and `lost` how many ended otherwise than in one of the
    outcomes. `wrong` is what `inorder audit` found, which does not read the pictures.
    """

    keys: int
    stale: int
    missing: int
    events: int
    processed: int
    repeated: int
    superseded: int
    duplicates: int
    waited: int
    retried: int
    parked: int
    lost: int
    wrong: int

    @property
    def has_faults(self) -> bool:
        """Whether one of `FAULTS` is not zero."""
        return any(getattr(self, fault) for fault in FAULTS)


@dataclass(frozen=True)
class FinalOutput:
    """The output of one key when all executions have ended; no content if it is missing."""

    key: str
    content: bytes | None
    state: Literal["new", "old", "missing", "other"]


Results = Mapping[str, tuple[Counts, Sequence[FinalOutput]]]  # by coordination: ``off``, ``on``


def console_table(results: Results) -> Table:
    """Tabulate the counts."""
    table = Table("Coordination")
    for name in results:
        table.add_column(name, justify="right")
    for measure, label in MEASURES.items():
        cells = []
        for counts, _ in results.values():
            value = getattr(counts, measure)
            style = ("bold red" if value else "green") if measure in FAULTS else ""
            cells.append(Text(str(value), style))
        table.add_row(label, *cells)
    return table


def write_report(folder: Path, results: Results) -> Path:
    """Write `outputs.png`, and give its file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "outputs.png"
    sheets = [
        _captioned(contact_sheet(outputs), caption(f"Coordination {name}", outputs))
        for name, (_, outputs) in results.items()
    ]
    _beside(sheets).save(file)
    return file


def caption(name: str, outputs: Sequence[FinalOutput]) -> str:
    """Say how many outputs are not the new picture's: ``Coordination off: 1 of 9 is stale``."""
    states = Counter(output.state for output in outputs)
    text = f"{name}: {states['old']} of {len(outputs)} stale"
    others = {"missing": states["missing"], "unexpected": states["other"]}
    return text + "".join(f", {count} {state}" for state, count in others.items() if count)


def contact_sheet(outputs: Sequence[FinalOutput]) -> Image.Image:
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


def _captioned(sheet: Image.Image, text: str) -> Image.Image:
    """Write a caption above a sheet."""
    needed = math.ceil(ImageDraw.Draw(sheet).textlength(text, font_size=LETTERS))
    size = (max(sheet.width, needed), sheet.height + LETTERS + MARGIN)
    image = Image.new("RGB", size, BACKGROUND)
    ImageDraw.Draw(image).text((0, 0), text, "white", font_size=LETTERS)
    image.paste(sheet, (0, LETTERS + MARGIN))
    return image


def _beside(images: Sequence[Image.Image]) -> Image.Image:
    width = sum(each.width for each in images) + MARGIN * (len(images) + 1)
    height = max(each.height for each in images) + 2 * MARGIN
    together, left = Image.new("RGB", (width, height), BACKGROUND), MARGIN
    for each in images:
        together.paste(each, (left, MARGIN))
        left += each.width + MARGIN
    return together


def _cell(output: FinalOutput, width: int, height: int) -> Image.Image:
    """Draw one output, framed in the colour of its state."""
    border = max(1, width // 24)
    size = (width - 2 * border, height - 2 * border)
    shown = _blank(size, "missing") if output.content is None else _thumbnail(output.content, size)
    cell = ImageOps.expand(shown, border, fill=FRAMES[output.state])
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
        return _blank(size, "?")


def _blank(size: tuple[int, int], sign: str) -> Image.Image:
    blank = Image.new("RGB", size, BLANK)
    _write(ImageDraw.Draw(blank), sign, (size[0] / 2, size[1] / 2), size[1] / 4)
    return blank


def _write(draw: ImageDraw.ImageDraw, sign: str, middle: tuple[float, float], size: float) -> None:
    draw.text(middle, sign, "white", anchor="mm", font_size=size, stroke_width=size / 24)
