"""Each state of each policy alone, through the TestState API, as its policy's table says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from inorder.asl.definition import targets
from inorder.local_aws import LocalAws
from tests.engines.on_aws import on_aws
from tests.policies.common import DELETED, EXECUTION, FAULT, RESPONSES, Data, item
from tests.policies.tables import STATES, TABLES

AWS = on_aws()  # `make test-aws STACK=name` runs these tests there
CONDITION = "ConditionExpression"


def run_state(
    local: LocalAws,
    policy: str,
    name: str,
    data: Any,
    mock: Data | None = None,
    table: str = "${KeyTableName}",
    queue: str = "${ParkedEventsQueueUrl}",
    event: Any = None,
) -> Data:
    parameters = {"mock": mock} if mock else {}
    given = TABLES[policy].event if event is None else event
    context = {
        "Execution": {"Id": EXECUTION, "Name": "test", "Input": given},
        "State": {"EnteredTime": "2026-11-20T09:30:00Z"},
    }
    # A table or a queue that a test has made is on the local AWS.
    aws = AWS if (table, queue) == ("${KeyTableName}", "${ParkedEventsQueueUrl}") else None
    states: Any = aws.states if aws else local.client("stepfunctions")
    definition = json.dumps(STATES[policy][name]).replace("${KeyTableName}", table)
    tested: Data = states.test_state(
        definition=definition.replace("${ParkedEventsQueueUrl}", queue),
        input=json.dumps(data),
        roleArn=aws.role if aws else "arn:aws:iam::123456789012:role/test",
        context=json.dumps(context),
        **parameters,
    )
    return tested


def mocked(response: str) -> Data | None:
    """Give what TestState wants instead of calling the service."""
    if not response:
        return None
    [(kind, content)] = RESPONSES[response].items()
    if kind == "Return":
        return {"result": json.dumps(content)}
    return {"errorOutput": {"error": content["Error"], "cause": content["Cause"]}}


def states_where(is_wanted: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """List the states of all policies, each with its policy, that are wanted."""
    return [
        (policy, name) for policy in TABLES for name in STATES[policy] if is_wanted(policy, name)
    ]


@pytest.mark.parametrize(("policy", "state"), states_where(lambda *_: True))
def test_each_state_is_followed_by_the_state_of_the_table(
    local: LocalAws, policy: str, state: str
) -> None:
    rows = [row for row in TABLES[policy].rows if row.state == state]
    tested = [run_state(local, policy, state, row.input, mocked(row.response)) for row in rows]
    wrong = [
        (row, found.get("nextState"))
        for row, found in zip(rows, tested, strict=True)
        if found.get("nextState") != row.following
    ]
    assert wrong == []


@pytest.mark.parametrize("policy", TABLES)
def test_the_table_has_every_state_transition_output_and_condition(policy: str) -> None:
    table, states = TABLES[policy], STATES[policy]
    assert {row.state for row in table.rows} == set(states)
    assert {(row.state, row.following) for row in table.rows if row.following} == {
        (name, target) for name in states for target in targets(states[name])
    }
    passes = {name for name, state in states.items() if state["Type"] == "Pass"}
    assert passes <= {output.state for output in table.outputs}
    conditional = {
        name for name, state in states.items() if CONDITION in state.get("Parameters", {})
    }
    assert conditional <= {write.state for write in table.writes}


@pytest.mark.parametrize(
    ("policy", "state"),
    states_where(lambda policy, name: name in {each.state for each in TABLES[policy].outputs}),
)
def test_each_state_gives_what_the_table_says(local: LocalAws, policy: str, state: str) -> None:
    for each in (output for output in TABLES[policy].outputs if output.state == state):
        tested = run_state(
            local, policy, state, each.input, mocked(each.response), event=each.event
        )
        assert json.loads(tested["output"]) == each.output


@pytest.mark.parametrize(
    ("policy", "state"),
    states_where(lambda policy, name: name in {each.state for each in TABLES[policy].writes}),
)
def test_each_conditional_write_changes_only_the_records_that_it_may(
    local: LocalAws, policy: str, state: str
) -> None:
    created = local.session.resource("dynamodb", endpoint_url=local.endpoint_url).create_table(
        TableName=f"states-{uuid4()}",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    parameters = STATES[policy][state]["Parameters"]
    id_path = parameters.get("Key", parameters.get("Item"))["id"]["S.$"]
    key = {"id": TABLES[policy].data["ids"][id_path.removeprefix("$.ids.")]}
    for write in (each for each in TABLES[policy].writes if each.state == state):
        created.delete_item(Key=key)
        if write.before is not None:
            created.put_item(Item=key | write.before)
        tested = run_state(local, policy, state, TABLES[policy].data, table=created.name)
        found = created.get_item(Key=key).get("Item")
        assert found == (None if write.after is None else key | write.after)
        assert ("ConditionalCheckFailed" in tested["output"]) == write.is_refused


@pytest.mark.parametrize(
    "policy",
    [
        policy
        for policy in TABLES
        if "lock_token.$" in STATES[policy].get("Prepare Event", {}).get("Parameters", {})
    ],
)
def test_each_execution_has_a_lock_token_of_its_own(local: LocalAws, policy: str) -> None:
    outputs = [run_state(local, policy, "Prepare Event", {})["output"] for _ in range(5)]
    assert len({json.loads(output)["lock_token"] for output in outputs}) == 5


CAUSES = {
    "Parked": '{"Error":"Some.Fault","Cause":"because"}',
    "Invalid Event": "The input is not a valid event.",
    "Not Parked": "could not be reached",
    "Lost": "nothing remembers the event",
}


@pytest.mark.parametrize(
    ("policy", "state"), states_where(lambda policy, name: STATES[policy][name]["Type"] == "Fail")
)
def test_a_failed_execution_says_why(local: LocalAws, policy: str, state: str) -> None:
    tested = run_state(local, policy, state, {"fault": FAULT})
    assert tested["status"] == "FAILED"
    assert tested["error"] == state.replace(" ", "")
    assert CAUSES[state] in tested["cause"]


def parked_by(local: LocalAws, policy: str, state: str, data: Any, event: Any = None) -> Any:
    """Run a state that sends a message to a queue, and give the message."""
    sqs = local.client("sqs")
    queue = sqs.create_queue(QueueName=f"states-{uuid4()}")["QueueUrl"]
    tested = run_state(local, policy, state, data, queue=queue, event=event)
    assert tested["status"] == "SUCCEEDED"
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    return json.loads(message["Body"])


@pytest.mark.parametrize("policy", [policy for policy in TABLES if "Park Event" in STATES[policy]])
def test_a_parked_event_is_in_the_queue_with_the_reason(local: LocalAws, policy: str) -> None:
    data = TABLES[policy].data
    told = (
        {"content": "b/k"} if policy == "content-hash" else {"object_key": "b/k", "sequencer": "0B"}
    )
    assert parked_by(local, policy, "Park Event", data) == told | {
        "outcome": "Parked",
        "execution": EXECUTION,
        "reason": FAULT,
        "event": TABLES[policy].event,
    }


@pytest.mark.parametrize(
    "policy", [policy for policy in TABLES if "Park Invalid Event" in STATES[policy]]
)
def test_an_invalid_event_is_in_the_queue_as_it_came(local: LocalAws, policy: str) -> None:
    message = parked_by(local, policy, "Park Invalid Event", {}, ["not", "an", "event"])
    reason = message.pop("reason")
    assert reason["Error"] == "InvalidEvent"
    assert reason["Cause"].startswith("This is not an ")
    assert message == {
        "outcome": "Parked",
        "execution": EXECUTION,
        "event": ["not", "an", "event"],
    }


def test_the_event_of_a_dead_holder_is_parked_from_its_record(local: LocalAws) -> None:
    data = TABLES["first-wins"].data
    held = data | {"record": item(event=json.dumps(DELETED), lock_token="theirs")}
    message = parked_by(local, "first-wins", "Park Lost Event", held)
    reason = message.pop("reason")
    assert reason["Error"] == "HolderDied"
    assert "for a whole lease" in reason["Cause"]
    assert message == {
        "outcome": "Parked",
        "object_key": "b/k",
        "execution": EXECUTION,
        "event": DELETED,
    }
