"""DynamoDB and SQS failing under the state machine: refused calls, and answers that get lost."""

from __future__ import annotations

import pytest

from tests.conftest import picture
from tests.in_process import Faults, InProcess

RED = (255, 0, 0)


@pytest.fixture
def faults(aws: InProcess) -> Faults:  # noqa: ARG001 - the session that it makes
    return Faults()


@pytest.mark.parametrize("operation", ["dynamodb.PutItem", "dynamodb.UpdateItem"])
def test_a_busy_table_is_asked_again(aws: InProcess, faults: Faults, operation: str) -> None:
    refused = faults.refuse(operation, times=2)
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    assert len(refused) == 2
    assert len(aws.invocations) == 1
    assert aws.record("input/x.png")["status"] == "DONE"


def test_a_busy_table_at_a_look_is_asked_again(aws: InProcess, faults: Faults) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    refused = faults.refuse("dynamodb.GetItem", times=1)
    assert aws.run(event).outcome == "Duplicate"
    assert len(refused) == 1


def test_a_table_that_stays_busy_parks_the_event(aws: InProcess, faults: Faults) -> None:
    event = aws.upload("x.png", picture(RED))
    faults.refuse("dynamodb.PutItem", times=99)
    ended = aws.run(event)
    assert ended.outcome == "Parked"
    assert "ThrottlingException" in ended.cause
    assert [message["event"] for message in aws.parked()] == [event]
    assert aws.invocations == []


def test_a_key_that_cannot_be_released_is_parked_and_still_locked(
    aws: InProcess, faults: Faults
) -> None:
    event = aws.upload("x.png", picture(RED))
    faults.refuse("dynamodb.UpdateItem", times=99)
    assert aws.run(event).outcome == "Parked"
    assert [message["event"] for message in aws.parked()] == [event]
    assert "lock_token" in aws.record("input/x.png")


def test_a_claim_whose_answer_is_lost_is_still_a_claim(aws: InProcess, faults: Faults) -> None:
    lost = faults.lose_the_answer("dynamodb.PutItem", times=1)
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    assert len(lost) == 1
    assert len(aws.invocations) == 1


def test_a_release_whose_answer_is_lost_is_still_a_release(aws: InProcess, faults: Faults) -> None:
    lost = faults.lose_the_answer("dynamodb.UpdateItem", times=1)
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    assert len(lost) == 1
    record = aws.record("input/x.png")
    assert record["status"] == "DONE"
    assert "lock_token" not in record


def test_a_failure_whose_record_is_lost_is_parked_all_the_same(
    aws: InProcess, faults: Faults
) -> None:
    event = aws.upload("x.png", b"no image")
    lost = faults.lose_the_answer("dynamodb.UpdateItem", times=1)
    assert aws.run(event).outcome == "Parked"
    assert len(lost) == 1
    assert [message["event"] for message in aws.parked()] == [event]
    assert aws.record("input/x.png")["status"] == "FAILED"


def test_a_queue_that_is_busy_for_a_while_gets_the_event(aws: InProcess, faults: Faults) -> None:
    event = aws.upload("x.png", b"no image")
    refused = faults.refuse("sqs.SendMessage", times=2)
    assert aws.run(event).outcome == "Parked"
    assert len(refused) == 2
    assert [message["event"] for message in aws.parked()] == [event]


def test_an_invalid_event_waits_longer_for_the_queue(aws: InProcess, faults: Faults) -> None:
    refused = faults.refuse("sqs.SendMessage", times=3)
    assert aws.run({"no": "event"}).outcome == "InvalidEvent"
    assert len(refused) == 3
    assert [message["event"] for message in aws.parked()] == [{"no": "event"}]
