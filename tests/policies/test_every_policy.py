"""What every policy does alike: with bad input, bad objects, faults, and locks that are lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from tests.conftest import picture
from tests.in_process import InProcess, Throttled
from tests.statemachine.situations import (
    GREEN,
    OTHER_RUN,
    RED,
    SHORT,
    leave_a_dead_holder,
    lose_the_lock,
    sequencer_of,
)

LOCKING = ["latest-wins", "every-version", "first-wins"]
OBJECTS = [*LOCKING, "optimistic"]
ALL = [*OBJECTS, "content-hash"]


def for_policies(*names: str) -> pytest.MarkDecorator:
    marked = [pytest.param(name, marks=pytest.mark.policy(name)) for name in names]
    return pytest.mark.parametrize("policy", marked)


def is_free(aws: InProcess) -> bool:
    return not {"lock_token", "execution"} & set(aws.record("input/x.png"))


@for_policies(*OBJECTS)
def test_an_invalid_image_is_parked_with_the_cause_and_not_retried(
    aws: InProcess, policy: str
) -> None:
    event = aws.upload("x.png", b"no image")
    ended = aws.run(event)
    assert ended.outcome == "Parked"
    assert "Reject Object" in ended.path
    reason = json.loads(ended.cause)
    assert reason["Error"] == "InvalidImage"
    assert len(aws.invocations) == 1
    [message] = aws.parked()
    assert message["reason"] == reason
    assert message["event"] == event
    assert message["object_key"] == "input/x.png"
    assert message["execution"]
    assert aws.outputs() == []
    assert is_free(aws)
    if policy == "optimistic":
        assert aws.table.scan()["Items"] == []


@for_policies(*LOCKING)
def test_a_released_key_is_no_executions(aws: InProcess, policy: str) -> None:  # noqa: ARG001
    """If Express ran that execution again, it would take the key for its own."""
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    for event in (older, newer):
        aws.run(event)
        assert is_free(aws)


@for_policies(*LOCKING)
def test_a_failed_event_is_no_duplicate(aws: InProcess, policy: str) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.invoke = lambda _: {"outcome": "Rejected", "error": "InvalidImage", "cause": "a bug"}
    assert aws.run(event).outcome == "Parked"
    of_event = policy == "every-version"
    record = f"event:input/x.png@{sequencer_of(event)}" if of_event else "input/x.png"
    assert aws.record(record)["status"] == "FAILED"
    aws.invoke = aws.handle  # the bug is mended
    assert aws.run(event).outcome == "Processed"
    assert aws.run(event).outcome == "Duplicate"


@for_policies(*OBJECTS)
def test_a_fault_is_tried_again_and_then_parked(aws: InProcess, policy: str) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("no connection")

    aws.wait_scale = SHORT
    aws.invoke = broken
    ended = aws.run(aws.upload("x.png", picture(RED)))
    assert ended.outcome == "Parked"
    assert len(aws.invocations) == (6 if policy == "optimistic" else 2)
    assert "no connection" in ended.cause
    assert is_free(aws)


@for_policies(*OBJECTS)
def test_a_throttled_invocation_is_tried_for_longer(aws: InProcess, policy: str) -> None:  # noqa: ARG001
    refusals = [Throttled()] * 3

    def crowded(payload: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return aws.handle(payload)

    aws.wait_scale = SHORT
    aws.invoke = crowded
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    assert len(aws.invocations) == 4


@for_policies(*OBJECTS)
def test_an_answer_that_nobody_foresaw_is_parked(
    aws: InProcess,
    policy: str,  # noqa: ARG001
) -> None:
    aws.invoke = lambda _: None
    ended = aws.run(aws.upload("x.png", picture(RED)))
    assert ended.outcome == "Parked"
    assert json.loads(ended.cause)["Error"] == "UnknownResult"
    assert is_free(aws)


@for_policies(*LOCKING, "content-hash")
def test_without_the_table_the_event_is_parked(aws: InProcess, policy: str) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.wait_scale = SHORT
    aws.lose_table()
    assert aws.run(event).outcome == "Parked"
    [message] = aws.parked()
    assert message["event"] == event
    assert aws.outputs() == []
    if policy == "content-hash":
        assert aws.forwarded() == []


@for_policies(*LOCKING)
def test_without_the_queue_the_key_stays_claimed(aws: InProcess, policy: str) -> None:
    event = aws.upload("x.png", b"no image")
    aws.wait_scale = SHORT
    aws.lose_queue()
    assert aws.run(event).outcome == "NotParked"
    assert not is_free(aws)
    of_event = policy == "every-version"
    record = aws.record(f"event:input/x.png@{sequencer_of(event)}" if of_event else "input/x.png")
    assert record["status"] == "IN_PROGRESS"
    assert json.loads(record["event"]) == event


@for_policies(*ALL)
@pytest.mark.parametrize("event", [None, {"detail-type": "Object Created"}], ids=str)
def test_an_input_that_is_no_event_is_parked(
    aws: InProcess,
    policy: str,  # noqa: ARG001
    event: Any,
) -> None:
    ended = aws.run(event)
    assert ended.outcome == "InvalidEvent"
    assert ended.path[1:] == ["Park Invalid Event", "Invalid Event"]
    [message] = aws.parked()
    assert message["event"] == event


@for_policies(*LOCKING)
def test_the_lock_of_a_dead_holder_is_broken(aws: InProcess, policy: str) -> None:  # noqa: ARG001
    aws.wait_scale = SHORT
    event = aws.upload("x.png", picture(RED))
    leave_a_dead_holder(aws, "input/x.png", sequencer="00", newest="00")
    ended = aws.run(event)
    assert ended.outcome == "Processed"
    assert ended.path.count("Break Lock") == 1
    # As long as a lease; the look at which the lock is seen first is not part of it.
    waits = [state for state in ended.path if state in {"Wait For Lock", "Wait For Turn"}]
    assert len(waits) == 28
    assert is_free(aws)


@for_policies(*LOCKING)
def test_a_lost_lock_leaves_the_key_to_whoever_took_it(aws: InProcess, policy: str) -> None:  # noqa: ARG001
    event = aws.upload("x.png", picture(RED))
    lose_the_lock(aws, "input/x.png")
    assert aws.run(event).outcome == "Processed"
    record = aws.record("input/x.png")
    assert record["lock_token"] == OTHER_RUN
    assert record.get("status") != "DONE"


@for_policies(*LOCKING)
def test_a_failing_run_that_lost_its_lock_parks_and_leaves_the_key(
    aws: InProcess,
    policy: str,  # noqa: ARG001
) -> None:
    event = aws.upload("x.png", b"no image")
    lose_the_lock(aws, "input/x.png")
    assert aws.run(event).outcome == "Parked"
    assert len(aws.parked()) == 1
    record = aws.record("input/x.png")
    assert record["lock_token"] == OTHER_RUN
    assert record.get("status") != "FAILED"


def before_the_first_claim(action: Callable[[dict[str, Any]], None]) -> list[Any]:
    """Let something happen with the item that an execution is about to put."""
    claims: list[Any] = []

    def act(parameters: dict[str, Any]) -> None:
        item = parameters["Item"]
        if "lock_token" in item and isinstance(item["lock_token"], dict) and not claims:
            claims.append(item)
            action({name: value["S"] for name, value in item.items()})

    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register(
        "provide-client-params.dynamodb.PutItem", lambda params, **_: act(params)
    )
    return claims


@for_policies(*LOCKING, "content-hash")
def test_an_execution_that_holds_the_lock_already_goes_on(
    aws: InProcess,
    policy: str,
) -> None:
    """Its first claim was written but the answer was lost, or Express runs it again."""
    aws.wait_scale = SHORT
    claims = before_the_first_claim(aws.put_record)
    ended = aws.run(aws.upload("x.png", picture(RED)))
    [claim] = claims
    assert claim["claimed_at"]
    if policy != "every-version":  # there the event's own record has it
        assert claim["status"] == {"S": "IN_PROGRESS"}
    assert ended.outcome == "Processed"
    assert "Count Poll" not in ended.path


@pytest.mark.policy("latest-wins")
def test_an_execution_that_holds_the_lock_already_leaves_the_word_of_a_newer_event(
    aws: InProcess,
) -> None:
    event = aws.upload("x.png", picture(RED))
    claims = before_the_first_claim(lambda item: aws.put_record(item | {"newest": "FF"}))
    ended = aws.run(event)
    assert claims
    assert ended.outcome == "Superseded"
    assert aws.record("input/x.png")["newest"] == "FF"
