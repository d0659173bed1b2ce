"""The shipped state machines and function in every interleaving, and mutants of both."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest

from inorder.local_aws import LocalAws
from tests.policies.every_version import promise as every_version
from tests.policies.first_wins import promise as first_wins
from tests.policies.latest_wins import promise as latest_wins
from tests.policies.optimistic import promise as optimistic
from tests.proof.model.conftest import PAGE
from tests.proof.model.engine import Engine
from tests.proof.model.explorer import explore
from tests.proof.model.mutation import Mutant
from tests.proof.model.scenario import Scenario
from tests.proof.model.suite import Suite

LONG = bool(os.environ.get("MODEL"))  # make model
SUITES = tuple(policy.SUITE for policy in (latest_wins, every_version, first_wins, optimistic))


@pytest.fixture(scope="module")
def engine(local: LocalAws) -> Engine:
    return Engine(local)


@pytest.mark.parametrize(
    ("suite", "scenario"),
    [(suite, each) for suite in SUITES for each in suite.short + (suite.full if LONG else ())],
    ids=str,
)
def test_promise_holds_in_every_state(engine: Engine, suite: Suite, scenario: Scenario) -> None:
    policy = suite.policy
    engine.load(policy.definition, policy.function)
    result = explore(policy(engine, scenario))
    print(f"{result.states} states, {result.transitions} transitions, depth {result.depth}")  # noqa: T201
    assert result.problem is None, "\n".join((result.problem or "", *result.trace))


@pytest.mark.parametrize(
    ("suite", "mutant"),
    [
        (suite, each)
        for suite in SUITES
        for each in suite.mutants()
        if LONG or str(each) in suite.representative
    ],
    ids=str,
)
def test_a_missing_clause_is_found_out(
    engine: Engine,
    suite: Suite,
    mutant: Mutant,
    record_property: Callable[[str, object], None],
) -> None:
    found = suite.find_out(engine, mutant)
    if found:
        scenario, result = found
        record_property(f"{suite}: {mutant}", [str(scenario), result.problem, *result.trace])
    assert (found is None) == (str(mutant) in suite.survivors)


@pytest.mark.parametrize("suite", SUITES, ids=str)
def test_each_name_of_a_mutant_is_one(suite: Suite) -> None:
    names = [str(mutant) for mutant in suite.mutants()]
    assert len(names) == len(set(names))
    assert suite.representative | suite.survivors <= set(names)


def test_the_page_of_mutants_tells_of_these() -> None:
    suite = latest_wins.SUITE
    names = {str(mutant) for mutant in suite.mutants()} - suite.survivors
    assert set(re.findall("^- `(.+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) == names
