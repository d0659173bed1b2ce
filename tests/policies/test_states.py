"""Each state of each policy alone, through the TestState API, as its policy's table says."""

import json
import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from inorder.asl.definition import PUT_EVENTS, SEND, targets
from inorder.local_aws import LocalAws
from tests.policies.table import (
    CREATED,
    EXECUTION,
    FAULT,
    STATE_MACHINE,
    TIMED_OUT,
    Data,
    Response,
)
from tests.policies.tables import STATES, TABLES
from tests.proof.simulation.machine import first_for
from tests.support.resolved_template import template
from tests.support.state_machines import substitute

CONDITION = "ConditionExpression"
EVENT = ["an", "event"]


def run_state(
    local: LocalAws,
    policy: str,
    name: str,
    data: Any,
    mock: Data | None = None,
    event: Any = None,
    **resources: str,
) -> Data:
    """Run one state on the local AWS.

    The mock answers each retry, too. The execution's input is that of a created object, unless
    an event is given. `resources` go by the definition's ``${Name}``.
    """
    states, configuration = STATES[policy], {}
    error = (mock or {}).get("errorOutput", {}).get("error")
    if error and (retrier := first_for(states[name].get("Retry", []), error)[1]):
        configuration = {"stateConfiguration": {"retrierRetryCount": retrier["MaxAttempts"]}}
    definition = json.dumps({"StartAt": next(iter(states)), "States": states})
    execution_input = CREATED if event is None else event
    context = {
        "Execution": {"Id": EXECUTION, "Name": "test", "Input": execution_input},
        "State": {"EnteredTime": "2026-11-20T09:30:00Z"},
        "StateMachine": {
            "Id": "arn:aws:states:us-east-1:123456789012:stateMachine:test",
            "Name": STATE_MACHINE,
        },
    }
    tested: Data = local.client("stepfunctions").test_state(
        definition=substitute(definition, resources),
        stateName=name,
        input=json.dumps(data),
        roleArn="arn:aws:iam::123456789012:role/test",
        inspectionLevel="DEBUG",
        context=json.dumps(context),
        **({"mock": mock} if mock else {}),
        **configuration,
    )
    return tested


def mocked(response: Response | None) -> Data | None:
    """Give what TestState wants instead of calling the service."""
    if response is None:
        return None
    if response.error:
        return {"errorOutput": {"error": response.error, "cause": "because"}}
    return {"result": json.dumps(response.result)}


def for_states(is_wanted: Callable[[str, str], bool] = lambda *_: True) -> pytest.MarkDecorator:
    every = ((policy, name) for policy in TABLES for name in STATES[policy])
    return pytest.mark.parametrize(
        ("policy", "state"), [state for state in every if is_wanted(*state)]
    )


@for_states()
def test_each_state_has_the_output_and_successor_of_its_table(
    local: LocalAws, policy: str, state: str
) -> None:
    for row in (row for row in TABLES[policy].rows if row.state == state):
        mock = mocked(row.response)
        tested = run_state(local, policy, state, row.input, mock, event=row.event)
        assert tested.get("nextState") == row.following, row
    for expected in (output for output in TABLES[policy].outputs if output.state == state):
        mock = mocked(expected.response)
        tested = run_state(local, policy, state, expected.input, mock, event=expected.event)
        assert json.loads(tested["output"]) == expected.output


@pytest.mark.parametrize("policy", TABLES)
def test_the_table_has_every_state_transition_attempt_output_and_condition(policy: str) -> None:
    table, states = TABLES[policy], STATES[policy]
    rows = [*table.rows]
    assert {row.state for row in rows} == set(states)
    assert {(row.state, row.following) for row in rows if row.following} == {
        (name, target) for name in states for target in targets(states[name])
    }
    for row in rows:
        if row.response and row.response.error and row.response != TIMED_OUT:
            _, retrier = first_for(states[row.state].get("Retry", []), row.response.error)
            assert row.response.attempts == 1 + (retrier["MaxAttempts"] if retrier else 0), row
    passes = {name for name, state in states.items() if state["Type"] == "Pass"}
    assert passes <= {output.state for output in table.outputs}
    conditional = {
        name for name, state in states.items() if CONDITION in state.get("Parameters", {})
    }
    assert conditional <= {write.state for write in table.writes}


@for_states(lambda policy, name: name in {write.state for write in TABLES[policy].writes})
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
    named = [TABLES[policy].data[name] for name in re.findall(r"\$\.(\w+)", id_path)]
    key = {"id": (id_path.split("'")[1] if "'" in id_path else "{}").format(*named)}
    for write in (write for write in TABLES[policy].writes if write.state == state):
        created.delete_item(Key=key)
        if write.before is not None:
            created.put_item(Item=key | write.before)
        tested = run_state(local, policy, state, TABLES[policy].data, KeyTableName=created.name)
        record = created.get_item(Key=key).get("Item")
        assert record == (None if write.after is None else key | write.after)
        assert ("ConditionalCheckFailed" in tested["output"]) == write.is_refused


CAUSES = {
    "Parked": '{"Error":"Some.Fault","Cause":"because"}',
    "Not Parked": "be reached",
    "Lost": "nothing remembers the event",
}


@for_states(lambda policy, name: STATES[policy][name]["Type"] == "Fail")
def test_a_failed_execution_says_why(local: LocalAws, policy: str, state: str) -> None:
    tested = run_state(local, policy, state, {"fault": FAULT})
    assert (tested["status"], tested["error"]) == ("FAILED", "".join(state.split()))
    assert CAUSES.get(state, "") in tested["cause"]


HANDED_OVER: Data = {
    **{"outcome": "Retrying", "object_key": "b/k", "sequencer": "0B"},
    **{"execution": EXECUTION, "reason": FAULT, "event": EVENT},
}


@for_states(lambda policy, name: STATES[policy][name].get("Resource") in {SEND, PUT_EVENTS})
def test_the_retry_queue_gets_handed_over_events_with_the_reason(
    local: LocalAws, policy: str, state: str
) -> None:
    sqs, events = local.client("sqs"), local.client("events")
    name = f"states-{uuid4()}"
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    rule = template()["Resources"]["RetryEventsRule"]["Properties"]
    to_queue, _to_function = rule["Targets"]
    pattern = rule["EventPattern"] | {"detail-type": ["Retrying Event"]}  # for people who log it
    events.create_event_bus(Name=name)
    events.put_rule(Name=name, EventBusName=name, EventPattern=json.dumps(pattern))
    target = {"Id": "queue", "Arn": arn["QueueArn"], "InputPath": to_queue["InputPath"]}
    events.put_targets(Rule=name, EventBusName=name, Targets=[target])
    resources = {"RetryEventsQueueUrl": queue, "RetryEventsBusName": name}
    tested = run_state(local, policy, state, TABLES[policy].data, event=EVENT, **resources)
    assert tested["status"] == "SUCCEEDED"
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert json.loads(message["Body"]) == HANDED_OVER
