"""Writes all searches that were made, with their sizes, to out/searches.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inorder import PROJECT
from tests.proof.model.engine import Engine
from tests.proof.model.scenario import Scenario
from tests.proof.model.search import Result

Searched = Callable[[str, Scenario, Result], None]
HEAD = ("policy | scenario | states | transitions | depth", "--- | --- | ---: | ---: | ---:")
# The policy, the scenario and the sizes of each search.
_searches: list[list[Any]] = []


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
        record_property("search", [policy, str(scenario), *sizes])

    return check


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the tests have found, in this process or in another one."""
    properties = report.user_properties if report.when == "call" else ()
    _searches.extend(each for name, each in properties if name == "search")  # type: ignore[misc]


def pytest_sessionfinish() -> None:
    if _searches:
        largest_first = sorted(_searches, key=lambda each: (each[0], -each[2], each))
        rows = (*HEAD, *("{} | {} | {:,} | {:,} | {}".format(*each) for each in largest_first))
        (PROJECT / "out").mkdir(exist_ok=True)
        page = "".join(f"| {row} |\n" for row in rows)
        (PROJECT / "out" / "searches.md").write_text(page, encoding="utf-8")
