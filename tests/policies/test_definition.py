"""What the ASL files and the template alone tell, beside what `inorder check` finds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from inorder.asl.definition import CONDITION_FAILED, GET, INVOKE
from inorder.asl.lease import NOT_WRITTEN, lease_numbers, longest_execution
from inorder.aws.executions import only_one
from inorder.model import policies
from inorder.model.execution import Execution
from tests.support.resolved_template import template

EACH = pytest.mark.parametrize("policy", policies.names())
# The seconds in the Comment of a policy with a lock.
STATED = re.compile(
    r"a holder needs its lock for at most (\d+) .* a lease is (\d+) .*"
    r" a waiter gives up after (\d+) .* the longest execution takes (\d+) of"
)
BUS = "${RetryEventsBusName}"
ANY_FAULT = {"States.ALL", "States.TaskFailed"}


def states_of(policy: str) -> list[dict[str, Any]]:
    return list(policies.definition(policy)["States"].values())


@pytest.mark.parametrize(
    "policy", policies.like("latest-wins", "every-version", "first-wins", "content-hash")
)
def test_holder_lease_and_waiter_have_the_seconds_that_the_comment_states(policy: str) -> None:
    definition = policies.definition(policy)
    stated = STATED.search(definition["Comment"])
    assert stated
    assert lease_numbers(definition) == tuple(map(int, stated.groups()))


@pytest.mark.parametrize("machine", ["machine", "machine:live"])  # AWS does not say which
@pytest.mark.parametrize("policy", policies.like("latest-wins"))
def test_an_execution_that_a_holder_starts_is_known_by_its_name(policy: str, machine: str) -> None:
    name = policies.definition(policy)["States"]["Start Newest Event"]["Parameters"]["Name.$"]
    prefix, _, _ = name.removeprefix("States.Format('").partition("{}', States.UUID())")
    arn = f"arn:aws:states:us-east-1:123456789012:express:{machine}:{prefix}1:2"
    assert Execution(arn, "RUNNING", None).is_started_by_holder
    assert only_one([arn], prefix) == only_one([arn], "2") == arn


@pytest.mark.parametrize("policy", policies.like("uncoordinated"))
def test_the_longest_execution_without_a_lock_takes_its_seconds(policy: str) -> None:
    assert longest_execution(policies.definition(policy)) == 54


@EACH
def test_a_retry_is_random_and_bounded_and_only_the_last_one_is_for_any_fault(policy: str) -> None:
    """Executions that were refused at the same time must not try again at the same time."""
    for *others, last in (state["Retry"] for state in states_of(policy) if "Retry" in state):
        for retrier in (*others, last):
            if retrier["MaxAttempts"]:
                assert retrier["JitterStrategy"] == "FULL"
                assert {"IntervalSeconds", "BackoffRate", "MaxDelaySeconds"} < set(retrier)
        # What records an event or takes a lock is repeated only if nothing was written.
        is_of_unwritten = set(last["ErrorEquals"]) < NOT_WRITTEN and last["MaxAttempts"] > 0
        assert ANY_FAULT & set(last["ErrorEquals"]) or is_of_unwritten
        assert not any(ANY_FAULT & set(each["ErrorEquals"]) for each in others)


@EACH
def test_a_refused_write_is_not_retried_each_read_is_consistent_and_a_call_takes_seconds(
    policy: str,
) -> None:
    for state in states_of(policy):
        resource = state.get("Resource", "")
        if "ConditionExpression" in state.get("Parameters", {}):
            first = state["Retry"][0]
            refused = {*ANY_FAULT, CONDITION_FAILED[0]}
            assert first["MaxAttempts"] == 0 or not refused & set(first["ErrorEquals"])
        if resource == GET:
            assert state["Parameters"]["ConsistentRead"] is True
            assert state["TimeoutSeconds"] == 1
        elif ":dynamodb:" in resource:
            assert state["TimeoutSeconds"] <= 2
        elif ":sqs:" in resource or BUS in str(state.get("Parameters")):
            assert state["TimeoutSeconds"] == 2


@EACH
def test_a_function_ends_before_the_state_that_waits_for_it(policy: str) -> None:
    invoking = [state for state in states_of(policy) if state.get("Resource") == INVOKE]
    assert invoking
    for state in invoking:
        function = state["Parameters"]["FunctionName"].strip("${}").removesuffix("Arn")
        timeout = template()["Resources"][function]["Properties"]["Timeout"]
        assert timeout < state["TimeoutSeconds"]
        # A slow one of the demonstration still ends.
        slow = template()["Parameters"]["SlowSeconds"]["MaxValue"]
        assert function != "InvertImageFunction" or slow < timeout
