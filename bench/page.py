"""Writes docs/performance.md from what was measured: `python -m bench.page`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template

from bench import function, results
from bench.contenders.lock import LEASE_SECONDS
from bench.delivery import NAMES, RETRY_SECONDS
from bench.laboratory import POLICIES, VISIBILITY_SECONDS
from bench.results import BASE, Measures, Results
from bench.workloads import BOUND, workload
from inorder import PROJECT
from inorder.cost import prices, prices_of
from tests.support.resolved_template import template as template_of

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
WAIT_MS = 100


def page(found: Results, machine: dict[str, Any], of_function: function.Measured) -> str:
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
        function=function_values(of_function),
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
            cells = [cell(by_contender.get(each, {}), measure, form) for each in NAMES]
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


def cell(measures: Measures, name: str, form: str) -> str:
    """Print a measure, and its ratio if there is one that says something."""
    if name not in measures:
        return "-"
    text = form.format(measures[name])
    ratio = f"{measures.get(f'{name}_ratio', 1):.2g}"
    return text if ratio == "1" else f"{text} ({ratio})"


def function_values(measured: function.Measured) -> dict[str, Any]:
    """Give the tables and numbers of the function's part of the page."""
    cold, memory = measured["cold"], function.chosen(measured)
    parameters = template_of()["Parameters"]
    return {
        "machine": measured["machine"],
        "runtime": template_of()["Globals"]["Function"]["Runtime"],
        "runs": function.RUNS,
        "rounds": function.ROUNDS,
        "variants": "\n".join(
            f"| {name} | {each['seconds']:.3f} | {each['ratio']:.2f} |"
            for name, each in cold.items()
        ),
        "saved": f"{1 - cold[function.COMPILED]['ratio']:.0%}",
        "to_plain": [f"{measured[name][str(memory)]['ratio']:.2f}" for name in function.IMAGES],
        "one_processor": f"{function.ONE_PROCESSOR:,} MB",
        "images": list(function.IMAGES),
        "sizes": "\n".join(size_row(size, measured) for size in function.SIZES),
        "memory": memory,
        "nearly": f"{function.NEARLY - 1:.0%}",
        "least": parameters["FunctionMemorySize"]["MinValue"],
        "pixels": f"{parameters['MaximumPixels']['Default']:,}",
        "wait": f"{WAIT_MS} ms",
        "wait_dollars": [
            f"{duration_dollars(WAIT_MS / 1000, size):.2f}"
            for size in (memory, parameters["FunctionMemorySize"]["MinValue"])
        ],
        "prices": prices_of(),
    }


def duration_dollars(seconds: float, memory: int) -> float:
    """Price a million invocations by their duration."""
    return prices()["lambda_gb_seconds"].dollars(1e6 * seconds * memory / 1024)


def size_row(size: int, measured: function.Measured) -> str:
    """Write the row of a memory size."""
    cells = [f"{size:,}", f"{min(size / function.ONE_PROCESSOR, 1):.2f}"]
    for each in (measured[name][str(size)] for name in function.IMAGES):
        dollars = duration_dollars(each["seconds"], size)
        cells += [f"{each['share']:.2f}", f"{1000 * each['seconds']:.1f}", f"{dollars:.2f}"]
    return f"| {' | '.join(cells)} |"


def write() -> None:
    """Write the page."""
    DOCUMENT.write_text(page(results.read(), results.machine(), function.read()))


if __name__ == "__main__":
    write()
