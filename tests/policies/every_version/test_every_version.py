"""What every_version.asl.json does with the real function and conditional writes."""

from __future__ import annotations

from typing import Any

import pytest

from inorder.aws.executions import wait_until
from tests.conftest import colour_of, picture
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
from tests.support.in_process import InProcess

pytestmark = pytest.mark.policy("every-version")


def event_record(aws: InProcess, event: dict[str, Any]) -> dict[str, Any]:
    return aws.record(f"event:input/x.png@{sequencer_of(event)}")


def test_each_version_is_processed_once_in_any_order(aws: InProcess) -> None:
    aws.keep_versions()
    events = [aws.upload("x.png", picture(colour)) for colour in (RED, GREEN, BLUE)]
    assert [aws.run(events[at]).outcome for at in (1, 2, 0)] == ["Processed"] * 3
    versions = [event["detail"]["object"]["version-id"] for event in events]
    outputs = [colour_of(aws.output(f"out-x.png/{version}")) for version in versions]
    assert outputs == [CYAN, MAGENTA, YELLOW]
    assert [aws.run(event).outcome for event in events] == ["Duplicate"] * 3
    assert len(aws.invocations) == 3


def test_waiting_events_go_in_the_order_of_their_sequencers(aws: InProcess) -> None:
    aws.wait_scale = 0.3
    first, *others = [aws.upload("x.png", picture(RED)) for _ in range(4)]
    answers = HeldBack(aws)
    executions = [aws.start(first)]
    assert answers.worked.wait(30)
    for at in (1, 2, 0):
        executions.append(aws.start(others[at]))
        wait_until(lambda: event_record(aws, others[at]) != {}, 30, "its record")  # noqa: B023
    oldest = sequencer_of(others[0])
    wait_until(lambda: aws.record("input/x.png").get("oldest_waiting") == oldest, 30, "the oldest")
    answers.release.set()
    assert [aws.wait(each).outcome for each in executions] == ["Processed"] * 4
    assert [payload["event"] for payload in aws.invocations] == [first, *others]
