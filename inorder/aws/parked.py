"""The queues of parked and of undelivered events: to list, start again (redrive) and remove these.

Nothing here writes to the key table. An event is started as the rule would start it, and the state
machine processes it once. So an interrupted redrive may be run again, and two may run at once.
An event that has been overtaken may be removed: started again, it would change nothing.
"""

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from inorder.aws.executions import start
from inorder.aws.stack import Connection
from inorder.errors import Failure
from inorder.wording import INORDER, counted, in_one_line
from inorder_fence import named_version
from inorder_fence.records import object_key_of, s3_object, without_history

HOLD_SECONDS = 60  # for which a command that was killed hides messages from the next one
# A receive that waits asks all servers of the queue; still, one may return nothing by chance.
RECEIVE_SECONDS = 1
RECEIVES_WITHOUT_NEWS = 2
# Why EventBridge could not deliver an event:
# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html
ERRORS = ["ERROR_CODE", "ERROR_MESSAGE"]
# What rejects an event and lets it through when something else than its object has been mended.
MENDED_ELSEWHERE = {"OutputOfAnotherBucket", "SourceUnreadable", "UnknownResult"}
REPLACE = "Replace the object: until the function is changed, a redrive would be parked again."
REMOVES = f"`{INORDER} parked --remove-overtaken` removes its message."
FIELDS = ("sequencer", "status")  # of a record
AT_A_TIME = 16  # questions whether an event has been overtaken


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
            texts = [attributes.get(name, {}).get("StringValue", "") for name in ERRORS]
            reason = dict(zip(("Error", "Cause"), texts, strict=True))
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
            case {"attempts": int(attempts), "reasons": [*reasons]}:
                text = f"{counted(attempts, 'attempt')}: {'; '.join(map(str, reasons))}"
            case dict(reason):
                text = f"{reason.get('Error')}: {reason.get('Cause')}"
            case reason:
                text = str(reason)
        return in_one_line(text)

    @property
    def remedy(self) -> str:
        """What helps, in a sentence: where no redrive can, it names none."""
        if "event" not in self.body or not self.subject:
            return "Correct what sends it: a redrive would be parked again."
        match self.body.get("reason"):
            case {"Error": error, "rejected": True} if error not in MENDED_ELSEWHERE:
                return REPLACE
        return f"When the cause is gone, `{INORDER} redrive {self.id[:8]}` starts it again."


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
            receipts |= {message["MessageId"]: message["ReceiptHandle"] for message in received}
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
    matches = [event for event in events if event.id.startswith(beginning)]
    if not matches:
        hint = "Another command may hide it for a moment."
        raise Failure(f"No parked event has the ID {beginning}. {hint}")
    if len(matches) > 1:
        raise Failure(f"More than one parked event has the ID {beginning}.")
    return matches[0]


def overtaken(aws: Connection, events: Sequence[ParkedEvent]) -> dict[str, str]:
    """Say why a redrive would change nothing, by the IDs of those events of which that is true.

    Without the right to read the record or the object, an event counts as not overtaken.
    """
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        reasons = threads.map(lambda event: _overtaken(aws, event.body.get("event")), events)
        return {event.id: why for event, why in zip(events, reasons, strict=True) if why}


def remedy(event: ParkedEvent, overtaken: Mapping[str, str]) -> str:
    """Say what helps, also for an event that was overtaken."""
    why = overtaken.get(event.id)
    return f"{why}: {REMOVES}" if why else event.remedy


def _overtaken(aws: Connection, event: Any) -> str:
    named, described = object_key_of(event), s3_object(event)
    sequencer, key = described.get("sequencer"), described.get("key")
    if not named or not isinstance(sequencer, str):
        return ""
    with suppress(ClientError, BotoCoreError):
        record = aws.client("dynamodb").get_item(
            TableName=aws.stack.key_table, Key={"id": {"S": named}}, ConsistentRead=True
        )
        newest, status = (record.get("Item", {}).get(name, {}).get("S", "") for name in FIELDS)
        if newest > sequencer:  # as the condition of `Claim Key` compares them
            return f"The newer event {newest} has overtaken it"
        if (newest, status) == (sequencer, "DONE"):
            return "It has been processed since"
    policy, bucket = aws.stack.policy, aws.stack.input_bucket
    is_created = event.get("detail-type") == "Object Created"
    if is_created and policy and policy.keeps == "newest" and re.match(f"{bucket}[#/]", named):
        with suppress(ClientError, BotoCoreError):
            head = aws.head(bucket, str(key)) or {}
            now = head.get("ETag", "").strip('"'), named_version(head.get("VersionId"))
            if now != (described.get("etag"), named_version(described.get("version-id"))):
                return "Its object has been replaced or deleted since"
    return ""


def take(
    aws: Connection,
    ids: set[str],
    queue_url: str | None = None,
    act: Callable[[ParkedEvent], None] = lambda _: None,
) -> Generator[ParkedEvent]:
    """Receive the parked events with these IDs, or those of another queue, and remove each.

    A message that is gone, or hidden by another command, is left out. An event is acted on before
    it is removed; if that fails, it stays.
    """
    queue, remaining = queue_url or aws.stack.parked_events_queue_url, set(ids)
    with closing(parked_events(aws, queue)) as events:
        while remaining and (event := next(events, None)):
            if event.id in remaining:
                act(event)
                aws.client("sqs").delete_message(QueueUrl=queue, ReceiptHandle=event.receipt)
                remaining.remove(event.id)
                yield event


def redrive(aws: Connection, ids: set[str], queue_url: str | None = None) -> Generator[ParkedEvent]:
    """Start parked events again, or those of another queue, and remove each once it has started.

    If this is interrupted after an event has started, the next redrive starts the event again. The
    execution is named after the message: where names are unique, as on the local AWS, the second
    start is refused. Express on AWS lets names repeat: there the second execution ends as a
    duplicate or, if the event fails again, parks it twice. Either way nothing is lost and nothing
    is processed twice.
    """
    states = aws.client("stepfunctions")

    def begin(event: ParkedEvent) -> None:
        text = json.dumps(without_history(event.body["event"]))  # so that it has all attempts again
        with suppress(states.exceptions.ExecutionAlreadyExists):
            start(states, aws.stack.state_machine_arn, text, name=f"redrive-{event.id}")

    return take(aws, ids, queue_url, begin)


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
