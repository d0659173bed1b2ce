"""Keys whose execution has died: how they are found, and handed to the retry queue.

The function `heal_keys` does both on a schedule, and `inorder stuck` on request. Nobody else frees
the lock of a dead execution. Why no living holder loses its lock:

1. Only a claim adds a lock, and it writes its time, ``in_progress_since``, in the same write. While
   the lock is there, only a second claim of its holder changes that time: `Record Newest Event`
   keeps it.
2. The execution began before that time, and Express ends it `EXECUTION` after it began. Its
   function has ended by then, too: tests/policies/test_sweep.py adds up the seconds.
3. A sweep sends the event, then frees the lock and counts the hand-over in one write. That write
   asks for the time and the sequencer that were read, so it has no effect if another execution has
   claimed the key, or recorded a newer event, meanwhile.
4. The time must be `DEAD_AFTER` ago. So the clock of the sweep may be less than `CLOCKS_DIFFER`
   ahead of the clock of Step Functions. If it is behind, a lock is freed later.

A claim that was written late has the time at which its state was entered, so its lock may be freed
early. Its execution takes such a lock over only with another claim, which writes a new time.

A record that is handed over stays in the index, because the execution that is started with its
event may die before it claims the key. It leaves the index when its event is finished or parked. A
record whose event is retried is only freed; it goes to the end of the line, so that in an outage
the records that are retried do not hide one whose execution has died. Hand-overs are counted: a
claim clears the count, and at the limit the event is parked.

No execution ever claims a record whose ID is not its event's and, under a policy without records,
none of a former policy. Such a record leaves the index when its event has been started: then the
retry queue has the event, or another record. It expires, as does that of a parked event, when SQS
has deleted the parked event.

All of this may be interrupted and repeated, and two sweeps may overlap: messages of one event
merge (functions/retry_events/streams.py). The clock only decides when to try: an event that is
handed over too early is one more delivery.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from inorder_fence import records

# A record is in the index for as long as it has this attribute: the time of the claim that took its
# lock or, without a lock, of its last claim or sweep, or of the first event recorded since then.
INDEX, SINCE = "InProgress", "in_progress_since"
SEQUENCER, LOCK = "sequencer", "lock_token"
FREE = f"REMOVE {LOCK}, execution"
LEAVE = f"{FREE}, {SINCE}"
# How often it was handed over since that claim: it takes a day until then, twelve minutes or
# more each time.
COUNT, COUNT_AT_MOST = "hand_overs", 115
# Express ends an execution then.
# https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
EXECUTION = timedelta(minutes=5)
CLOCKS_DIFFER = timedelta(minutes=1)
DEAD_AFTER = EXECUTION + CLOCKS_DIFFER
# For so long after a retry's message is due, it may still be in the queue.
LATE = timedelta(minutes=3)
NO_EVENT = "This record in progress has no event."
STARTED_ON = "state_machine"  # of a retry's record: the name of the one that was started
# Of a retry's record: when the retry was started, and until when its event may come back.
TIMES = "at", "until"
Outcome = Literal["HandedOver", "Settled", "Parked", "Retried"]


@dataclass(frozen=True)
class StuckKey:
    """A record that has been in progress for longer than an execution can live."""

    id: str  # of the record: a key's or an event's
    age: timedelta  # since its last claim or hand-over
    record: dict[str, Any]  # the whole record, as DynamoDB gives it
    # The event that it holds, which under `latest-wins` is the newest of the key. None if it has
    # none that can be read.
    event: dict[str, Any] | None
    is_parked: bool = False  # its event was parked since then
    is_retried: bool = False  # a retry of its event may be under way
    started_on: str = ""  # the state machine on which its event was retried since then


def oldest(
    dynamodb: Any, table: str, now: datetime, is_over: Callable[[], bool] = lambda: False
) -> list[str]:
    """List the IDs of the records that have been in progress for long, the oldest first.

    The index is a copy that may be late, so each record must be read before it is believed. All of
    its pages are read, to find the oldest ones, unless the time for that is over.
    """
    old: list[tuple[datetime, str]] = []
    for page in dynamodb.get_paginator("scan").paginate(TableName=table, IndexName=INDEX):
        entries = ((_time(item), item["id"]["S"]) for item in page["Items"])
        old.extend(entry for entry in entries if now - entry[0] >= DEAD_AFTER)
        if is_over():
            break
    return [record_id for _, record_id in sorted(old)]


def read(dynamodb: Any, table: str, record_id: str, now: datetime) -> StuckKey | None:
    """Read a record of the index, and the record of its event's retries.

    Returns
    -------
    StuckKey or None
        None if the record is no longer in progress, or if it has been claimed again.
    """

    def item(record_id: str) -> dict[str, Any]:
        key = {"id": {"S": record_id}}
        answer = dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)
        return dict(answer.get("Item", {}))

    record = item(record_id)
    if SINCE not in record or (age := now - _time(record)) < DEAD_AFTER:
        return None
    event = None
    with suppress(LookupError, ValueError, RecursionError):
        event = json.loads(record["event"]["S"])
    if not isinstance(event, dict):
        return StuckKey(record_id, age, record, None)
    retries = item(records.retry_id(event))
    if not retries:
        return StuckKey(record_id, age, record, event)
    started, until = (datetime.fromtimestamp(int(retries[name]["N"]), UTC) for name in TIMES)
    since = _time(record).replace(microsecond=0)
    # If the lock was taken after that retry was started, in the same second perhaps, the retry was
    # its holder, which has died. Its event may be in the queue again: such messages merge.
    is_alive = now < until + LATE and (started > since or LOCK not in record)
    status, is_later = retries["status"]["S"], started >= since
    return StuckKey(
        *(record_id, age, record, event),
        is_parked=status == "PARKED" and is_later,
        is_retried=status == "RETRYING" and is_alive,
        started_on=retries[STARTED_ON]["S"] if is_later else "",
    )


def hand_over(
    sqs: Any,
    retry_queue_url: str,
    dynamodb: Any,
    table: str,
    key: StuckKey,
    now: datetime,
    state_machine: str,
    claims_keys: bool,
) -> Outcome:
    """Send the event of a stuck key to the retry queue, free its lock, and count that.

    A crash in between sends the event again. If an execution has claimed the key meanwhile, its
    record stays as it is.

    Parameters
    ----------
    state_machine : str
        The name of the one that the retry queue starts.
    claims_keys : bool
        Whether it claims keys: then it takes the records of a former policy over.

    Returns
    -------
    Outcome
        ``Parked`` if the record has no event: the retry queue's function parks the record, which
        leaves the index. ``Settled`` if it has left the index because its event is parked or, of a
        record that no execution will claim, started. ``Retried`` if a retry of its event may be
        under way, so that only the lock was freed.
    """

    def send(message: str) -> None:
        sqs.send_message(QueueUrl=retry_queue_url, MessageBody=message)

    def update(change: str, **values: dict[str, str]) -> None:
        """Change the record, unless it has been claimed, or handed over, since it was read.

        If a newer event has been recorded, the next sweep decides about that one.
        """
        read = [name for name in (SINCE, SEQUENCER) if name in key.record]
        with suppress(dynamodb.exceptions.ConditionalCheckFailedException):
            dynamodb.update_item(
                TableName=table,
                Key={"id": {"S": key.id}},
                UpdateExpression=change,
                ConditionExpression=" AND ".join(f"{name} = :read_{name}" for name in read),
                ExpressionAttributeValues={
                    **{f":read_{name}": key.record[name] for name in read},
                    **{f":{name}": value for name, value in values.items()},
                },
            )

    def leave() -> None:
        """Take the record out of the index, and let it expire if no other event comes."""
        expires_at = int(now.timestamp()) + records.PARKED_SECONDS
        update(f"SET expires_at = :expires_at {LEAVE}", expires_at={"N": str(expires_at)})

    if key.event is None:
        send(records.rejected_message(key.record, "NoEvent", NO_EVENT))
        leave()
        return "Parked"
    is_unclaimable = not claims_keys or records.object_key_of(key.event) != key.id
    if key.is_parked or (is_unclaimable and key.started_on == state_machine):
        leave()
        return "Settled"
    if key.is_retried:
        update(f"SET {SINCE} = :now {FREE}", now={"S": now.isoformat()})
        return "Retried"
    count = int(key.record.get(COUNT, {"N": "0"})["N"])
    reason = "ExecutionDied", "The execution that had the event has died."
    if count >= COUNT_AT_MOST:  # `retry_events` parks it, and that settles it
        cause = f"No execution has claimed this record since it was handed over {count} times."
        reason = "NotClaimed", cause
    send(records.retry_message(key.event, *reason, key.id))
    update(
        f"SET {SINCE} = :now, {COUNT} = :count {FREE}",
        now={"S": now.isoformat()},
        count={"N": str(count + 1)},
    )
    return "HandedOver"


def _time(item: dict[str, Any]) -> datetime:
    """Read when a record was claimed; an unreadable time counts as long ago."""
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(item[SINCE]["S"]).astimezone(UTC)
    return datetime.min.replace(tzinfo=UTC)
