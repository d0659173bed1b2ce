"""Takes over from a dead execution: frees the key, and starts or parks the event.

An execution is dead if DescribeExecution says that it does not run; nothing else is believed. What
is to do follows from the key's record, and each write is conditional on what was read of it. So all
of this may be interrupted and repeated, by late and second status events and by sweeps.

An event whose execution died is counted in its input, as ``retry``, and recorded with that: a first
retry starts at once, later ones after a delay, by a sweep. A newer event that is recorded starts at
once, because it has not failed.
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
STOPS_AT_MOST = 5  # until a key's newest event is done, or continuous overwrites never finish
Outcome = Literal["Alive", "Settled", "Started", "Delayed", "Parked", "Stopped"]


class RecordContended(Exception):
    """Others changed a key's record each time, between a read and a write."""


@dataclass(frozen=True)
class Death:
    """An execution that does not run, and has perhaps not done what it should."""

    execution: str  # its ARN
    event: Json  # its input; empty if Step Functions no longer knows it
    error: str
    cause: str


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

    def take_over(
        self, execution: str, now: datetime, record_id: str = "", is_listed: bool = False
    ) -> Outcome:
        """Do for a key what its dead execution no longer does; only a sweep names the record."""
        if (death := self._death(execution, record_id)) is None:
            return "Alive"
        outcome: Outcome = "Settled"
        named = records.object_key_of(death.event) or record_id
        if death.error == "InvalidEvent":
            if is_listed:  # by a sweep, once; a status event may come twice, or not at all
                self._park(death, "", 1)
                outcome = "Parked"
        elif named:
            outcome = self._settled(death, named, now)
        # Work that outlives its execution may stage its result later: a lifecycle rule removes it.
        staged = f"staged/{execution.rpartition(':')[2]}"
        self.s3.delete_object(Bucket=self.staging_bucket, Key=staged)
        return outcome

    def sweep(self, record_id: str, now: datetime) -> Outcome:
        """Do what is due for a record that has been in progress for long."""
        record = self._read(record_id)
        if SINCE not in record:
            return "Settled"
        outcome: Outcome = "Delayed"
        if holder := _text(record, "lock_token"):
            outcome = self.take_over(holder, now, record_id)
        elif now - datetime.fromisoformat(_text(record, SINCE)) >= delay(_event(record)):
            self._start(_event(record))
            outcome = "Started"
        if outcome in {"Alive", "Started"}:  # else a thousand living holders would fill each sweep
            with suppress(self.dynamodb.exceptions.ConditionalCheckFailedException):
                self._write(record, {SINCE: {"S": now.isoformat()}})
        return outcome

    def stop_outdated(self, record_id: str) -> Outcome:
        """Stop the holder of a key's lock if a newer event is recorded than its own.

        A holder's own event never changes, and the recorded one only becomes newer. What a stopped
        execution held is taken over, as after any other death.
        """
        record = self._read(record_id)
        if not (holder := _text(record, "lock_token")):
            return "Settled"
        found = self.states.describe_execution(executionArn=holder)
        own = str(records.s3_object(json.loads(found["input"]))["sequencer"])
        stops = int(record.get("stops", {"N": "0"})["N"])
        is_outdated = own < _text(record, "sequencer")
        if not is_outdated or found["status"] != "RUNNING" or stops >= STOPS_AT_MOST:
            return "Alive"
        with suppress(self.dynamodb.exceptions.ConditionalCheckFailedException):
            self._write(record, {"stops": {"N": str(stops + 1)}})
            self.states.stop_execution(executionArn=holder, error="Outdated")
            return "Stopped"
        return "Settled"  # the event that has changed the record stops the holder

    def _death(self, execution: str, record_id: str) -> Death | None:
        try:
            found = self.states.describe_execution(executionArn=execution)
        except self.states.exceptions.ExecutionDoesNotExist:
            # This may be late, too, but a sweep asks no sooner than ten minutes after a claim.
            if not record_id:
                raise
            return Death(execution, {}, "ExecutionDied", "The execution does not exist.")
        if found["status"] == "RUNNING":
            return None
        given = json.loads(found["input"])
        cause = found.get("cause") or f"The execution has ended as {found['status']}."
        error = found.get("error") or "ExecutionDied"
        return Death(execution, given if isinstance(given, dict) else {}, error, cause)

    def _settled(self, death: Death, record_id: str, now: datetime) -> Outcome:
        for _ in range(ATTEMPTS):
            with suppress(self.dynamodb.exceptions.ConditionalCheckFailedException):
                return self._settle(death, self._read(record_id), now)
        raise RecordContended(record_id)

    def _settle(self, death: Death, record: Json, now: datetime) -> Outcome:
        """Change the record as it was read, and start its event if it is free and due."""
        holder, recorded = _text(record, "lock_token"), _text(record, "sequencer")
        own = str(records.s3_object(death.event).get("sequencer", recorded))
        frees, event = holder in {"", death.execution}, _event(record)
        is_due = frees and _text(record, "status") == "IN_PROGRESS"
        count = attempts(death.event or event) + 1
        # It may have died before its claim. If this death has been counted, the record says so.
        is_own = recorded < own or (recorded == own and is_due and count > attempts(event))
        if is_own and (death.error == "Rejected" or count > RETRIES_AT_MOST):
            self._park(death, record["id"]["S"], count)
            if recorded == own:
                lasts = str(int(now.timestamp()) + records.PARKED_SECONDS)
                ended = {"status": {"S": "FAILED"}, "expires_at": {"N": lasts}}
                self._write(record, ended, "lock_token", SINCE)
            return "Parked"
        if is_own:
            first = records.without_history(death.event or event)
            event = {**first, "retry": {"attempt": count}}
        elif not is_due:
            return "Settled"
        if is_own or holder:
            changed = {"sequencer": max(own, recorded), "event": records.as_json(event)}
            changed |= {"status": "IN_PROGRESS", SINCE: now.isoformat()}
            values = {name: {"S": value} for name, value in changed.items()}
            self._write(record, values, "expires_at", *(["lock_token"] if frees else []))
        if not frees:
            return "Settled"
        if delay(event):
            return "Delayed"
        # Once for each dead execution, however often its death is told.
        self._start(event, name=f"after-{sha256(death.execution.encode()).hexdigest()[:32]}")
        return "Started"

    def _park(self, death: Death, record_id: str, count: int) -> None:
        reason = {"Error": death.error, "Cause": death.cause, "attempts": count}
        told = {"outcome": "Parked", "object_key": record_id, "reason": reason}
        told |= {"execution": death.execution, "event": records.without_history(death.event)}
        told |= {"sequencer": str(records.s3_object(death.event).get("sequencer", ""))}
        self.sqs.send_message(QueueUrl=self.parked_queue_url, MessageBody=records.as_json(told))

    def _start(self, event: Json, **name: str) -> None:
        """Start an execution, unless one of the same name was started."""
        with suppress(self.states.exceptions.ExecutionAlreadyExists):
            self.states.start_execution(
                stateMachineArn=self.state_machine_arn, input=records.as_json(event), **name
            )

    def _read(self, record_id: str) -> Json:
        """Read a record, which has nothing but its ID if there is none."""
        key = {"id": {"S": record_id}}
        found = self.dynamodb.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        return {**key, **found.get("Item", {})}

    def _write(self, record: Json, changed: Json, *removed: str) -> None:
        """Change a record if its event, its status and its lock are still as they were read."""
        new = {name: value for name, value in (record | changed).items() if name not in removed}
        condition: Json = {"ConditionExpression": "attribute_not_exists(id)"}
        if "event" in record:
            seen = {name for name in ("event", "status", "lock_token") if name in record}
            is_same = [f"#{name} = :{name}" for name in sorted(seen)]
            is_free = [] if "lock_token" in seen else ["attribute_not_exists(lock_token)"]
            condition = {
                "ConditionExpression": " AND ".join(is_same + is_free),
                "ExpressionAttributeNames": {f"#{name}": name for name in seen},
                "ExpressionAttributeValues": {f":{name}": record[name] for name in seen},
            }
        self.dynamodb.put_item(TableName=self.table, Item=new, **condition)


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


def _event(record: Json) -> Json:
    event: Json = json.loads(_text(record, "event") or "{}")
    return event


def _text(record: Json, name: str) -> str:
    text: str = record.get(name, {}).get("S", "")
    return text
