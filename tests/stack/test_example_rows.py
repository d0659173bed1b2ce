"""The example of one row per object, deployed: alone behind its rule, and with the main stack."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from inorder_fence.records import s3_object
from tests.stack.conftest import SECONDS, Workflow
from tests.stack.test_examples import outputs_of
from tests.support.events import upload

TEMPLATE = PROJECT / "examples" / "rows" / "template.yaml"


class Rows:
    """The example, deployed."""

    def __init__(self, local: LocalAws, name: str, parameters: dict[str, str]) -> None:
        sam_deploy(local, name, parameters, TEMPLATE)
        self.local, self.name, self.deployed = local, name, outputs_of(local, name)
        self.s3, self.bucket = local.client("s3"), self.deployed["BucketName"]
        resources = local.session.resource("dynamodb", endpoint_url=local.endpoint_url)
        self.table = resources.Table(self.deployed["TableName"])

    def put(self, key: str, content: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=content)

    def delete(self, key: str) -> None:
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    def row(self, key: str) -> dict[str, Any]:
        answer = self.table.get_item(Key={"key": key}, ConsistentRead=True)
        row: dict[str, Any] = answer.get("Item", {})
        return row

    def wait(self, key: str, name: str, value: Any) -> None:
        wait_until(lambda: self.row(key).get(name) == value, SECONDS, f"{name} of {key}")

    @property
    def rule(self) -> str:
        """The name of the rule that invokes the function."""
        described = self.local.client("cloudformation").describe_stack_resource(
            StackName=self.name, LogicalResourceId="FunctionChanged"
        )
        physical_id: str = described["StackResourceDetail"]["PhysicalResourceId"]
        return physical_id.rpartition("/")[2]

    def deliver(self, event: Any) -> None:
        """Invoke the function as a rule does."""
        self.local.client("lambda").invoke(
            FunctionName=self.deployed["FunctionArn"],
            InvocationType="Event",
            Payload=json.dumps(event),
        )

    def invoke(self, payload: Any) -> Any:
        answer = self.local.client("lambda").invoke(
            FunctionName=self.deployed["FunctionArn"], Payload=json.dumps(payload)
        )
        return json.load(answer["Payload"])


@pytest.fixture(scope="module")
def alone(strict: LocalAws) -> Rows:
    return Rows(strict, "rows", {})


def test_alone_a_row_follows_its_object_and_leaves_a_tombstone(alone: Rows) -> None:
    alone.put("a/x", b"old\n")
    alone.wait("a/x", "title", "old")
    alone.put("a/x", b"new\nnew\n")
    alone.wait("a/x", "title", "new")
    alone.delete("a/x")
    alone.wait("a/x", "deleted", value=True)
    assert alone.row("a/x").keys() == {"key", "sequencer", "deleted", "expires_at"}


def test_alone_events_in_disorder_and_twice_end_in_the_newest(alone: Rows) -> None:
    """A queue takes the events of S3 while the rule is off."""
    events, sqs = alone.local.client("events"), alone.local.client("sqs")
    attributes = {"VisibilityTimeout": "43200"}
    url = sqs.create_queue(QueueName="captured", Attributes=attributes)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    pattern = {"source": ["aws.s3"], "detail": {"bucket": {"name": [alone.bucket]}}}
    events.put_rule(Name="captured", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="captured", Targets=[{"Id": "queue", "Arn": arn["QueueArn"]}])
    events.disable_rule(Name=alone.rule)
    for key in ("kept", "deleted"):
        for content in (b"first\n", b"second\n", b"third\n"):
            alone.put(key, content)
    alone.delete("deleted")
    sent: list[dict[str, Any]] = []

    def has_come() -> bool:
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        sent.extend(json.loads(message["Body"]) for message in messages)
        return len(sent) == 7

    wait_until(has_come, SECONDS, "seven events")
    events.delete_rule(Name="captured", Force=True)
    events.enable_rule(Name=alone.rule)
    sent.sort(key=lambda event: str(s3_object(event)["sequencer"]))
    assert alone.row("kept") == alone.row("deleted") == {}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(alone.invoke, [*reversed(sent), *sent]))
    for key in ("kept", "deleted"):
        newest = [event for event in sent if s3_object(event)["key"] == key][-1]
        assert alone.row(key)["sequencer"] == s3_object(newest)["sequencer"].rstrip("0")
    assert {answer["outcome"] for answer in answers} == {"Processed", "Superseded"}
    assert alone.row("kept")["title"] == "third"
    assert alone.row("deleted")["deleted"]


def test_alone_what_fails_three_times_waits_for_a_person(alone: Rows) -> None:
    event = upload(alone.s3, "no text", b"\xff", bucket=alone.bucket)
    alone.deliver(event)
    sqs, bodies = alone.local.client("sqs"), list[str]()

    def has_failed() -> bool:
        answer = sqs.receive_message(QueueUrl=alone.deployed["FailedEventsUrl"])
        bodies.extend(message["Body"] for message in answer.get("Messages", []))
        return bool(bodies)

    wait_until(has_failed, SECONDS, "the event to fail")
    message = json.loads(bodies[0])
    assert message["requestPayload"]["detail"]["object"]["key"] == "no text"
    assert "The object is no text" in message["responsePayload"]["errorMessage"]


@pytest.fixture(scope="module")
def behind(local: LocalAws) -> tuple[Rows, Workflow]:
    """Deploy the main stack, then the example, and then the main stack with its function."""
    main = deploy(local, "main", {})
    rows = Rows(local, "main-rows", {"InputBucketName": main.input_bucket})
    arn = rows.deployed["FunctionArn"]
    return rows, Workflow(local, deploy(local, "main", {"WorkFunctionArn": arn}))


def test_behind_the_main_stack_the_newest_event_decides_the_row(
    behind: tuple[Rows, Workflow],
) -> None:
    rows, main = behind
    for content in (b"first\n", b"second\n", b"third\n"):
        main.upload("a/x", content)
    rows.wait("a/x", "title", "third")
    main.delete("a/x")
    rows.wait("a/x", "deleted", value=True)
    wait_until(lambda: not main.executions.arns("RUNNING"), SECONDS, "all executions")
    main.assert_quiet()
    tombstone, [*older, deletion] = rows.row("a/x"), main.events("a/x", 4)
    assert tombstone["sequencer"] == s3_object(deletion)["sequencer"].rstrip("0")
    assert tombstone["expires_at"] > time.time() + 29 * 86_400
    for event in older:
        assert main.run(event).outcome == "Superseded"
        # As a holder that was late: nothing but the function stands before the row.
        assert rows.invoke({"event": event, "fence": "newest"})["outcome"] == "Superseded"
    assert rows.row("a/x") == tombstone


def test_behind_the_main_stack_a_rejected_event_is_parked(
    behind: tuple[Rows, Workflow],
) -> None:
    rows, main = behind
    main.upload("no text", b"\xff")
    [parked] = main.of_key("no text", 1)
    assert parked.outcome == "Parked"
    assert rows.row("no text") == {}
    rule = rows.local.client("events").describe_rule(Name=rows.rule)
    assert rule["State"] == "DISABLED"  # so only the state machine calls the function
