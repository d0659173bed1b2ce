"""`inorder retrying`: which events wait, as the log of the function says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from inorder.aws import retrying
from inorder.aws.parked import ParkedEvent
from inorder.commands import queues
from inorder.commands.main import main
from inorder.errors import Failure

NOW = 1_795_000_000.0


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat()


def line(at: float, message: str, message_id: str, **more: Any) -> tuple[float, str]:
    """Build a line of the log, `at` seconds from now."""
    fields = {"message": message, "message_id": message_id, "level": "INFO", "service": "x"}
    return at, json.dumps(fields | more)


def waiting(at: float, message_id: str, until: float, **more: Any) -> tuple[float, str]:
    fields = {
        "object_key": f"pictures/{message_id}.png",
        "key": f"{message_id}.png",
        "sequencer": "0A",
        "attempts": 2,
        "since": iso(-100),
        "reasons": ["E: c (2 times)"],
        "next": iso(until),
    }
    return line(at, "RetryWaiting", message_id, **fields | more)


class Stack:
    """A stack whose log and queue are as given."""

    def __init__(self, *lines: tuple[float, str]) -> None:
        self._lines = lines
        self.asked: dict[str, Any] = {}
        self.stack = SimpleNamespace(
            name="s", retry_events_log_group="group", retry_events_queue_url="queue"
        )

    def client(self, _: str) -> Any:
        return SimpleNamespace(
            get_paginator=lambda _: SimpleNamespace(paginate=self._pages),
            get_queue_attributes=lambda **_: {
                "Attributes": {
                    "ApproximateNumberOfMessages": "3",
                    "ApproximateNumberOfMessagesNotVisible": "7",
                }
            },
        )

    def _pages(self, **asked: Any) -> list[Any]:
        self.asked = asked
        entries = [{"timestamp": (NOW + at) * 1000, "message": text} for at, text in self._lines]
        return [{"events": entries[:1]}, {"events": entries[1:]}]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "time", SimpleNamespace(time=lambda: NOW))


def listed(aws: Stack) -> list[str]:
    return [event.subject for event in retrying.retrying_events(aws)]  # type: ignore[arg-type]


def inorder(monkeypatch: pytest.MonkeyPatch, aws: Stack, *options: str) -> Result:
    monkeypatch.setattr(queues, "Connection", lambda _: aws)
    monkeypatch.setenv("COLUMNS", "200")
    return CliRunner(mix_stderr=False).invoke(main, ["retrying", *options])


def test_events_that_wait_are_listed_the_next_one_first() -> None:
    aws = Stack(waiting(-9, "late", 300), waiting(-8, "soon", 20), waiting(-7, "overdue", -1))
    assert listed(aws) == [f"pictures/{name}.png" for name in ("overdue", "soon", "late")]
    assert aws.asked["logGroupName"] == "group"
    assert NOW - aws.asked["startTime"] / 1000 > 900 + 120  # for longer than an event can wait
    fields = {"content": "9b2c", "attempts": 1, "since": iso(0), "next": iso(9), "reasons": []}
    assert listed(Stack(line(-1, "RetryWaiting", "m", **fields))) == ["9b2c"]  # of content-hash


def test_an_event_that_no_longer_waits_is_not_listed() -> None:
    for end in ("RetryStarted", "RetryParked", "RetryMerging", "RetryMerged"):
        assert listed(Stack(line(-1, end, "a"), waiting(-9, "a", -2))) == []
    # It still does after a failure of the function.
    assert listed(Stack(waiting(-9, "a", -2), line(-1, "RetryFailed", "a"))) == ["pictures/a.png"]
    other = [(-1.0, text) for text in ("START RequestId: 1", "7", "{}", '{"_aws": {}}')]
    strange = line(-1, "RetryWaiting", "m", next=iso(9))  # not a state machine's; cannot be parked
    assert listed(Stack(*other, strange, line(-1, "RetryFailed", "n"))) == []
    aws = Stack()
    aws.stack.retry_events_log_group = ""
    with pytest.raises(Failure, match="Stack s retries no events"):
        listed(aws)


def test_an_event_that_waits_again_is_listed_once_with_its_latest_reason() -> None:
    aws = Stack(waiting(-1, "a", 50, refusal="StartExecution: gone"), waiting(-9, "a", -2))
    [event] = retrying.retrying_events(aws)  # type: ignore[arg-type]
    assert event.next == datetime.fromtimestamp(NOW + 50, UTC)
    assert event.reasons == "E: c (2 times); StartExecution: gone"


def test_the_table_shows_keys_as_they_are_and_json_has_what_the_function_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aws = Stack(waiting(-9, "a", 60, object_key="p/[red]x\x1b.png"))
    result = inorder(monkeypatch, aws)
    assert result.exit_code == 0, result.output
    [row] = [each for each in result.stdout.splitlines() if "p/[red]x\\x1b.png" in each]
    for text in (" 2 ", "11:05:00", "11:07:40", "E: c (2 times)"):
        assert text in row
    assert "about 7 messages that wait and 3 that" in result.stderr
    assert json.loads(inorder(monkeypatch, aws, "--json").stdout) == {
        "object_key": "p/[red]x\x1b.png",
        "key": "a.png",
        "sequencer": "0A",
        "message_id": "a",
        "attempts": 2,
        "since": iso(-100),
        "next": iso(60),
        "reasons": ["E: c (2 times)"],
    }


def test_a_parked_event_shows_why_each_attempt_failed() -> None:
    again = {"Error": "E", "Cause": "c", "attempts": 5, "reasons": ["F: x", "E: c (4 times)"]}
    for reason, text in [
        ({"Error": "E", "Cause": "c\nd"}, "E: c d"),
        (again, "5 attempts: F: x; E: c (4 times)"),
        ("text", "text"),
        (None, "None"),
    ]:
        event = ParkedEvent("m", "r", datetime.fromtimestamp(NOW, UTC), {"reason": reason})
        assert event.reason == text
