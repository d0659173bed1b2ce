"""Events that wait for a retry: to list them without disturbing them.

A message that waits is invisible: SQS gives it to no reader. To receive a visible one would hide it
from the function. So nothing here receives messages. The function logs until when each one waits,
and this log is read. SQS only counts the messages.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from inorder.aws.parked import QueuedEvent
from inorder.aws.stack import Connection
from inorder.model.execution import UNREADABLE
from inorder_fence import named_version

# No event waits for longer than 15 minutes before the function reads its message again.
LOG_SECONDS = 1800
OUTCOMES = ("RetryWaiting", "RetryStarted", "RetryParked", "RetryMerging", "RetryMerged")
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/matching-terms-json-log-events.html
PATTERN = "{ " + " || ".join(f'$.message = "{name}"' for name in OUTCOMES) + " }"
FIELDS = (
    *("object_key", "key", "version_id", "sequencer", "message_id", "attempts"),
    *("since", "next", "reasons", "refusal"),
)


@dataclass(frozen=True)
class RetryingEvent(QueuedEvent):
    """An event that waits for a retry."""

    body: dict[str, Any]  # what the function has logged of it
    id: str  # of its message
    key: str | None  # of the object; None if the event has none
    version_id: str | None  # of the object, if it has one of its own
    attempts: int  # how often it has failed
    since: datetime  # when it first failed
    next: datetime  # when it is tried again
    reasons: str  # why it failed, and why it could not be started again, in one line

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        """Read a line of the log; a KeyError or one of `UNREADABLE` if it does not tell."""
        refusal = entry.get("refusal")
        return cls(
            {name: entry[name] for name in FIELDS if name in entry},
            str(entry["message_id"]),
            entry.get("key"),
            named_version(entry.get("version_id")),
            int(entry["attempts"]),
            datetime.fromisoformat(entry["since"]),
            datetime.fromisoformat(entry["next"]),
            "; ".join([*entry["reasons"], *([refusal] if refusal else [])]),
        )


def retrying_events(aws: Connection) -> list[RetryingEvent]:
    """Read which events wait, the one that is tried next first."""
    reading = aws.client("logs").get_paginator("filter_log_events")
    group, since = aws.stack.function_log_group, int((time.time() - LOG_SECONDS) * 1000)
    pages = reading.paginate(logGroupName=group, startTime=since, filterPattern=PATTERN)
    lines = [line for page in pages for line in page["events"]]
    lines.sort(key=lambda line: line["timestamp"])
    latest = {entry["message_id"]: entry for line in lines if (entry := _entry(line["message"]))}
    events: list[RetryingEvent] = []
    for entry in latest.values():
        with suppress(KeyError, *UNREADABLE):  # such as of one that cannot be parked
            if entry["message"] == "RetryWaiting":
                events.append(RetryingEvent.of(entry))
    return sorted(events, key=lambda event: event.next)


def _entry(message: str) -> dict[str, Any] | None:
    """Read a line of the log; None if it does not say what has become of a message."""
    with suppress(*UNREADABLE):
        match json.loads(message):
            case {"message": str(name), "message_id": str()} as entry if name in OUTCOMES:
                return dict(entry)
    return None
