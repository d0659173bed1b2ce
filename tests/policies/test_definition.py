"""What the ASL files and the template alone tell, beside what `inorder check` finds."""

import re
from math import inf
from typing import Any

import pytest

from inorder.asl.definition import EXPRESS_SECONDS, GET, INVOKE, START, is_end
from inorder.asl.roles import Role, doing
from inorder.asl.seconds import longest_execution
from inorder.aws.executions import only_one
from inorder.model import policies
from inorder.model.execution import Execution
from tests.policies.tables import TABLES
from tests.support.resolved_template import template

FOR_POLICIES = pytest.mark.parametrize("policy", policies.names())
BUS = "${RetryEventsBusName}"
# DynamoDB writes nothing of what it throttles.
THROTTLED = {
    "DynamoDB.ProvisionedThroughputExceededException",
    "DynamoDB.RequestLimitExceededException",
    "DynamoDB.ThrottlingException",
}
ANY_FAULT = {"States.ALL", "States.TaskFailed"}


def started_by(policy: str) -> list[str]:
    """List the states of a policy that start an execution."""
    states = policies.definition(policy)["States"]
    return [name for name, state in states.items() if state.get("Resource") == START]


def states_of(policy: str) -> list[dict[str, Any]]:
    return list(policies.definition(policy)["States"].values())


@FOR_POLICIES
def test_the_longest_execution_takes_its_seconds(policy: str) -> None:
    assert longest_execution(policies.definition(policy)) == TABLES[policy].seconds


@FOR_POLICIES
def test_executions_that_lock_have_a_timeout_and_new_tokens(policy: str) -> None:
    """A sweep relies on the first, and each write of a holder on the second."""
    definition = policies.definition(policy)
    if doing(definition["States"], Role.CLAIMS):
        assert definition["TimeoutSeconds"] == EXPRESS_SECONDS
        parameters = [state.get("Parameters", {}) for state in states_of(policy)]
        tokens = {request["lock_token.$"] for request in parameters if "lock_token.$" in request}
        assert tokens == {"$.lock_token", "States.UUID()"}


@FOR_POLICIES
def test_each_state_has_a_comment_and_ends_report_their_names(policy: str) -> None:
    for name, state in policies.definition(policy)["States"].items():
        assert state["Comment"]
        if is_end(state):
            reported = state.get("Error") or state["Parameters"]["outcome"]
            assert reported == "".join(name.split())


@FOR_POLICIES
def test_claims_and_records_without_an_answer_are_not_retried(policy: str) -> None:
    """It may be written later, when another execution has acted."""
    states = policies.definition(policy)["States"]
    for name in {*doing(states, Role.CLAIMS), *doing(states, Role.RECORDS)}:
        for retrier in states[name]["Retry"]:
            assert set(retrier["ErrorEquals"]) <= THROTTLED


@FOR_POLICIES
def test_a_read_shows_what_others_have_written_before(policy: str) -> None:
    for state in states_of(policy):
        if state.get("Resource") == GET:
            assert state["Parameters"]["ConsistentRead"] is True


@pytest.mark.parametrize(
    ("policy", "state"),
    [(policy, state) for policy in policies.names() for state in started_by(policy)],
)
def test_a_holder_starts_its_state_machine_with_its_newest_event(policy: str, state: str) -> None:
    parameters = policies.definition(policy)["States"][state]["Parameters"]
    assert parameters["StateMachineArn.$"] == "$$.StateMachine.Id"
    assert parameters["Input.$"] == "States.StringToJson($.newest.event)"
    name = parameters["Name.$"]
    prefix, _, _ = name.removeprefix("States.Format('").partition("{}', States.UUID())")
    arn = f"arn:aws:states:us-east-1:123456789012:express:machine:{prefix}1:2"
    assert Execution(arn, "RUNNING", None).is_started_by_holder
    assert only_one([arn], prefix) == only_one([arn], "2") == arn


@FOR_POLICIES
def test_retries_have_jitter_and_only_the_last_takes_any_fault(policy: str) -> None:
    """Executions that were refused at the same time must not try again at the same time."""
    # A Task that is not repeated says so.
    tasks = [state for state in states_of(policy) if state["Type"] == "Task"]
    for *others, last in (task["Retry"] for task in tasks):
        for retrier in (*others, last):
            if retrier["MaxAttempts"]:
                assert retrier["JitterStrategy"] == "FULL"
                assert {"IntervalSeconds", "BackoffRate"} < set(retrier)
                assert "MaxDelaySeconds" in retrier or retrier["BackoffRate"] == 1
                # Step Functions refuses anything else.
                assert retrier.get("MaxDelaySeconds", inf) >= retrier["IntervalSeconds"]
        # What records an event or takes a lock is repeated only if nothing was written.
        is_of_unwritten = set(last["ErrorEquals"]) <= THROTTLED and last["MaxAttempts"] > 0
        assert ANY_FAULT & set(last["ErrorEquals"]) or is_of_unwritten
        assert not any(ANY_FAULT & set(other["ErrorEquals"]) for other in others)
        assert "States.ALL" not in last["ErrorEquals"] or len(last["ErrorEquals"]) == 1


@FOR_POLICIES
def test_each_state_says_in_two_sentences_why_it_is_there(policy: str) -> None:
    for name, state in policies.definition(policy)["States"].items():
        # One more sentence may name the clauses of its condition: C1, C2 and so on.
        why = "".join(re.split(r"[^.:]*: [A-Z]1\b[^.]*\.", state["Comment"]))
        assert 1 <= len(re.findall(r"[.?!](?: |$)", why)) <= 2, name


@FOR_POLICIES
def test_a_call_or_a_pause_takes_seconds(policy: str) -> None:
    for state in states_of(policy):
        assert "HeartbeatSeconds" not in state  # nothing beats in an EXPRESS state machine
        assert state.get("Seconds", 0) <= 5  # five pauses between six polls: 25 s at most
        resource = state.get("Resource", "")
        if resource == GET:
            assert state["TimeoutSeconds"] == 1
        elif ":dynamodb:" in resource:
            assert state["TimeoutSeconds"] <= 2
        elif ":sqs:" in resource or BUS in str(state.get("Parameters")):
            assert state["TimeoutSeconds"] == 2


@FOR_POLICIES
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
