"""The queues of parked and of undelivered events: to list these, and to start them again (redrive).

Nothing here writes to the key table. An event is started as the rule would start it, and the state
machine processes it once. So an interrupted redrive may be run again, and two may run at once.
"""

import json
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from inorder.aws.executions import start
from inorder.aws.stack import Connection
from inorder.errors import Failure
from inorder_fence.records import object_key_of, s3_object, without_history

HOLD_SECONDS = 60  # for which a command that was killed hides messages from the next one
# A receive that waits asks all servers of the queue; still, one may return nothing by chance.
RECEIVE_SECONDS = 1
RECEIVES_WITHOUT_NEWS = 2
# Why EventBridge could not deliver an event:
# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html
ERRORS = ["ERROR_CODE", "ERROR_MESSAGE"]


class QueuedEvent:
    """An event as a message, or a line of the log, describes it."""

    body: dict[str, Any]

    @property
    def subject(self) -> str:
        """The `object_key` of its object; "" if the event is invalid."""
        return str(self.body.get("object_key", ""))

    @property
    def sequencer(self) -> str:
        """Its sequencer, if it has one."""
        return str(self.body.get("sequencer", ""))


@dataclass(frozen=True)
class ParkedEvent(QueuedEvent):
    """A message in one of the queues."""

    id: str  # of the message, for as long as it is in the queue
    receipt: str  # with which SQS deletes it
    parked_at: datetime  # when it was sent
    # What the state machine wrote, or the same of an undelivered event. An invalid event has no
    # key or sequencer.
    body: dict[str, Any]

    @classmethod
    def of(cls, message: dict[str, Any]) -> Self:
        """Read a message, as SQS gives it."""
        try:
            body = json.loads(message["Body"])
        except (ValueError, RecursionError):
            body = None
        attributes = message.get("MessageAttributes", {})
        reason = {"Error": "NoEvent", "Cause": message["Body"]}
        if any(name in attributes for name in ERRORS):
            found = [attributes.get(name, {}).get("StringValue", "") for name in ERRORS]
            reason = dict(zip(("Error", "Cause"), found, strict=True))
            body = _undelivered(body, reason)
        if not isinstance(body, dict):  # neither a state machine nor EventBridge has sent it
            body = {"reason": reason}
        sent = int(message["Attributes"]["SentTimestamp"]) / 1000
        parked_at = datetime.fromtimestamp(sent, UTC)
        return cls(message["MessageId"], message["ReceiptHandle"], parked_at, body)

    @property
    def reason(self) -> str:
        """Why it was parked, in one line; after retries, all reasons."""
        match self.body.get("reason"):
            case {"attempts": attempts, "reasons": [*reasons]}:
                text = f"{attempts} attempts: {'; '.join(map(str, reasons))}"
            case dict(reason):
                text = f"{reason.get('Error')}: {reason.get('Cause')}"
            case reason:
                text = str(reason)
        return " ".join(text.split())

    def is_startable(self, named: bool) -> bool:
        """Tell whether to start it again: an invalid event would fail, so it must be named."""
        return "event" in self.body and (named or bool(self.subject))


def parked_events(aws: Connection, queue_url: str | None = None) -> Generator[ParkedEvent]:
    """Receive each parked event once, or each event of another queue.

    SQS cannot show a message without hiding it for a while. Those that are not deleted are visible
    again as soon as the iterator is closed.
    """
    sqs, queue = aws.client("sqs"), queue_url or aws.stack.parked_events_queue_url
    receipts: dict[str, str] = {}
    without_news = 0
    try:
        while without_news < RECEIVES_WITHOUT_NEWS:
            received = sqs.receive_message(
                QueueUrl=queue,
                MaxNumberOfMessages=10,
                VisibilityTimeout=HOLD_SECONDS,
                WaitTimeSeconds=RECEIVE_SECONDS,
                MessageSystemAttributeNames=["SentTimestamp"],
                MessageAttributeNames=ERRORS,
            ).get("Messages", [])
            news = [message for message in received if message["MessageId"] not in receipts]
            without_news = 0 if news else without_news + 1
            # A message may come again; only its latest receipt counts.
            receipts |= {each["MessageId"]: each["ReceiptHandle"] for each in received}
            yield from map(ParkedEvent.of, news)
    finally:
        # A deleted message is refused, alone. If SQS cannot be reached, all return by themselves.
        with suppress(BotoCoreError, ClientError):
            for first in range(0, len(receipts), 10):
                entries = [
                    {"Id": str(number), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                    for number, receipt in enumerate([*receipts.values()][first : first + 10])
                ]
                sqs.change_message_visibility_batch(QueueUrl=queue, Entries=entries)


def only_one(events: Sequence[ParkedEvent], beginning: str) -> ParkedEvent:
    """Give the one event whose ID begins like this; else a Failure."""
    found = [event for event in events if event.id.startswith(beginning)]
    if len(found) != 1:
        number = "No" if not found else "More than one"
        hint = "" if found else " Another command may hide it for a moment."
        raise Failure(f"{number} parked event has the ID {beginning}.{hint}")
    return found[0]


def redrive(aws: Connection, ids: set[str], queue_url: str | None = None) -> Generator[ParkedEvent]:
    """Start parked events again, or those of another queue, and remove each once it has started.

    A message that is gone, or hidden by another redrive, is left out. If this is interrupted after
    an event has started, the next redrive starts the event again. The execution is named after the
    message: where names are unique, as on the local AWS, the second start is refused. Express on
    AWS lets names repeat: there the second execution ends as a duplicate or, if the event fails
    again, parks it twice. Either way nothing is lost and nothing is processed twice.
    """
    states, sqs = aws.client("stepfunctions"), aws.client("sqs")
    queue, remaining = queue_url or aws.stack.parked_events_queue_url, set(ids)
    with closing(parked_events(aws, queue)) as events:
        while remaining and (event := next(events, None)):
            if event.id in remaining:
                # So that it has all attempts again.
                text = json.dumps(without_history(event.body["event"]))
                with suppress(states.exceptions.ExecutionAlreadyExists):
                    start(states, aws.stack.state_machine_arn, text, name=f"redrive-{event.id}")
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=event.receipt)
                remaining.remove(event.id)
                yield event


def _undelivered(body: Any, reason: dict[str, str]) -> Any:
    """Describe an event that EventBridge could not deliver as a state machine describes one.

    It was meant for the state machine or, as what a state machine reports, for the retry queue.
    """
    if not isinstance(body, dict):
        return None
    report = body.get("detail") if body.get("source") == "inorder" else body
    event = report.get("event", report) if isinstance(report, dict) else body
    named = object_key_of(event) or str(body.get("id", "(unknown)"))
    sequencer = s3_object(event).get("sequencer", "")
    return {"object_key": named, "sequencer": sequencer, "reason": reason, "event": event}
