"""The shipped state machine and function in every interleaving, and mutants of both."""

from __future__ import annotations

import os

import pytest

from inorder.local_aws import LocalAws
from tests.model.engine import Engine
from tests.model.explorer import Scenario, explore
from tests.model.mutants import Mutant, find_out, mutants

LONG = bool(os.environ.get("MODEL"))  # make model

SHORT = (
    *(
        Scenario(events, crashes=1, breaks=1)
        for events in ((1, 2), (1, 1), (1, 2, 2), (1, 1, 2), (1, 2, 3))
    ),
    Scenario((1, 2), crashes=1, breaks=1, faults=1),
    Scenario((1, 1), crashes=1, breaks=1, faults=1),
    Scenario((1, 2), crashes=1, breaks=1, restarts=1),
    Scenario((1, 1), crashes=1, breaks=1, restarts=1, expiries=1),
    Scenario((1, 2), crashes=1, breaks=1, faults=1, contents="Ab"),
    Scenario((1, 2), crashes=1, breaks=1, versioned=True),
    Scenario((1, 2, 3), breaks=1, expiries=1),
    Scenario((1, 2), crashes=1, expiries=1),
    Scenario((1, 2, 3), breaks=1, contents="ABA"),
)
FULL = (
    *(Scenario(events, crashes=1, breaks=1, restarts=1, faults=1) for events in ((1, 2), (1, 1))),
    *(Scenario(events, crashes=1, faults=1) for events in ((1, 2, 2), (1, 1, 2), (1, 2, 3))),
    Scenario((1, 2, 2), crashes=1, breaks=1, faults=1),
    Scenario((1, 2, 3), crashes=1, breaks=2),
    Scenario((1, 2), crashes=1, breaks=1, restarts=1, faults=1, expiries=1, versioned=True),
)
# What kills quickly; all are in the long run.
REPRESENTATIVE = {
    ("Claim Key", "nothing newer seen"),
    ("Claim Key", "unlocked"),
    ("Claim Key", "not done"),
    ("Record Sequencer", "if newer"),
    ("Key State?", "rule 5, to Break Lock"),
    ("Release Lock", "if mine"),
    ("fenced_output.py", "1: the sequencer"),
    ("fenced_output.py", "2: If-Match"),
    ("fenced_output.py", "3: If-Match"),
    ("fenced_output.py", "3: the stamp"),
    ("Record Sequencer", "stays"),
    ("Release Lock", "stays"),
}
# No condition of the promise needs these clauses; docs/proof.md says what they are for.
SURVIVORS = {
    ("Claim Key", "or it is mine"),
    ("Claim Key", "writes execution"),
    ("Key State?", "rule 6, to Wait For Lock"),
    ("Break Lock", "removes the execution"),
    ("Fail Key", "removes the execution"),
    ("fenced_output.py", "1: the same"),
    ("fenced_output.py", "3: again on 409"),
}


@pytest.fixture(scope="module")
def engine(local: LocalAws) -> Engine:
    return Engine(local)


@pytest.mark.parametrize("scenario", SHORT + (FULL if LONG else ()), ids=str)
def test_promise_holds_in_every_state(engine: Engine, scenario: Scenario) -> None:
    result = explore(engine, scenario)
    print(f"{result.states} states, {result.transitions} transitions, depth {result.depth}")  # noqa: T201
    assert result.problem is None, "\n".join((result.problem or "", *result.trace))


@pytest.mark.parametrize(
    "mutant",
    [each for each in mutants() if LONG or (each.where, each.missing) in REPRESENTATIVE],
    ids=lambda mutant: f"{mutant.where} without {mutant.missing}",
)
def test_a_missing_clause_is_found_out(engine: Engine, mutant: Mutant) -> None:
    found = find_out(engine, mutant)
    assert (found is None) == ((mutant.where, mutant.missing) in SURVIVORS)
