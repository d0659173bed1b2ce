"""Writes docs/mutants.md when all mutants of latest_wins have been tried, as `make model` does."""

from __future__ import annotations

import json
from itertools import groupby

import pytest

from inorder import PROJECT
from tests.model.latest_wins import SUITE
from tests.model.suite import FENCE

PAGE = PROJECT / "docs" / "mutants.md"
HEAD = """# The mutants of latest_wins, and what shows them

`make model` writes this page. Each state of [the ASL](../statemachine/latest_wins.asl.json), then
the fence, with one thing left out or changed; the scenario in which the model checker finds it
out; what is wrong; and the trace that ends so, the shortest of that scenario unless it takes a
whole path to see it. 1a and 1b are deliveries of event 1. [proof.md](proof.md) says what
scenarios and promise are, and which mutants survive.
"""
_shown: dict[str, list[str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what a test has found out, in this process or in another one."""
    _shown.update((name, told) for name, told in report.user_properties if isinstance(told, list))


def pytest_sessionfinish() -> None:
    """Write the page, unless some are missing."""
    found_out = [each for each in SUITE.mutants() if str(each) not in SUITE.survivors]
    told = {each: _shown.get(f"{SUITE}: {each}") for each in found_out}
    if not all(told.values()):
        return
    lines = [HEAD]
    # In the order of the file; the fence, which is none of its states, comes after all.
    places = list(json.loads(SUITE.policy.definition)["States"])
    in_order = sorted(found_out, key=lambda each: [*places, FENCE].index(each.where))
    for where, mutants in groupby(in_order, key=lambda each: each.where):
        lines.append(f"## {where}\n")
        for mutant in mutants:
            scenario, problem, *trace = told[mutant] or []
            path = " · ".join(step.strip("; ") for step in trace)
            lines.append(f"- `{mutant}`\n  - {scenario}: **{problem}**\n  - {path}\n")
    PAGE.write_text("\n".join(lines), encoding="utf-8")
