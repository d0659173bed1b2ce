"""Writes all searches that were made, with their sizes, to out/searches.md, after a summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

import pytest

from inorder import PROJECT
from tests.proof.model.engine import Engine
from tests.proof.model.scenario import Scenario
from tests.proof.model.search import Result

Searched = Callable[[str, Scenario, Result], None]


class Row(NamedTuple):
    """A search of every state of a scenario."""

    policy: str
    scenario: str
    states: int
    transitions: int
    depth: int


_rows: list[Row] = []


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine()


@pytest.fixture
def searched(record_property: Callable[[str, object], None]) -> Searched:
    """Check that a search of a policy found nothing, and keep its sizes."""

    def check(policy: str, scenario: Scenario, result: Result) -> None:
        if result.problem or not result.ended:
            pytest.fail(f"{scenario}: {result}", pytrace=False)
        row = Row(policy, str(scenario), result.states, result.transitions, result.depth)
        record_property("search", [*row])

    return check


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the tests have found, in this process or in another one."""
    properties = report.user_properties if report.when == "call" else ()
    _rows.extend(Row(*each) for name, each in properties if name == "search")  # type: ignore[misc]


def pytest_sessionfinish() -> None:
    if _rows:
        (PROJECT / "out").mkdir(exist_ok=True)
        page = "\n".join((*_tables(), ""))
        (PROJECT / "out" / "searches.md").write_text(page, encoding="utf-8")


def _tables() -> Iterator[str]:
    yield "| policy | searches | states | transitions | largest |"
    yield "| --- | ---: | ---: | ---: | --- |"
    rows = sorted(_rows, key=lambda each: (each.policy, -each.states, each))
    for policy, group in groupby(rows, key=lambda each: each.policy):
        of_policy = list(group)
        states = sum(each.states for each in of_policy)
        transitions = sum(each.transitions for each in of_policy)
        largest = of_policy[0].scenario
        yield f"| {policy} | {len(of_policy)} | {states:,} | {transitions:,} | {largest} |"
    yield "\n| policy | scenario | states | transitions | depth |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for each in rows:
        yield "| {} | {} | {:,} | {:,} | {} |".format(*each)
