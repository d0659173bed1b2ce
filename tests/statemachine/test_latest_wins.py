"""Each path through the shipped state machine, with the real conditional writes and handler."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from inorder.executions import wait_until
from tests.conftest import colour_of, picture
from tests.in_process import INPUT, OUTPUT, InProcess, Throttled

RED, GREEN = (255, 0, 0), (0, 255, 0)
CYAN, MAGENTA = (0, 255, 255), (255, 0, 255)

UNCONTENDED = [
    "S3 Object Event?",
    "Versioned Object?",
    "Read Event",
    "Claim Key",
    "Invert Image",
    "Outcome?",
    "Release Lock",
    "Output Written?",
    "Report Processed",
    "Processed",
]




def test_an_uncontended_event_takes_two_writes_and_no_read(aws: InProcess) -> None:
    event = aws.upload("a/x.png", picture(RED))
    ended = aws.run(event)
    assert ended.path == UNCONTENDED
    assert ended.output == {
        "outcome": "Processed",
        "object_key": "input/a/x.png",
        "sequencer": event["detail"]["object"]["sequencer"],
        "result": {
            "outcome": "Processed",
            "output_key": "a/out-x.png",
            "expires_at": ended.output["result"]["expires_at"],
        },
    }
    assert colour_of(aws.output("a/out-x.png")) == CYAN
    record = aws.record("input/a/x.png")
    assert json.loads(record.pop("event")) == event
    assert record.pop("claimed_at")
    assert record.pop("expires_at") == int(ended.output["result"]["expires_at"])
    assert record == {
        "object_key": "input/a/x.png",
        "status": "DONE",
        "sequencer": event["detail"]["object"]["sequencer"],
        "newest": event["detail"]["object"]["sequencer"],
    }


def test_a_duplicate_is_dropped_without_invoking(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    ended = aws.run(event)
    assert ended.outcome == "Duplicate"
    assert ended.output == {
        "outcome": "Duplicate",
        "object_key": "input/x.png",
        "sequencer": event["detail"]["object"]["sequencer"],
    }
    assert len(aws.invocations) == 1


def test_an_older_event_is_dropped_without_invoking(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert aws.run(newer).outcome == "Processed"
    assert aws.run(older).outcome == "Superseded"
    assert len(aws.invocations) == 1
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_an_event_whose_source_was_overwritten_is_superseded_by_the_function(
    aws: InProcess,
) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    ended = aws.run(older)
    assert ended.outcome == "Superseded"
    assert "Release Lock" in ended.path
    assert aws.record("input/x.png")["status"] == "DONE"
    assert aws.run(newer).outcome == "Processed"


def test_a_waiter_claims_the_key_when_it_is_released(aws: InProcess) -> None:
    worked, release = threading.Event(), threading.Event()
    older = aws.upload("x.png", picture(RED))

    def slow(payload: Any) -> Any:
        answer = aws.handle(payload)
        worked.set()
        assert release.wait(30)
        return answer

    aws.invoke = slow
    holder = aws.start(older)
    assert worked.wait(30)
    newer = aws.start(aws.upload("x.png", picture(GREEN)))
    wait_until(lambda: "newest_event" in aws.record("input/x.png"), 30, "word of the newer event")
    late = aws.run(older)  # a third: it sees that a newer event is waiting, and gives up
    assert late.outcome == "Superseded"
    assert "Wait For Lock" not in late.path
    release.set()
    assert aws.wait(holder).outcome == "Processed"
    ended = aws.wait(newer)
    assert ended.outcome == "Processed"
    assert ended.path.count("Watch Lock") == 1
    assert colour_of(aws.output("out-x.png")) == MAGENTA
    assert len(aws.invocations) == 2


def test_ten_copies_at_once_are_processed_once(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    arns = [aws.start(event) for _ in range(10)]
    counted = Counter(aws.wait(arn).outcome for arn in arns)
    assert counted == {"Processed": 1, "Duplicate": 9}
    assert len(aws.invocations) == 1







def test_a_free_key_is_not_claimed_past_a_newer_event_that_waits_for_it(aws: InProcess) -> None:
    """Nor is the word that the newer one left overwritten, which would make it give up."""
    first, middle = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(RED))
    newest = aws.upload("x.png", picture(GREEN))["detail"]["object"]["sequencer"]
    aws.run(first)
    aws.table.update_item(
        Key={"object_key": "input/x.png"},
        UpdateExpression="SET newest = :newest",
        ExpressionAttributeValues={":newest": newest},
    )
    assert aws.run(middle).outcome == "Superseded"
    assert len(aws.invocations) == 1
    assert aws.record("input/x.png")["newest"] == newest


def test_a_record_that_keeps_a_newer_event_does_not_expire(aws: InProcess) -> None:
    """Its execution may die, and nothing else would know of the event."""
    older = aws.upload("x.png", picture(RED))

    def refuse_a_newer_one(payload: Any) -> Any:
        aws.table.update_item(  # as Record Sequencer does while the older one is worked on
            Key={"object_key": "input/x.png"},
            UpdateExpression="SET newest = :newest, newest_event = :event, expires_at = :never",
            ExpressionAttributeValues={":newest": "FF", ":event": "{}", ":never": 253402300799},
        )
        return aws.handle(payload)

    aws.invoke = refuse_a_newer_one
    assert aws.run(older).outcome == "Processed"
    record = aws.record("input/x.png")
    assert (record["status"], record["expires_at"]) == ("DONE", 253402300799)


def test_word_of_a_newer_event_keeps_the_record_from_expiring(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    assert aws.record("input/x.png")["expires_at"] < 253402300799
    aws.table.update_item(  # somebody else holds the key when the newer event comes
        Key={"object_key": "input/x.png"},
        UpdateExpression="SET lock_token = :other",
        ExpressionAttributeValues={":other": "another run's"},
    )
    newer = aws.upload("x.png", picture(GREEN))
    waiting = aws.start(newer)
    wait_until(lambda: "newest_event" in aws.record("input/x.png"), 30, "word of the newer event")
    assert aws.record("input/x.png")["expires_at"] == 253402300799
    aws.table.update_item(Key={"object_key": "input/x.png"}, UpdateExpression="REMOVE lock_token")
    assert aws.wait(waiting).outcome == "Processed"
    record = aws.record("input/x.png")
    assert "newest_event" not in record
    assert record["expires_at"] < 253402300799


def before_the_first_claim(action: Callable[[dict[str, Any]], None]) -> list[Any]:
    """Let something happen with the item that an execution is about to put."""
    claims: list[Any] = []

    def act(parameters: dict[str, Any]) -> None:
        item = parameters["Item"]
        if "execution" in item and isinstance(item["execution"], dict) and not claims:
            claims.append(item)
            action({name: value["S"] for name, value in item.items()})

    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register(
        "provide-client-params.dynamodb.PutItem", lambda params, **_: act(params)
    )
    return claims


def test_an_execution_that_holds_the_lock_already_goes_on(aws: InProcess) -> None:
    """Its first claim was written but the answer was lost, or Express runs it again."""
    event = aws.upload("x.png", picture(RED))
    claims = before_the_first_claim(aws.put_record)
    ended = aws.run(event)
    assert claims
    assert ended.path == UNCONTENDED


def test_an_execution_that_holds_the_lock_already_leaves_the_word_of_a_newer_event(
    aws: InProcess,
) -> None:
    event = aws.upload("x.png", picture(RED))
    claims = before_the_first_claim(lambda item: aws.put_record(item | {"newest": "FF"}))
    ended = aws.run(event)
    assert claims
    assert ended.outcome == "Superseded"
    assert aws.record("input/x.png")["newest"] == "FF"







def test_each_version_is_a_key_of_its_own(aws: InProcess) -> None:
    aws.s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration={"Status": "Enabled"})
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    # Sequencers do not compare between versions: the older version's may well be the higher one.
    assert aws.run(newer).outcome == "Processed"
    assert aws.run(later(older, "FF")).outcome == "Superseded"
    assert colour_of(aws.output("out-x.png")) == MAGENTA
    version = newer["detail"]["object"]["version-id"]
    assert aws.record(f"input/x.png#{version}")["status"] == "DONE"
    assert aws.run(newer).outcome == "Duplicate"


def test_a_key_that_is_gone_by_its_time_to_live_is_new_again(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    aws.table.delete_item(Key={"object_key": "input/x.png"})
    ended = aws.run(event)
    # The function finds the event's own output and leaves it.
    assert ended.outcome == "Processed"
    assert len(aws.invocations) == 2



