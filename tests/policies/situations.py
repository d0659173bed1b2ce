"""What the tests of several policies bring about: pictures, events, and holders of a lock."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from typing import Any

import boto3

from tests.in_process import InProcess

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
CYAN, MAGENTA, YELLOW = (0, 255, 255), (255, 0, 255), (255, 255, 0)  # their inverses

OTHER_RUN = "another run's"  # lock token
SHORT = 0.02  # scale of waits where nobody else needs the time


def sequencer_of(event: dict[str, Any]) -> str:
    sequencer: str = event["detail"]["object"]["sequencer"]
    return sequencer


def later(event: dict[str, Any], sequencer: str) -> dict[str, Any]:
    """Copy an event with another sequencer."""
    copy: dict[str, Any] = json.loads(json.dumps(event))
    copy["detail"]["object"]["sequencer"] = sequencer
    return copy


class HeldBack:
    """Lets the function work, and keeps its answers back until a test releases them."""

    def __init__(self, aws: InProcess) -> None:
        self.worked, self.release = threading.Event(), threading.Event()
        self._aws = aws
        aws.invoke = self._work

    def _work(self, payload: Any) -> Any:
        answer = self._aws.handle(payload)
        self.worked.set()
        assert self.release.wait(30)
        return answer


def at_call(operation: str, number: int, action: Callable[[], Any]) -> None:
    """Let something happen just before a call of the state machine, counted from one."""
    calls = itertools.count(1)

    def act(**_: Any) -> None:
        if next(calls) == number:
            action()

    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register(f"before-call.{operation}", act)


def lose_the_lock(aws: InProcess, object_key: str) -> None:
    """Let another run take the lock over while the function works."""

    def lose(payload: Any) -> Any:
        aws.table.update_item(
            Key={"id": object_key},
            UpdateExpression="SET lock_token = :other",
            ExpressionAttributeValues={":other": OTHER_RUN},
        )
        return aws.handle(payload)

    aws.invoke = lose


def leave_a_dead_holder(aws: InProcess, object_key: str, **attributes: str) -> None:
    """Leave a lock whose execution is gone."""
    aws.put_record(
        {
            "id": object_key,
            "status": "IN_PROGRESS",
            "lock_token": "dead",
            "execution": "dead",
            "event": "{}",
            **attributes,
        }
    )
