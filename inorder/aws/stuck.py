"""Stuck keys, whose execution has died: to find them, and to start their newest event again.

Nothing here writes to the key table. An event is started as the rule would start it, and the state
machine processes it once. So this may be interrupted and repeated, and two may do it at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from inorder.asl.lease import EXPRESS_SECONDS, lease_numbers, limits
from inorder.aws.executions import start
from inorder.aws.stack import Connection

Record = dict[str, Any]


def unfinished(aws: Connection) -> list[Record]:
    """Read the records of events that are not finished.

    Their status is in progress, or a newer event was recorded than was ever claimed.

    Parameters
    ----------
    aws : Connection
        To the stack.
    """
    pages = aws.table.meta.client.get_paginator("scan").paginate(
        TableName=aws.table.name,
        ConsistentRead=True,
        # In DynamoDB, <> is true for a missing attribute.
        FilterExpression="#status = :in_progress"
        " OR (attribute_exists(newest) AND newest <> sequencer)",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":in_progress": "IN_PROGRESS"},
    )
    return [item for page in pages for item in page["Items"]]


def patience(aws: Connection, records: Sequence[Record]) -> float:
    """Compute after how many seconds without a change no execution can be alive for a record.

    A living holder releases its lock within the holder's seconds, and a living waiter breaks the
    lock, claims the key or gives up within the waiter's. One more poll is added, as a margin. The
    numbers are those of the deployed state machine; clocks are not compared. The record of an event
    stays as it is while the event waits, for as long as an Express execution can live.

    Parameters
    ----------
    aws : Connection
        To the stack.
    records : sequence of dict
        The records in question.
    """
    if any(record["id"].startswith("event:") for record in records):
        return EXPRESS_SECONDS
    states, arn = aws.client("stepfunctions"), aws.stack.state_machine_arn
    definition = json.loads(states.describe_state_machine(stateMachineArn=arn)["definition"])
    try:
        numbers = lease_numbers(definition)
    except ValueError:  # an edited file that `inorder check` would refuse
        numbers = None
    if not numbers:
        return EXPRESS_SECONDS
    return max(numbers.holder, numbers.waiter) + limits(definition)["poll_seconds"]


def stuck(aws: Connection, records: Sequence[Record], seconds: float) -> list[Record]:
    """Find the records that do not change for a while.

    Parameters
    ----------
    aws : Connection
        To the stack.
    records : sequence of dict
        As `unfinished` gives them.
    seconds : float
        For how long.
    """
    time.sleep(seconds)
    return [record for record in records if _read(aws, record["id"]) == record]


def restart(aws: Connection, record: Record) -> None:
    """Start the newest event of a stuck key, which supersedes all others.

    The execution finds that the lock is dead as any waiter does, which takes it a lease. It has a
    name of its own: should it die too, the next one must not be refused.

    Parameters
    ----------
    aws : Connection
        To the stack.
    record : dict
        Of the key, or of the event.
    """
    event: str = record.get("newest_event") or record["event"]
    start(aws.client("stepfunctions"), aws.stack.state_machine_arn, event)


def _read(aws: Connection, record_id: str) -> Record | None:
    return aws.table.get_item(Key={"id": record_id}, ConsistentRead=True).get("Item")
