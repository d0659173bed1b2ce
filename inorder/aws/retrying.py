"""Events that wait for a retry: to list them without disturbing them, to start or to park one.

A message that waits is invisible: SQS gives it to no reader. To receive a visible one would hide it
from the function. So nothing here receives messages. The function logs until when each one waits,
and this log is read. SQS only counts the messages.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inorder.aws.executions import StateMachine, start
from inorder.aws.parked import QueuedEvent
from inorder.aws.stack import Connection
from inorder.errors import Failure
from inorder.model.execution import LIFE, UNREADABLE, Filter
from inorder.model.outcomes import RETRYING
from inorder_fence import named_version
from inorder_fence.records import as_json, retry_message, without_history

# No event waits for longer than 15 minutes before the function reads its message again.
LOG_SECONDS = 1800
OUTCOMES = ("RetryWaiting", "RetryStarted", "RetryParked", "RetryMerging", "RetryMerged")
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/matching-terms-json-log-events.html
PATTERN = "{ " + " || ".join(f'$.message = "{name}"' for name in OUTCOMES) + " }"
FIELDS = (
    *("object_key", "content", "key", "version_id", "sequencer", "message_id", "attempts"),
    *("since", "next", "reasons", "refusal"),
)


@dataclass(frozen=True)
class RetryingEvent(QueuedEvent):
    """An event that waits for a retry."""

    body: dict[str, Any]  # what the function has logged of it

    @property
    def id(self) -> str:
        """The ID of its message."""
        return str(self.body["message_id"])

    @property
    def attempts(self) -> int:
        """How often it has failed."""
        return int(self.body["attempts"])

    @property
    def key(self) -> str | None:
        """The S3 key of the event; None if it has none."""
        return self.body.get("key")

    @property
    def version_id(self) -> str | None:
        """The version of the object, if it has one of its own."""
        return named_version(self.body.get("version_id"))

    @property
    def since(self) -> datetime:
        """When it first failed."""
        return datetime.fromisoformat(self.body["since"])

    @property
    def next(self) -> datetime:
        """When it is tried again."""
        return datetime.fromisoformat(self.body["next"])

    @property
    def reasons(self) -> str:
        """Why it failed, and why it could not be started again, in one line."""
        refusal = self.body.get("refusal")
        return "; ".join([*self.body["reasons"], *([refusal] if refusal else [])])


@dataclass(frozen=True)
class Backlog:
    """How many messages are in the retry queue, as SQS estimates it."""

    waiting: int  # or being handled
    unread: int  # which the function may read now


def retrying_events(aws: Connection) -> list[RetryingEvent]:
    """Read which events wait, the one that is tried next first."""
    reading = aws.client("logs").get_paginator("filter_log_events")
    group, since = aws.stack.function_log_group, int((time.time() - LOG_SECONDS) * 1000)
    pages = reading.paginate(logGroupName=group, startTime=since, filterPattern=PATTERN)
    lines = [line for page in pages for line in page["events"]]
    lines.sort(key=lambda line: line["timestamp"])
    latest = {entry["message_id"]: entry for line in lines if (entry := _entry(line["message"]))}
    read = (_event(each) for each in latest.values() if each["message"] == "RetryWaiting")
    events = [each for each in read if each]
    return sorted(events, key=lambda event: event.next)


def failed_input(machine: StateMachine, event: RetryingEvent) -> Any:
    """Give the input of the execution that failed last; a Failure if the log does not have it."""
    since = event.since - 2 * LIFE  # the first one had failed by then, and clocks differ
    wanted = Filter(key=event.key, outcomes=frozenset({RETRYING}), since=since)
    for each in machine.select(wanted):
        named = (str(each.record_id), each.sequencer or "")
        if each.event is not None and named == (event.subject, event.sequencer):
            return each.event
    unknown = " ".join(machine.unknown)
    raise Failure(f"No execution of {event.subject} {event.sequencer} was found. {unknown}".strip())


def start_now(aws: Connection, failed: Any) -> None:
    """Start an event before its time; its message later starts a duplicate."""
    text = json.dumps(without_history(failed))
    start(aws.client("stepfunctions"), aws.stack.state_machine_arn, text)


def give_up(aws: Connection, event: RetryingEvent, failed: Any) -> None:
    """Let the function that retries park an event: its message then ends with that.

    The input of the execution that failed last says to which attempt this answer belongs.
    """
    cause = "Somebody gave this event up: inorder retrying --give-up."
    body = json.loads(retry_message(failed, "GivenUp", cause, event.subject))
    body["reason"]["rejected"] = True
    aws.client("sqs").send_message(
        QueueUrl=aws.stack.retry_events_queue_url, MessageBody=as_json(body)
    )


def backlog(aws: Connection) -> Backlog:
    """Count the messages in the retry queue."""
    names = ("ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessages")
    attributes = aws.client("sqs").get_queue_attributes(
        QueueUrl=aws.stack.retry_events_queue_url, AttributeNames=list(names)
    )["Attributes"]
    return Backlog(*(int(attributes[name]) for name in names))


def _entry(message: str) -> dict[str, Any] | None:
    """Read a line of the log; None if it does not say what has become of a message."""
    with suppress(*UNREADABLE):
        match json.loads(message):
            case {"message": str(said), "message_id": str()} as entry if said in OUTCOMES:
                return dict(entry)
    return None


def _event(entry: dict[str, Any]) -> RetryingEvent | None:
    """Read which event waits; None if the line does not tell, as of one that cannot be parked."""
    event = RetryingEvent({name: entry[name] for name in FIELDS if name in entry})
    with suppress(KeyError, *UNREADABLE):
        return event if (event.since, event.next, event.attempts, event.reasons) else None
    return None
