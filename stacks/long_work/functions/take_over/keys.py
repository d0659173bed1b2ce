"""Takes over what a dead execution held, or held up: frees the key, and starts or parks the event.

An execution is dead if DescribeExecution says that it does not run; nothing else is believed. What
is to do follows from the key's record, and each write is conditional on what was read of it. So all
of this may be interrupted and repeated, by late and second status events and by sweeps.

An event whose execution died is counted in its input, as ``retry``, and recorded with that: a first
retry starts at once, later ones after a delay, by a sweep. A newer event that is recorded is not to
blame, and starts at once, once for each dead execution.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal

from inorder_fence import records
from inorder_fence.records import Json
from inorder_fence.stuck import SINCE

RETRIES_AT_MOST = 8  # within nine hours; then the event is parked
FIRST_DELAY, LONGEST_DELAY = timedelta(minutes=10), timedelta(hours=2)
ATTEMPTS = 5  # to change a record that others change, too
# A redriven execution may wait for its Map's children. The ASL has none, but a user's may.
ALIVE = {"RUNNING", "PENDING_REDRIVE"}
FINAL = {"Rejected", "InvalidEvent"}  # Fail states, after which a retry would not help
Outcome = Literal["Alive", "Settled", "Started", "Delayed", "Parked"]


class RecordContended(Exception):
    """Others changed a key's record each time, between a read and a write."""


@dataclass(frozen=True)
class Death:
    """An execution that does not run, and has perhaps not done what it should."""

    execution: str  # its ARN
    given: Any  # its input; None if Step Functions no longer knows it
    error: str
    cause: str

    @property
    def event(self) -> Json:
        """Its event; empty if its input is not an object."""
        return self.given if isinstance(self.given, dict) else {}


def attempts(event: Json) -> int:
    """Tell how many executions of an event have died."""
    match event.get("retry"):
        case {"attempt": int(count)}:
            return count
    return 0


def delay(event: Json) -> timedelta:
    """Tell how long an event waits for its next execution."""
    count = attempts(event)
    return min(FIRST_DELAY * 2 ** (count - 2), LONGEST_DELAY) if count > 1 else timedelta(0)


