"""The demonstration's report: a table for the terminal, and a page with all outputs."""

import math
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.table import Table
from rich.text import Text

# A stale output has a cross as well, for those who cannot tell the frame by its colour.
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>The outputs of the demonstration</title>
<style>
body { display: flex; gap: 1em; background: #1b1f24; color: white; font: 1em sans-serif }
section { flex: 1 }
div { display: grid; gap: 2px; grid-template-columns: repeat(var(--columns), 1fr) }
figure { position: relative; margin: 0; border: 2px solid transparent }
figure.old { border-color: #ff1f1f }
figure.other { border-color: #ffb000 }
figure.old::after { content: "X"; position: absolute; top: 0; right: 0; background: #ff1f1f }
img { display: block; width: 100%; aspect-ratio: 4 / 3; object-fit: cover; background: #3a414a }
</style>
"""

# What must be zero.
FAULTS = ("Stale outputs", "Missing outputs", "Without an outcome", "Wrong, says the audit")


@dataclass(frozen=True)
class FinalOutput:
    """The output of one key when all executions have ended; no content if it is missing."""

    key: str
    content: bytes | None
    state: Literal["new", "old", "missing", "other"]


Counts = Mapping[str, int]  # what was counted in a stack, as the table names it
Results = Mapping[str, tuple[Counts, Sequence[FinalOutput]]]  # by coordination: ``off``, ``on``


def console_table(results: Results) -> Table:
    """Tabulate the counts."""
    table = Table("Coordination")
    for name in results:
        table.add_column(name, justify="right")
    for measure in next(iter(results.values()))[0]:
        cells = []
        for counts, _ in results.values():
            value = counts[measure]
            style = ("bold red" if value else "green") if measure in FAULTS else ""
            cells.append(Text(str(value), style))
        table.add_row(measure, *cells)
    return table


def write_report(folder: Path, results: Results) -> Path:
    """Write `outputs.html`, with a contact sheet of each stack, and give its file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "outputs.html"
    sheets = (_sheet(f"Coordination {name}", outputs) for name, (_, outputs) in results.items())
    file.write_text(PAGE + "\n".join(sheets), encoding="utf-8")
    return file


def _sheet(name: str, outputs: Sequence[FinalOutput]) -> str:
    """Show all outputs, with those that are not the new picture marked and counted."""
    states = Counter(output.state for output in outputs)
    others = {"missing": states["missing"], "unexpected": states["other"]}
    said = f"{name}: {states['old']} of {len(outputs)} stale"
    said += "".join(f", {count} {state}" for state, count in others.items() if count)
    cells = "".join(
        f'<figure class="{each.state}"><img alt="{each.state}"'
        f' src="data:image/*;base64,{b64encode(each.content or b"").decode()}"></figure>'
        for each in outputs
    )
    columns = math.ceil(math.sqrt(len(outputs)))
    return f'<section><h3>{said}</h3><div style="--columns: {columns}">{cells}</div></section>'
