"""What the executions, records and locks of one object say."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from inorder.model.execution import LIFE, UNREADABLE, Execution
from inorder.model.policies import recording
from inorder.story.parts import Facts

# An attribute of a record: how often sweeps have retried its event since the last claim.
HAND_OVERS = "hand_overs"


class Known:
    """The facts about one object, limited to the version that was asked for, if any."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.executions = sorted(
            (each for each in facts.executions if self.is_wanted(each.version_id)),
            key=lambda each: (each.seen or facts.now, each.arn),
        )
        self.by_arn = {each.arn: each for each in self.executions}
        self.locks = {
            str(record["execution"]): record
            for record in facts.records
            if "lock_token" in record and "execution" in record
        }
        self.queued = [each for each in facts.queued if self.is_wanted(each.version_id)]

    def is_wanted(self, version_id: str | None) -> bool:
        """Tell whether a version is one that was asked for."""
        return self.facts.version_id in (None, version_id)

    def outcome(self, execution: Execution) -> str:
        """Tell how an execution ended, or what it does."""
        if execution.status != "RUNNING":
            return execution.ended_as
        age = self.facts.now - (execution.seen or self.facts.now)
        if self.facts.from_log and age > LIFE:
            return "Unknown"
        waits = any(step.type == "Wait" for step in execution.steps[-12:])
        return "Waiting" if waits and execution.arn not in self.locks else "Working"

    def held(self, arn: str, record: Mapping[str, Any]) -> tuple[str | None, datetime | None]:
        """Give the event of a lock's holder, and since when it has the lock.

        Under `latest-wins` the record has the newest event, which another execution may have.
        """
        if record.get(HAND_OVERS):  # a sweep has replaced the time of the claim
            return record.get("sequencer"), None
        if self.waits(record) and arn in self.by_arn:
            return self.by_arn[arn].sequencer, recorded(self.by_arn[arn])
        is_known = arn in self.by_arn or self.facts.keeps != "newest"
        since = time_of(record.get("in_progress_since"))
        return record.get("sequencer") if is_known else None, since

    def waits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record's event waits for an execution that works on another event."""
        if "execution" not in record or "event" not in record:
            return False
        holder = self.by_arn.get(str(record["execution"]))
        own = [each for each in self.executions if each.sequencer == record.get("sequencer")]
        if holder:
            return holder not in own
        return any(self.outcome(each) == "Waiting" for each in own)


def happened(execution: Execution) -> datetime | None:
    """Give the time of an event as S3 says, else when its execution was seen."""
    return time_of(_dict(execution.event).get("time")) or execution.seen


def recorded(execution: Execution) -> datetime | None:
    """Give the time at which an execution wrote its event to the table; else when it started."""
    for step in execution.steps:
        if step.state in recording() and step.exited and not step.error:
            return step.exited
    return execution.started


def was_worked_on(execution: Execution) -> bool:
    """Tell whether the function has answered."""
    has_answer = any("inversion" in _dict(step.input) for step in execution.steps)
    return has_answer or execution.answer is not None


def read_record(execution: Execution) -> dict[str, str]:
    """Give what an execution read last in the record that it waited for."""
    for step in reversed(execution.steps):
        if item := _dict(_dict(_dict(step.input).get("record")).get("Item")):
            return {name: str(_dict(value).get("S", "")) for name, value in item.items()}
    return {}


def reason_of(execution: Execution) -> str:
    """Give the error and the cause in one line."""
    error: Any = execution.error
    cause: Any = execution.cause
    for reason in (_dict(execution.output).get("reason"), parsed(execution.cause)):
        if isinstance(reason, dict) and "Error" in reason:
            error, cause = reason["Error"], reason.get("Cause")
            break
    if error is None:
        last = execution.path[-1] if execution.path else "a state that is not known"
        return f"It was ended in {last}, unfinished"
    return " ".join((f"{error}: {cause}" if cause else f"{error}").split())


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def parsed(text: Any) -> Any:
    """Parse JSON; None if it is none."""
    with suppress(*UNREADABLE):
        return json.loads(text)
    return None


def time_of(text: Any) -> datetime | None:
    """Parse a time; None if it is none, or has no zone."""
    with suppress(*UNREADABLE):
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else None
    return None
