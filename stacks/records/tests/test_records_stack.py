"""S3 notifications by SNS and SQS or Kinesis start the same executions as events by EventBridge."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest

from inorder import PROJECT
from inorder.aws.companions import Described
from inorder.aws.stack import Connection, deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import CYAN, RED, Workflow
from tests.support.events import shipped

KEY = "holiday/a b+c%2B é.png"
STREAM = "records"


@pytest.fixture(scope="module")
def adapting(local: LocalAws) -> Workflow:
    """Deploy a stack, and the companion that adapts records for it."""
    kinesis = local.client("kinesis")
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=STREAM)
    arn = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    workflow = Workflow(local, deploy(local, "adapting", {}))
    parameters = {"StackName": "adapting", "RecordsStreamArn": arn["StreamARN"]}
    sam_deploy(local, "adapting-records", parameters, PROJECT / "stacks/records/template.yaml")
    return workflow


def queue(workflow: Workflow, output: str) -> str:
    """Give the address of a queue of the companion."""
    return Described(Connection("adapting", workflow.local), "adapting-records").outputs[output]


def assert_processed(workflow: Workflow, key: str) -> None:
    [execution] = workflow.of_key(key, 1)
    assert execution.outcome == "Processed", execution
    assert workflow.colour(key) == CYAN


def test_kinesis_records_around_a_malformed_one_are_processed(adapting: Workflow) -> None:
    keys, bucket, data = ["before.png", "after.png"], adapting.stack.input_bucket, []
    with adapting.without_events():
        for key in keys:
            etag = adapting.s3.put_object(Bucket=bucket, Key=key, Body=picture(RED))["ETag"]
            record = shipped("s3-notification")["Records"][0]
            record["s3"]["bucket"] = {"name": bucket}
            record["s3"]["object"] |= {"key": key, "eTag": etag.strip('"')}
            data.append(json.dumps({"Records": [record]}))
        data.insert(1, "no JSON")
        records = [{"Data": each, "PartitionKey": "p"} for each in data]
        adapting.local.client("kinesis").put_records(StreamName=STREAM, Records=records)
        for key in keys:
            assert_processed(adapting, key)
    dead = adapting.receive(queue(adapting, "UnadaptedRecordsQueueUrl"))
    assert b64decode(dead) == b"no JSON"


def test_an_upload_is_processed_by_way_of_sns_and_sqs(adapting: Workflow) -> None:
    sns = adapting.local.client("sns")
    topic = sns.create_topic(Name="pictures")["TopicArn"]
    [arn] = adapting.queue_attributes(queue(adapting, "RecordsQueueUrl"), "QueueArn")
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    by_sns = [{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}]
    adapting.s3.put_bucket_notification_configuration(  # in place of EventBridge
        Bucket=adapting.stack.input_bucket,
        NotificationConfiguration={"TopicConfigurations": by_sns},
    )
    adapting.upload(KEY, picture(RED))
    assert_processed(adapting, KEY)
