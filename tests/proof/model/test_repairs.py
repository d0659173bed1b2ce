"""Searches repairs: at any moment, twice, beside events that are late or lost, and dead ones."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.policies.every_version.promise import EveryVersion
from tests.policies.first_wins.promise import FirstWins
from tests.policies.latest_wins.promise import LatestWins
from tests.proof.model.conftest import Searched
from tests.proof.model.engine import Engine
from tests.proof.model.explorer import Explorer
from tests.proof.model.promise import Promise
from tests.proof.model.scenario import Scenario
from tests.proof.model.search import search
from tests.proof.model.source import REPAIR, call, change, code

NEWEST = (
    *(Scenario((), lost=1, repairs=repairs) for repairs in (1, 2)),
    *(Scenario((), lost=2, repairs=2, contents=contents) for contents in ("AB", "A-")),
    *(Scenario(events, repairs=1) for events in ((1,), (1, 1), (1, 2))),
    *(Scenario((1,), lost=1, repairs=repairs) for repairs in (1, 2)),
    Scenario((2,), repairs=2),
    *(Scenario((1, 2), contents=contents, repairs=1) for contents in ("A-", "AA")),
    *(Scenario((1,), lost=2, contents=contents, repairs=1) for contents in ("A-A", "ABA", "AB-")),
    *(Scenario((1, 3), contents=contents, repairs=1) for contents in ("A-A", "ABA", "AB-")),
    *(Scenario(events, lost=1, repairs=1, crashes=1, breaks=1) for events in ((), (1,))),
    Scenario((1, 2), repairs=1, crashes=1),
    Scenario((), lost=1, repairs=1, faults=1),
    *(Scenario((1, 2), contents=contents, repairs=1, versioned=True) for contents in ("AB", "A1")),
    Scenario((1,), lost=1, repairs=1, versioned=True),
    Scenario((1, 3), contents="AB2", repairs=1, versioned=True),
)
EACH = (
    Scenario((), lost=1, repairs=2, versioned=True),
    Scenario((1,), repairs=1, versioned=True),
    Scenario((1,), lost=1, repairs=1, versioned=True),
    Scenario((1, 2), contents="A1", repairs=1, versioned=True),
    Scenario((1,), lost=1, contents="A1", repairs=1, versioned=True),
    Scenario((), lost=1, repairs=1, crashes=1, breaks=1, versioned=True),
)
# A key whose first event was lost. One that is done stays so: its repair ends as a duplicate.
FIRST = (
    *(Scenario((), lost=1, repairs=repairs) for repairs in (1, 2)),
    *(Scenario(events, repairs=1) for events in ((1,), (1, 2))),
    Scenario((), lost=1, repairs=1, crashes=1, breaks=1),
)
SEARCHES = [
    pytest.param(policy, scenario, id=f"{policy.__name__}: {scenario}")
    for policy, scenarios in ((LatestWins, NEWEST), (EveryVersion, EACH), (FirstWins, FIRST))
    for scenario in scenarios
]


@pytest.mark.parametrize(("policy", "scenario"), SEARCHES)
def test_a_repair_keeps_every_promise(
    engine: Engine, policy: type[Promise], scenario: Scenario, searched: Searched
) -> None:
    engine.load(policy.definition)
    searched(policy.__name__, scenario, search(policy(engine, scenario), 100_000))


OVERWRITTEN = Scenario((1,), lost=1, repairs=1)
EXPIRED = Scenario((1,), lost=1, repairs=1, expiries=1)
# What an event of a repair needs, with a policy and a scenario that break a promise without it, and
# the code that is left out or replaced.
PARTS: dict[str, Any] = {
    "a known sequencer": (LatestWins, OVERWRITTEN, "repair_event", call("known_sequencer"), "''"),
    "the record's": (LatestWins, OVERWRITTEN, "known_sequencer", code(ast.Call, "record"), "''"),
    "the output's": (LatestWins, EXPIRED, "known_sequencer", code(ast.IfExp, "known"), "known"),
    "the output's only without versions": (
        *(LatestWins, Scenario((1, 3), contents="AB2", repairs=1, versioned=True)),
        *("known_sequencer", code(ast.BoolOp, "metadata"), "False"),
    ),
    "a later end": (
        *(LatestWins, Scenario((), lost=2, contents="AB", repairs=2)),
        *("next_sequencer", call("max"), "0"),
    ),
    "the version": (
        *(LatestWins, Scenario((1,), lost=1, repairs=1, versioned=True)),
        *("repair_event", code(ast.If, "version-id"), lambda _: None),
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_event_of_a_repair_is_needed(engine: Engine, part: str) -> None:
    policy, scenario, method, find, by = PARTS[part]
    engine.load(policy.definition, repair=change(part, method, find, by, REPAIR))
    assert search(policy(engine, scenario), 20_000).problem


def test_a_source_that_is_read_before_the_record_breaks_a_promise(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Explorer, "source_first", True)
    engine.load(LatestWins.definition)
    assert search(LatestWins(engine, Scenario((1, 2), repairs=1)), 20_000).problem
