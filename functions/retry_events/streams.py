"""One stream of retries for each event: of several messages with the same event, one goes on.

S3, EventBridge and SQS may each deliver an event twice, and an event that is delivered again fails
again. Without this module, each delivery would be retried for a day and parked once.

The key table has a record of the stream. Before a message starts an execution or is parked, it
takes the stream with a conditional write::

    no record                     the message begins the stream
    the record has this message   SQS has delivered it again: it goes on
    it reports the attempt that   the execution that the stream has started has failed: the message
    the record has                goes on with the next attempt
    the record is silent          for an hour, no message has come from the execution that was
                                  started: it has ended, or has died before it recorded the event
    the event was parked before   somebody has started it again: a new stream begins
    otherwise                     another message has the stream: this one waits until the record is
                                  silent, or is finished, once the event is parked

A message is finished without a start only if its event is parked. So nothing is lost: of the
messages that wait, the last one starts an execution, which ends as a duplicate if there was
nothing left to do.

Nothing here reads a clock or calls a service.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from retries import Fault

# The execution ends within 5 minutes. If it dies, a sweep finds its event after 10 minutes and the
# interval of the schedule; and a message is not read for 15 minutes, or later in a burst.
SILENT_SECONDS = 3600
# A message that waits is read that often, to finish it soon after its event is parked.
LOOK_SECONDS = 900
KEPT_SECONDS = 2 * 86_400  # after the last write to a record; then DynamoDB may delete it


@dataclass(frozen=True)
class Stream:
    """What the key table says about the retries of an event.

    Attributes
    ----------
    message_id : str
        The message that has gone on last.
    attempt : int
        The retry that it has started.
    at : int
        When, in seconds since 1970.
    is_parked : bool
        Whether it has parked the event instead.
    """

    message_id: str
    attempt: int
    at: int
    is_parked: bool

    @classmethod
    def of(cls, item: dict[str, Any]) -> Stream:
        """Read a record.

        Raises
        ------
        LookupError, ValueError
            The record has another form.
        """
        parked = item["status"]["S"] == "PARKED"
        return cls(item["message_id"]["S"], int(item["attempt"]["N"]), int(item["at"]["N"]), parked)

    def is_free_for(self, fault: Fault, now: float) -> bool:
        """Tell whether a message goes on with this stream."""
        if self.message_id == fault.message.id or now >= self.at + SILENT_SECONDS:
            return True
        if self.is_parked:
            return fault.message.sent > self.at
        return fault.attempt == self.attempt

    def seconds_to_wait(self, now: float) -> int | None:
        """Give how long a message waits that does not go on; None if it need not wait."""
        if self.is_parked:
            return None
        return max(min(round(self.at + SILENT_SECONDS - now), LOOK_SECONDS), 1)


def record_id(fault: Fault) -> str:
    """Name the record of an event's stream; all deliveries of an event have the same.

    Whichever policy has sent the message, an event of S3 is named by its object and its sequencer.
    Others are named by their content.
    """
    event = fault.body["event"]
    match event:
        case {
            "detail": {
                "bucket": {"name": str(bucket)},
                "object": {"key": str(key), "sequencer": str(sequencer), **more},
            }
        }:
            version = more.get("version-id")
            suffix = f"#{version}" if isinstance(version, str) else ""
            return f"retry:{bucket}/{key}{suffix}@{sequencer}"
    match fault.body:
        case {"content": str(content)}:
            return f"retry:{content}"
    same = {name: value for name, value in event.items() if name != "retry"}
    return f"retry:{sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()}"


def taken(
    table: str, fault: Fault, before: Stream | None, now: float, is_parked: bool
) -> dict[str, Any]:
    """Give the parameters of the PutItem by which a message takes a stream.

    The write is refused if another message has taken the stream since it was read.

    Parameters
    ----------
    table : str
        Name of the key table.
    fault : Fault
        The message.
    before : Stream or None
        What the record said.
    now : float
        The time, in seconds since 1970.
    is_parked : bool
        Whether the message parks the event.
    """
    item = {
        "id": {"S": record_id(fault)},
        "status": {"S": "PARKED" if is_parked else "RETRYING"},
        "message_id": {"S": fault.message.id},
        "attempt": {"N": str(fault.attempt + 1)},
        "at": {"N": str(int(now))},
        "expires_at": {"N": str(int(now) + KEPT_SECONDS)},
    }
    if before is None:
        return {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(id)"}
    return {
        "TableName": table,
        "Item": item,
        "ConditionExpression": "message_id = :message_id AND #at = :at",
        "ExpressionAttributeNames": {"#at": "at"},
        "ExpressionAttributeValues": {
            ":message_id": {"S": before.message_id},
            ":at": {"N": str(before.at)},
        },
    }
