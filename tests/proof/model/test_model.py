"""Searches every interleaving of the shipped state machines and functions, and of broken ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.policies.tables import each_has
from tests.proof.model import fence_alone
from tests.proof.model.engine import Engine
from tests.proof.model.scenario import Scenario
from tests.proof.model.suite import LONG, Breakage, Suite

SUITES: dict[str, Suite] = each_has("promise", "SUITE") | {
    "no policy": fence_alone.SUITE,
    "no policy, repairs": fence_alone.MENDED_SUITE,
}


def of_policy(policy: str, *parameters: object) -> Any:
    """Mark a test with its policy, by which `--policy` chooses tests."""
    name = "-".join(map(str, parameters))
    return pytest.param(*parameters, id=name, marks=pytest.mark.policy(policy))


@pytest.mark.parametrize(
    ("suite", "scenario"),
    [
        of_policy(policy, suite, scenario)
        for policy, suite in SUITES.items()
        for scenario in sorted(suite.short + suite.full * LONG, key=lambda each: len(each.events))
    ],
)
def test_promise_holds_in_every_state(engine: Engine, suite: Suite, scenario: Scenario) -> None:
    suite.search(engine, scenario).assert_right()


@pytest.mark.parametrize(
    ("suite", "breakage"),
    [
        of_policy(policy, suite, breakage)
        for policy, suite in SUITES.items()
        for breakage in suite.breakages
    ],
)
def test_what_is_broken_breaks_a_promise(engine: Engine, suite: Suite, breakage: Breakage) -> None:
    found = suite.search_broken(engine, breakage)
    print(found)  # noqa: T201 - with `-rP`, pytest shows the trace
    assert found.problem == breakage.problem
