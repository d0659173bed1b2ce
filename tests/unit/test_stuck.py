"""How long a record may stay unchanged before its key is stuck."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from inorder import PROJECT
from inorder.asl.lease import lease_numbers
from inorder.aws import stuck
from inorder.policies import asl_file

KEY, EVENT = {"id": "pictures/x.png"}, {"id": "event:pictures/x.png@0A"}


def definition_of(policy: str) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads((PROJECT / asl_file(policy)).read_text())
    return definition


def patience(definition: dict[str, Any], *records: dict[str, Any]) -> float:
    """Compute it for a stack with this state machine."""
    states = SimpleNamespace(
        describe_state_machine=lambda **_: {"definition": json.dumps(definition)}
    )
    aws: Any = SimpleNamespace(
        client=lambda _: states, stack=SimpleNamespace(state_machine_arn="arn")
    )
    return stuck.patience(aws, records)


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [("latest-wins", 90), ("first-wins", 90), ("content-hash", 66), ("every-version", 108)],
)
def test_no_living_execution_leaves_a_key_unchanged_for_so_long(policy: str, seconds: int) -> None:
    definition = definition_of(policy)
    numbers = lease_numbers(definition)
    assert numbers
    assert patience(definition, KEY) == seconds > max(numbers.holder, numbers.waiter)


def test_the_record_of_an_event_stays_unchanged_for_as_long_as_an_execution_can_live() -> None:
    assert patience(definition_of("every-version"), KEY, EVENT) == 300


def test_seconds_that_cannot_be_computed_are_those_that_an_execution_can_live() -> None:
    definition = definition_of("latest-wins")
    del definition["States"]["Count Poll"]["Parameters"]["limits"]
    assert patience(definition, KEY) == 300
    assert patience(definition_of("optimistic"), KEY) == 300
