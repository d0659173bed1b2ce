"""Writes what was measured between the markers of docs/performance.md: `python -m bench.page`.

With ``--release`` it fails if something was measured of older code.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import Any

from bench import results
from bench.delivery import NAMES, RETRY_SECONDS
from bench.laboratory import VISIBILITY_SECONDS
from bench.measured import CONTENDERS
from bench.results import BASE, Measures
from bench.workloads import BOUND, workload
from inorder import PROJECT
from inorder.model.policies import between_markers, table

DOCUMENT = PROJECT / "docs" / "performance.md"
OLD = " †"  # marks what an older version did
# Measure, name in the table, and how to print it. results.json has more.
SHOWN = [
    ("stale", "stale", "{:.0f}"),
    ("missing", "missing", "{:.0f}"),
    ("function_seconds", "function s", "{:,.1f}"),
    ("delay_p50", "delay p50", "{:.2f}"),
    ("delay_p99", "delay p99", "{:.2f}"),
]


def page(text: str) -> str:
    """Put what was measured, and how, between the markers in the text of the page."""
    found, machine = results.read(), results.machine()
    shown = [row for name in found for row in rows(name, found[name])]
    headings = ["workload", "measure", *(f"`{name}`" for name in NAMES)]
    rendered = {
        "machine": setup(**machine),
        "contenders": table(
            ["contender", "design"], [[f"`{each}`", design(each)] for each in NAMES]
        ),
        "workloads": "".join(f"{about(name, found[name])}\n" for name in found),
        "measures": table(headings, shown, left=2),
    }
    return between_markers(text, "bench", rendered)


def setup(**machine: Any) -> str:
    """Say on what was measured, and with which limits."""
    first, second = RETRY_SECONDS
    return f"""\
- ministack {machine["ministack"]}, on {machine["cores"]} cores ({machine["processor"]}) with Python
  {machine["python"]}
- at most {BOUND} invocations at a time, unless a workload says otherwise
- a failed event comes again after {first} and {second} s
- `sqs-fifo`: batches of one message, hidden for {VISIBILITY_SECONDS} s: six times the function's
  timeout, as AWS advises
"""


def design(contender: str) -> str:
    """Describe a contender by the first sentence of its module, with a link to it."""
    file = CONTENDERS / f"{contender.replace('-', '_')}.py"
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    return f"[{' '.join(first.split())}](../{file.relative_to(PROJECT)})"


def about(name: str, by_contender: dict[str, Measures]) -> str:
    """Describe a workload in a line."""
    first = next(iter(by_contender.values()))
    keys = "one key" if first["keys"] == 1 else f"{first['keys']:,.0f} keys"
    runs = "one run" if first["runs"] == 1 else f"{first['runs']:.0f} runs"
    text = workload(name).about
    return (
        f"- `{name}`: {text[0].lower()}{text[1:]}."
        f" {keys[0].upper()}{keys[1:]}, {first['events']:,.0f} events, {runs}, on {first['on']}."
    )


def rows(name: str, by_contender: dict[str, Measures]) -> Iterator[list[str]]:
    """Write the rows of a workload: one for each measure that is not 0 for all contenders."""
    for measure, heading, form in SHOWN:
        if any(measures.get(measure) for measures in by_contender.values()):
            cells = [cell(by_contender, each, measure, form) for each in NAMES]
            yield [f"`{name}`", heading, *cells]


def cell(by_contender: dict[str, Measures], contender: str, name: str, form: str) -> str:
    """Print a measure of a contender, and its ratio to the base if there is one, and not 1."""
    measured, base = (by_contender.get(each, {}).get(name) for each in (contender, BASE))
    if measured is None:
        return "-"
    ratio = f"{measured / base:.2g}" if base else "1"
    mark = OLD if results.is_old(contender, by_contender[contender]) else ""
    return form.format(measured) + (f" ({ratio})" if ratio != "1" else "") + mark


def write() -> None:
    """Write the page."""
    DOCUMENT.write_text(page(DOCUMENT.read_text()))


if __name__ == "__main__":
    write()
    if "--release" in sys.argv and (old := results.old()):
        sys.exit(f"Older than the code is what was measured of {', '.join(old)}: make bench-full")
