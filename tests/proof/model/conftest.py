"""Writes what has been found to out/searches.md, and to out/mutants.md the mutants of latest_wins.

out/searches.md has all searches that were made, after a summary. out/mutants.md has each state of
the ASL file, then the fence and the schedule, with one thing left out or changed; the smallest
scenario in which a violation is found; the violation; and the shortest trace to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

import pytest

from inorder import PROJECT
from tests.policies.latest_wins.promise import SUITE
from tests.proof.model.engine import Engine
from tests.proof.model.scenario import Scenario
from tests.proof.model.search import Result

Searched = Callable[[str, Scenario, Result], None]


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


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine()


@pytest.fixture
def searched(record_property: Callable[[str, object], None]) -> Searched:
    """Check that a search of a policy found nothing, and keep its sizes."""

    def check(policy: str, scenario: Scenario, result: Result) -> None:
        if result.problem or not result.ended:
            pytest.fail(f"{scenario}: {result}", pytrace=False)
        sizes = [result.states, result.transitions, result.depth]
        record_property("search", [policy, *str(scenario).split("; ", 1), *sizes])

    return check


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the tests have found, in this process or in another one."""
    for name, each in report.user_properties if report.when == "call" else ():
        if name == "search" and isinstance(each, list):
            _searches.append(Search(*each))
        elif isinstance(each, list):
            _found[name] = each


def pytest_sessionfinish() -> None:
    """Write the pages; that of the mutants only if all have been found."""
    (PROJECT / "out").mkdir(exist_ok=True)
    if _searches:
        _write("searches", _tables())
    names = [f"{SUITE}: {each}" for each in SUITE.mutants() if str(each) not in SUITE.survivors]
    if set(names) <= set(_found):
        _write("mutants", (_describe(name, *_found[name]) for name in names))


def _write(name: str, lines: Iterator[str]) -> None:
    (PROJECT / "out" / f"{name}.md").write_text("\n".join((*lines, "")), encoding="utf-8")


def _tables() -> Iterator[str]:
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


def _describe(name: str, scenario: str, problem: str, *trace: str) -> str:
    return f"- `{name}`\n  - {scenario}: **{problem}**\n  - {' · '.join(trace)}"
