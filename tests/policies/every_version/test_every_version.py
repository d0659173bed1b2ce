"""What every_version.asl.json does with the real function and conditional writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from tests.conftest import colour_of, picture
from tests.in_process import InProcess
from tests.policies.situations import (
    BLUE,
    CYAN,
    GREEN,
    MAGENTA,
    RED,
    YELLOW,
    HeldBack,
    sequencer_of,
)

pytestmark = pytest.mark.policy("every-version")


def event_record(aws: InProcess, event: dict[str, Any]) -> dict[str, Any]:
    return aws.record(f"event:input/x.png@{sequencer_of(event)}")


def processed_order(aws: InProcess) -> list[str]:
    return [sequencer_of(payload["event"]) for payload in aws.invocations]


def oldest_waiter(aws: InProcess) -> Any:
    return aws.record("input/x.png").get("oldest_waiting")


def leave_a_dead_waiter(aws: InProcess) -> None:
    aws.put_record({"id": "input/x.png", "oldest_waiting": "00"})


def test_a_processed_event_leaves_its_own_record_and_a_free_key(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    ended = aws.run(event)
    assert colour_of(aws.output(f"out-x.png/{sequencer_of(event)}")) == CYAN
    expires_at = int(ended.output["result"]["expires_at"])
    record = event_record(aws, event)
    assert json.loads(record["event"]) == event
    assert (record["status"], record["expires_at"]) == ("DONE", expires_at)
    key = aws.record("input/x.png")
    assert key.pop("claimed_at")
    assert key == {"id": "input/x.png", "expires_at": expires_at}


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)], ids=str)
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


def test_an_event_whose_content_is_lost_is_parked_and_not_dropped(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert aws.run(newer).outcome == "Processed"
    ended = aws.run(older)
    assert json.loads(ended.cause)["Error"] == "SourceChanged"
    assert [message["event"] for message in aws.parked()] == [older]
    assert event_record(aws, older)["status"] == "FAILED"
    assert aws.outputs() == [f"out-x.png/{sequencer_of(newer)}"]


def test_of_two_copies_at_once_the_second_waits_and_finds_the_event_done(aws: InProcess) -> None:
    aws.wait_scale = 0.2
    event = aws.upload("x.png", picture(RED))
    answers = HeldBack(aws)
    first = aws.start(event)
    assert answers.worked.wait(30)
    second = aws.start(event)
    wait_until(lambda: oldest_waiter(aws) is not None, 30, "the second")
    answers.release.set()
    assert aws.wait(first).outcome == "Processed"
    ended = aws.wait(second)
    assert ended.outcome == "Duplicate"
    assert {"Wait For Turn", "Skip Duplicate"} < set(ended.path)
    assert len(aws.invocations) == 1
    assert "lock_token" not in aws.record("input/x.png")


@pytest.mark.parametrize("arrival", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_waiting_events_go_in_the_order_of_their_sequencers(
    aws: InProcess, arrival: tuple[int, ...]
) -> None:
    aws.wait_scale = 0.3
    first, *others = [aws.upload("x.png", picture(RED)) for _ in range(4)]
    answers = HeldBack(aws)
    executions = [aws.start(first)]
    assert answers.worked.wait(30)
    for at in arrival:
        executions.append(aws.start(others[at]))
        wait_until(lambda: event_record(aws, others[at]) != {}, 30, "its record")  # noqa: B023
    wait_until(lambda: oldest_waiter(aws) == sequencer_of(others[0]), 30, "the oldest")
    answers.release.set()
    assert [aws.wait(each).outcome for each in executions] == ["Processed"] * 4
    assert processed_order(aws) == [sequencer_of(each) for each in (first, *others)]


def test_a_newer_event_does_not_claim_a_free_key_before_an_older_one_that_waits(
    aws: InProcess,
) -> None:
    aws.wait_scale = 0.3
    older, newer = (aws.upload("x.png", picture(RED)) for _ in range(2))
    aws.put_record({"id": "input/x.png", "oldest_waiting": sequencer_of(older)})
    waiting = aws.start(newer)
    wait_until(lambda: "status" in event_record(aws, newer), 30, "the newer one's record")
    assert "Wait For Turn" not in aws.run(older).path
    assert aws.wait(waiting).outcome == "Processed"
    assert processed_order(aws) == [sequencer_of(older), sequencer_of(newer)]


def test_a_slow_waiter_that_was_cleared_gets_a_whole_turn_again(aws: InProcess) -> None:
    """Otherwise it could never claim the key, because older events have one poll to go first."""
    seen: list[Any] = []

    def come_back() -> None:
        seen.append(oldest_waiter(aws))
        if seen.count("00") == len(seen) - 1 and seen[-1] != "00":
            leave_a_dead_waiter(aws)

    aws.wait_scale, aws.at_wait = 0, come_back
    leave_a_dead_waiter(aws)
    ended = aws.run(aws.upload("x.png", picture(RED)))
    assert ended.path.count("Clear Dead Waiter") == 2
    turn = next(at for at, each in enumerate(seen) if each != "00")
    assert seen[turn : 2 * turn + 2] == [seen[turn], *turn * ["00"], seen[turn]]
    assert turn > 3
