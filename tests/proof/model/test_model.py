"""Searches every interleaving of the shipped state machines and functions, and of broken ones."""

import pytest

from tests.policies.tables import by_policy
from tests.proof.model import fence_alone
from tests.proof.model.engine import Engine
from tests.proof.model.scenario import Scenario
from tests.proof.model.suite import LONG, Breakage, Suite

SUITES: dict[str, Suite] = by_policy("promise", "SUITE") | {"no policy": fence_alone.SUITE}


def cases_of(kind: str, *fields: str) -> pytest.MarkDecorator:
    """Mark each test with its policy, by which `--policy` chooses tests."""
    cases = (
        (policy, suite, case)
        for policy, suite in SUITES.items()
        for field in fields
        for case in getattr(suite, field)
    )
    parameters = [
        pytest.param(suite, case, id=f"{suite}-{case}", marks=pytest.mark.policy(policy))
        for policy, suite, case in cases
    ]
    return pytest.mark.parametrize(("suite", kind), parameters)


@cases_of("scenario", "short", *["full"] * LONG)
def test_promise_holds_in_every_state(engine: Engine, suite: Suite, scenario: Scenario) -> None:
    suite.search(engine, scenario).assert_right()


@cases_of("breakage", "breakages")
def test_what_is_broken_breaks_a_promise(engine: Engine, suite: Suite, breakage: Breakage) -> None:
    result = suite.search_broken(engine, breakage)
    print(result)  # noqa: T201 - with `-rP`, pytest shows the trace
    assert result.problem == breakage.problem
