"""Each other policy as `sam deploy` deploys it: its rule, its resources and its promise, once.

tests/policies shows the promise of each policy in every case.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.events import deleted, upload
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.end_to_end.conftest import BLUE, CYAN, GREEN, MAGENTA, RED, SECONDS, YELLOW, Workflow

COLOURS = {RED: CYAN, GREEN: MAGENTA, BLUE: YELLOW}  # and their inverses


def test_latest_wins_keeps_the_output_of_the_version_that_is_current(local: LocalAws) -> None:
    workflow = Workflow(local, deploy(local, "versioned", {"InputBucketVersioning": "Enabled"}))
    workflow.disable_rules()  # the local AWS's own events have no version
    bucket = workflow.stack.input_bucket
    named = {"Bucket": bucket, "Key": "x.png"}

    def outcome_of_deletion(version: str | None, sequencer: str) -> str | None:
        event = deleted("x.png", bucket=bucket, version_id=version, sequencer=sequencer)
        return workflow.run(event).outcome

    workflow.s3.put_object(Body=picture(RED), **named)
    second = workflow.s3.put_object(Body=picture(GREEN), **named)
    marker = workflow.s3.delete_object(**named)["VersionId"]
    assert outcome_of_deletion(marker, "03") == "Processed"
    assert workflow.outputs() == {}
    workflow.s3.delete_object(VersionId=marker, **named)
    assert outcome_of_deletion(marker, "04") == "Processed"
    assert workflow.outputs() == {"out-x.png": MAGENTA}
    workflow.s3.delete_object(VersionId=second["VersionId"], **named)
    assert outcome_of_deletion(second["VersionId"], "05") == "Processed"
    assert workflow.outputs() == {"out-x.png": CYAN}
    suspended = {"Status": "Suspended"}
    workflow.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=suspended)
    event = upload(workflow.s3, "x.png", picture(BLUE), bucket=bucket, sequencer="01")
    assert "version-id" not in event["detail"]["object"]
    assert workflow.run(event).outcome == "Processed"
    assert workflow.outputs() == {"out-x.png": YELLOW}
    assert workflow.s3.delete_object(**named)["VersionId"] == "null"
    assert outcome_of_deletion(None, "02") == "Processed"
    assert workflow.outputs() == {}
    workflow.s3.delete_object(VersionId="null", **named)
    assert outcome_of_deletion(None, "03") == "Processed"
    assert workflow.outputs() == {"out-x.png": CYAN}
    workflow.assert_quiet()


def test_a_stack_that_does_not_handle_deletions_keeps_the_output(local: LocalAws) -> None:
    workflow = Workflow(local, deploy(local, "keeping", {"HandleDeletions": "false"}))
    workflow.upload("kept.png", picture(RED))
    workflow.of_key("kept.png", 1)
    workflow.delete("kept.png")
    workflow.upload("after.png", picture(GREEN))  # its event comes after that of the deletion
    workflow.of_key("after.png", 1)
    assert workflow.outputs() == {"out-kept.png": CYAN, "out-after.png": MAGENTA}
    assert len(workflow.executions.arns()) == 2


def test_every_version_keeps_an_output_of_each_upload_until_the_object_is_deleted(
    local: LocalAws,
) -> None:
    workflow = Workflow(local, deploy(local, "every-version", {"Policy": "every-version"}))
    for number, colour in enumerate(COLOURS, 1):
        workflow.upload("a/x.png", picture(colour))
        workflow.of_key("a/x.png", number)
    events = workflow.events("a/x.png", 3)
    assert workflow.outputs() == {
        f"a/out-x.png/{event['detail']['object']['sequencer']}": inverse
        for event, inverse in zip(events, COLOURS.values(), strict=True)
    }
    assert workflow.run(events[0]).outcome == "Duplicate"
    workflow.delete("a/x.png")
    assert workflow.of_key("a/x.png", 5)[-1].outcome == "Processed"
    assert workflow.outputs() == {}
    workflow.assert_quiet()


def test_first_wins_processes_the_first_upload_only(local: LocalAws) -> None:
    workflow = Workflow(local, deploy(local, "first-wins", {"Policy": "first-wins"}))
    for number, colour in enumerate((RED, GREEN), 1):
        workflow.upload("x.png", picture(colour))
        workflow.of_key("x.png", number)
    assert [each.outcome for each in workflow.of_key("x.png", 2)] == ["Processed", "Duplicate"]
    assert workflow.outputs() == {"out-x.png": CYAN}
    workflow.assert_quiet()


def test_optimistic_ends_with_the_newest_upload_and_uses_no_table(local: LocalAws) -> None:
    workflow = Workflow(local, deploy(local, "optimistic", {"Policy": "optimistic"}))
    for number in range(6):
        workflow.upload("hot.png", picture((number, 0, 0)))
    outcomes = {each.outcome for each in workflow.of_key("hot.png", 6)}
    assert outcomes <= {"Processed", "Superseded"}
    assert workflow.outputs() == {"out-hot.png": (255 - 5, 255, 255)}
    assert workflow.table.scan()["Items"] == []
    workflow.delete("hot.png")
    assert workflow.of_key("hot.png", 7)[-1].outcome == "Processed"
    assert workflow.outputs() == {}


def test_content_hash_forwards_the_same_content_once(local: LocalAws) -> None:
    sources = {"Policy": "content-hash", "ContentSources": "com.example.orders"}
    workflow = Workflow(local, deploy(local, "content-hash", sources))
    sqs, events = local.client("sqs"), local.client("events")
    queue = sqs.create_queue(QueueName="forwarded")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    bus = f"{workflow.stack.name}-unique-events"
    pattern = json.dumps({"source": [{"prefix": "unique."}]})
    events.put_rule(Name="all", EventBusName=bus, EventPattern=pattern)
    target = {"Id": "queue", "Arn": arn["QueueArn"]}
    events.put_targets(Rule="all", EventBusName=bus, Targets=[target])

    for number, (kind, detail) in enumerate(
        [
            ("OrderPaid", '{"order": 7, "lines": [{"sku": "a", "count": 1.0}]}'),
            ("OrderPaid", '{"lines": [{"count": 1, "sku": "a"}], "order": 7}'),
            ("OrderPaid", '{"order": 8, "lines": [{"sku": "a", "count": 1}]}'),
            ("OrderShipped", '{"order": 7, "lines": [{"sku": "a", "count": 1}]}'),
        ],
        1,
    ):
        entry = {"Source": "com.example.orders", "DetailType": kind, "Detail": detail}
        events.put_events(Entries=[entry])
        workflow.executions.wait_for(number, SECONDS)
    outcomes = Counter(each.outcome for each in workflow.executions.all())
    assert outcomes == {"Processed": 3, "Duplicate": 1}

    forwarded: list[dict[str, Any]] = []

    def have_arrived() -> bool:
        for message in sqs.receive_message(QueueUrl=queue).get("Messages", []):
            forwarded.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return len(forwarded) >= 3

    wait_until(have_arrived, SECONDS, "three events")
    assert sorted((each["detail-type"], each["detail"]["order"]) for each in forwarded) == [
        ("OrderPaid", 7),
        ("OrderPaid", 8),
        ("OrderShipped", 7),
    ]
    assert {each["source"] for each in forwarded} == {"unique.com.example.orders"}
    workflow.assert_quiet()
