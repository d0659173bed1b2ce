"""A rule and a function that locks the object's key, and waits while it is locked.

The design of AWS's sample https://github.com/aws-samples/amazon-s3-endedupe, which AWS explains in
https://aws.amazon.com/blogs/storage/manage-event-ordering-and-duplicate-events-with-amazon-s3-event-notifications/:
read the record in DynamoDB; if it is locked, sleep for a random time below one second, which is
paid as function time, and try again; if its sequencer is not older, skip the event; otherwise lock
it with a conditional write, process, and unlock.

Two things are better here than in the sample. The lock expires, so that a dead holder does not lock
its key for ever; and only its holder unlocks it.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from typing import Any, Literal

import boto3
from botocore.exceptions import ClientError

from bench.contenders import image

table = boto3.resource("dynamodb").Table(os.environ["LOCK_TABLE"])
# Longer than the work may take. https://docs.powertools.aws.dev takes the function's timeout, here
# 15 s, for this.
LEASE_SECONDS = 30


@dataclass(frozen=True)
class Lock:
    """The lock of one key, as one event's function sees it."""

    key: str
    sequencer: str
    holder: str  # names who holds the lock

    def claim(self) -> Literal["taken", "locked", "superseded"]:
        """Try once to take the lock."""
        record: Any = table.get_item(Key={"key": self.key}, ConsistentRead=True).get("Item", {})
        if record.get("sequencer", "") >= self.sequencer:
            return "superseded"
        now = int(time.time())
        if record.get("locked_until", 0) > now:
            return "locked"
        unchanged = "attribute_not_exists(locked_until) OR locked_until <= :now"
        changed = self._update(
            "SET holder = :holder, locked_until = :until",
            f"({unchanged}) AND (attribute_not_exists(sequencer) OR sequencer < :sequencer)",
            {
                ":holder": self.holder,
                ":until": now + LEASE_SECONDS,
                ":now": now,
                ":sequencer": self.sequencer,
            },
        )
        return "taken" if changed else "locked"

    def unlock(self) -> None:
        """Unlock the key, whose newest processed event is this one now."""
        self._update(
            "SET sequencer = :sequencer REMOVE holder, locked_until",
            "holder = :holder",
            {":holder": self.holder, ":sequencer": self.sequencer},
        )

    def give_up(self) -> None:
        """Unlock the key, as the event could not be processed."""
        self._update("REMOVE holder, locked_until", "holder = :holder", {":holder": self.holder})

    def _update(self, expression: str, condition: str, values: dict[str, Any]) -> bool:
        """Change the record if the condition holds, and tell whether it did."""
        try:
            table.update_item(
                Key={"key": self.key},
                UpdateExpression=expression,
                ConditionExpression=condition,
                ExpressionAttributeValues=values,
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return False
            raise
        return True


def handler(event: dict[str, Any], context: Any) -> None:
    """Process an event, unless a newer one of its key has been processed."""
    described = event["detail"]["object"]
    lock = Lock(described["key"], described["sequencer"], context.aws_request_id)
    while (claim := lock.claim()) == "locked":
        time.sleep(random.random())  # noqa: S311 - not for a secret
    if claim == "taken":
        try:
            image.process(event)
        except Exception:
            lock.give_up()
            raise
        lock.unlock()
    else:
        image.log("Superseded", event)
