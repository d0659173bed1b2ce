"""Each path through first_wins.asl.json, with the real conditional writes and handler."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest

from tests.conftest import colour_of, picture
from tests.in_process import InProcess
from tests.statemachine.situations import (
    CYAN,
    GREEN,
    MAGENTA,
    OTHER_RUN,
    RED,
    SHORT,
    HeldBack,
    at_call,
    leave_a_dead_holder,
    lose_the_lock,
    sequencer_of,
)

pytestmark = pytest.mark.policy("first-wins")

UNCONTENDED = [
    "S3 Object Event?",
    "Versioned Object?",
    "Prepare Event",
    "Claim Key",
    "Invert Image",
    "Outcome?",
    "Release Lock",
    "Processed",
    "Processed",
]


def test_the_first_event_is_processed_and_all_others_are_duplicates(aws: InProcess) -> None:
    first = aws.upload("x.png", picture(RED))
    ended = aws.run(first)
    assert ended.path == UNCONTENDED
    second = aws.upload("x.png", picture(GREEN))
    assert [aws.run(event).outcome for event in (first, second)] == ["Duplicate", "Duplicate"]
    assert len(aws.invocations) == 1
    assert colour_of(aws.output("out-x.png")) == CYAN
    record = aws.record("input/x.png")
    assert record["expires_at"] == int(ended.output["result"]["expires_at"])
    assert (record["status"], record["sequencer"]) == ("DONE", sequencer_of(first))


def test_an_older_event_after_the_one_that_was_processed_is_a_duplicate(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert [aws.run(event).outcome for event in (newer, older)] == ["Processed", "Duplicate"]
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_a_dead_holders_event_is_parked_before_an_older_one_takes_the_key(aws: InProcess) -> None:
    aws.wait_scale = SHORT
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    leave_a_dead_holder(aws, "input/x.png", event=json.dumps(newer))
    ended = aws.run(older)
    # The object has been replaced: without the other event, nobody would process what is there.
    assert ended.outcome == "Superseded"
    [parked] = aws.parked()
    assert (parked["event"], parked["reason"]["Error"]) == (newer, "HolderDied")
    assert aws.run(parked["event"]).outcome == "Processed"
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_of_five_at_once_one_is_processed(aws: InProcess) -> None:
    aws.wait_scale = 0.2
    events = [aws.upload("x.png", picture(RED)) for _ in range(5)]
    arns = [aws.start(event) for event in events]
    counted = Counter(aws.wait(arn).outcome for arn in arns)
    assert counted == {"Processed": 1, "Duplicate": 4}
    assert len(aws.invocations) == 1


def test_one_that_waited_for_the_first_is_a_duplicate(aws: InProcess) -> None:
    aws.wait_scale = 0.2
    first = aws.upload("x.png", picture(RED))
    answers = HeldBack(aws)
    holder = aws.start(first)
    assert answers.worked.wait(30)
    waiting = aws.start(aws.upload("x.png", picture(GREEN)))
    third_look = threading.Event()
    at_call("dynamodb.GetItem", 3, third_look.set)
    assert third_look.wait(30)
    answers.release.set()
    assert aws.wait(holder).outcome == "Processed"
    ended = aws.wait(waiting)
    assert ended.outcome == "Duplicate"
    assert ended.path.count("Watch Lock") == 1
    assert ended.path.count("Wait For Lock") >= 2
    assert len(aws.invocations) == 1


def test_after_one_that_failed_the_next_is_processed(aws: InProcess) -> None:
    assert aws.run(aws.upload("x.png", b"no image")).outcome == "Parked"
    assert aws.record("input/x.png")["status"] == "FAILED"
    assert aws.run(aws.upload("x.png", picture(GREEN))).outcome == "Processed"
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_an_object_that_was_replaced_before_it_was_read_leaves_the_key_open(
    aws: InProcess,
) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    ended = aws.run(older)
    assert ended.outcome == "Superseded"
    assert "Release Superseded Key" in ended.path
    record = aws.record("input/x.png")
    assert record["status"] == "FAILED"
    assert record["expires_at"]  # nobody may come
    assert "lock_token" not in record
    assert aws.run(newer).outcome == "Processed"
    assert colour_of(aws.output("out-x.png")) == MAGENTA
    assert aws.run(older).outcome == "Duplicate"


def test_an_object_that_was_deleted_before_it_was_read_leaves_the_key_open(
    aws: InProcess,
) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.delete("x.png")
    assert aws.run(event).outcome == "Superseded"
    assert aws.run(aws.upload("x.png", picture(GREEN))).outcome == "Processed"


def test_a_deletion_is_no_event_for_it(aws: InProcess) -> None:
    aws.upload("x.png", picture(RED))
    assert aws.run(aws.delete("x.png")).outcome == "InvalidEvent"


def test_the_first_event_of_each_version_counts(aws: InProcess) -> None:
    aws.keep_versions()
    for colour, inverse in ((RED, CYAN), (GREEN, MAGENTA)):
        event = aws.upload("x.png", picture(colour))
        assert [aws.run(event).outcome for _ in range(2)] == ["Processed", "Duplicate"]
        assert colour_of(aws.output("out-x.png")) == inverse


def test_after_the_record_has_expired_another_event_is_processed(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    aws.table.delete_item(Key={"id": "input/x.png"})
    assert aws.run(event).outcome == "Processed"
    aws.table.delete_item(Key={"id": "input/x.png"})
    assert aws.run(aws.upload("x.png", picture(GREEN))).outcome == "Processed"
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_a_run_that_lost_its_lock_does_not_open_the_key_of_another(aws: InProcess) -> None:
    older = aws.upload("x.png", picture(RED))
    aws.upload("x.png", picture(GREEN))
    lose_the_lock(aws, "input/x.png")
    assert aws.run(older).outcome == "Superseded"
    record = aws.record("input/x.png")
    assert (record["lock_token"], record["status"]) == (OTHER_RUN, "IN_PROGRESS")
