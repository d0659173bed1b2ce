"""DynamoDB and SQS failing under the state machine: refused calls, and answers that get lost."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from tests.conftest import picture
from tests.in_process import InProcess

RED = (255, 0, 0)


class Faults:
    """Lets calls of the state machine to DynamoDB and SQS fail."""

    def refuse(self, operation: str, times: int) -> list[str]:
        """Answer that the service is too busy, so that nothing is done; give the refusals."""
        refused: list[str] = []

        def busy(**_: Any) -> tuple[AWSResponse, dict[str, Any]] | None:
            if len(refused) >= times:
                return None
            refused.append(operation)
            error = {"Error": {"Code": "ThrottlingException", "Message": "made by a test"}}
            metadata = {"ResponseMetadata": {"HTTPStatusCode": 400, "RequestId": "test"}}
            return AWSResponse("", 400, {}, None), error | metadata  # type: ignore[arg-type]

        self._events.register_first(f"before-call.{operation}", busy)
        return refused

    def lose_the_answer(self, operation: str, times: int) -> list[str]:
        """Let a call be done, and answer that it failed; give the losses."""
        lost: list[str] = []

        def broken(parsed: dict[str, Any], **_: Any) -> None:
            if len(lost) < times and "Error" not in parsed:
                lost.append(operation)
                parsed["Error"] = {"Code": "InternalServerError", "Message": "made by a test"}
                parsed["ResponseMetadata"]["HTTPStatusCode"] = 500

        self._events.register_first(f"after-call.{operation}", broken)
        return lost

    @property
    def _events(self) -> Any:
        assert boto3.DEFAULT_SESSION
        return boto3.DEFAULT_SESSION.events


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
