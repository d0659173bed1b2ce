"""The executions that S3 events start which come by SQS, or by SNS and SQS."""

import json
import os
from types import ModuleType
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.exceptions import ClientError

from adapt_records.notifications import adapt
from main_stack import MainStack
from tests.support.events import changed, notification, record, shipped, sqs_batch, without
from tests.support.in_process import Context
from tests.support.resolved_template import template
from tests.unit.conftest import Lines, Load, new_queue, taken_from

DELETED, MARKER = "Object Deleted", "Delete Marker Created"
KEY = "holiday/a b+c é.png"
ALL_KINDS = [
    record(KEY),
    record("holiday/beach.png", "ObjectCreated:Copy"),
    record(KEY, "ObjectRemoved:Delete"),
    record("holiday/beach.png", "ObjectRemoved:DeleteMarkerCreated"),
    record("holiday/old card.png", "LifecycleExpiration:Delete"),
    record("holiday/beach.png", "ObjectTagging:Put"),
]
ADAPTED = [each for each in ALL_KINDS if adapt(each)]
CREATED = record(KEY)


def with_key(key: Any) -> dict[str, Any]:
    return changed(CREATED, "s3.object.key", key)


class Adapter:
    """The function, what it has started, and what it has logged since the last time."""

    def __init__(self, function: ModuleType, lines: Lines) -> None:
        self.function, self.lines = function, lines
        self.parameters = {"Policy": "latest-wins", "HandleDeletions": "true"}
        self.parameters |= {"KeyPrefix": "", "KeySuffix": ""}
        outputs = {"StateMachineArn": os.environ["STATE_MACHINE_ARN"]}
        function.description.main_stack = lambda: MainStack(self.parameters, outputs)
        self.refused_keys: set[str] = set()
        self.started: list[dict[str, Any]] = []  # the inputs of all executions, oldest first
        function.states.meta.events.register(
            "provide-client-params.stepfunctions.StartExecution", self._start
        )

    def _start(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        assert "name" not in params
        event = json.loads(params["input"])
        if event["detail"]["object"]["key"] in self.refused_keys:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "StartExecution")
        self.started.append(event)
        return params | {"name": f"e{len(self.started)}"}  # moto does not choose one

    def handle(self, batch: dict[str, Any]) -> list[str]:
        """Call the handler, and give the messages that must be delivered again."""
        answer = self.function.handler(batch, Context())
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    def unadapted(self) -> list[str]:
        return taken_from(self.function.UNADAPTED_QUEUE_URL)

    def started_keys(self) -> list[str]:
        return [event["detail"]["object"]["key"] for event in self.started]


@pytest.fixture
def adapter(load: Load, lines: Lines) -> Adapter:
    function = load(
        "adapt_records.app",
        STACK_NAME="inorder",
        RECORDS_QUEUE_URL=new_queue("records"),
        UNADAPTED_RECORDS_QUEUE_URL=new_queue("unadapted"),
    )
    return Adapter(function, lines)


def test_each_event_starts_an_execution_also_in_the_envelope_of_sns(adapter: Adapter) -> None:
    envelope = {"Type": "Notification", "Message": notification(*ALL_KINDS)}
    longest = notification(changed(CREATED, "s3.object.eTag", "x" * 261_000))
    assert adapter.handle(sqs_batch(json.dumps(envelope), longest)) == []
    assert adapter.started == [*map(adapt, ADAPTED), adapter.started[-1]]
    assert adapter.started_keys()[-1] == KEY


def test_execution_gets_the_event_that_eventbridge_would_deliver(adapter: Adapter) -> None:
    adapter.handle(sqs_batch(notification(CREATED)))
    [event] = adapter.started
    expected = without(shipped("object-created"), "account")
    for path, value in {
        "detail.object.key": KEY,
        "detail.requester": "AWS:AROAEXAMPLEEXAMPLE:uploader",
        "time": "2026-11-20T09:30:00.000Z",
        "id": event["id"],
    }.items():
        expected = changed(expected, path, value)
    assert event == expected


