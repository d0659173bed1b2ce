"""Each policy as `sam deploy` deploys it: its promise, from S3 or EventBridge to the output."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from tests.conftest import colour_of, picture
from tests.end_to_end.conftest import SECONDS, Workflow

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
CYAN, MAGENTA, YELLOW = (0, 255, 255), (255, 0, 255), (255, 255, 0)  # their inverses


def outputs(workflow: Workflow) -> dict[str, tuple[int, int, int]]:
    """Give the colours of all outputs by their keys."""
    listed = workflow.s3.list_objects_v2(Bucket=workflow.stack.output_bucket).get("Contents", [])
    return {
        each["Key"]: colour_of(
            workflow.s3.get_object(Bucket=workflow.stack.output_bucket, Key=each["Key"])[
                "Body"
            ].read()
        )
        for each in listed
    }


def delete(workflow: Workflow, key: str, **version: str) -> dict[str, Any]:
    answer: dict[str, Any] = workflow.s3.delete_object(
        Bucket=workflow.stack.input_bucket, Key=key, **version
    )
    return answer


class Versioned(Workflow):
    """A stack with a versioned input bucket.

    The local AWS's events carry no version, so that executions are started by hand, and the rule is
    switched off.
    """

    def __init__(self, local: LocalAws, policy: str) -> None:
        parameters = {"Policy": policy, "InputBucketVersioning": "Enabled"}
        super().__init__(local, deploy(local, f"versioned-{policy}", parameters))
        events = local.client("events")
        for rule in events.list_rules()["Rules"]:
            if rule["Name"].startswith(f"{self.stack.name}-"):
                events.disable_rule(Name=rule["Name"])
        self._sequencers = itertools.count(0x006A0F5FCE2D7F28B1)

    def put(self, key: str, colour: tuple[int, int, int]) -> dict[str, Any]:
        """Upload a version and give its event, undelivered."""
        answer = self.s3.put_object(Bucket=self.stack.input_bucket, Key=key, Body=picture(colour))
        return self._event("Object Created", key, answer["VersionId"], etag=answer["ETag"][1:-1])

    def delete(self, key: str, version: str | None = None) -> dict[str, Any]:
        """Delete a version, or put a delete marker, and give the event, undelivered."""
        answer = delete(self, key, **({"VersionId": version} if version else {}))
        return self._event("Object Deleted", key, answer["VersionId"])

    def outcome(self, event: dict[str, Any]) -> str | None:
        [execution] = self.wait(self.deliver(event))
        return execution.outcome

    def _event(self, kind: str, key: str, version: str, **rest: str) -> dict[str, Any]:
        sequencer = f"{next(self._sequencers):018X}"
        described = {"key": key, "version-id": version, "sequencer": sequencer, **rest}
        bucket = {"name": self.stack.input_bucket}
        return {
            "source": "aws.s3",
            "detail-type": kind,
            "detail": {"bucket": bucket, "object": described},
        }


def version(event: dict[str, Any]) -> str:
    found: str = event["detail"]["object"]["version-id"]
    return found


@pytest.fixture(scope="module")
def versioned(local: LocalAws) -> Versioned:
    return Versioned(local, "latest-wins")


@pytest.fixture(scope="module")
def content_hash(local: LocalAws) -> Workflow:
    parameters = {"Policy": "content-hash", "ContentSources": "com.example.orders"}
    return Workflow(local, deploy(local, "content-hash", parameters))


@pytest.fixture(scope="module")
def downstream(content_hash: Workflow) -> str:
    """Subscribe a queue to all that is forwarded, and give its URL."""
    sqs, events = content_hash.local.client("sqs"), content_hash.local.client("events")
    queue: str = sqs.create_queue(QueueName="downstream")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    bus = f"{content_hash.stack.name}-unique-events"
    pattern = json.dumps({"source": [{"prefix": "unique."}]})
    events.put_rule(Name="all", EventBusName=bus, EventPattern=pattern)
    target = {"Id": "queue", "Arn": arn["Attributes"]["QueueArn"]}
    events.put_targets(Rule="all", EventBusName=bus, Targets=[target])
    return queue


class TestLatestWins:
    """In a bucket without versions, deletions; with them, which version is current."""

    def test_a_deletion_removes_the_output_and_a_late_creation_does_not_bring_it_back(
        self, workflow: Workflow
    ) -> None:
        workflow.upload("deleted.png", picture(RED))
        workflow.of_key("deleted.png", 1)
        [created] = workflow.events("deleted.png", 1)
        delete(workflow, "deleted.png")
        _, deleted = workflow.of_key("deleted.png", 2)
        assert (deleted.event["detail-type"], deleted.outcome) == ("Object Deleted", "Processed")
        assert workflow.output("deleted.png") is None
        [late] = workflow.wait(workflow.deliver(created))
        assert late.outcome == "Superseded"
        assert workflow.output("deleted.png") is None

        workflow.upload("deleted.png", picture(GREEN))
        assert workflow.of_key("deleted.png", 4)[-1].outcome == "Processed"
        [late] = workflow.wait(workflow.deliver(deleted.event))
        assert late.outcome == "Superseded"
        output = workflow.output("deleted.png")
        assert output
        assert colour_of(output) == MAGENTA

    def test_versions_out_of_order(self, versioned: Versioned) -> None:
        old, new = versioned.put("order.png", RED), versioned.put("order.png", GREEN)
        assert versioned.outcome(new) == "Processed"
        assert versioned.outcome(old) == "Superseded"
        assert outputs(versioned)["out-order.png"] == MAGENTA

    def test_a_delete_marker_removes_the_output_and_its_removal_restores_it(
        self, versioned: Versioned
    ) -> None:
        created = versioned.put("marked.png", RED)
        assert versioned.outcome(created) == "Processed"
        marker = versioned.delete("marked.png")
        assert versioned.outcome(marker) == "Processed"
        assert "out-marked.png" not in outputs(versioned)
        assert versioned.outcome(versioned.delete("marked.png", version(marker))) == "Processed"
        assert outputs(versioned)["out-marked.png"] == CYAN

    def test_a_version_deleted_before_its_event_arrives(self, versioned: Versioned) -> None:
        first, second = versioned.put("gone.png", RED), versioned.put("gone.png", GREEN)
        deleted = versioned.delete("gone.png", version(second))
        assert versioned.outcome(deleted) == "Processed"
        assert outputs(versioned)["out-gone.png"] == CYAN
        assert versioned.outcome(second) == "Superseded"
        assert versioned.outcome(first) in {"Processed", "Superseded"}
        assert outputs(versioned)["out-gone.png"] == CYAN
        versioned.assert_quiet()


class TestWithoutDeletions:
    """The parameter that turns them off."""

    def test_a_deletion_changes_nothing(self, local: LocalAws) -> None:
        workflow = Workflow(local, deploy(local, "keeping", {"HandleDeletions": "false"}))
        workflow.upload("kept.png", picture(RED))
        workflow.of_key("kept.png", 1)
        delete(workflow, "kept.png")
        workflow.upload("after.png", picture(GREEN))  # its event comes after that of the deletion
        workflow.of_key("after.png", 1)
        assert outputs(workflow) == {"out-kept.png": CYAN, "out-after.png": MAGENTA}
        assert len(workflow.executions.arns()) == 2


class TestEveryVersion:
    """Each event once, with an output of its own."""

    def test_each_upload_has_an_output_and_a_deletion_removes_them(self, local: LocalAws) -> None:
        workflow = Workflow(local, deploy(local, "every-version", {"Policy": "every-version"}))
        for number, colour in enumerate((RED, GREEN, BLUE), 1):
            workflow.upload("a/x.png", picture(colour))
            workflow.of_key("a/x.png", number)
        events = workflow.events("a/x.png", 3)
        sequencers = [event["detail"]["object"]["sequencer"] for event in events]
        assert outputs(workflow) == {
            f"a/out-x.png/{sequencer}": colour
            for sequencer, colour in zip(sequencers, (CYAN, MAGENTA, YELLOW), strict=True)
        }
        again = workflow.wait(*map(workflow.deliver, events))
        assert [each.outcome for each in again] == ["Duplicate"] * 3
        delete(workflow, "a/x.png")
        assert workflow.of_key("a/x.png", 7)[-1].outcome == "Processed"
        assert outputs(workflow) == {}
        workflow.assert_quiet()

    def test_what_was_overwritten_before_it_was_read_is_parked(self, local: LocalAws) -> None:
        slow: dict[str, str | float] = {
            "Policy": "every-version",
            "SlowProbability": 1,
            "SlowSeconds": 2,
        }
        workflow = Workflow(local, deploy(local, "every-version-slow", slow))
        workflow.upload("x.png", picture(RED))
        workflow.wait_for_lock("x.png")
        workflow.upload("x.png", picture(GREEN))
        workflow.upload("x.png", picture(BLUE))
        first, second, third = workflow.of_key("x.png", 3)
        assert (second.outcome, third.outcome) == ("Parked", "Processed")
        assert "SourceChanged" in str(second.cause)
        parked = [message["event"] for message in workflow.parked()]
        assert second.event in parked
        assert set(outputs(workflow).values()) >= {YELLOW}
        # The third waited for the second, which had come before it.
        assert "Wait For Turn" in workflow.executions.describe(third.arn).path
        assert first.outcome in {"Processed", "Parked"}
        workflow.assert_quiet()

    def test_versions_are_processed_whichever_is_current(self, local: LocalAws) -> None:
        workflow = Versioned(local, "every-version")
        created = [workflow.put("x.png", colour) for colour in (RED, GREEN, BLUE)]
        assert [workflow.outcome(created[at]) for at in (2, 0, 1)] == ["Processed"] * 3
        expected = {
            f"out-x.png/{version(event)}": colour
            for event, colour in zip(created, (CYAN, MAGENTA, YELLOW), strict=True)
        }
        assert outputs(workflow) == expected
        assert (
            workflow.outcome(workflow.delete("x.png")) == "Processed"
        )  # a marker hides no version
        assert outputs(workflow) == expected
        deleted = workflow.delete("x.png", version(created[1]))
        assert workflow.outcome(deleted) == "Processed"
        del expected[f"out-x.png/{version(created[1])}"]
        assert outputs(workflow) == expected
        assert workflow.outcome(created[1]) == "Duplicate"


class TestFirstWins:
    """Each key once."""

    def test_the_second_upload_is_a_duplicate(self, local: LocalAws) -> None:
        workflow = Workflow(local, deploy(local, "first-wins", {"Policy": "first-wins"}))
        for number, colour in enumerate((RED, GREEN), 1):
            workflow.upload("x.png", picture(colour))
            workflow.of_key("x.png", number)
        assert [each.outcome for each in workflow.of_key("x.png", 2)] == ["Processed", "Duplicate"]
        assert outputs(workflow) == {"out-x.png": CYAN}
        workflow.assert_quiet()


class TestOptimistic:
    """No lock and no table."""

    def test_quick_overwrites_end_with_the_newest(self, local: LocalAws) -> None:
        workflow = Workflow(local, deploy(local, "optimistic", {"Policy": "optimistic"}))
        for number in range(6):
            workflow.upload("hot.png", picture((number, 0, 0)))
        counted = Counter(each.outcome for each in workflow.of_key("hot.png", 6))
        assert set(counted) <= {"Processed", "Superseded"}
        assert outputs(workflow) == {"out-hot.png": (255 - 5, 255, 255)}
        assert workflow._table.scan()["Items"] == []
        [oldest, *_] = workflow.events("hot.png", 6)
        [late] = workflow.wait(workflow.deliver(oldest))
        assert late.outcome == "Superseded"
        delete(workflow, "hot.png")
        assert workflow.of_key("hot.png", 8)[-1].outcome == "Processed"
        assert outputs(workflow) == {}


class TestContentHash:
    """Any event of EventBridge, once."""

    def put(self, workflow: Workflow, detail: str, kind: str = "OrderPaid") -> None:
        events = workflow.local.client("events")
        before = len(workflow.executions.arns())
        entry = {"Source": "com.example.orders", "DetailType": kind, "Detail": detail}
        events.put_events(Entries=[entry])
        workflow.executions.wait_for(before + 1, SECONDS)

    def test_what_says_the_same_is_forwarded_once(
        self, content_hash: Workflow, downstream: str
    ) -> None:
        self.put(content_hash, '{"order": 7, "lines": [{"sku": "a", "count": 1.0}]}')
        self.put(content_hash, '{"lines": [{"count": 1, "sku": "a"}], "order": 7}')
        self.put(content_hash, '{"order": 8, "lines": [{"sku": "a", "count": 1}]}')
        self.put(content_hash, '{"order": 7, "lines": [{"sku": "a", "count": 1}]}', "OrderShipped")
        outcomes = Counter(each.outcome for each in content_hash.executions.all())
        assert outcomes == {"Processed": 3, "Duplicate": 1}
        sqs, forwarded = content_hash.local.client("sqs"), list[Any]()

        def all_came() -> bool:
            for message in sqs.receive_message(QueueUrl=downstream).get("Messages", []):
                forwarded.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=downstream, ReceiptHandle=message["ReceiptHandle"])
            return len(forwarded) >= 3

        wait_until(all_came, SECONDS, "three events")
        assert sorted((each["detail-type"], each["detail"]["order"]) for each in forwarded) == [
            ("OrderPaid", 7),
            ("OrderPaid", 8),
            ("OrderShipped", 7),
        ]
        assert {each["source"] for each in forwarded} == {"unique.com.example.orders"}

    def test_what_is_no_event_is_parked(self, content_hash: Workflow) -> None:
        content_hash.parked()
        [parked] = content_hash.wait(content_hash.deliver({"detail": {}}))
        assert parked.outcome == "InvalidEvent"
        assert [message["event"] for message in content_hash.parked()] == [{"detail": {}}]
        content_hash.assert_quiet()
