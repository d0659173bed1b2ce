"""What the executions, records and queues of one object say; what none of them says is None."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from inorder.model.execution import LIFE, UNREADABLE, Execution
from inorder.story.parts import Facts, Queued
from inorder.wording import clock, in_one_line
from inorder_fence.stuck import LOCK


class View:
    """The facts about one object, limited to the version that was asked for, if any."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.executions = sorted(
            (execution for execution in facts.executions if self.is_wanted(execution.version_id)),
            key=lambda execution: (execution.seen or facts.now, execution.arn),
        )
        self.by_arn = {execution.arn: execution for execution in self.executions}
        locked = (record for record in facts.records if LOCK in record and "execution" in record)
        self.locks = {str(record["execution"]): record for record in locked}
        self.queued = [queued for queued in facts.queued if self.is_wanted(queued.version_id)]

    def is_wanted(self, version_id: str | None) -> bool:
        """Tell whether a version is one that was asked for."""
        return self.facts.version_id in (None, version_id)

    def is_of_another_policy(self, execution: Execution) -> bool:
        """Tell whether another state machine of the stack ran an execution."""
        return execution.policy not in {"", self.facts.policy}

    def retried(self, queued: Queued) -> str:
        """Say when an event in the retry queue will be retried."""
        when = "when the pause ends" if self.facts.is_paused else f"at {clock(queued.next)}"
        return f"It will be retried {when}."

    def outcome(self, execution: Execution) -> str:
        """Tell how an execution ended, or what it does."""
        if execution.status != "RUNNING":
            return execution.ended_as
        age = self.facts.now - (execution.seen or self.facts.now)
        if self.facts.from_log and age > LIFE:
            return "Unknown"
        waits = any(step.type == "Wait" for step in execution.steps[-12:])
        return "Waiting" if waits and execution.arn not in self.locks else "Working"


def reason_of(execution: Execution) -> str:
    """Give the error and the cause in one line."""
    error: Any = execution.error
    cause: Any = execution.cause
    for reason in (as_dict(execution.output).get("reason"), parsed(execution.cause)):
        if isinstance(reason, dict) and "Error" in reason:
            error, cause = reason["Error"], reason.get("Cause")
            break
    if error is None and execution.outcome:
        return "The log does not have the reason"
    if error is None:
        last = execution.path[-1] if execution.path else "a state that is not known"
        return f"It was ended in {last}, unfinished"
    return in_one_line(f"{error}: {cause}" if cause else error)


def as_dict(value: Any) -> dict[str, Any]:
    """Give an object of JSON; what is none is empty."""
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