MALFORMED = [
    *("x", " ", "7", "[" * 100_000, "{}", notification(), notification(7)),
    '{"Records": {"s3": {}}}',
    '{"Type": "Notification"}',
    '{"Type": "Notification", "Message": "Hello"}',
    *(notification(without(CREATED, path)) for path in ("eventName", "s3.bucket", "s3.object")),
    *(notification(with_key(key)) for key in ("", 7, "%ff")),  # the last is not UTF-8
    json.dumps(shipped("object-created")),  # an event of EventBridge
    notification(changed(CREATED, "s3.object.eTag", "x" * 262_144)),  # more than starts
]


def test_malformed_messages_fail_alone_and_at_once(adapter: Adapter) -> None:
    good = notification(CREATED)
    assert adapter.handle(sqs_batch(good, *MALFORMED, good)) == []
    assert adapter.unadapted() == MALFORMED
    assert adapter.started_keys() == [KEY] * 2
    errors = [line for line in adapter.lines() if line.get("level") == "ERROR"]
    assert [error["message_id"] for error in errors] == [f"m{n + 1}" for n in range(len(MALFORMED))]
    assert {error["message"] for error in errors} == {"RecordFailed"}
    assert {error["exception_name"] for error in errors} == {"MalformedNotification"}


def test_a_message_that_cannot_be_sent_on_is_delivered_again(adapter: Adapter) -> None:
    boto3.client("sqs").delete_queue(QueueUrl=adapter.function.UNADAPTED_QUEUE_URL)
    assert adapter.handle(sqs_batch(notification(CREATED), "x")) == ["m1"]


def test_message_with_one_failure_is_delivered_again(adapter: Adapter) -> None:
    keys = [with_key("1"), with_key(7), with_key("2"), with_key("3")]
    batch = sqs_batch(notification(*keys), notification())
    adapter.refused_keys = {"2"}
    assert adapter.handle(batch) == ["m0"]
    assert adapter.started_keys() == ["1", "3"]
    assert adapter.unadapted() == [notification()]  # the whole message is not sent on yet
    _, error, *_, metrics = (line for line in adapter.lines() if line.get("level") != "INFO")
    assert "ThrottlingException" in error["exception"]
    assert metrics["RecordsFailed"] == [1.0] * 3
    adapter.refused_keys = set()
    assert adapter.handle(batch) == []
    assert adapter.started_keys() == ["1", "3", "1", "2", "3"]
    assert adapter.unadapted() == [notification(*keys), notification()]
    first, *_, again, _, _ = adapter.started
    assert first == again  # so the state machine recognises the duplicate
    adapter.refused_keys = {KEY}
    with pytest.raises(BatchProcessingError):  # for the alarm: nothing of the batch is finished
        adapter.handle(sqs_batch(notification(CREATED)))
    assert adapter.lines()[-1]["RecordsFailed"] == [1.0]
    assert adapter.unadapted() == []


def test_starts_and_events_that_the_rule_does_not_name_are_logged_and_counted(
    adapter: Adapter,
) -> None:
    adapter.parameters["Policy"] = "first-wins"
    test_message = json.dumps(shipped("s3-notification-test-event"))
    assert adapter.handle(sqs_batch(notification(*ALL_KINDS), test_message)) == []
    assert adapter.started_keys() == [KEY, "holiday/beach.png"]
    *logs, metrics = adapter.lines()
    assert [log["message"] for log in logs[:2]] == ["ExecutionStarted"] * 2
    assert logs[0]["source_key"] == KEY
    assert ":execution:" in logs[0]["execution"]
    skipped = [each["eventName"] for each in ALL_KINDS[2:]] + ["s3:TestEvent"]
    assert {log["message"] for log in logs[2:]} == {"RecordSkipped"}
    assert [log["event_name"] for log in logs[2:]] == skipped
    assert metrics["ExecutionsStarted"] == [1.0] * 2
    assert metrics["RecordsSkipped"] == [1.0] * len(skipped)


