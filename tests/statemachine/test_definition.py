"""What can be told from the ASL files and the template alone. The rest is what `check` tells."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT
from inorder.asl.definition import CONDITION_FAILED, GET
from inorder.asl.lease import EXPRESS_SECONDS, lease_numbers, longest, longest_execution
from inorder.policies import asl_file, names


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml_parse((PROJECT / "template.yaml").read_text())
    return parsed


def definition_of(policy: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((PROJECT / asl_file(policy)).read_text())
    return loaded


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        ("latest-wins", (82, 84, 87, 286)),
        ("every-version", (83, 84, 105, 287)),
        ("first-wins", (82, 84, 87, 286)),
        ("content-hash", (54, 60, 63, 230)),
    ],
)
def test_no_holder_outlives_its_lease_and_no_execution_express(
    policy: str, seconds: tuple[int, ...]
) -> None:
    definition = definition_of(policy)
    numbers = lease_numbers(definition)
    assert numbers == seconds  # as the file says
    assert numbers.holder < numbers.lease < numbers.waiter
    assert numbers.longest_execution < EXPRESS_SECONDS
    for number in numbers:
        assert f"{number:g}" in definition["Comment"]


def test_an_execution_that_passes_over_dead_events_stays_below_express() -> None:
    definition = definition_of("every-version")
    numbers = lease_numbers(definition)
    states = definition["States"]
    assert numbers
    [give_up] = [
        rule["NumericGreaterThanEquals"]
        for rule in states["Key State?"]["Choices"]
        if "NumericGreaterThanEquals" in rule
    ]
    watched = states["Watch Oldest Waiter"]["Parameters"]["clear_at_poll.$"]
    assert watched == "States.MathAdd($.polls.count, 5)"
    passes = (give_up - 1) // (5 + 1)  # each has its word seen first at a look of its own
    seconds = passes * longest(states["Clear Dead Waiter"])
    assert f"at most {seconds} more" in definition["Comment"]
    assert numbers.longest_execution + seconds < EXPRESS_SECONDS


@pytest.mark.parametrize(("policy", "seconds"), [("optimistic", 227), ("uncoordinated", 54)])
def test_an_execution_without_a_lock_stays_below_express(policy: str, seconds: int) -> None:
    assert longest_execution(definition_of(policy)) == seconds
    assert seconds < EXPRESS_SECONDS


def retriers_of(policy: str) -> list[list[dict[str, Any]]]:
    states = definition_of(policy)["States"].values()
    return [state["Retry"] for state in states if "Retry" in state]


@pytest.mark.parametrize("policy", names())
def test_those_that_were_refused_at_once_do_not_try_again_at_once(policy: str) -> None:
    """Nor is it left to an engine how long they wait."""
    for retrier in itertools.chain(*retriers_of(policy)):
        if retrier["MaxAttempts"]:
            assert retrier["JitterStrategy"] == "FULL"
            assert {"IntervalSeconds", "BackoffRate", "MaxDelaySeconds"} < set(retrier)


@pytest.mark.parametrize("policy", names())
def test_a_fault_is_tried_again_and_what_has_a_retrier_of_its_own_is_not_taken_for_one(
    policy: str,
) -> None:
    everything = {"States.ALL", "States.TaskFailed"}
    for *own, of_all in retriers_of(policy):
        assert everything & set(of_all["ErrorEquals"])
        assert [each for each in own if everything & set(each["ErrorEquals"])] == []


@pytest.mark.parametrize("policy", names())
def test_a_refused_write_is_not_tried_again(policy: str) -> None:
    for state in definition_of(policy)["States"].values():
        if "ConditionExpression" in state.get("Parameters", {}):
            first = state["Retry"][0]
            assert first["MaxAttempts"] == 0
            assert {"States.ALL", CONDITION_FAILED[0]} & set(first["ErrorEquals"])


@pytest.mark.parametrize("policy", names())
def test_what_is_read_is_what_was_written_last(policy: str) -> None:
    for state in definition_of(policy)["States"].values():
        if state.get("Resource") == GET:
            assert state["Parameters"]["ConsistentRead"] is True


@pytest.mark.parametrize("policy", [name for name in names() if name != "uncoordinated"])
def test_what_is_no_event_has_longer_to_reach_the_queue_than_what_holds_a_lock(policy: str) -> None:
    assert longest(definition_of(policy)["States"]["Park Invalid Event"]) == 107


@pytest.mark.parametrize(
    ("policy", "function", "state"),
    [
        ("latest-wins", "InvertImageFunction", "Invert Image"),
        ("every-version", "InvertImageFunction", "Invert Image"),
        ("first-wins", "InvertImageFunction", "Invert Image"),
        ("optimistic", "InvertImageFunction", "Invert Image"),
        ("uncoordinated", "InvertImageFunction", "Invert Image"),
        ("content-hash", "CanonicalHashFunction", "Hash Detail"),
    ],
)
def test_the_function_ends_before_the_state_that_waits_for_it(
    template: dict[str, Any], policy: str, function: str, state: str
) -> None:
    timeout = template["Resources"][function]["Properties"]["Timeout"]
    assert timeout < definition_of(policy)["States"][state]["TimeoutSeconds"]


def test_a_slow_function_of_the_demonstration_still_ends(template: dict[str, Any]) -> None:
    function = template["Resources"]["InvertImageFunction"]["Properties"]
    assert template["Parameters"]["SlowSeconds"]["MaxValue"] < function["Timeout"]
