"""What the ASL files and the template alone tell, beside what `inorder check` finds."""

from typing import Any

import pytest

from inorder.asl.definition import GET, INVOKE, START
from inorder.asl.lease import NOT_WRITTEN, lease_numbers, longest_execution
from inorder.aws.executions import only_one
from inorder.model import policies
from inorder.model.execution import Execution
from tests.policies.tables import TABLES
from tests.support.resolved_template import template

EACH = pytest.mark.parametrize("policy", policies.names())
BUS = "${RetryEventsBusName}"
ANY_FAULT = {"States.ALL", "States.TaskFailed"}


def started_by(policy: str) -> list[str]:
    """List the states of a policy that start an execution."""
    states = policies.definition(policy)["States"]
    return [name for name, state in states.items() if state.get("Resource") == START]


def states_of(policy: str) -> list[dict[str, Any]]:
    return list(policies.definition(policy)["States"].values())


@EACH
def test_holder_lease_waiter_and_longest_execution_take_their_seconds(policy: str) -> None:
    definition = policies.definition(policy)
    found = lease_numbers(definition) or (longest_execution(definition),)
    assert found == TABLES[policy].seconds


@pytest.mark.parametrize(
    ("policy", "state"),
    [(policy, state) for policy in policies.names() for state in started_by(policy)],
)
def test_a_holder_starts_its_own_state_machine_and_the_name_tells(policy: str, state: str) -> None:
    parameters = policies.definition(policy)["States"][state]["Parameters"]
    assert parameters["StateMachineArn.$"] == "$$.StateMachine.Id"
    name = parameters["Name.$"]
    prefix, _, _ = name.removeprefix("States.Format('").partition("{}', States.UUID())")
    arn = f"arn:aws:states:us-east-1:123456789012:express:machine:{prefix}1:2"
    assert Execution(arn, "RUNNING", None).is_started_by_holder
    assert only_one([arn], prefix) == only_one([arn], "2") == arn


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
def test_a_call_takes_seconds(policy: str) -> None:
    for state in states_of(policy):
        resource = state.get("Resource", "")
        if resource == GET:
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
