"""Searches every interleaving of the shipped state machines and functions, and of mutants."""

from __future__ import annotations

from typing import Any

import pytest

from tests.policies.tables import each_has
from tests.proof.model.conftest import Searched
from tests.proof.model.engine import Engine
from tests.proof.model.mutation import Mutant, is_refused
from tests.proof.model.scenario import Scenario
from tests.proof.model.suite import LONG, Suite

SUITES: dict[str, Suite] = each_has("promise", "SUITE")


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
def test_promise_holds_in_every_state(
    engine: Engine, suite: Suite, scenario: Scenario, searched: Searched
) -> None:
    searched(str(suite), scenario, suite.search(engine, scenario))


@pytest.mark.parametrize(
    ("suite", "mutant"),
    [
        of_policy(policy, suite, mutant)
        for policy, suite in SUITES.items()
        for mutant in suite.mutants()
        if LONG or str(mutant) in suite.representative
    ],
)
def test_each_mutant_but_the_survivors_breaks_a_promise(
    engine: Engine, suite: Suite, mutant: Mutant
) -> None:
    if not mutant.definition or not is_refused(mutant.definition):
        found = suite.find(engine, mutant)
        print(found and "\n".join(map(str, found)))  # noqa: T201 - with `-rP`, pytest shows it
        assert (found is None) == (str(mutant) in suite.survivors)


@pytest.mark.parametrize("suite", [of_policy(*each) for each in SUITES.items()])
def test_each_mutant_has_a_name_of_its_own(suite: Suite) -> None:
    names = [str(mutant) for mutant in suite.mutants()]
    assert len(names) == len(set(names))
    assert suite.representative | suite.survivors <= set(names)
