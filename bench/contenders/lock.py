"""A lock for each object's key, in DynamoDB, with the sequencer of the last event processed.

The design of AWS's sample https://github.com/aws-samples/amazon-s3-endedupe, which AWS explains in
https://aws.amazon.com/blogs/storage/manage-event-ordering-and-duplicate-events-with-amazon-s3-event-notifications/:
read the record; if it is locked, try again later; if its sequencer is not older, skip the event;
otherwise lock it with a conditional write, process, and unlock.

Two things are better here than in the sample. The lock expires, so that a dead holder does not lock
its key for ever; and only its holder unlocks it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import ClientError

# Longer than the work may take. https://docs.powertools.aws.dev takes the function's timeout, here
# 15 s, for this.
LEASE_SECONDS = 30

Claim = Literal["taken", "locked", "superseded"]


@dataclass(frozen=True)
class Lock:
    """The lock of one key, as one event's function sees it."""

    table: Any
    key: str
    sequencer: str
    holder: str  # names who holds the lock

    @classmethod
    def of(cls, table: Any, event: dict[str, Any], holder: str) -> Lock:
        """Make the lock of an event's key."""
        described = event["detail"]["object"]
        return cls(table, described["key"], described["sequencer"], holder)

    def claim(self) -> Claim:
        """Try once to take the lock."""
        record = self.table.get_item(Key={"key": self.key}, ConsistentRead=True).get("Item", {})
        if record.get("sequencer", "") >= self.sequencer:
            return "superseded"
        now = int(time.time())
        if record.get("locked_until", 0) > now and record["holder"] != self.holder:
            return "locked"
        unchanged = "attribute_not_exists(locked_until) OR locked_until <= :now OR holder = :holder"
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
            self.table.update_item(
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
