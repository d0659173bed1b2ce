"""One stream of retries for each event: of several messages with the same event, one goes on.

S3, EventBridge and SQS may each deliver an event twice, and an event that is delivered again fails
again. Without this module, each delivery would be retried for a day and parked once.

The key table has a record of the stream. Before a message starts an execution or parks its event,
it takes the stream with a conditional write::

    no record                      the message begins the stream
    the record has this message    SQS delivers it again, after a minute: it goes on
    it reports the attempt that    the execution that the stream has started has failed: the message
    the record has                 goes on with the next attempt
    the record is silent           the execution that was started has sent no message, for as long
                                   as it can take and its message can wait: it has died, or there
                                   was nothing left to do
    parked before it was sent      somebody has started the event again: a new stream begins
    otherwise                      another message has the stream: this one waits until the record
                                   is silent, or is finished, once the event is parked

A message is finished without a start only if its event is parked. So nothing is lost: of the
messages that wait, the last one starts an execution, which ends as a duplicate if there was
nothing left to do.

Nothing here reads a clock or calls a service.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from inorder_fence.records import PARKED_SECONDS, retry_id
from retry_events.retries import Fault, longest_delay

# By then the function has ended. SQS may deliver a message twice at once; one deletion is for both.
AGAIN_SECONDS = 60
# So often a message that waits is read, to finish it soon after its event is parked.
LONGEST_WAIT_SECONDS = 900
# After the last write to a record, DynamoDB may delete it. While the event is parked, an audit sees
# by the record that it is not lost.
KEPT_SECONDS = 2 * 86_400

Status = Literal["RETRYING", "PARKING", "PARKED"]


@dataclass(frozen=True)
class Stream:
    """What the key table says about the retries of an event."""

    message_id: str  # the message that has gone on last
    attempt: int  # the retry that it has started
    at: int  # when it took the stream, in seconds since 1970
    status: Status  # whether it has started a retry, parks the event, or has parked it

    @classmethod
    def of(cls, item: dict[str, Any]) -> Stream:
        """Read a record.

        Raises
        ------
        LookupError, ValueError
            The record has another form.
        """
        return cls(
            item["message_id"]["S"],
            int(item["attempt"]["N"]),
            int(item["at"]["N"]),
            item["status"]["S"],
        )

    def seconds_to_wait(self, fault: Fault, now: float, execution_seconds: float) -> int | None:
        """Tell whether a message goes on with this stream.

        Parameters
        ----------
        now : float
            The time, in seconds since 1970.
        execution_seconds : float
            How long an execution takes at most.

        Returns
        -------
        int or None
            0 if it goes on. None if it is finished, because the event is parked. Otherwise for how
            long it waits.
        """
        is_own = self.message_id == fault.message.id
        if self.status == "PARKED":
            return None if is_own or fault.message.sent < self.at else 0
        left = self.at - now
        if is_own:
            left += AGAIN_SECONDS
        else:
            left += execution_seconds + longest_delay(self.attempt)
        return max(min(math.ceil(left), LONGEST_WAIT_SECONDS), 0)


def taken(
    table: str,
    fault: Fault,
    before: Stream | None,
    now: float,
    status: Status,
    state_machine: str,
    execution_seconds: float,
) -> dict[str, Any]:
    """Give the parameters of the PutItem by which a message takes a stream, or marks it as parked.

    A first write is accepted if there is no stream, or if the message reports the attempt that the
    stream has, as nearly every message does. Its refusal gives the stream. A second write, for this
    stream, is refused if another message has taken it since.
    """
    kept = PARKED_SECONDS if status == "PARKED" else KEPT_SECONDS
    growths = max(fault.attempt + 1, fault.message.receives)
    item = {
        "id": {"S": retry_id(fault.body["event"])},
        "status": {"S": status},
        "state_machine": {"S": state_machine},  # a sweep reads on which one a retry is started
        "message_id": {"S": fault.message.id},
        "attempt": {"N": str(fault.attempt + 1)},
        "at": {"N": str(int(now))},
        # Until then, the retry may send its event again, and that message may wait; or this one
        # waits again, because no execution could be started. A sweep reads it.
        "until": {"N": str(int(now + execution_seconds + longest_delay(growths)))},
        "expires_at": {"N": str(int(now) + kept)},
    }
    if status == "PARKED":
        condition, names = "message_id = :message_id", {}
        values = {":message_id": {"S": fault.message.id}}
    elif before is None:
        condition = "attribute_not_exists(id) OR #status = :retrying AND attempt = :attempt"
        names = {"#status": "status"}
        values = {":retrying": {"S": "RETRYING"}, ":attempt": {"N": str(fault.attempt)}}
    else:
        condition, names = "message_id = :message_id AND #at = :at", {"#at": "at"}
        values = {":message_id": {"S": before.message_id}, ":at": {"N": str(before.at)}}
    return {
        "TableName": table,
        "Item": item,
        "ConditionExpression": condition,
        **({"ExpressionAttributeNames": names} if names else {}),
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
