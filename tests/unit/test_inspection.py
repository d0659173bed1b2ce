"""What is read about an object, and its story, under each policy in this process."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import Result

from inorder.aws import parked, retrying
from inorder.aws.inspection import Gathering, machine_of
from inorder.aws.log import NO_DATA
from inorder.aws.parked import REPLACE, ParkedEvent
from inorder.aws.retrying import RetryingEvent
from inorder.aws.stack import Connection, Stack
from inorder.commands import queues
from inorder.errors import Failure
from inorder.model.execution import Entry, Execution, Filter
from inorder.story import Story, tell
from inorder_fence.records import object_key_of
from tests.conftest import picture
from tests.support.commands import run
from tests.support.in_process import INPUT, OUTPUT, TABLE, InProcess, MotoStateMachine
from tests.support.log_size import without_data

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
            waiting_events_queue_url=aws.waiting_queue,
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


def story_of(aws: InProcess, key: str = "x.png", **parameters: str) -> Story:
    return tell(Gathering(connection(aws, **parameters), aws.state_machine, key).facts())


def outcomes(story: Story) -> list[str]:
    return [delivery.outcome for delivery in story.deliveries]


def test_executions_are_told_with_their_cause(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", RED), aws.upload("x.png", GREEN)
    for event in (newer, older, newer):
        aws.run(event)
    story = story_of(aws)
    first = story.deliveries[0].execution
    assert outcomes(story) == ["Processed", "Superseded", "Duplicate"]
    for delivery in story.deliveries:
        caused_by = delivery.cause.execution if delivery.cause else None
        assert caused_by == (None if delivery.outcome == "Processed" else first)
        assert "(under" not in delivery.text
    assert (story.verdict.state, story.unknown) == ("right", ())


def test_the_story_says_parked_and_names_what_it_cannot_read(aws: InProcess) -> None:
    aws.run(aws.upload("x.png", b"no image"))
    aws.park()
    story = story_of(aws)
    assert (outcomes(story), story.verdict.state) == (["Parked"], "parked")
    [pending] = story.pending
    assert (pending.kind, pending.sequencer) == ("parked", story.deliveries[0].sequencer)
    assert aws.parked()  # the message is there still
    here = connection(aws)
    here.refused = {"s3", "sqs"}
    story = tell(Gathering(here, aws.state_machine, "x.png").facts())
    parts = [sentence.partition(" could")[0] for sentence in story.unknown]
    assert parts == ["The object", "The output", "The parked events", "The events that wait"]
    assert story.verdict.state == "unknown"


class WithoutData(MotoStateMachine):
    """A state machine whose log is without data, and has no line of the function yet."""

    names_keys = False

    def of_key(self, _: Filter) -> tuple[list[Execution], tuple[str, ...]]:
        return [], (NO_DATA,)

    def entries(self, arn: str) -> list[Entry]:
        entries = super().entries(arn)
        return [entry._replace(details=without_data(entry.details)) for entry in entries]


def test_without_data_the_record_names_the_keys_running_execution(aws: InProcess) -> None:
    event, stories = aws.upload("x.png", RED), []

    def invoke(payload: Any) -> Any:
        machine = WithoutData(aws.state_machine.client, aws.state_machine.arn)
        stories.append(tell(Gathering(connection(aws), machine, "x.png").facts()))
        return aws.handle(payload)

    aws.invoke = invoke
    ran = aws.run(event)
    [story] = stories
    [holder] = story.deliveries
    assert (holder.execution, holder.outcome) == (ran.arn, "Working")
    assert "It is in Invert Image." in holder.text
    lock, newest = story.pending
    assert "for event (unknown)" in lock.text
    assert newest.text.endswith("is the newest that is recorded, and it is not finished.")
    assert newest.sequencer == ran.sequencer
    assert story.verdict.state == "pending"
    assert NO_DATA in story.unknown


def test_what_ran_before_a_change_of_the_policy_is_told(aws: InProcess) -> None:
    aws.machine("every-version").run(aws.upload("x.png", RED))
    here = connection(aws)
    machine = machine_of(here)
    assert [execution.key for execution in machine.select()] == ["x.png"]
    story = tell(Gathering(here, machine, "x.png").facts())
    assert "(under every-version): Processed." in story.deliveries[0].text
    assert story.verdict.state == "wrong"
    assert "Processed under every-version, before the policy was changed." in story.verdict.text
    assert "`inorder audit --prefix x.png --repair` (and all other keys" in story.verdict.text


def parked_of(event: Any, **reason: Any) -> ParkedEvent:
    body = {"object_key": "input/x.png", "event": event, "reason": reason}
    return ParkedEvent("0123456789", "", datetime.now(UTC), body)


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ({"Error": "InvalidImage", "rejected": True}, REPLACE),
        ({"Error": "OwnRejection", "rejected": True}, REPLACE),
        ({"Error": "UnknownResult", "rejected": True}, "`inorder redrive 01234567`"),
        ({"Error": "SourceUnreadable", "rejected": True}, "`inorder redrive 01234567`"),
        ({"Error": "States.Timeout"}, "`inorder redrive 01234567`"),
    ],
)
def test_a_redrive_is_named_only_where_it_can_help(reason: dict[str, Any], helps: str) -> None:
    assert helps in parked_of({}, **reason).remedy
    nothing = replace(parked_of({}), body={"reason": reason}).remedy
    assert nothing == "Correct what sends it: a redrive would be parked again."


def test_an_event_is_overtaken_if_a_redrive_changes_nothing(aws: InProcess) -> None:
    here, event = connection(aws), aws.upload("x.png", b"no image")

    def why() -> str:
        return parked.overtaken(here, [parked_of(event)]).get("0123456789", "")

    aws.run(event)
    assert why() == ""
    newer = aws.upload("x.png", RED)
    assert why() == "Its object has been replaced or deleted since"
    aws.run(newer)
    sequencer = newer["detail"]["object"]["sequencer"]
    assert why() == f"The newer event {sequencer} has overtaken it"
    here.refused = {"s3", "dynamodb"}
    assert why() == ""
    here.refused.clear()
    event = newer
    assert why() == "It has been processed since"
    for other in ({}, {"detail": {"object": {"sequencer": 1}}}, None):
        assert parked.overtaken(here, [parked_of(other)]) == {}


def test_a_version_that_is_not_current_is_overtaken(aws: InProcess) -> None:
    aws.keep_versions()
    event = aws.upload("x.png", b"no image")
    aws.upload("x.png", RED)
    [name] = parked.overtaken(connection(aws), [parked_of(event)])
    assert name
    # Under every-version, an older version has an output of its own.
    assert not parked.overtaken(connection(aws, Policy="every-version"), [parked_of(event)])


def test_why_tells_what_was_overtaken_and_one_command_removes_it(
    aws: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("x.png", "y.png"):
        aws.run(aws.upload(key, b"no image"))
        aws.park()
    assert REPLACE in story_of(aws).verdict.text
    aws.run(aws.upload("x.png", RED))
    story = story_of(aws)
    assert (story.verdict.state, [part.kind for part in story.pending]) == ("right", ["overtaken"])
    assert "`inorder parked --remove-overtaken` removes its message." in story.pending[0].text
    monkeypatch.setattr(queues, "Connection", lambda _: connection(aws))

    def run_parked(*options: str) -> Result:
        result = run("parked", *options, env={"COLUMNS": "1000"})
        assert result.exit_code == 0, result.output
        return result

    shown = run_parked().stdout
    assert "has overtaken it: `inorder parked --remove-overtaken` removes its message." in shown
    assert REPLACE in shown
    events = [json.loads(line) for line in run_parked("--json").stdout.splitlines()]
    overtaken = {event["object_key"]: "overtaken" in event for event in events}
    assert overtaken == {"input/x.png": True, "input/y.png": False}
    result = run_parked("--remove-overtaken")
    assert "has overtaken it.\n" in result.stdout
    assert "--remove-overtaken" not in result.stdout
    assert (result.stderr.count("Removed: "), "input/x.png" in result.stderr) == (1, True)
    assert [message["object_key"] for message in aws.parked()] == ["input/y.png"]


@pytest.mark.policy("every-version")
def test_every_version_has_an_output_for_each_event(aws: InProcess) -> None:
    aws.keep_versions()
    one, two = aws.upload("x.png", RED), aws.upload("x.png", GREEN)
    for event in (two, one, one):
        aws.run(event)
    story = story_of(aws, InputBucketVersioning="Enabled")
    assert outcomes(story) == ["Processed", "Processed", "Duplicate"]
    assert (len(story.outputs), story.verdict.state) == (2, "right")
    version = one["detail"]["object"]["version-id"]
    aws.s3.delete_object(Bucket=OUTPUT, Key=f"out-x.png/{version}")
    assert story_of(aws).verdict.state == "wrong"


def test_why_tells_folder_markers_from_objects_without_output(aws: InProcess) -> None:
    for key, content, state in (("f/", b"", "none"), ("g/", RED, "right"), ("h", b"", "parked")):
        aws.run(aws.upload(key, content))
        verdict = story_of(aws, key=key).verdict
        assert (verdict.state, "folder marker" in verdict.text) == (state, key == "f/")


ACCENTED = "b\u00fccher/cat.png", "bu\u0308cher/cat.png"  # NFC, NFD


@pytest.mark.parametrize(
    ("key", "typed"),
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
def test_a_key_is_found_however_it_is_written(aws: InProcess, key: str, typed: str) -> None:
    aws.run(aws.upload(key, RED))
    for is_deleted in (False, True):
        story = story_of(aws, key=typed)
        assert (story.key, outcomes(story)) == (key, ["Processed"])
        assert story.verdict.state == ("wrong" if is_deleted else "right")
        aws.s3.delete_object(Bucket=INPUT, Key=key)


def test_why_tells_that_an_event_may_wait_in_a_pause(aws: InProcess) -> None:
    event = aws.upload("x.png", RED)
    verdict = story_of(aws, Paused="true").verdict
    assert (verdict.state, "The stack is paused: " in verdict.text) == ("pending", True)
    boto3.client("sqs").send_message(QueueUrl=aws.waiting_queue, MessageBody=json.dumps(event))
    verdict = story_of(aws).verdict
    assert (verdict.state, "was paused: 1 event waits" in verdict.text) == ("pending", True)
    aws.run(event)
    verdict = story_of(aws, Paused="true").verdict
    assert (verdict.state, "paused" in verdict.text) == ("right", False)


def test_why_suggests_similar_keys_for_a_missing_key(aws: InProcess) -> None:
    for key in ("pictures/cat.png", "pictures/Cat2.png", "dog.png", "other/kitten.png"):
        aws.upload(key, RED)
    for typed in ("pictures/cta.png", "picture/CAT.png", f"s3://{INPUT}/pictures/cat1.png"):
        verdict = story_of(aws, key=typed).verdict
        assert (verdict.state, "pictures/cat.png" in verdict.text) == ("none", True), verdict.text
        assert "dog" not in verdict.text
    assert "Keys like it" not in story_of(aws, key="1").verdict.text
    with pytest.raises(Failure, match=f"is not in the input bucket, {INPUT}"):
        story_of(aws, key="s3://elsewhere/pictures/cat.png")


@pytest.mark.parametrize("is_versioned", [False, True])
def test_why_says_that_a_version_does_not_exist(aws: InProcess, is_versioned: bool) -> None:
    if is_versioned:
        aws.keep_versions()
    older, newest = aws.upload("x.png", RED), aws.upload("x.png", GREEN)
    aws.upload("x.png.bak", RED)
    aws.run(newest)
    ids = [event["detail"]["object"].get("version-id") for event in (older, newest)]
    for version, state in ((ids[0], "right"), (ids[1], "right"), ("foo", "none")):
        here = Gathering(connection(aws), aws.state_machine, "x.png", version)
        verdict = tell(here.facts()).verdict
        assert verdict.state == state
    assert verdict.text == "There is no version foo of this object."


def test_why_says_that_older_entries_were_not_read(aws: InProcess) -> None:
    here, since = connection(aws), datetime(2026, 11, 22, tzinfo=UTC)
    for hours, number in ((-1, 1), (1, 0)):
        here.stack = replace(here.stack, created=since + timedelta(hours=hours))
        story = tell(Gathering(here, aws.state_machine, "x.png", since=since).facts())
        assert sum("were not read" in sentence for sentence in story.unknown) == number


@pytest.mark.parametrize(
    ("subject", "version"), [(f"{INPUT}/x#1", None), (f"{INPUT}#v1/x#1", "v1")]
)
def test_an_event_that_is_retried_is_found(
    aws: InProcess, monkeypatch: pytest.MonkeyPatch, subject: str, version: str | None
) -> None:
    here = connection(aws)
    times = dict.fromkeys(("since", "next"), "2026-11-22T10:00:00+00:00")
    waits: Any = {"key": "x#1", "version_id": version, "attempts": 1, "reasons": [], **times}
    events = [
        RetryingEvent.of(waits | {"object_key": named, "message_id": named})
        for named in (subject, f"other-{subject}")
    ]
    monkeypatch.setattr(retrying, "retrying_events", lambda _: events)
    [queued] = Gathering(here, aws.state_machine, "x#1").facts().queued
    assert (queued.queue, queued.id, queued.version_id) == ("retrying", subject, version)


@pytest.mark.parametrize("is_versioned", [False, True])
def test_an_event_parked_for_faults_long_ago_is_found(aws: InProcess, is_versioned: bool) -> None:
    """Its executions are no longer read, and its record is what the sweep has left."""
    if is_versioned:
        aws.keep_versions()
    event = aws.upload("x.png", RED)
    sequencer = event["detail"]["object"]["sequencer"]
    texts = {"status": "IN_PROGRESS", "event": json.dumps(event), "sequencer": sequencer}
    aws.table.put_item(Item={"id": object_key_of(event), **texts})
    body = json.dumps({"event": event, "reason": {"Error": "States.Timeout", "Cause": ""}})
    boto3.client("sqs").send_message(QueueUrl=aws.parked_queue, MessageBody=body)
    story = story_of(aws)
    assert ([part.kind for part in story.pending], story.verdict.state) == (["parked"], "parked")
