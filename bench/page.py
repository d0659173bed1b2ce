"""Writes what was measured to docs/performance.md, and draws its plots: `python -m bench.page`.

With ``--release`` it fails if something was not measured, or with older code.
"""

import ast
import sys
from collections.abc import Iterator, Mapping

from bench import bursts, plots, results
from bench.delivery import HIDDEN_SECONDS, NAMES, RETRY_SECONDS, THROTTLED_SECONDS
from bench.plots import BASE, Medians
from bench.results import OLD, Measures
from bench.workloads import BOUND, WORKLOADS
from inorder import PROJECT
from inorder.model.policies import between_markers, table

DOCUMENT = PROJECT / "docs" / "performance.md"
IMAGES = PROJECT / "docs" / "images"
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


def medians() -> Medians:
    """Give the medians of what was measured, by workload and contender."""
    rows = results.read()
    return {
        name: {contender: results.medians(rows, name, contender) for contender in NAMES}
        for name in WORKLOADS
    }


def page(text: str, measured: Medians) -> str:
    """Put what was measured, and how, between the markers in the text of the page."""
    machines = sorted({row["machine"] for row in results.read()})
    rendered = {
        "machine": setup(machines),
        "contenders": table(
            ["contender", "design"], [[f"`{contender}`", design(contender)] for contender in NAMES]
        ),
        "workloads": table(
            ["workload", "uploads", "events", "on", *(heading for _, heading, _ in OF_PRODUCT)],
            [about(name, measured[name]) for name in measured],
            left=4,
        ),
        "measures": table(
            ["workload", "measure", *(f"`{name}`" for name in NAMES)],
            [row for name in measured for row in compared(name, measured[name])],
            left=2,
        ),
        "bursts": burst_table(),
    } | {
        place: f"![{plot.finding}](images/{plot.file})\n"
        for place, plot in plots.plots(measured).items()
    }
    return between_markers(text, "bench", rendered)


def setup(machines: list[str]) -> str:
    """Say on what was measured, and with which limits."""
    (first, second), (shortest, longest) = RETRY_SECONDS, THROTTLED_SECONDS
    return (
        f"- {'; '.join(machines)}; at most {BOUND} invocations at a time, unless a workload says"
        " otherwise\n"
        f"- functions: a failed event comes again after {first} and {second} s, a throttled one"
        f" after {shortest} to {longest} s\n"
        f"- queues: batches of one message, hidden for {HIDDEN_SECONDS} s; the function may take"
        " 15 s\n"
    )


def design(contender: str) -> str:
    """Describe a contender by the first sentence of its module, with a link to it."""
    file = results.module(contender)
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    return f"[{' '.join(first.split())}](../{file.relative_to(PROJECT)})"


def burst_table() -> str:
    """Render what simulated bursts took."""
    headings = [
        "uploads at once, each on a key of its own",
        "function",
        "makespan, over the least possible",
        "refusals an event",
        "table calls an event",
        "dollars at `ALL`",
        "at `ERROR`",
    ]
    rows = [
        [
            f"{burst['uploads']:,}",
            f"{burst['concurrency']:,} at once, {burst['seconds']:g} s",
            f"{burst['makespan']:.1f} s, {bursts.over_least(burst):.2f}",
            f"{burst['refusals'] / burst['uploads']:.1f}",
            f"{burst['table_calls'] / burst['uploads']:.1f}",
            *(f"{burst[name]:.0f}" for name in ("dollars_all", "dollars_error")),
        ]
        for burst in bursts.read()
    ]
    return table(headings, rows, left=0)


def about(name: str, by_contender: Mapping[str, Measures]) -> list[str]:
    """Describe a workload in a row, with what the product's state machine used."""
    base = by_contender[BASE]
    events = (
        f"{base['events']:,.0f} of {_count(base['keys'], 'key')}, {_count(base['runs'], 'run')}"
    )
    return [
        f"`{name}`",
        WORKLOADS[name].about,
        *((events, base["on"]) if base else ("-", "-")),
        *(cell(by_contender, BASE, measure, form) for measure, _, form in OF_PRODUCT),
    ]


def _count(number: float, what: str) -> str:
    return f"one {what}" if number == 1 else f"{number:,.0f} {what}s"


def compared(name: str, by_contender: Mapping[str, Measures]) -> Iterator[list[str]]:
    """Write the rows of a workload: one for each measure that is not 0 for all contenders."""
    for measure, heading, form in SHOWN:
        is_said = any(measures.get(measure) for measures in by_contender.values())
        if is_said and (measure != "makespan" or name in AT_ONCE):
            cells = [cell(by_contender, contender, measure, form) for contender in NAMES]
            yield [f"`{name}`", heading, *cells]


def cell(by_contender: Mapping[str, Measures], contender: str, name: str, form: str) -> str:
    """Print a measure of a contender, and its ratio to the base if there is one, and not 1."""
    measured, base = (by_contender[column].get(name) for column in (contender, BASE))
    if measured is None:
        return "-"
    ratio = f"{measured / base:.2g}" if base else "1"
    mark = OLD if by_contender[contender]["is_old"] else ""
    return form.format(measured) + (f" ({ratio})" if ratio != "1" else "") + mark


def write() -> None:
    """Write the page, and draw its plots."""
    measured = medians()
    DOCUMENT.write_text(page(DOCUMENT.read_text(), measured))
    for plot in plots.plots(measured).values():
        (IMAGES / plot.file).write_text(plot.svg, encoding="utf-8")


if __name__ == "__main__":
    write()
    left = [
        f"{name} of {contender}"
        for name in WORKLOADS
        for contender in NAMES
        if not results.has(name, contender, 0)
    ]
    if "--release" in sys.argv and left:
        sys.exit(f"Not measured with the present code: {', '.join(left)}: make bench-full")
