"""Each path through every_version.asl.json, with the real conditional writes and handler."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from tests.conftest import colour_of, picture
from tests.in_process import InProcess
from tests.statemachine.situations import (
    BLUE,
    CYAN,
    GREEN,
    MAGENTA,
    OTHER_RUN,
    RED,
    SHORT,
    YELLOW,
    HeldBack,
    at_call,
    leave_a_dead_holder,
    sequencer_of,
)

pytestmark = pytest.mark.policy("every-version")

UNCONTENDED = [
    "S3 Object Event?",
    "Versioned Object?",
    "Prepare Event",
    "Record Event",
    "Claim Key",
    "Read Event Record",
    "Event Done?",
    "Invert Image",
    "Outcome?",
    "Mark Event Done",
    "Release Lock",
    "Which Outcome?",
    "Processed",
    "Processed",
]


def own_record(aws: InProcess, event: dict[str, Any]) -> dict[str, Any]:
    return aws.record(f"event:input/x.png@{sequencer_of(event)}")


def processed_order(aws: InProcess) -> list[str]:
    return [sequencer_of(payload["event"]) for payload in aws.invocations]


def word(aws: InProcess) -> Any:
    return aws.record("input/x.png").get("oldest_waiting")


def say_that_an_older_one_waits(aws: InProcess) -> None:
    """Leave word of an event that is dead, for a key that is free."""
    aws.put_record({"id": "input/x.png", "oldest_waiting": "00"})


def test_an_uncontended_event_leaves_its_own_record_and_a_free_key(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    ended = aws.run(event)
    assert ended.path == UNCONTENDED
    assert colour_of(aws.output(f"out-x.png/{sequencer_of(event)}")) == CYAN
    expires_at = int(ended.output["result"]["expires_at"])
    record = own_record(aws, event)
    assert json.loads(record["event"]) == event
    assert (record["status"], record["expires_at"]) == ("DONE", expires_at)
    assert record["sequencer"] == sequencer_of(event)
    assert record["claimed_at"]
    key = aws.record("input/x.png")
    assert key.pop("claimed_at")
    assert key == {
        "object_key": "input/x.png",
        "sequencer": sequencer_of(event),
        "expires_at": expires_at,
    }


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_each_version_is_processed_once_in_any_order(
    aws: InProcess, order: tuple[int, ...]
) -> None:
    aws.keep_versions()
    events = [aws.upload("x.png", picture(colour)) for colour in (RED, GREEN, BLUE)]
    assert [aws.run(events[at]).outcome for at in order] == ["Processed"] * 3
    versions = [event["detail"]["object"]["version-id"] for event in events]
    outputs = [colour_of(aws.output(f"out-x.png/{version}")) for version in versions]
    assert outputs == [CYAN, MAGENTA, YELLOW]
    assert [aws.run(event).outcome for event in events] == ["Duplicate"] * 3
    assert len(aws.invocations) == 3


def test_an_older_event_that_comes_after_a_newer_one_is_not_dropped(aws: InProcess) -> None:
    """Its content is lost in a bucket without versions, and somebody should know."""
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert aws.run(newer).outcome == "Processed"
    ended = aws.run(older)
    assert ended.outcome == "Parked"
    assert json.loads(ended.cause)["Error"] == "SourceChanged"
    assert [message["event"] for message in aws.parked()] == [older]
    assert own_record(aws, older)["status"] == "FAILED"
    assert aws.outputs() == [f"out-x.png/{sequencer_of(newer)}"]


def test_the_same_content_uploaded_again_is_another_event(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(RED))
    assert [aws.run(each).outcome for each in (newer, older)] == ["Processed", "Processed"]
    assert len(aws.outputs()) == 2


def test_a_duplicate_is_dropped_by_its_record(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    ended = aws.run(event)
    assert ended.outcome == "Duplicate"
    assert "Claim Key" not in ended.path


def test_of_two_copies_at_once_the_second_waits_and_finds_it_done(aws: InProcess) -> None:
    aws.wait_scale = 0.2
    event = aws.upload("x.png", picture(RED))
    answers = HeldBack(aws)
    first = aws.start(event)
    assert answers.worked.wait(30)
    second = aws.start(event)
    wait_until(lambda: word(aws) is not None, 30, "word of the second")
    answers.release.set()
    assert aws.wait(first).outcome == "Processed"
    ended = aws.wait(second)
    assert ended.outcome == "Duplicate"
    assert {"Wait For Turn", "Event Done?", "Skip Duplicate", "Release Lock"} < set(ended.path)
    assert len(aws.invocations) == 1
    assert "lock_token" not in aws.record("input/x.png")


@pytest.mark.parametrize("arrival", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_those_that_wait_go_in_the_order_of_their_sequencers(
    aws: InProcess, arrival: tuple[int, ...]
) -> None:
    aws.wait_scale = 0.3
    first, *others = [aws.upload("x.png", picture(RED)) for _ in range(4)]
    answers = HeldBack(aws)
    arns = [aws.start(first)]
    assert answers.worked.wait(30)
    for at in arrival:
        arns.append(aws.start(others[at]))
        wait_until(lambda: own_record(aws, others[at]) != {}, 30, "its record")  # noqa: B023
    wait_until(lambda: word(aws) == sequencer_of(others[0]), 30, "word of the oldest")
    answers.release.set()
    assert [aws.wait(arn).outcome for arn in arns] == ["Processed"] * 4
    assert processed_order(aws) == [sequencer_of(each) for each in (first, *others)]


def test_a_newer_event_does_not_claim_a_free_key_past_an_older_one_that_waits(
    aws: InProcess,
) -> None:
    aws.wait_scale = 0.3
    older, newer = (aws.upload("x.png", picture(RED)) for _ in range(2))
    say = {"object_key": "input/x.png", "oldest_waiting": sequencer_of(older)}
    aws.put_record(say)
    waiting = aws.start(newer)
    wait_until(lambda: "status" in own_record(aws, newer), 30, "the newer one's record")
    assert aws.run(older).path == UNCONTENDED
    assert aws.wait(waiting).outcome == "Processed"
    assert processed_order(aws) == [sequencer_of(older), sequencer_of(newer)]


def test_word_of_a_dead_event_is_passed_over_after_5_looks(aws: InProcess) -> None:
    aws.wait_scale = SHORT
    say_that_an_older_one_waits(aws)
    ended = aws.run(aws.upload("x.png", picture(RED)))
    assert ended.outcome == "Processed"
    assert ended.path.count("Clear Dead Waiter") == 1
    before = ended.path[: ended.path.index("Clear Dead Waiter")]
    assert before.count("Wait For Turn") == 5
    assert "Break Lock" not in ended.path


def test_an_event_that_was_only_slow_is_not_passed_over_at_once_again(aws: InProcess) -> None:
    """It could never take its turn, as its word must stand for a look."""
    aws.wait_scale = 0.2
    say_that_an_older_one_waits(aws)
    passing = aws.start(aws.upload("x.png", picture(RED)))
    wait_until(lambda: word(aws) != "00", 30, "the older one to be passed over")
    say_that_an_older_one_waits(aws)
    time.sleep(3 * 3 * aws.wait_scale)  # three looks
    assert word(aws) == "00"
    assert aws.wait(passing).path.count("Clear Dead Waiter") == 2


def test_all_that_wait_behind_a_dead_holder_get_their_turns(aws: InProcess) -> None:
    aws.wait_scale = 0.05
    events = [aws.upload("x.png", picture(RED)) for _ in range(3)]
    leave_a_dead_holder(aws, "input/x.png", sequencer="00")
    arns = [aws.start(event) for event in reversed(events)]
    assert [aws.wait(arn).outcome for arn in arns] == ["Processed"] * 3
    assert len(aws.invocations) == 3


def test_a_key_that_stays_locked_parks_the_event(aws: InProcess) -> None:
    aws.wait_scale = SHORT
    event = aws.upload("x.png", picture(RED))
    leave_a_dead_holder(aws, "input/x.png", sequencer="00")

    def take_again() -> None:
        aws.table.update_item(
            Key={"id": "input/x.png"},
            UpdateExpression="SET lock_token = :other",
            ExpressionAttributeValues={":other": OTHER_RUN},
        )

    at_call("dynamodb.GetItem", 20, take_again)
    ended = aws.run(event)
    assert ended.outcome == "Parked"
    assert json.loads(ended.cause)["Error"] == "KeyLocked"
    assert own_record(aws, event)["status"] == "FAILED"
    assert aws.record("input/x.png")["lock_token"] == OTHER_RUN


def test_a_deletion_removes_the_outputs_of_what_was_before_it(aws: InProcess) -> None:
    events = [aws.upload("x.png", picture(colour)) for colour in (RED, RED)]
    for event in events:
        aws.run(event)
    assert len(aws.outputs()) == 2
    deletion, creation = aws.delete("x.png"), aws.upload("x.png", picture(GREEN))
    assert aws.run(creation).outcome == "Processed"
    assert aws.run(deletion).outcome == "Processed"
    assert aws.outputs() == [f"out-x.png/{sequencer_of(creation)}"]
    assert aws.run(deletion).outcome == "Duplicate"


def test_a_creation_that_comes_after_its_deletion_is_superseded(aws: InProcess) -> None:
    creation, deletion = aws.upload("x.png", picture(RED)), aws.delete("x.png")
    assert aws.run(deletion).outcome == "Processed"
    assert aws.run(creation).outcome == "Superseded"
    assert own_record(aws, creation)["status"] == "DONE"
    assert aws.outputs() == []
    assert aws.parked() == []


def test_the_deletion_of_a_version_removes_its_output_and_a_delete_marker_none(
    aws: InProcess,
) -> None:
    aws.keep_versions()
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    for event in (older, newer):
        aws.run(event)
    assert aws.run(aws.delete("x.png")).outcome == "Processed"
    assert len(aws.outputs()) == 2
    version = older["detail"]["object"]["version-id"]
    assert aws.run(aws.delete("x.png", VersionId=version)).outcome == "Processed"
    assert aws.outputs() == [f"out-x.png/{newer['detail']['object']['version-id']}"]


def test_a_version_that_is_created_late_after_its_deletion_is_superseded(aws: InProcess) -> None:
    aws.keep_versions()
    creation = aws.upload("x.png", picture(RED))
    deletion = aws.delete("x.png", VersionId=creation["detail"]["object"]["version-id"])
    assert aws.run(deletion).outcome == "Processed"
    assert aws.run(creation).outcome == "Superseded"
    assert aws.outputs() == []


def test_an_event_whose_record_has_expired_is_processed_again_without_harm(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    for item in aws.table.scan()["Items"]:
        aws.table.delete_item(Key={"id": item["id"]})
    assert aws.run(event).outcome == "Processed"
    assert len(aws.outputs()) == 1
