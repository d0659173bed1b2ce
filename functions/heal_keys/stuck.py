"""Keys whose execution has died: to find them, and to start their newest event again.

The function `heal_keys` does both on a schedule, and `inorder stuck` on request: the command has a
link to this file. An event is started as the rule would start it, and the state machine processes
it once. So this may be interrupted and repeated, and two may do it at once. The clock only decides
when to try: an event that is started too early is one more delivery. An event whose executions die
again and again is parked. Only then is the key table written: the record leaves the index.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

# A record is in the index for as long as it has this attribute, the time of the last claim.
INDEX, SINCE = "InProgress", "in_progress_since"
# Express ends an execution after five minutes. Two clocks may differ by the rest.
# https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
DEAD_AFTER = timedelta(minutes=10)
# Each restart waits for twice as long as the one before, so these take 43 hours.
RESTARTS_AT_MOST = 8
# Executions that die before they claim the key are not counted.
GIVEN_UP_AFTER = timedelta(days=14)


@dataclass(frozen=True)
class StuckKey:
    """A record that has been in progress for longer than an execution can live.

    Attributes
    ----------
    id : str
        Of the record: a key's, an event's or a content's.
    age : timedelta
        For how long it has been in progress.
    event : dict
        The event that it holds, which under `latest-wins` is the newest of the key.
    since : str
        The time at which it was claimed, as it is in the record.
    """

    id: str
    age: timedelta
    event: dict[str, Any]
    since: str

    @property
    def restarts(self) -> int:
        """How often the event has been started again. The event says so itself, in its record."""
        count = self.event.get("restarts")
        return count if isinstance(count, int) else 0

    @property
    def is_given_up(self) -> bool:
        """Tell whether to park its event, which only a person starts again."""
        return self.restarts >= RESTARTS_AT_MOST or self.age >= GIVEN_UP_AFTER

    @property
    def is_due(self) -> bool:
        """Tell whether to start it again now."""
        return not self.is_given_up and self.age >= DEAD_AFTER * 2**self.restarts


def find(
    dynamodb: Any,
    table: str,
    now: datetime,
    dead_after: timedelta = DEAD_AFTER,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[StuckKey]:
    """Find the keys that are stuck.

    Parameters
    ----------
    dynamodb : DynamoDBClient
        Of the account with the table.
    table : str
        Name of the key table.
    now : datetime
        The time.
    dead_after : timedelta
        How long a record must have been in progress.
    is_over : callable
        Tells whether to end instead of reading the next record or page.
    """
    pages = dynamodb.get_paginator("scan").paginate(TableName=table, IndexName=INDEX)
    for page in pages:
        for entry in page["Items"]:
            if now - _time(entry) < dead_after:
                continue
            if is_over():
                return
            # The index is a copy that may be late, and has no events.
            record = dynamodb.get_item(
                TableName=table, Key={"id": entry["id"]}, ConsistentRead=True
            ).get("Item", {})
            if SINCE in record and (age := now - _time(record)) >= dead_after:
                event = json.loads(record["event"]["S"])
                yield StuckKey(entry["id"]["S"], age, event, record[SINCE]["S"])
        if is_over():
            return


def start(states: Any, state_machine: str, key: StuckKey, restarts: int) -> str:
    """Start the event of a stuck key, and give the ARN of the execution.

    The execution finds that the lock is dead as any waiter does, which takes it a lease.

    Parameters
    ----------
    states : SFNClient
        Of the account with the state machine.
    state_machine : str
        Its ARN.
    key : StuckKey
        As `find` gives it.
    restarts : int
        The number that the event takes with it, in case that this execution dies as well.
    """
    event = key.event | {"restarts": restarts}
    arn: str = states.start_execution(
        stateMachineArn=state_machine,
        # Of its own: should it die too, the next one must not be refused.
        name=f"stuck-{uuid4()}",
        input=_as_json(event),
    )["executionArn"]
    return arn


def park(sqs: Any, queue_url: str, dynamodb: Any, table: str, key: StuckKey) -> None:
    """Park the event of a stuck key, and take the record from the index.

    A crash in between parks the event again. If an execution has claimed the key meanwhile, the
    record stays in the index.

    Parameters
    ----------
    sqs : SQSClient
        Of the account with the queue.
    queue_url : str
        Of the queue of parked events.
    dynamodb : DynamoDBClient
        Of the account with the table.
    table : str
        Name of the key table.
    key : StuckKey
        As `find` gives it.
    """
    message = {
        "outcome": "Parked",
        "object_key": key.id,
        "reason": {
            "Error": "ExecutionDied",
            "Cause": "The event was started again and again, and no execution came to its end.",
            "restarts": key.restarts,
        },
        "event": {name: value for name, value in key.event.items() if name != "restarts"},
    }
    sqs.send_message(QueueUrl=queue_url, MessageBody=_as_json(message))
    with suppress(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.update_item(
            TableName=table,
            Key={"id": {"S": key.id}},
            UpdateExpression=f"REMOVE {SINCE}",
            ConditionExpression=f"{SINCE} = :since",
            ExpressionAttributeValues={":since": {"S": key.since}},
        )


def _as_json(value: dict[str, Any]) -> str:
    """Write JSON that is as short as that of States.JsonToString."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _time(item: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(item[SINCE]["S"])
