"""Whoever may send events, or write to a queue or a log, ends no list and no story by that."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder.aws import retrying
from inorder.aws.log import AwsStateMachine
from inorder.aws.parked import ERRORS, ParkedEvent
from inorder.commands.executions import row
from inorder.model.execution import Execution, described, to_json
from inorder.story import tell
from inorder.story.parts import Facts, Queued, Source

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
LONG = "Z" * 52  # as long as the sequencer of a repair
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from([LONG, "F" * 52, "0" * 52, "0001-01-01T00:00:00+14:00", "\ud800"]),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.just(10**30), TEXTS)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def fields(**usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw an object whose fields may be missing, or anything."""
    named = {"-".join(name.split("_")): value | ANYTHING for name, value in usual.items()}
    return st.fixed_dictionaries({}, optional=named)


OBJECTS = fields(key=st.just("x.png"), sequencer=TEXTS, version_id=TEXTS, etag=TEXTS)
RETRY = fields(attempt=SCALARS, since=TEXTS, reasons=st.lists(TEXTS, max_size=2))
EVENTS = ANYTHING | fields(
    detail=fields(object=OBJECTS, bucket=fields(name=TEXTS)), time=TEXTS, retry=RETRY
)
OUTPUTS = ANYTHING | fields(outcome=TEXTS, object_key=TEXTS, sequencer=TEXTS, reason=ANYTHING)


KEEPS: tuple[Literal["newest", "first", "each"], ...] = ("newest", "first", "each")


@given(event=EVENTS, output=OUTPUTS, cause=TEXTS, status=st.sampled_from(["RUNNING", "FAILED"]))
def test_any_event_and_output_can_be_told(event: Any, output: Any, cause: str, status: str) -> None:
    arn = "arn:aws:states:r:1:execution:machine:x"
    execution = Execution(arn, status, event, output, "E", cause, (), NOW, None)
    assert len(row(execution, 8)) == 8
    assert json.loads(to_json(described(execution)))["arn"] == arn
    for keeps in KEEPS:
        other = Execution(f"{arn}y", "SUCCEEDED", event, {"outcome": "Duplicate"}, started=NOW)
        facts = Facts(
            *("input", "x.png", "latest-wins", keeps, NOW, (execution, other)),
            records=({"id": "input/x.png", "event": json.dumps(event), "status": "IN_PROGRESS"},),
            queued=(Queued("parked", "m", None, None, NOW, "E", event=event),),
            source=Source("e"),
        )
        assert to_json(tell(facts).sentences())


WAITING = fields(
    message=st.just("RetryWaiting"),
    message_id=TEXTS,
    attempts=st.integers(),
    reasons=st.lists(TEXTS, max_size=2),
    since=st.just(NOW.isoformat()),
    next=st.just(NOW.isoformat()),
)
ENTRIES = ANYTHING | fields(
    id=st.sampled_from(["1", "2"]),
    type=st.sampled_from(
        ["ExecutionStarted", "TaskStateEntered", "TaskStateExited", "TaskFailed", "ExecutionFailed"]
    ),
    execution_arn=st.just("arn:x:y"),
    event_timestamp=st.sampled_from(["1795000000000", "9" * 30]),
    details=fields(input=TEXTS, output=TEXTS, name=TEXTS, error=TEXTS, inputDetails=ANYTHING),
)


@given(lines=st.lists((ENTRIES | WAITING).map(json.dumps) | TEXTS, max_size=6))
def test_any_line_of_a_log_can_be_read(lines: list[str]) -> None:
    events = [{"message": line, "timestamp": 1_795_000_000_000} for line in lines]
    pages = SimpleNamespace(paginate=lambda **_: [{"events": events}])
    logs = SimpleNamespace(get_paginator=lambda _: pages)
    machine = AwsStateMachine(None, "arn", logs, "group")
    for execution in machine.select():
        assert to_json(described(machine.describe(execution.arn)))
    stack = SimpleNamespace(function_log_group="group")
    aws: Any = SimpleNamespace(client=lambda _: logs, stack=stack)
    for event in retrying.retrying_events(aws):
        assert [event.id, event.subject, event.since, event.next, event.reasons, event.attempts]


@pytest.mark.parametrize("attributes", [[], ERRORS])
@given(body=EVENTS.map(json.dumps) | TEXTS)
def test_any_message_of_a_queue_can_be_listed(attributes: list[str], body: str) -> None:
    named = {name: {"StringValue": "E"} for name in attributes}
    message = {"MessageId": "m", "ReceiptHandle": "r", "Body": body, "MessageAttributes": named}
    event = ParkedEvent.of(message | {"Attributes": {"SentTimestamp": "1795000000000"}})
    assert json.dumps([event.body, event.subject, event.sequencer, event.reason])
