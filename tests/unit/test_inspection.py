"""What is read about an object, and its story, under each policy in this process."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from inorder.aws import parked, retrying
from inorder.aws.inspection import gather
from inorder.aws.retrying import RetryingEvent
from inorder.aws.stack import Connection, Stack
from inorder.story import Story, tell
from tests.conftest import picture
from tests.support.in_process import INPUT, OUTPUT, TABLE, InProcess

RED, GREEN = picture((255, 0, 0)), picture((0, 255, 0))
NOW = "2026-11-22T10:00:00+00:00"
REFUSAL = ClientError({"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, "Any")


@pytest.fixture(autouse=True)
def queues_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 0)


class LocalConnection(Connection):
    """A connection to what runs in this process."""

    def __init__(self, aws: InProcess, parameters: dict[str, str]) -> None:
        arn, queue = aws.state_machine.arn, aws.parked_queue
        self.refused: set[str] = set()
        self.stack = Stack("test", INPUT, OUTPUT, TABLE, arn, queue, "f", parameters)
        self.table = aws.table

    def client(self, service: str) -> Any:
        if service in self.refused:
            raise REFUSAL
        if service == "cloudformation":  # for which moto wants more packages
            meta = SimpleNamespace(endpoint_url="https://cloudformation.us-east-1.amazonaws.com")
            return SimpleNamespace(describe_stack_resource=self._resource, meta=meta)
        return boto3.client(service)  # type: ignore[call-overload]

    def _resource(self, **_: Any) -> dict[str, Any]:
        queue = boto3.client("sqs").create_queue(QueueName="undelivered")["QueueUrl"]
        return {"StackResourceDetail": {"PhysicalResourceId": queue}}


def connection(aws: InProcess, **parameters: str) -> LocalConnection:
    return LocalConnection(aws, {"Policy": aws.policy, "HealMinutes": "15", **parameters})


def story(aws: InProcess, key: str = "x.png", **parameters: str) -> Story:
    facts = gather(connection(aws, **parameters), aws.state_machine, key)
    return tell(facts)


def outcomes(told: Story) -> list[str]:
    return [each.outcome for each in told.deliveries]


@pytest.mark.parametrize(
    ("order", "ended"),
    [
        pytest.param(order, ended.split(), marks=pytest.mark.policy(policy))
        for policy, order, ended in [
            ("latest-wins", (2, 1, 2), "Processed Superseded Duplicate"),
            ("first-wins", (1, 2), "Processed Duplicate"),
            ("content-hash", (1, 1), "Processed Duplicate"),
            ("optimistic", (2, 1), "Processed Superseded"),
        ]
    ],
)
def test_a_policys_executions_are_told_with_their_cause(
    aws: InProcess, order: tuple[int, ...], ended: list[str]
) -> None:
    events: list[Any] = []
    for delivery, number in enumerate(order):
        while len(events) < number:
            events.append(aws.upload("x.png", (RED, GREEN)[len(events)]))
        aws.run(events[number - 1] | {"id": str(delivery)})
    told = story(aws)
    assert outcomes(told) == ended
    assert told.deliveries[1].cause
    assert told.deliveries[1].cause.execution == told.deliveries[0].execution
    assert (told.verdict.state, told.unknown) == ("right", ())


@pytest.mark.parametrize(
    ("key", "ended"), [("x.png", "Processed"), ("x" * 1022, "Parked")], ids=["short", "too long"]
)
def test_a_deletion_and_its_missing_output_are_right(aws: InProcess, key: str, ended: str) -> None:
    aws.run(aws.upload(key, RED))
    aws.run(aws.delete(key))

    def refuse(params: dict[str, Any], **_: Any) -> None:
        assert len(params["Key"]) <= 1024, "moto accepts it, but S3 refuses it"

    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register("provide-client-params.s3.HeadObject", refuse)
    told = story(aws, key)
    assert [each.is_deletion for each in told.deliveries] == [False, True]
    assert outcomes(told) == [ended, "Processed"]
    assert (told.unknown, told.verdict.state) == ((), "right")


def test_a_rejected_object_is_parked(aws: InProcess) -> None:
    aws.run(aws.upload("x.png", b"no image"))
    told = story(aws)
    assert outcomes(told) == ["Parked"]
    [pending] = told.pending
    assert (pending.kind, pending.sequencer) == ("parked", told.deliveries[0].sequencer)
    assert "InvalidImage" in pending.text
    assert told.verdict.state == "parked"
    assert aws.parked()  # the message is there still


def test_what_cannot_be_read_is_named(aws: InProcess) -> None:
    here = connection(aws)
    here.refused = {"s3", "sqs"}
    aws.run(aws.upload("x.png", b"no image"))
    told = tell(gather(here, aws.state_machine, "x.png"))
    assert outcomes(told) == ["Parked"]
    parts = [each.partition(" could")[0] for each in told.unknown]
    assert parts == ["The object", "The output", "The parked events"]
    assert told.verdict.state == "unknown"
    aws.run(aws.upload("y.png", RED))
    here.refused = {"sqs"}  # the queue is left alone if nothing can be there
    told = tell(gather(here, aws.state_machine, "y.png"))
    assert (told.verdict.state, told.unknown) == ("right", ())


@pytest.mark.policy("every-version")
def test_every_version_has_an_output_for_each_event(aws: InProcess) -> None:
    aws.keep_versions()
    one, two = aws.upload("x.png", RED), aws.upload("x.png", GREEN)
    for event in (two, one, one):
        aws.run(event)
    told = story(aws, InputBucketVersioning="Enabled")
    assert outcomes(told) == ["Processed", "Processed", "Duplicate"]
    assert len(told.outputs) == 2
    assert told.verdict.state == "right"
    version = one["detail"]["object"]["version-id"]
    only = tell(gather(connection(aws), aws.state_machine, "x.png", version))
    assert outcomes(only) == ["Processed", "Duplicate"]
    aws.s3.delete_object(Bucket=OUTPUT, Key=f"out-x.png/{version}")
    assert story(aws).verdict.state == "wrong"


def test_the_current_version_of_a_versioned_bucket_is_right(aws: InProcess) -> None:
    aws.run(aws.upload("x.png", RED))
    aws.keep_versions()
    one, two = aws.upload("x.png", RED), aws.upload("x.png", GREEN)
    aws.run(two)
    aws.run(one)
    told = story(aws)
    assert outcomes(told) == ["Processed", "Processed", "Superseded"]
    versions = [each["detail"]["object"]["version-id"] for each in (one, two)]
    assert [each.version_id for each in told.outputs] == [versions[1]]
    for version in versions:  # and then the null version, which is current again
        aws.run(aws.delete("x.png", VersionId=version))
    told = story(aws)
    assert told.verdict.state == "right"
    assert [each.version_id for each in told.outputs] == [None]


def test_an_object_without_an_event_is_told(aws: InProcess) -> None:
    aws.upload("x.png", RED)
    told = story(aws)
    assert told.verdict.state == "pending"  # it has just been uploaded
    told = story(aws, WorkFunctionArn="arn:of:mine")  # whose outputs may be elsewhere
    assert "a function of your own (WorkFunctionArn) writes it" in told.unknown[0]
    assert told.verdict.state == "unknown"


def test_a_key_with_a_number_sign_is_no_version_of_another_key(
    aws: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = connection(aws)
    here.stack = replace(here.stack, retry_events_log_group="group")
    waits = {"object_key": "input/report#1", "attempts": 1, "since": NOW, "next": NOW}
    named: list[dict[str, str]] = [{"key": "report#1"}, {"key": "report", "version_id": "1"}]
    found = [RetryingEvent(waits | {"reasons": []} | each) for each in named]
    monkeypatch.setattr(retrying, "retrying_events", lambda _: found)
    for event in named:
        [queued] = gather(here, aws.state_machine, event["key"]).queued
        assert queued.version_id == event.get("version_id")


def test_an_undelivered_event_is_found(aws: InProcess) -> None:
    event = aws.upload("x.png", RED)
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="undelivered")["QueueUrl"]
    why: Any = {"ERROR_CODE": {"DataType": "String", "StringValue": "NO_PERMISSIONS"}}
    for body in (json.dumps(event), json.dumps(aws.upload("other.png", RED)), "no JSON"):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=why)
    told = story(aws)
    [pending] = told.pending
    sequencer = event["detail"]["object"]["sequencer"]
    assert (pending.kind, pending.sequencer) == ("undelivered", sequencer)
    assert pending.text.endswith(" NO_PERMISSIONS.")
    assert told.verdict.state == "wrong"


def test_an_event_that_is_retried_has_ended_when_its_retry_has(aws: InProcess) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("no connection")

    aws.wait_scale, aws.invoke = 0.02, broken
    event = aws.upload("x.png", RED)
    assert aws.run(event).outcome == "Retrying"
    with pytest.raises(TimeoutError, match="1 of 2 executions have started"):
        aws.state_machine.wait_for(1, 0)
    aws.invoke = aws.handle
    aws.run(event)
    ended = {each.outcome for each in aws.state_machine.wait_for(1)}
    assert ended == {"Retrying", "Processed"}
