"""What the ASL files and the template alone tell, beside what `inorder check` finds."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT
from inorder.asl.definition import CONDITION_FAILED, EXPRESS_SECONDS, GET, INVOKE
from inorder.asl.lease import NOT_WRITTEN, lease_numbers, longest_execution
from inorder.model import policies
from inorder.model.execution import Execution

EACH = pytest.mark.parametrize("policy", policies.names())
# The seconds in the Comment of a policy with a lock.
STATED = re.compile(
    r"a holder needs its lock for at most (\d+) .* a lease is (\d+) .*"
    r" a waiter gives up after (\d+) .* the longest execution takes (\d+) of"
)
FUNCTIONS = {
    "${InvertImageFunctionArn}": "InvertImageFunction",
    "${CanonicalHashFunctionArn}": "CanonicalHashFunction",
}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml_parse((PROJECT / "template.yaml").read_text())
    return parsed


def states_of(policy: str) -> list[dict[str, Any]]:
    return list(policies.definition(policy)["States"].values())


@pytest.mark.parametrize(
    "policy", policies.like("latest-wins", "every-version", "first-wins", "content-hash")
)
def test_holder_lease_and_waiter_have_the_seconds_that_the_comment_states(policy: str) -> None:
    definition = policies.definition(policy)
    numbers, stated = lease_numbers(definition), STATED.search(definition["Comment"])
    assert stated
    assert numbers == tuple(map(int, stated.groups()))
    assert numbers.holder < numbers.lease < numbers.waiter
    assert numbers.longest_execution < EXPRESS_SECONDS


@pytest.mark.parametrize("policy", policies.like("latest-wins"))
def test_an_execution_that_a_holder_starts_is_known_by_its_name(policy: str) -> None:
    name = policies.definition(policy)["States"]["Start Newest Event"]["Parameters"]["Name.$"]
    prefix, _, _ = name.removeprefix("States.Format('").partition("{}', States.UUID())")
    arn = f"arn:aws:states:us-east-1:123456789012:express:machine:{prefix}1:2"
    assert Execution(arn, "RUNNING", None).is_started_by_holder


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (policy, seconds)
        for shipped, seconds in {"optimistic": 194, "uncoordinated": 54}.items()
        for policy in policies.like(shipped)
    ],
)
def test_an_execution_without_a_lock_ends_before_express_stops_it(
    policy: str, seconds: int
) -> None:
    assert longest_execution(policies.definition(policy)) == seconds
    assert seconds < EXPRESS_SECONDS


def senders_of(policy: str) -> list[dict[str, Any]]:
    """Give the states that send an event to a queue or to EventBridge."""
    return [
        state
        for name, state in policies.definition(policy)["States"].items()
        if name.split()[0] in {"Park", "Retry", "Send"}
        and state["Type"] == "Task"
        and name != "Retry Lost Event"  # which is not the last that can be done
    ]


@EACH
def test_an_event_is_sent_within_seconds_or_in_another_way_that_matches_the_rule(
    policy: str, template: dict[str, Any]
) -> None:
    senders = senders_of(policy)
    for state in senders:
        assert state["TimeoutSeconds"] == 2
        assert [retrier["MaxAttempts"] for retrier in state["Retry"]] == [1]
    sent = [s["Parameters"]["Entries"] for s in senders if "Entries" in s["Parameters"]]
    pattern = template["Resources"]["RetryEventsRule"]["Properties"]["EventPattern"]
    assert len(sent) == (0 if policy in policies.like("uncoordinated") else 2)
    for [entry] in sent:
        assert entry["EventBusName"] == "${RetryEventsBusName}"
        assert [entry["Source"]] == pattern["source"]
        assert entry["DetailType"] == "Retrying Event"  # for people who archive or log the bus


@EACH
def test_every_delay_before_a_retry_is_random_and_bounded(policy: str) -> None:
    """Executions that were refused at the same time must not try again at the same time."""
    retriers = itertools.chain(*(state.get("Retry", []) for state in states_of(policy)))
    for retrier in retriers:
        if retrier["MaxAttempts"]:
            assert retrier["JitterStrategy"] == "FULL"
            assert {"IntervalSeconds", "BackoffRate", "MaxDelaySeconds"} < set(retrier)


@EACH
def test_only_the_last_retrier_of_a_state_is_for_any_fault(policy: str) -> None:
    everything = {"States.ALL", "States.TaskFailed"}
    for *others, last in (state["Retry"] for state in states_of(policy) if "Retry" in state):
        # What records an event or takes a lock is repeated only if nothing was written.
        is_of_unwritten = set(last["ErrorEquals"]) < NOT_WRITTEN and last["MaxAttempts"] > 0
        assert everything & set(last["ErrorEquals"]) or is_of_unwritten
        assert [each for each in others if everything & set(each["ErrorEquals"])] == []


@EACH
def test_a_refused_write_is_not_retried_each_read_is_consistent_and_both_take_seconds(
    policy: str,
) -> None:
    for state in states_of(policy):
        if "ConditionExpression" in state.get("Parameters", {}):
            first = state["Retry"][0]
            refused = {"States.ALL", "States.TaskFailed", CONDITION_FAILED[0]}
            assert first["MaxAttempts"] == 0 or not refused & set(first["ErrorEquals"])
        if state.get("Resource") == GET:
            assert state["Parameters"]["ConsistentRead"] is True
            assert state["TimeoutSeconds"] == 1
        elif ":dynamodb:" in state.get("Resource", ""):
            assert state["TimeoutSeconds"] <= 2


@EACH
def test_a_function_ends_before_the_state_that_waits_for_it(
    template: dict[str, Any], policy: str
) -> None:
    invoking = [state for state in states_of(policy) if state.get("Resource") == INVOKE]
    assert invoking
    for state in invoking:
        function = FUNCTIONS[state["Parameters"]["FunctionName"]]
        timeout = template["Resources"][function]["Properties"]["Timeout"]
        assert timeout < state["TimeoutSeconds"]
        # A slow one of the demonstration still ends.
        slow = template["Parameters"]["SlowSeconds"]["MaxValue"]
        assert function != "InvertImageFunction" or slow < timeout
