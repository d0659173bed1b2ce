"""`inorder retrying`: which events wait, as the log of the function says."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from inorder.aws import retrying
from inorder.aws.parked import ParkedEvent
from inorder.commands import queues
from tests.support.commands import run
from tests.support.stacks import stack_with

NOW = 1_795_000_000.0


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat()


def line(at: float, message: str, message_id: str, **more: Any) -> tuple[float, str]:
    """Build a line of the log, `at` seconds from now."""
    return at, json.dumps({"message": message, "message_id": message_id} | more)


def waiting(at: float, message_id: str, until: float, **more: Any) -> tuple[float, str]:
    """Build the line of an event that waits until then."""
    key, failed = f"{message_id}.png", {"attempts": 2, "reasons": ["E: c (2 times)"]}
    event = {"object_key": f"pictures/{key}", "key": key, "since": iso(-100), "next": iso(until)}
    return line(at, "RetryWaiting", message_id, **failed | event | more)


def stack(*lines: tuple[float, str]) -> Mock:
    """Build a stack whose log has these lines, on two pages."""
    entries = [{"timestamp": (NOW + at) * 1000, "message": text} for at, text in lines]
    counts = {"ApproximateNumberOfMessagesNotVisible": "7", "ApproximateNumberOfMessages": "3"}
    client = Mock()
    pages = [{"events": entries[:1]}, {"events": entries[1:]}]
    client.get_paginator.return_value.paginate.return_value = pages
    client.get_queue_attributes.return_value = {"Attributes": counts}
    return Mock(stack=stack_with(), client=Mock(return_value=client))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "time", SimpleNamespace(time=lambda: NOW))


def listed(aws: Mock) -> list[str]:
    return [event.subject for event in retrying.retrying_events(aws)]


def test_events_that_wait_are_listed_the_next_one_first() -> None:
    aws = stack(waiting(-9, "late", 300), waiting(-8, "soon", 20), waiting(-7, "overdue", -1))
    assert listed(aws) == [f"pictures/{name}.png" for name in ("overdue", "soon", "late")]
    asked = aws.client().get_paginator().paginate.call_args.kwargs
    assert asked["logGroupName"] == aws.stack.function_log_group
    assert NOW - asked["startTime"] / 1000 > 900 + 120  # for longer than an event can wait


def test_an_event_that_no_longer_waits_is_not_listed() -> None:
    for end in ("RetryStarted", "RetryParked", "RetryMerging", "RetryMerged"):
        assert listed(stack(line(-1, end, "a"), waiting(-9, "a", -2))) == []
    # It still does after a failure of the function.
    assert listed(stack(waiting(-9, "a", -2), line(-1, "RetryFailed", "a"))) == ["pictures/a.png"]
    other = [(-1.0, text) for text in ("START RequestId: 1", "7", "{}")]
    assert listed(stack(*other, line(-1, "RetryWaiting", "m"))) == []  # which cannot be parked


def test_an_event_waiting_again_is_listed_with_its_latest_reason() -> None:
    aws = stack(waiting(-1, "a", 50, refusal="StartExecution: gone"), waiting(-9, "a", -2))
    [event] = retrying.retrying_events(aws)
    assert event.next == datetime.fromtimestamp(NOW + 50, UTC)
    assert event.reasons == "E: c (2 times); StartExecution: gone"


def test_a_list_shows_plain_keys_and_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    aws = stack(waiting(-9, "a", 60, object_key="[red]\x1b.png", reasons=["word " * 30]))
    monkeypatch.setattr(queues, "Connection", lambda *_, **__: aws)
    printed = run("retrying", env={"COLUMNS": "80"})
    for text in ("a  [red]\\x1b.png", "failed 2 times since", "word word"):
        assert text in printed.stdout
    assert max(map(len, printed.stdout.splitlines())) <= 80
    assert "about 7 waiting messages, and 3 due." in printed.stderr


def test_a_parked_event_shows_why_each_attempt_failed() -> None:
    again = {"Error": "E", "Cause": "c", "attempts": 5, "reasons": ["F: x", "E: c (4 times)"]}
    for reason, text in ((again, "5 attempts: F: x; E: c (4 times)"), ("text", "text")):
        event = ParkedEvent("m", "r", datetime.fromtimestamp(NOW, UTC), {"reason": reason})
        assert event.reason == text
