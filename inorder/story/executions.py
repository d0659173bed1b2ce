"""Each execution of the object's events: how it ended, and what it says of why."""

from collections.abc import Callable
from datetime import datetime

from inorder.model.execution import Execution
from inorder.model.outcomes import DONE
from inorder.model.policies import recording
from inorder.story.parts import Cause, ToldExecution, named, sentence
from inorder.story.view import View, as_dict, reason_of, time_of
from inorder.wording import clock, span
from inorder_fence.stuck import SINCE

Explained = tuple[Cause | None, str]
BY_FUNCTION = (
    "The function answered that this event has nothing to do: its object had been replaced or"
    " deleted, a newer output was there, or it is a folder marker."
)
NO_CAUSE = "Nothing that was read says which event did that."
NO_END = (
    "The log does not have its end; the last state there is {}. It can no longer run: it has died,"
    " or the log lacks entries."
)


def tell_execution(view: View, execution: Execution) -> ToldExecution:
    """Tell how an execution ended, or what it does, and why."""
    outcome = view.outcome(execution)
    cause, why = _explain(view, execution, outcome)
    kind = {True: " (deleted)", False: " (created)", None: ""}[execution.is_deletion]
    how = f" (attempt {execution.attempt})" if execution.attempt > 1 else ""
    if execution.is_started_by_holder:
        how += " (started as the lock was released)"
    if view.is_of_another_policy(execution):
        how += f" (under {execution.policy})"
    waited = f" It waited {span(execution.waited)}." if execution.waited else ""
    event = _event(execution.sequencer, execution.version_id)
    text = (
        f"{clock(execution.seen)}: {event}{kind}, execution {execution.id}{how}: {outcome}."
        f" {why}{waited}"
    )
    identity = execution.arn, execution.sequencer, execution.version_id, execution.is_deletion
    return ToldExecution(*identity, outcome, cause, text)


def _explain(view: View, execution: Execution, outcome: str) -> Explained:
    last = execution.path[-1] if execution.path else "a state that is not known"
    if outcome in EXPLAINING:
        return EXPLAINING[outcome](view, execution)
    if outcome == "Processed":
        text = _processed(execution)
    elif outcome == "Working":
        text = f"It is in {last}."
    elif outcome == "Unknown":
        text = NO_END.format(last)
    elif execution.status == "SUCCEEDED":
        text = f"It ended in {last}, an outcome of the policy's own."
    else:
        text = sentence(reason_of(execution))
        if execution.error and execution.steps and execution.steps[-1].type != "Fail":
            text = f"The policy has no state for this: {text}"
    return None, text


def _processed(execution: Execution) -> str:
    took = f" after {span(execution.seconds)}" if execution.seconds is not None else ""
    if execution.is_deletion is None:
        return "The function answered that it has made the output this event's."
    return f"The output was {'removed' if execution.is_deletion else 'written'}{took}."


def _dropped(view: View, execution: Execution) -> Explained:
    """Say which event its last state read in the record, and who had recorded or done that."""
    read = as_dict(as_dict(execution.output).get("read"))
    sequencer = as_dict(read.get("sequencer")).get("S")
    if not isinstance(sequencer, str):
        is_answer = "answer" in read or execution.answer is not None
        return None, BY_FUNCTION if is_answer else NO_CAUSE
    is_newer, end = execution.outcome == "Superseded", execution.stopped or view.facts.now
    others = (
        (at, other.arn)
        for other in view.executions
        if (other.sequencer, other.version_id) == (sequencer, execution.version_id)
        and other.arn != execution.arn
        and (at := _recorded_at(other) if is_newer else _done_at(other))
        and at <= end
    )
    at, arn = min(others, default=(None, None))
    event = _event(sequencer, execution.version_id)
    event = "this event" if sequencer == execution.sequencer else event
    by = f" at {clock(at)} by execution {id_of(arn)}" if arn else ""
    had = f"The newer {event} had been recorded" if is_newer else f"By its record, {event} was done"
    return Cause(sequencer, execution.version_id, arn, at), f"{had}{by}."


def _recorded_at(execution: Execution) -> datetime | None:
    """Tell when an execution had written its event to the table; None if that was not read."""
    written = (step for step in execution.steps if step.state in recording() and not step.error)
    return next((step.exited for step in written if step.exited), None)


def _done_at(execution: Execution) -> datetime | None:
    """Tell when an execution had finished its event; None if it only read that it was."""
    read = as_dict(as_dict(execution.output).get("read"))
    return execution.stopped if execution.outcome in DONE and "sequencer" not in read else None


def _waits(view: View, execution: Execution) -> Explained:
    for arn, record in view.locks.items():
        if record["id"] == execution.record_id:
            holder, since = view.by_arn.get(arn), time_of(record.get(SINCE))
            sequencer = holder.sequencer if holder else None
            cause = Cause(sequencer, execution.version_id, arn, since)
            return cause, f"Execution {id_of(arn)} has had the lock since {clock(since)}."
    return None, "It waits for the lock."


def _retried(view: View, execution: Execution) -> Explained:
    reason = sentence(reason_of(execution))
    identity = execution.sequencer, execution.version_id
    for other in view.executions:
        if (other.sequencer, other.version_id) == identity and other.attempt > execution.attempt:
            text = f"{reason} Execution {other.id} tried again at {clock(other.started)}."
            return Cause(*identity, other.arn, other.started), text
    for queued in view.queued:
        if queued.queue == "retrying" and queued.sequencer == execution.sequencer:
            return Cause(*identity, at=queued.next), f"{reason} {view.retried(queued)}"
    return None, f"{reason} It was handed to the retry queue; nothing says when it will be retried."


EXPLAINING: dict[str, Callable[[View, Execution], Explained]] = {
    "Retrying": _retried,
    "Waiting": _waits,
    "Superseded": _dropped,
    "Duplicate": _dropped,
}


def id_of(arn: str | None) -> str:
    """Give the last part of the ARN of an execution."""
    return (arn or "").rpartition(":")[2]


def _event(sequencer: str | None, version_id: str | None) -> str:
    return f"{named(sequencer)}{f' of version {version_id}' if version_id else ''}"
