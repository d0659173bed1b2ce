"""Keys whose execution has died: how they are found, and handed to the retry queue.

The function `heal_keys` does both on a schedule, and `inorder stuck` on request. A record that is
handed over stays in the index, because the execution that is started with its event may be refused
by the dead one's lock, and die while it waits. It leaves the index when its event is finished or
parked; a record whose event is retried is left alone. Hand-overs are counted: a claim clears the
count, and at the limit the event is parked.

After a change of the policy, no execution may ever claim a record of the former one. Such a record
leaves the index when its event has been started: from then on, the present policy records it.

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

# A record is in the index for as long as it has this attribute, the time of its last claim or
# hand-over.
INDEX, SINCE = "InProgress", "in_progress_since"
LEAVE = f"REMOVE {SINCE}"
# How often it was handed over since that claim: it takes a day until then, half an hour each time.
COUNT, COUNT_AT_MOST = "hand_overs", 50
# Express ends an execution after five minutes. Two clocks may differ by the rest.
# https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
DEAD_AFTER = timedelta(minutes=10)
# For so long after a retry was started, its message may be in the queue again: an execution, the
# longest delay of `retry_events`, and some minutes.
RETRY_LASTS = timedelta(minutes=25)
WRITER = "state_machine"  # the name of the one that has claimed the record last
Outcome = Literal["HandedOver", "Settled", "Parked"]


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
        None if the record is no longer in progress, if it has been claimed again, or if a retry of
        its event may be under way.
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
    at = datetime.fromtimestamp(int(retries.get("at", {"N": "0"})["N"]), UTC)
    status, machine = (retries.get(name, {}).get("S", "") for name in ("status", WRITER))
    if status == "RETRYING" and now - at < RETRY_LASTS:
        return None
    is_since = at >= _time(record).replace(microsecond=0)
    return StuckKey(record_id, age, record, event, (status, machine) if is_since else None)


def hand_over(
    sqs: Any,
    retry_queue_url: str,
    parked_queue_url: str,
    dynamodb: Any,
    table: str,
    key: StuckKey,
    now: datetime,
    state_machine: str,
) -> Outcome:
    """Send the event of a stuck key to the retry queue, and count that in its record.

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
        policy's. ``Parked`` if it has left the index because it has no event: it is parked itself.
    """
    if key.event is None:
        _park(sqs, parked_queue_url, key)
        _update(dynamodb, table, key, LEAVE, {})
        return "Parked"
    status, machine = key.retries or ("", "")
    is_foreign = key.record.get(WRITER, {"S": state_machine})["S"] != state_machine
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
    values = {":now": {"S": now.isoformat()}, ":count": {"N": str(count + 1)}}
    _update(dynamodb, table, key, f"SET {SINCE} = :now, {COUNT} = :count", values)
    return "HandedOver"


def _park(sqs: Any, parked_queue_url: str, key: StuckKey) -> None:
    cause = "This record in progress has no event."
    text = records.parked_message(key.record, "NoEvent", cause)
    sqs.send_message(QueueUrl=parked_queue_url, MessageBody=text)


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
