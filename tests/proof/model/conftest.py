"""Writes what `make model` has found: out/searches.md and out/mutants.md.

out/searches.md has all searches that were made, after a summary.
out/mutants.md is written when all mutants of latest_wins have been tried.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import pytest

from inorder import PROJECT
from tests.policies.latest_wins.promise import SUITE
from tests.proof.model.source import FUNCTION, SWEEP

PAGE = PROJECT / "out" / "mutants.md"
HEAD = """# The mutants of latest_wins, and how they are found

Each state of [the ASL](../statemachine/latest_wins.asl.json), then the fence and the schedule, with
one thing left out or changed; the scenario in which the search finds a violation; the violation;
and the shortest trace to it in that scenario, or any trace if only a whole path shows it. 1a and 1b
are deliveries of event 1. [proof.md](../docs/proof.md) explains what is searched;
[promise.py](../tests/policies/latest_wins/promise.py) lists the mutants that survive, and why.
"""
SEARCHES = PROJECT / "out" / "searches.md"


class Search(NamedTuple):
    """A search of every state of a scenario."""

    policy: str
    events: str
    adversary: str
    states: int
    transitions: int
    depth: int


_found: dict[str, list[str]] = {}
_searches: list[Search] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the tests have found, in this process or in another one."""
    for name, each in report.user_properties if report.when == "call" else ():
        if name == "search" and isinstance(each, list):
            _searches.append(Search(*each))
        elif isinstance(each, list):
            _found[name] = each


def pytest_sessionfinish() -> None:
    """Write the pages."""
    if _searches:
        SEARCHES.parent.mkdir(exist_ok=True)
        SEARCHES.write_text("\n".join(_lines()), encoding="utf-8")
    _write_mutants()


def _lines() -> Iterator[str]:
    """Write the searches as tables: of each policy, and each one."""
    yield "| policy | searches | states | transitions | largest | its states | its depth |"
    yield "| --- | ---: | ---: | ---: | --- | ---: | ---: |"
    searches = sorted(_searches, key=lambda each: (each.policy, -each.states, each))
    for policy, group in groupby(searches, key=lambda each: each.policy):
        largest, *others = group
        total = Counter[str]()
        for each in (largest, *others):
            total.update(states=each.states, transitions=each.transitions)
        yield (
            f"| {policy} | {len(others) + 1} | {total['states']:,} | {total['transitions']:,}"
            f" | {largest.events}; {largest.adversary} | {largest.states:,} | {largest.depth} |"
        )
    yield ""
    yield "| policy | events | adversary | states | transitions | depth |"
    yield "| --- | --- | --- | ---: | ---: | ---: |"
    for each in searches:
        yield (
            f"| {each.policy} | {each.events} | {each.adversary} | {each.states:,}"
            f" | {each.transitions:,} | {each.depth} |"
        )
    yield ""


def _write_mutants() -> None:
    """Write the mutants of latest_wins, unless some have not been found."""
    mutants = [each for each in SUITE.mutants() if str(each) not in SUITE.survivors]
    found = {each: _found.get(f"{SUITE}: {each}") for each in mutants}
    if not all(found.values()):
        return
    lines = [HEAD]
    # In the order of the file, then the fence and the schedule.
    places = [*json.loads(SUITE.policy.definition)["States"], FUNCTION.file, SWEEP.file]
    in_order = sorted(mutants, key=lambda each: places.index(each.where))
    for where, group in groupby(in_order, key=lambda each: each.where):
        lines.append(f"## {where}\n")
        for mutant in group:
            scenario, problem, *trace = found[mutant] or []
            path = " · ".join(step.strip("; ") for step in trace)
            lines.append(f"- `{mutant}`\n  - {scenario}: **{problem}**\n  - {path}\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(lines), encoding="utf-8")