@pytest.mark.parametrize(
    ("prefix", "suffix", "keys"),
    [
        ("holiday/b", "", ["holiday/beach.png"]),
        ("holiday/beach.", "h.png", []),  # the rule's pattern lets them not overlap
    ],
)
def test_keys_that_the_rule_does_not_match_are_skipped(
    adapter: Adapter, prefix: str, suffix: str, keys: list[str]
) -> None:
    adapter.parameters |= {"KeyPrefix": prefix, "KeySuffix": suffix}
    assert adapter.handle(sqs_batch(notification(*ALL_KINDS[:2]))) == []
    assert adapter.started_keys() == keys


def test_a_folder_of_the_console_is_skipped_and_counted(adapter: Adapter) -> None:
    folder, empty = (changed(record(key), "s3.object.size", 0) for key in ("photos/", "x.png"))
    assert adapter.handle(sqs_batch(notification(folder, record("videos/"), empty))) == []
    assert adapter.started_keys() == ["videos/", "x.png"]
    assert adapter.lines()[-1]["RecordsSkipped"] == [1.0]


def test_the_schedule_uses_both_queues_and_fails_if_it_cannot(adapter: Adapter) -> None:
    read = list[str]()
    adapter.function.sqs.meta.events.register(
        "provide-client-params.sqs.GetQueueAttributes",
        lambda params, **_: read.append(params["QueueUrl"]),
    )
    assert adapter.handle({"source": "aws.events", "detail-type": "Scheduled Event"}) == []
    assert read == [adapter.function.QUEUE_URL, adapter.function.UNADAPTED_QUEUE_URL]
    boto3.client("sqs").delete_queue(QueueUrl=read[1])
    with pytest.raises(ClientError):
        adapter.handle({"source": "aws.events"})


def test_a_call_that_gets_no_answer_ends_before_the_timeout(adapter: Adapter) -> None:
    resources = template("stacks/records/template.yaml")["Resources"]
    timeout = resources["AdaptRecordsFunction"]["Properties"]["Timeout"]
    function = adapter.function
    for client in (function.states, function.sqs, function.description.cloudformation):
        config = client.meta.config
        assert config.retries == {"mode": "standard", "total_max_attempts": 3}
        pauses = 1 + 2
        assert 3 * (config.connect_timeout + config.read_timeout) + pauses < timeout


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ObjectCreated:Put", "Object Created: PutObject"),
        ("ObjectCreated:Copy", "Object Created: CopyObject"),
        ("ObjectCreated:Post", "Object Created: POST Object"),
        ("ObjectCreated:Teleport", "Object Created: Teleport"),
        ("ObjectRemoved:Delete", f"{DELETED}: DeleteObject, Permanently Deleted"),
        ("s3:ObjectRemoved:DeleteMarkerCreated", f"{DELETED}: DeleteObject, {MARKER}"),
        ("LifecycleExpiration:Delete", f"{DELETED}: Lifecycle Expiration, Permanently Deleted"),
        ("LifecycleExpiration:DeleteMarkerCreated", f"{DELETED}: Lifecycle Expiration, {MARKER}"),
    ],
)
def test_kind_of_event_becomes_detail_type_and_reason(name: str, expected: str) -> None:
    event = adapt(record(KEY, name))
    assert event
    detail = event["detail"]
    deletion_type = f", {detail['deletion-type']}" if "deletion-type" in detail else ""
    assert f"{event['detail-type']}: {detail['reason']}{deletion_type}" == expected


def test_missing_field_of_a_record_is_missing_in_the_event_and_each_record_has_its_id() -> None:
    bare: dict[str, Any] = {
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "b"}, "object": {"key": "k", "versionId": None}},
    }
    event = adapt(bare)
    assert event
    assert event["detail"]["object"] == {"key": "k"}
    bare["s3"]["object"]["versionId"] = "3HL4"
    bare["s3"]["bucket"]["arn"] = "arn:aws-cn:s3:::b"
    more, other_order = adapt(bare), adapt(dict(reversed(bare.items())))
    assert more
    assert more == other_order  # its ID is the same, too
    assert more["id"] != event["id"]
    assert more["detail"]["object"] == {"key": "k", "version-id": "3HL4"}
    assert more["resources"] == ["arn:aws-cn:s3:::b"]
    assert event["resources"] == ["arn:aws:s3:::b"]
    assert {"account", "time", "region"}.isdisjoint(event)
