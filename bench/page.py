"""Writes docs/performance.md from what was measured: `python -m bench.page`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template

from bench import results
from bench.contenders.lock import LEASE_SECONDS
from bench.delivery import NAMES, RETRY_SECONDS
from bench.laboratory import POLICIES, VISIBILITY_SECONDS
from bench.results import BASE, Measures, Results
from bench.workloads import BOUND, workload
from inorder import PROJECT

TEMPLATE = Path(__file__).parent / "performance.md.jinja"
DOCUMENT = PROJECT / "docs" / "performance.md"
CONTENDERS = PROJECT / "bench" / "contenders"
# Measure, name in the table, and how to print it. results.json has more.
SHOWN = [
    ("stale", "stale", "{:.0f}"),
    ("missing", "missing", "{:.0f}"),
    ("function_seconds", "function s", "{:,.1f}"),
    ("delay_p50", "delay p50", "{:.2f}"),
    ("delay_p99", "delay p99", "{:.2f}"),
]


def page(found: Results, machine: dict[str, Any]) -> str:
    """Write the page."""
    template = Template(TEMPLATE.read_text(), keep_trailing_newline=True, undefined=StrictUndefined)
    text: str = template.render(
        **machine,
        base=BASE,
        bound=BOUND,
        contenders="\n".join(f"| `{name}` | {design(name)} |" for name in NAMES),
        lease=LEASE_SECONDS,
        first_retry=RETRY_SECONDS[0],
        second_retry=RETRY_SECONDS[1],
        visibility=VISIBILITY_SECONDS,
        workloads="\n".join(about(name, found[name]) for name in found),
        table=table(found),
    )
    return text


def design(contender: str) -> str:
    """Describe a contender by the first sentence of its module, with a link to it."""
    module = "inorder" if contender in POLICIES else contender.replace("-", "_")
    file = CONTENDERS / f"{module}.py"
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    policy = f" Policy `{POLICIES[contender]}`." if contender in POLICIES else ""
    return f"[{' '.join(first.split())}](../{file.relative_to(PROJECT)}){policy}"


def about(name: str, by_contender: dict[str, Measures]) -> str:
    """Describe a workload in a line."""
    first = next(iter(by_contender.values()))
    keys = "one key" if first["keys"] == 1 else f"{first['keys']:,.0f} keys"
    runs = "one run" if first["runs"] == 1 else f"{first['runs']:.0f} runs"
    text = workload(name).about
    return (
        f"- `{name}`: {text[0].lower()}{text[1:]}."
        f" {keys[0].upper()}{keys[1:]}, {first['events']:,.0f} events, {runs}."
    )


def rows(name: str, by_contender: dict[str, Measures]) -> Iterator[str]:
    """Write the rows of a workload: one for each measure that is not 0 for all contenders."""
    for measure, heading, form in SHOWN:
        if any(measures.get(measure) for measures in by_contender.values()):
            cells = [cell(by_contender, each, measure, form) for each in NAMES]
            yield f"| `{name}` | {heading} | {' | '.join(cells)} |"


def table(found: Results) -> str:
    """Write the table of the workloads that are shown."""
    return "\n".join(
        [
            f"| workload | measure | {' | '.join(f'`{name}`' for name in NAMES)} |",
            f"| --- | --- |{' ---: |' * len(NAMES)}",
            *(row for name in found for row in rows(name, found[name])),
        ]
    )


def cell(by_contender: dict[str, Measures], contender: str, name: str, form: str) -> str:
    """Print a measure of a contender, and its ratio to the base if there is one, and not 1."""
    measured, base = (by_contender.get(each, {}).get(name) for each in (contender, BASE))
    if measured is None:
        return "-"
    ratio = f"{measured / base:.2g}" if base else "1"
    return form.format(measured) + (f" ({ratio})" if ratio != "1" else "")


def write() -> None:
    """Write the page."""
    DOCUMENT.write_text(page(results.read(), results.machine()))


if __name__ == "__main__":
    write()
