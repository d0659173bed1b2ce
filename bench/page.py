"""Writes what was measured between the markers of docs/performance.md: `python -m bench.page`.

With ``--release`` it fails if something was measured of older code.
"""

import ast
import sys
from collections.abc import Iterator
from typing import Any

from bench import results
from bench.delivery import HIDDEN_SECONDS, NAMES, RETRY_SECONDS, THROTTLED_SECONDS
from bench.measured import CONTENDERS
from bench.results import BASE, Measures
from bench.workloads import BOUND, workload
from bench.workloads import NAMES as WORKLOADS
from inorder import PROJECT
from inorder.model.policies import between_markers, table

DOCUMENT = PROJECT / "docs" / "performance.md"
OLD = " †"  # marks what an older version did
# Measure, name in the table, and how to print it. results.json has more.
SHOWN = [
    ("stale", "stale", "{:.0f}"),
    ("missing", "missing", "{:.0f}"),
    ("function_seconds", "function s", "{:,.1f}"),
    ("dollars", "dollars", "{:,.2f}"),
    ("delay_p99", "delay p99", "{:.2f}"),
    ("makespan", "makespan", "{:.1f}"),
]
AT_ONCE = {"burst"}  # elsewhere the makespan is that of the uploads
# What only the state machine uses.
OF_PRODUCT = [
    ("express_gb_seconds", "Express GB-s", "{:,.1f}"),
    ("log_kb", "log KB", "{:.0f}"),
    ("dollars_without_log", "dollars without it", "{:,.2f}"),
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
        "workloads": table(
            ["workload", "uploads", "events", "on", *(heading for _, heading, _ in OF_PRODUCT)],
            [about(name, found[name]) for name in found],
            left=4,
        ),
        "measures": table(headings, shown, left=2),
    }
    return between_markers(text, "bench", rendered)


def setup(**machine: Any) -> str:
    """Say on what was measured, and with which limits."""
    (first, second), (shortest, longest) = RETRY_SECONDS, THROTTLED_SECONDS
    hidden = " and ".join(f"{each} s (`{name}`)" for name, each in HIDDEN_SECONDS.items())
    return (
        f"- ministack {machine['ministack']} on {machine['cores']} cores ({machine['processor']})"
        f" with Python {machine['python']}; at most {BOUND} invocations at a time, unless a"
        " workload says otherwise\n"
        f"- functions: a failed event comes again after {first} and {second} s, a throttled one"
        f" after {shortest} to {longest} s\n"
        f"- queues: batches of one message, hidden for {hidden}; the function may take 15 s, and"
        " AWS advises six times as long\n"
    )


def design(contender: str) -> str:
    """Describe a contender by the first sentence of its module, with a link to it."""
    file = CONTENDERS / f"{contender.replace('-', '_')}.py"
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    return f"[{' '.join(first.split())}](../{file.relative_to(PROJECT)})"


def about(name: str, by_contender: dict[str, Measures]) -> list[str]:
    """Describe a workload in a row, with what the product's state machine used."""
    first = by_contender.get(BASE) or next(iter(by_contender.values()))
    keys = "one key" if first["keys"] == 1 else f"{first['keys']:,.0f} keys"
    runs = "one run" if first["runs"] == 1 else f"{first['runs']:.0f} runs"
    return [
        f"`{name}`",
        workload(name).about,
        f"{first['events']:,.0f} of {keys}, {runs}",
        str(first["on"]),
        *(cell(by_contender, BASE, measure, form) for measure, _, form in OF_PRODUCT),
    ]


def rows(name: str, by_contender: dict[str, Measures]) -> Iterator[list[str]]:
    """Write the rows of a workload: one for each measure that is not 0 for all contenders."""
    for measure, heading, form in SHOWN:
        said = any(measures.get(measure) for measures in by_contender.values())
        if said and (measure != "makespan" or name in AT_ONCE):
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
    if "--release" in sys.argv and (old := results.old(WORKLOADS, NAMES)):
        sys.exit(f"Older than the code is what was measured of {', '.join(old)}: make bench-full")
