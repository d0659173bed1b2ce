"""Each path through latest_wins.asl.json, with the real conditional writes and handler."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from tests.conftest import colour_of, picture
from tests.in_process import InProcess
from tests.statemachine.situations import CYAN, GREEN, MAGENTA, RED, HeldBack, later, sequencer_of

pytestmark = pytest.mark.policy("latest-wins")

UNCONTENDED = [
    "S3 Object Event?",
    "Versioned Object?",
    "Prepare Event",
    "Claim Key",
    "Invert Image",
    "Outcome?",
    "Release Lock",
    "Output Written?",
    "Processed",
    "Processed",
]


def test_an_uncontended_event_takes_two_writes_and_no_read(aws: InProcess) -> None:
    event = aws.upload("a/x.png", picture(RED))
    ended = aws.run(event)
    assert ended.path == UNCONTENDED
    assert ended.output == {
        "outcome": "Processed",
        "object_key": "input/a/x.png",
        "sequencer": sequencer_of(event),
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
        "sequencer": sequencer_of(event),
        "newest": sequencer_of(event),
    }


def test_a_duplicate_is_dropped_without_invoking(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    record = aws.record("input/x.png")
    ended = aws.run(event)
    assert ended.outcome == "Duplicate"
    assert ended.output == {
        "outcome": "Duplicate",
        "object_key": "input/x.png",
        "sequencer": sequencer_of(event),
    }
    assert len(aws.invocations) == 1
    assert aws.record("input/x.png") == record  # and expires when it would have


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
    older = aws.upload("x.png", picture(RED))
    answers = HeldBack(aws)
    holder = aws.start(older)
    assert answers.worked.wait(30)
    newer = aws.start(aws.upload("x.png", picture(GREEN)))
    wait_until(lambda: "newest_event" in aws.record("input/x.png"), 30, "word of the newer event")
    late = aws.run(older)  # a third: it sees that a newer event is waiting, and gives up
    assert late.outcome == "Superseded"
    assert "Wait For Lock" not in late.path
    answers.release.set()
    assert aws.wait(holder).outcome == "Processed"
    ended = aws.wait(newer)
    assert ended.outcome == "Processed"
    assert ended.path.count("Watch Lock") == 1
    assert colour_of(aws.output("out-x.png")) == MAGENTA
    assert len(aws.invocations) == 2


def test_ten_copies_at_once_are_processed_once(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.wait_scale = 0.2
    arns = [aws.start(event) for _ in range(10)]
    counted = Counter(aws.wait(arn).outcome for arn in arns)
    assert counted == {"Processed": 1, "Duplicate": 9}
    assert len(aws.invocations) == 1


def test_a_free_key_is_not_claimed_past_a_newer_event_that_waits_for_it(aws: InProcess) -> None:
    """Nor is the word that the newer one left overwritten, which would make it give up."""
    first, middle = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(RED))
    newest = sequencer_of(aws.upload("x.png", picture(GREEN)))
    aws.run(first)
    aws.table.update_item(
        Key={"id": "input/x.png"},
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
        aws.table.update_item(  # as Record Newest Event does while the older one is worked on
            Key={"id": "input/x.png"},
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
        Key={"id": "input/x.png"},
        UpdateExpression="SET lock_token = :other",
        ExpressionAttributeValues={":other": "another run's"},
    )
    newer = aws.upload("x.png", picture(GREEN))
    waiting = aws.start(newer)
    wait_until(lambda: "newest_event" in aws.record("input/x.png"), 30, "word of the newer event")
    assert aws.record("input/x.png")["expires_at"] == 253402300799
    aws.table.update_item(Key={"id": "input/x.png"}, UpdateExpression="REMOVE lock_token")
    assert aws.wait(waiting).outcome == "Processed"
    record = aws.record("input/x.png")
    assert "newest_event" not in record
    assert record["expires_at"] < 253402300799


def test_each_version_is_a_key_of_its_own(aws: InProcess) -> None:
    aws.keep_versions()
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
    aws.table.delete_item(Key={"id": "input/x.png"})
    ended = aws.run(event)
    # The function finds the event's own output and leaves it.
    assert ended.outcome == "Processed"
    assert len(aws.invocations) == 2


def test_a_deletion_removes_the_output_and_the_key_can_be_created_again(aws: InProcess) -> None:
    aws.run(aws.upload("x.png", picture(RED)))
    deletion = aws.delete("x.png")
    assert "etag" not in deletion["detail"]["object"]
    ended = aws.run(deletion)
    assert ended.path == UNCONTENDED
    assert aws.outputs() == []
    assert aws.run(deletion).outcome == "Duplicate"
    assert aws.run(aws.upload("x.png", picture(GREEN))).outcome == "Processed"
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_a_creation_that_comes_after_its_deletion_is_superseded(aws: InProcess) -> None:
    creation, deletion = aws.upload("x.png", picture(RED)), aws.delete("x.png")
    assert aws.run(deletion).outcome == "Processed"
    ended = aws.run(creation)
    assert ended.outcome == "Superseded"
    assert "Invert Image" not in ended.path  # the table knows
    assert aws.outputs() == []


def test_a_deletion_that_comes_after_the_next_creation_removes_nothing(aws: InProcess) -> None:
    aws.run(aws.upload("x.png", picture(RED)))
    deletion, creation = aws.delete("x.png"), aws.upload("x.png", picture(GREEN))
    assert aws.run(creation).outcome == "Processed"
    assert aws.run(deletion).outcome == "Superseded"
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_a_deleted_version_leaves_the_output_of_the_one_before(aws: InProcess) -> None:
    aws.keep_versions()
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert [aws.run(each).outcome for each in (older, newer)] == ["Superseded", "Processed"]
    version = newer["detail"]["object"]["version-id"]
    assert aws.run(aws.delete("x.png", VersionId=version)).outcome == "Processed"
    assert colour_of(aws.output("out-x.png")) == CYAN
    assert aws.run(aws.delete("x.png")).outcome == "Processed"  # a delete marker
    assert aws.outputs() == []
