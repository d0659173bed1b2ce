"""Keys whose execution has died: how they are found, and handed to the retry queue.

The function `heal_keys` does both on a schedule, and `inorder stuck` on request. The retry queue
keeps the event until an execution of the present policy has started with it, whichever policy wrote
the record. So the record can leave the index at once. All of this may be interrupted and repeated,
and two sweeps may overlap: messages of one event merge. The clock only decides when to try: an
event that is handed over too early is one more delivery.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from inorder_fence import records

# A record is in the index for as long as it has this attribute, the time of the last claim.
INDEX, SINCE = "InProgress", "in_progress_since"
# Express ends an execution after five minutes. Two clocks may differ by the rest.
# https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
DEAD_AFTER = timedelta(minutes=10)


@dataclass(frozen=True)
class StuckKey:
    """A record that has been in progress for longer than an execution can live."""

    id: str  # of the record: a key's, an event's or a content's
    age: timedelta  # for how long it has been in progress
    record: dict[str, Any]  # the whole record, as DynamoDB gives it
    # The event that it holds, which under `latest-wins` is the newest of the key. None if it has
    # none that can be read.
    event: dict[str, Any] | None


def oldest(
    dynamodb: Any,
    table: str,
    now: datetime,
    at_most: int,
    dead_after: timedelta = DEAD_AFTER,
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
        old = (entry for entry in entries if now - entry[0] >= dead_after)
        found = heapq.nsmallest(at_most, [*found, *old])
        if is_over():
            break
    return [record_id for _, record_id in found]


def read(
    dynamodb: Any, table: str, record_id: str, now: datetime, dead_after: timedelta = DEAD_AFTER
) -> StuckKey | None:
    """Read a record of the index.

    Returns
    -------
    StuckKey or None
        None if the record is no longer in progress, or has been claimed again.
    """
    record = dynamodb.get_item(
        TableName=table, Key={"id": {"S": record_id}}, ConsistentRead=True
    ).get("Item", {})
    if SINCE not in record or (age := now - _time(record)) < dead_after:
        return None
    event = None
    with suppress(LookupError, ValueError, RecursionError):
        event = json.loads(record["event"]["S"])
    return StuckKey(record_id, age, record, event if isinstance(event, dict) else None)


def hand_over(
    sqs: Any, retry_queue_url: str, parked_queue_url: str, dynamodb: Any, table: str, key: StuckKey
) -> None:
    """Send the event of a stuck key to the retry queue, and take the record from the index.

    A record without an event is parked as it is. A crash in between sends the event again. If an
    execution has claimed the key meanwhile, the record stays in the index.
    """
    if key.event is None:
        cause = "This record in progress has no event."
        url, text = parked_queue_url, records.parked_message(key.record, "NoEvent", cause)
    else:
        cause = "The execution that had the event has died."
        url = retry_queue_url
        text = records.retry_message(key.event, "ExecutionDied", cause, key.id)
    sqs.send_message(QueueUrl=url, MessageBody=text)
    with suppress(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.update_item(
            TableName=table,
            Key={"id": {"S": key.id}},
            UpdateExpression=f"REMOVE {SINCE}",
            ConditionExpression=f"{SINCE} = :since",
            ExpressionAttributeValues={":since": key.record[SINCE]},
        )


def _time(item: dict[str, Any]) -> datetime:
    """Read when a record was claimed; an unreadable time counts as long ago."""
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(item[SINCE]["S"]).astimezone(UTC)
    return datetime.min.replace(tzinfo=UTC)
