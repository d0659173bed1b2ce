"""The example of one row per object, deployed: alone behind its rule, and with the main stack."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder_fence.records import s3_object
from tests.stack.conftest import SECONDS, Deployed, Workflow
from tests.support.events import upload

TEMPLATE = PROJECT / "examples" / "rows" / "template.yaml"


class Rows(Deployed):
    """The example, deployed."""

    def __init__(self, local: LocalAws, name: str, **parameters: str) -> None:
        super().__init__(local, name, TEMPLATE, **parameters)
        self.bucket, self.function = self.deployed["BucketName"], self.deployed["FunctionArn"]
        self.table = self.table_of(self.deployed["TableName"])

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
        return self.resource("FunctionChanged").rpartition("/")[2]


@pytest.fixture(scope="module")
def alone(strict: LocalAws) -> Rows:
    return Rows(strict, "rows")


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
    events = alone.client("events")
    captured = {"source": ["aws.s3"], "detail": {"bucket": {"name": [alone.bucket]}}}
    queue = alone.capture(captured)
    events.disable_rule(Name=alone.rule)
    for key in ("kept", "deleted"):
        for content in (b"first\n", b"second\n", b"third\n"):
            alone.put(key, content)
    alone.delete("deleted")
    sent: list[dict[str, Any]] = []

    def has_come() -> bool:
        sent.extend(map(json.loads, alone.received(queue)))
        return len(sent) == 7

    wait_until(has_come, SECONDS, "seven events")
    events.enable_rule(Name=alone.rule)
    sent.sort(key=lambda event: str(s3_object(event)["sequencer"]))
    assert alone.row("kept") == alone.row("deleted") == {}
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda event: alone.invoke(alone.function, event), [*reversed(sent), *sent])
        )
    for key in ("kept", "deleted"):
        newest = [event for event in sent if s3_object(event)["key"] == key][-1]
        assert alone.row(key)["sequencer"] == s3_object(newest)["sequencer"].rstrip("0")
    assert {answer["outcome"] for answer in answers} == {"Processed", "Superseded"}
    assert alone.row("kept")["title"] == "third"
    assert alone.row("deleted")["deleted"]


def test_alone_what_fails_three_times_waits_for_a_person(alone: Rows) -> None:
    event = upload(alone.s3, "no text", b"\xff", bucket=alone.bucket)
    alone.invoke(alone.function, event, "Event")
    message = json.loads(alone.receive(alone.deployed["FailedEventsUrl"]))
    assert message["requestPayload"]["detail"]["object"]["key"] == "no text"
    assert "The object is no text" in message["responsePayload"]["errorMessage"]


@pytest.fixture(scope="module")
def behind(local: LocalAws) -> tuple[Rows, Workflow]:
    """Deploy the main stack, then the example, and then the main stack with its function."""
    main = deploy(local, "main", {})
    rows = Rows(local, "main-rows", InputBucketName=main.input_bucket)
    return rows, Workflow(local, deploy(local, "main", {"WorkFunctionArn": rows.function}))


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
        answer = rows.invoke(rows.function, {"event": event, "fence": "newest"})
        assert answer["outcome"] == "Superseded"
    assert rows.row("a/x") == tombstone


def test_behind_the_main_stack_a_rejected_event_is_parked(behind: tuple[Rows, Workflow]) -> None:
    rows, main = behind
    main.upload("no text", b"\xff")
    [parked] = main.of_key("no text", 1)
    assert parked.outcome == "Parked"
    assert rows.row("no text") == {}
    rule = rows.client("events").describe_rule(Name=rows.rule)
    assert rule["State"] == "DISABLED"  # so only the state machine calls the function