@dataclass(frozen=True)
class Keys:
    """The records of keys, and the services that act for them."""

    dynamodb: Any
    states: Any
    sqs: Any
    s3: Any
    table: str
    state_machine_arn: str
    parked_queue_url: str
    staging_bucket: str

    def take_over(self, execution: str, record_id: str, now: datetime) -> Outcome:
        """Do for a key what its dead execution no longer does.

        Parameters
        ----------
        execution : str
            ARN of an execution that may be dead.
        record_id : str
            The record that it has locked. "" if that is only known from its input.

        Raises
        ------
        RecordContended
            Another call, or a sweep, will do it.
        """
        try:
            death = self._death(execution)
        except self.states.exceptions.ExecutionDoesNotExist:
            # After 90 days. The answer may also be late, but sweeps ask ten minutes after a claim.
            if not record_id:
                raise
            death = Death(execution, None, "ExecutionDied", "The execution does not exist.")
        if death is None:
            return "Alive"
        outcome = self._settled(death, record_id, now)
        # Work that outlives its execution may stage its result later: a lifecycle rule removes it.
        staged = f"staged/{execution.rpartition(':')[2]}"
        self.s3.delete_object(Bucket=self.staging_bucket, Key=staged)
        return outcome

    def _settled(self, death: Death, record_id: str, now: datetime) -> Outcome:
        named = records.object_key_of(death.event) or record_id
        if death.error == "InvalidEvent" or not named:
            return self._park_invalid(death, now)
        for _ in range(ATTEMPTS):
            with suppress(self.dynamodb.exceptions.ConditionalCheckFailedException):
                return self._settle(death, named, self.read(named), now)
        raise RecordContended(named)

    def sweep(self, record_id: str, now: datetime) -> Outcome:
        """Do what is due for a record that has been in progress for long."""
        record = self.read(record_id)
        if SINCE not in record:
            return "Settled"
        if holder := _text(record, "lock_token"):
            outcome = self.take_over(holder, record_id, now)
            if outcome != "Alive":
                return outcome
        else:
            event = json.loads(_text(record, "event"))
            outcome = "Delayed"
            if now - datetime.fromisoformat(_text(record, SINCE)) >= delay(event):
                self._start(event)
                outcome = "Started"
        if outcome != "Delayed":  # else a thousand living holders would fill each sweep
            with suppress(self.dynamodb.exceptions.ConditionalCheckFailedException):
                self._write(record, {SINCE: now.isoformat()})
        return outcome

    def read(self, record_id: str) -> Json:
        """Read a record, which has nothing but its ID if there is none."""
        key = {"id": {"S": record_id}}
        found = self.dynamodb.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        return {**key, **found.get("Item", {})}

    def _death(self, execution: str) -> Death | None:
        found = self.states.describe_execution(executionArn=execution)
        if found["status"] in ALIVE:
            return None
        cause = found.get("cause") or f"The execution has ended as {found['status']}."
        error = found.get("error") or "ExecutionDied"
        return Death(execution, json.loads(found["input"]), error, cause)

    def _settle(self, death: Death, record_id: str, record: Json, now: datetime) -> Outcome:
        """Change the record as it was read, and start its event if it is free and due."""
        holder, recorded = _text(record, "lock_token"), _text(record, "sequencer")
        is_holder = holder == death.execution
        is_free = _text(record, "status") == "IN_PROGRESS" and holder in {"", death.execution}
        own = str(records.s3_object(death.event).get("sequencer", "")) or recorded
        is_counted = _text(record, "last_death") == death.execution and not is_holder
        changed = {"last_death": death.execution, SINCE: now.isoformat()}
        event: Json = json.loads(_text(record, "event") or "{}")
        if recorded < own or (recorded == own and is_free and not is_counted):
            event = death.event if recorded < own else event  # it may have died before its claim
            count = attempts(event) + 1
            if death.error in FINAL or count > RETRIES_AT_MOST:
                self._park(death, record_id, event, count)
                if recorded == own:
                    lasts = {"expires_at": int(now.timestamp()) + records.PARKED_SECONDS}
                    self._write(record, {"status": "FAILED", **lasts}, "lock_token", SINCE)
                return "Parked"
            event = {**records.without_history(event), "retry": {"attempt": count}}
            changed |= {"sequencer": own, "event": records.as_json(event), "status": "IN_PROGRESS"}
        elif not is_free or is_counted:
            changed = {}
        if changed:
            freed = ["lock_token"] if is_holder else []
            self._write(record, changed, *freed, "expires_at")
        if (holder and not is_holder) or not (changed or is_free):
            return "Settled"
        if delay(event):
            return "Delayed"
        self._start(event, name=f"after-{sha256(death.execution.encode()).hexdigest()[:32]}")
        return "Started"

    def _write(self, record: Json, changed: Json, *removed: str) -> None:
        """Change a record if its event and its lock are still as they were read."""
        values: Json = {
            f":{name}": {"N": str(value)} if isinstance(value, int) else {"S": value}
            for name, value in changed.items()
        }
        names = {f"#{name}": name for name in (*changed, *removed)}
        conditions = []
        for name in ("sequencer", "lock_token"):
            names[f"#{name}"] = name
            if name in record:
                conditions.append(f"#{name} = :old_{name}")
                values[f":old_{name}"] = record[name]
            else:
                conditions.append(f"attribute_not_exists(#{name})")
        update = f"SET {', '.join(f'#{name} = :{name}' for name in changed)}"
        if removed:
            update += f" REMOVE {', '.join(f'#{name}' for name in removed)}"
        self.dynamodb.update_item(
            TableName=self.table,
            Key={"id": record["id"]},
            UpdateExpression=update,
            ConditionExpression=" AND ".join(conditions),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
        )

    def _start(self, event: Json, **name: str) -> None:
        """Start an execution, unless one of the same name was started."""
        with suppress(self.states.exceptions.ExecutionAlreadyExists):
            self.states.start_execution(
                stateMachineArn=self.state_machine_arn, input=records.as_json(event), **name
            )

    def _park(self, death: Death, record_id: str, event: Any, count: int) -> None:
        reason = {"Error": death.error, "Cause": death.cause, "attempts": count}
        told: Json = {"outcome": "Parked", "reason": reason, "execution": death.execution}
        told |= {"event": records.without_history(event)}
        told |= {"object_key": record_id} if record_id else {}
        self.sqs.send_message(QueueUrl=self.parked_queue_url, MessageBody=records.as_json(told))

    def _park_invalid(self, death: Death, now: datetime) -> Outcome:
        """Park an input that is not an S3 event, and note it in a record of its own."""
        record = self.read(f"invalid:{death.execution}")
        if "expires_at" not in record:
            self._park(death, "", death.given, 1)
            lasts = int(now.timestamp()) + records.PARKED_SECONDS
            self._write(record, {"status": "FAILED", "expires_at": lasts})
        return "Parked"


def _text(record: Json, name: str) -> str:
    text: str = record.get(name, {}).get("S", "")
    return text
