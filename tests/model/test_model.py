"""The shipped state machine and function in every interleaving, and mutants of both."""

from __future__ import annotations

import os

import pytest

from inorder.local_aws import LocalAws
from tests.model.engine import Engine
from tests.model.explorer import Scenario, explore
from tests.model.latest_wins import LatestWins
from tests.model.mutants import EDGES, REPRESENTATIVE, SURVIVORS, find_out, mutants
from tests.model.mutation import Mutant

LONG = bool(os.environ.get("MODEL"))  # make model

SHORT = (
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 2), (1, 1), (1, 1, 2))),
    Scenario((1, 2), crashes=1, breaks=1, faults=1),
    Scenario((1, 1), crashes=1, breaks=1, faults=1),
    Scenario((1, 1), restarts=1, expiries=1),
    Scenario((1, 2), crashes=1, breaks=1, faults=1, contents="Ab"),
    Scenario((1, 2), crashes=1, breaks=1, versioned=True),
    Scenario((1, 2, 3), breaks=1, expiries=1),
    Scenario((1, 2), crashes=1, expiries=1),
    Scenario((1, 2, 3), breaks=1, contents="ABA"),
    *EDGES,
)
FULL = (
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 2, 2), (1, 2, 3))),
    Scenario((1, 2), crashes=1, restarts=1),
    Scenario((1, 1), crashes=1, restarts=1, expiries=1),
    Scenario((1, 2), crashes=1, breaks=1, restarts=1),
    Scenario((1, 1), crashes=1, breaks=1, restarts=1, expiries=1),
    *(Scenario(events, crashes=1, breaks=1, restarts=1, faults=1) for events in ((1, 2), (1, 1))),
    *(Scenario(events, crashes=1, faults=1) for events in ((1, 2, 2), (1, 1, 2), (1, 2, 3))),
    Scenario((1, 2, 2), crashes=1, breaks=1, faults=1),
    Scenario((1, 2, 3), crashes=1, breaks=2),
    Scenario((1, 2), crashes=1, breaks=1, restarts=1, faults=1, expiries=1, versioned=True),
)


@pytest.fixture(scope="module")
def engine(local: LocalAws) -> Engine:
    return Engine(local, LatestWins.definition)


@pytest.mark.parametrize("scenario", SHORT + (FULL if LONG else ()), ids=str)
def test_promise_holds_in_every_state(engine: Engine, scenario: Scenario) -> None:
    result = explore(LatestWins(engine, scenario))
    print(f"{result.states} states, {result.transitions} transitions, depth {result.depth}")  # noqa: T201
    assert result.problem is None, "\n".join((result.problem or "", *result.trace))


@pytest.mark.parametrize(
    "mutant", [each for each in mutants() if LONG or str(each) in REPRESENTATIVE], ids=str
)
def test_a_missing_clause_is_found_out(engine: Engine, mutant: Mutant) -> None:
    found = find_out(engine, LatestWins, mutant)
    assert (found is None) == (str(mutant) in SURVIVORS)
