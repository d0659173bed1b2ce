"""Keys whose execution has died: how they are found, and handed to the retry queue.

The function `heal_keys` does both on a schedule, and `inorder stuck` on request. Nobody else frees
the lock of a dead execution. Why no living holder loses its lock:

1. Only a claim adds a lock, and it writes its time, ``in_progress_since``, in the same write. While
   the lock is there, nothing changes that time: `Record Newest Event` keeps it.
2. The execution began before that time, and Express ends it `EXECUTION` after it began. Its
   function has ended by then, too: tests/policies/test_sweep.py adds up the seconds.
3. A sweep frees a lock in the write that hands the event over. That write asks for the time that
   was read, so it has no effect if another execution has claimed the key meanwhile.
4. The time must be `DEAD_AFTER` ago. So the clock of the sweep may be less than `CLOCKS_DIFFER`
   ahead of the clock of Step Functions. If it is behind, a lock is freed later.

A claim that was written late has the time at which its state was entered, so its lock may be freed
early. Its execution takes such a lock over only with another claim, which writes a new time.

A record that is handed over stays in the index, because the execution that is started with its
event may die before it claims the key. It leaves the index when its event is finished or parked. A
record whose event is retried is only freed; it goes to the end of the line, so that in an outage
the records that are retried do not hide one whose execution has died. Hand-overs are counted: a
claim clears the count, and at the limit the event is parked.

No execution may ever claim a record that a former policy wrote, or whose ID is not its event's.
Such a record leaves the index when its event has been started: then the event has another one.

All of this may be interrupted and repeated, and two sweeps may overlap: messages of one event
merge. The clock only decides when to try: an event that is handed over too early is one more
delivery.
"""

from __future__ import annotations

import heapq
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
LOCK = "lock_token"
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
WRITER = "state_machine"  # the name of the one that has claimed the record last
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
    # The status of its event's retries, and their state machine, if it was retried since then.
    retries: tuple[str, str] | None = None
    is_retried: bool = False  # a retry of its event may be under way


def oldest(
    dynamodb: Any,
    table: str,
    now: datetime,
    at_most: int,
    is_over: Callable[[], bool] = lambda: False,
) -> list[str]:
    """List the IDs of the records that have been in progress for long, the oldest first.

    The index is a copy that may be late, so each record must be read before it is believed.

    Parameters
    ----------
    at_most : int
        How many to list. All pages are read to find the oldest ones.
    """
    found: list[tuple[datetime, str]] = []  # when it was claimed last, and its ID
    for page in dynamodb.get_paginator("scan").paginate(TableName=table, IndexName=INDEX):
        entries = ((_time(item), item["id"]["S"]) for item in page["Items"])
        old = (entry for entry in entries if now - entry[0] >= DEAD_AFTER)
        found = heapq.nsmallest(at_most, [*found, *old])
        if is_over():
            break
    return [record_id for _, record_id in found]


def read(dynamodb: Any, table: str, record_id: str, now: datetime) -> StuckKey | None:
    """Read a record of the index, and the record of its event's retries.

    Returns
    -------
    StuckKey or None
        None if the record is no longer in progress, or if it has been claimed again.
    """

    def item(record_id: str) -> dict[str, Any]:
        key = {"id": {"S": record_id}}
        found = dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)
        return dict(found.get("Item", {}))

    record = item(record_id)
    if SINCE not in record or (age := now - _time(record)) < DEAD_AFTER:
        return None
    event = None
    with suppress(LookupError, ValueError, RecursionError):
        event = json.loads(record["event"]["S"])
    if not isinstance(event, dict):
        return StuckKey(record_id, age, record, None)
    retries = item(records.retry_id(event))
    at, until = (
        datetime.fromtimestamp(int(retries.get(name, {"N": "0"})["N"]), UTC)
        for name in ("at", "until")
    )
    status, machine = (retries.get(name, {}).get("S", "") for name in ("status", WRITER))
    since = _time(record).replace(microsecond=0)
    # If the lock was taken after that retry was started, in the same second perhaps, the retry was
    # its holder, which has died. Its event may be in the queue again: such messages merge.
    is_alive = at > since or LOCK not in record
    is_retried = status == "RETRYING" and now < until + LATE and is_alive
    known = (status, machine) if at >= since else None
    return StuckKey(record_id, age, record, event, known, is_retried)


def hand_over(
    sqs: Any,
    retry_queue_url: str,
    dynamodb: Any,
    table: str,
    key: StuckKey,
    now: datetime,
    state_machine: str,
) -> Outcome:
    """Send the event of a stuck key to the retry queue, free its lock, and count that.

    A crash in between sends the event again. If an execution has claimed the key meanwhile, its
    record stays as it is.

    Parameters
    ----------
    state_machine : str
        The name of the one that the retry queue starts.

    Returns
    -------
    Outcome
        ``Settled`` if the record has left the index, because its event is parked, or is the present
        policy's. ``Parked`` if it has left the index because it has no event: the retry queue's
        function parks the record. ``Retried`` if a retry of its event may be under way, so that
        only the lock was freed.
    """
    if key.event is None:
        text = records.rejected_message(key.record, "NoEvent", NO_EVENT)
        sqs.send_message(QueueUrl=retry_queue_url, MessageBody=text)
        _update(dynamodb, table, key, LEAVE, {})
        return "Parked"
    later = {":now": {"S": now.isoformat()}}
    writer = key.record.get(WRITER, {"S": state_machine})["S"]
    is_foreign = writer != state_machine or records.object_key_of(key.event) != key.id
    if key.is_retried:
        # The time of a foreign record tells whether its event was started since.
        values, update = ({}, FREE) if is_foreign else (later, f"SET {SINCE} = :now {FREE}")
        _update(dynamodb, table, key, update, values)
        return "Retried"
    status, machine = key.retries or ("", "")
    if status == "PARKED" or (is_foreign and machine == state_machine):
        _update(dynamodb, table, key, LEAVE, {})
        return "Settled"
    count = int(key.record.get(COUNT, {"N": "0"})["N"])
    reason = "ExecutionDied", "The execution that had the event has died."
    if count >= COUNT_AT_MOST:  # `retry_events` parks it, and that settles it
        cause = f"No execution has claimed this record since it was handed over {count} times."
        reason = "NotClaimed", cause
    text = records.retry_message(key.event, *reason, key.id)
    sqs.send_message(QueueUrl=retry_queue_url, MessageBody=text)
    values = later | {":count": {"N": str(count + 1)}}
    _update(dynamodb, table, key, f"SET {SINCE} = :now, {COUNT} = :count {FREE}", values)
    return "HandedOver"


def _update(dynamodb: Any, table: str, key: StuckKey, update: str, values: dict[str, Any]) -> None:
    """Update a record, unless it has been claimed, or handed over, since it was read."""
    with suppress(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.update_item(
            TableName=table,
            Key={"id": {"S": key.id}},
            UpdateExpression=update,
            ConditionExpression=f"{SINCE} = :since",
            ExpressionAttributeValues={":since": key.record[SINCE], **values},
        )


def _time(item: dict[str, Any]) -> datetime:
    """Read when a record was claimed; an unreadable time counts as long ago."""
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(item[SINCE]["S"]).astimezone(UTC)
    return datetime.min.replace(tzinfo=UTC)
