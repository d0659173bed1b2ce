"""S3 notifications by SQS, SNS or Kinesis start the same executions as events by EventBridge."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.events import shipped
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import CYAN, RED, SECONDS, Workflow

KEY = "holiday/a b+c%2B é.png"
EVENTS = ["s3:ObjectCreated:*"]
STREAM = "records"


class Adapting(Workflow):
    """A stack with the function that adapts records, and what sends records to it."""

    def __init__(self, local: LocalAws) -> None:
        self.sns, self.sqs, self.kinesis = map(local.client, ("sns", "sqs", "kinesis"))
        self.kinesis.create_stream(StreamName=STREAM, ShardCount=1)
        self.kinesis.get_waiter("stream_exists").wait(StreamName=STREAM)
        stream = self.kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
        parameters = {"AdaptRecords": "true", "RecordsStreamArn": stream["StreamARN"]}
        super().__init__(local, deploy(local, "adapting", parameters))
        [described] = local.client("cloudformation").describe_stacks(StackName="adapting")["Stacks"]
        outputs = {each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]}
        self.queue = outputs["RecordsQueueUrl"]
        self.dead_letter_queue = outputs["UnadaptedRecordsQueueUrl"]

    def queue_attributes(self, url: str) -> dict[str, str]:
        attributes: dict[str, str] = self.sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=["All"]
        )["Attributes"]
        return attributes

    def unadapted(self) -> str:
        messages: list[Any] = []

        def came() -> bool:
            url = self.dead_letter_queue
            messages.extend(self.sqs.receive_message(QueueUrl=url).get("Messages", []))
            return bool(messages)

        wait_until(came, SECONDS, "the dead letter")
        [message] = messages
        self.sqs.delete_message(
            QueueUrl=self.dead_letter_queue, ReceiptHandle=message["ReceiptHandle"]
        )
        body: str = message["Body"]
        return body

    def notify(self, **configuration: Any) -> None:
        """Let the input bucket send its events elsewhere instead of to EventBridge."""
        self.s3.put_bucket_notification_configuration(
            Bucket=self.stack.input_bucket, NotificationConfiguration=configuration
        )

    def notification(self, key: str) -> str:
        """Upload a picture without any notification by S3, and build its notification."""
        self.notify()
        bucket = self.stack.input_bucket
        etag = self.s3.put_object(Bucket=bucket, Key=key, Body=picture(RED))["ETag"]
        record = shipped("s3-notification-all-kinds")["Records"][0]
        record["s3"]["bucket"] = {"name": bucket}
        record["s3"]["object"] |= {"key": key, "eTag": etag.strip('"')}
        return json.dumps({"Records": [record]})

    def assert_processed(self, key: str) -> None:
        [execution] = self.of_key(key, 1)
        assert execution.outcome == "Processed", execution
        assert self.colour(key) == CYAN

    def assert_all_taken(self) -> None:
        """No message is in the queue, with the function, or a dead letter."""

        def taken() -> bool:
            attributes = self.queue_attributes(self.queue)
            names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
            return all(attributes[name] == "0" for name in names)

        wait_until(taken, SECONDS, "the queue to be empty")
        dead = self.queue_attributes(self.dead_letter_queue)
        assert dead["ApproximateNumberOfMessages"] == "0"


@pytest.fixture(scope="module")
def adapting(local: LocalAws) -> Iterator[Adapting]:
    adapting = Adapting(local)
    yield adapting
    adapting.kinesis.delete_stream(StreamName=STREAM)


def test_an_upload_is_processed_by_way_of_sns_and_sqs(adapting: Adapting) -> None:
    topic = adapting.sns.create_topic(Name="pictures")["TopicArn"]
    queue = adapting.queue_attributes(adapting.queue)["QueueArn"]
    adapting.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
    adapting.notify(TopicConfigurations=[{"TopicArn": topic, "Events": EVENTS}])
    adapting.upload(KEY, picture(RED))
    adapting.assert_processed(KEY)
    adapting.assert_all_taken()  # S3's test event too


def test_an_event_that_arrives_by_sqs_and_eventbridge_is_processed_once(adapting: Adapting) -> None:
    arn = adapting.queue_attributes(adapting.queue)["QueueArn"]
    queue = {"QueueArn": arn, "Events": EVENTS}
    adapting.notify(QueueConfigurations=[queue], EventBridgeConfiguration={})
    adapting.upload("both ways.png", picture(RED))
    executions = adapting.of_key("both ways.png", 2)
    assert sorted(str(each.outcome) for each in executions) == ["Duplicate", "Processed"]


def test_only_the_malformed_message_of_a_batch_becomes_a_dead_letter(adapting: Adapting) -> None:
    body = adapting.notification("beside.png")
    entries = [{"Id": "1", "MessageBody": "no JSON"}, {"Id": "2", "MessageBody": body}]
    adapting.sqs.send_message_batch(QueueUrl=adapting.queue, Entries=entries)
    assert adapting.unadapted() == "no JSON"
    adapting.assert_processed("beside.png")
    adapting.assert_all_taken()


def test_kinesis_records_around_a_malformed_one_are_processed(adapting: Adapting) -> None:
    keys = ["before.png", "after.png"]
    before, after = map(adapting.notification, keys)
    records = [{"Data": data, "PartitionKey": "p"} for data in (before, "no JSON", after)]
    adapting.kinesis.put_records(StreamName=STREAM, Records=records)
    for key in keys:
        adapting.assert_processed(key)
    assert b64decode(adapting.unadapted()) == b"no JSON"
