"""What is read about an object, and its story, under each policy in this process."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from inorder.aws import parked, retrying
from inorder.aws.inspection import Gathering
from inorder.aws.retrying import RetryingEvent
from inorder.aws.stack import Connection, Stack
from inorder.errors import Failure
from inorder.story import Story, tell
from tests.conftest import picture
from tests.support.in_process import INPUT, OUTPUT, TABLE, InProcess

RED, GREEN = picture((255, 0, 0)), picture((0, 255, 0))
REFUSAL = ClientError({"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, "Any")


@pytest.fixture(autouse=True)
def queues_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 0)


class LocalConnection(Connection):
    """A connection to what runs in this process."""

    def __init__(self, aws: InProcess, parameters: dict[str, str]) -> None:
        self.refused: set[str] = set()
        self.stack = Stack(
            *("test", INPUT, OUTPUT, TABLE, aws.state_machine.arn, aws.parked_queue),
            *(aws.retry_queue, "f", aws.function_log_group, parameters),
        )
        self.table = aws.table

    def client(self, service: str) -> Any:
        if service in self.refused:
            raise REFUSAL
        if service == "cloudformation":  # for which moto wants more packages
            meta = SimpleNamespace(endpoint_url="https://cloudformation.us-east-1.amazonaws.com")
            return SimpleNamespace(meta=meta)
        return boto3.client(service)  # type: ignore[call-overload]


def connection(aws: InProcess, **parameters: str) -> LocalConnection:
    return LocalConnection(aws, {"Policy": aws.policy, **parameters})


def story(aws: InProcess, key: str = "x.png", **parameters: str) -> Story:
    return tell(Gathering(connection(aws, **parameters), aws.state_machine, key).facts())


def outcomes(told: Story) -> list[str]:
    return [each.outcome for each in told.deliveries]


def test_executions_are_told_with_their_cause(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", RED), aws.upload("x.png", GREEN)
    for event in (newer, older, newer):
        aws.run(event)
    told = story(aws)
    first = told.deliveries[0].execution
    assert outcomes(told) == ["Processed", "Superseded", "Duplicate"]
    for each in told.deliveries:
        caused_by = each.cause.execution if each.cause else None
        assert caused_by == (None if each.outcome == "Processed" else first)
    assert (told.verdict.state, told.unknown) == ("right", ())


def test_a_rejected_object_is_parked_and_what_cannot_be_read_is_named(aws: InProcess) -> None:
    aws.run(aws.upload("x.png", b"no image"))
    aws.park()
    told = story(aws)
    assert (outcomes(told), told.verdict.state) == (["Parked"], "parked")
    [pending] = told.pending
    assert (pending.kind, pending.sequencer) == ("parked", told.deliveries[0].sequencer)
    assert aws.parked()  # the message is there still
    here = connection(aws)
    here.refused = {"s3", "sqs"}
    told = tell(Gathering(here, aws.state_machine, "x.png").facts())
    parts = [each.partition(" could")[0] for each in told.unknown]
    assert parts == ["The object", "The output", "The parked events"]
    assert told.verdict.state == "unknown"


@pytest.mark.policy("every-version")
def test_every_version_has_an_output_for_each_event(aws: InProcess) -> None:
    aws.keep_versions()
    one, two = aws.upload("x.png", RED), aws.upload("x.png", GREEN)
    for event in (two, one, one):
        aws.run(event)
    told = story(aws, InputBucketVersioning="Enabled")
    assert outcomes(told) == ["Processed", "Processed", "Duplicate"]
    assert (len(told.outputs), told.verdict.state) == (2, "right")
    version = one["detail"]["object"]["version-id"]
    aws.s3.delete_object(Bucket=OUTPUT, Key=f"out-x.png/{version}")
    assert story(aws).verdict.state == "wrong"


def test_a_folder_marker_is_told_from_an_object_without_an_output(aws: InProcess) -> None:
    for key, content, state in (("f/", b"", "none"), ("g/", RED, "right"), ("h", b"", "parked")):
        aws.run(aws.upload(key, content))
        verdict = story(aws, key=key).verdict
        assert (verdict.state, "folder marker" in verdict.text) == (state, key == "f/")


ACCENTED = "b\u00fccher/cat.png", "bu\u0308cher/cat.png"  # NFC, NFD


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("x.png", f"s3://{INPUT}/x.png"),
        ("x.png", f"{INPUT}/x.png"),  # as records and queues name it
        ("x.png", "/x.png"),
        ("/x.png", "/x.png"),
        ("s3://x.png", "s3://x.png"),
        ACCENTED,
        ACCENTED[::-1],
    ],
)
def test_a_key_is_found_however_it_is_written(aws: InProcess, key: str, given: str) -> None:
    aws.run(aws.upload(key, RED))
    for is_deleted in (False, True):
        told = story(aws, key=given)
        assert (told.key, outcomes(told)) == (key, ["Processed"])
        assert told.verdict.state == ("wrong" if is_deleted else "right")
        aws.s3.delete_object(Bucket=INPUT, Key=key)


def test_a_key_that_is_not_there_is_told_with_keys_like_it(aws: InProcess) -> None:
    for key in ("pictures/cat.png", "pictures/Cat2.png", "dog.png", "other/kitten.png"):
        aws.upload(key, RED)
    for given in ("pictures/cta.png", "picture/CAT.png", f"s3://{INPUT}/pictures/cat1.png"):
        verdict = story(aws, key=given).verdict
        assert (verdict.state, "pictures/cat.png" in verdict.text) == ("none", True), verdict.text
        assert "dog" not in verdict.text
    assert "Keys like it" not in story(aws, key="1").verdict.text
    with pytest.raises(Failure, match=f"is not in the input bucket, {INPUT}"):
        story(aws, key="s3://elsewhere/pictures/cat.png")


def test_what_is_older_than_what_was_read_is_named_if_the_stack_is_older(aws: InProcess) -> None:
    here, since = connection(aws), datetime(2026, 11, 22, tzinfo=UTC)
    for hours, number in ((-1, 1), (1, 0)):
        here.stack = replace(here.stack, created=since + timedelta(hours=hours))
        told = tell(Gathering(here, aws.state_machine, "x.png", since=since).facts())
        assert sum("were not read" in each for each in told.unknown) == number


def test_an_event_that_is_retried_is_found(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    here = connection(aws)
    times = dict.fromkeys(("since", "next"), "2026-11-22T10:00:00+00:00")
    waits = {"object_key": "input/x#1", "key": "x#1", "attempts": 1, "reasons": [], **times}
    event = RetryingEvent.of(waits | {"message_id": "m"})
    monkeypatch.setattr(retrying, "retrying_events", lambda _: [event])
    [queued] = Gathering(here, aws.state_machine, "x#1").facts().queued
    assert (queued.queue, queued.version_id) == ("retrying", None)
