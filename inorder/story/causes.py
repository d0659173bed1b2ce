"""Why an execution ended as it did: which other event or execution caused it."""

from datetime import datetime

from inorder.model.execution import Execution
from inorder.model.outcomes import DONE
from inorder.story.parts import Cause, is_newer, order
from inorder.story.reading import (
    Known,
    happened,
    parsed,
    read_record,
    reason_of,
    recorded,
    was_worked_on,
)
from inorder_fence.records import s3_object


def cause_of(known: Known, execution: Execution, outcome: str) -> Cause | None:
    """Tell why an execution ended as it did, or for what it waits; None if nothing caused it."""
    match outcome:
        case "Superseded":
            return _superseder(known, execution)
        case "Duplicate":
            return _original(known, execution)
        case "Retrying":
            return _retry(known, execution)
        case "Processed" | "Working" | "Unknown":
            return None
        case "Waiting":
            return _blocker(known, execution)
    return Cause(reason=reason_of(execution))


def _superseder(known: Known, execution: Execution) -> Cause:
    """Find the newer event: the record names it if the state machine read one there."""
    if not was_worked_on(execution):
        newest = read_record(execution).get("sequencer")
        if newest and newest != execution.sequencer:
            return _caused_by(known, newest, execution.version_id, is_certain=True)
    newer = [
        each
        for each in known.executions
        if _is_later(each, execution)
        and (each.seen or known.facts.now) <= _stopped(known, execution)
    ]
    if not newer:
        return Cause(is_certain=False)
    last = max(newer, key=lambda each: (happened(each) or known.facts.now, order(each.sequencer)))
    return _caused_by(known, last.sequencer, last.version_id, is_certain=False)


def _is_later(other: Execution, execution: Execution) -> bool:
    if other.version_id != execution.version_id:  # their sequencers do not compare
        one, two = happened(other), happened(execution)
        return bool(one and two and one >= two)
    return is_newer(other.sequencer, execution.sequencer)


def _caused_by(
    known: Known, sequencer: str | None, version_id: str | None, is_certain: bool
) -> Cause:
    times = [
        (at, each.arn)
        for each in known.executions
        if (each.sequencer, each.version_id) == (sequencer, version_id) and (at := recorded(each))
    ]
    at, arn = min(times, default=(None, None))
    return Cause(sequencer, version_id, arn, at, is_certain=is_certain)


def _original(known: Known, execution: Execution) -> Cause:
    """Find the execution that processed the event before."""
    is_of_event = known.facts.keeps != "first"
    for other in reversed(known.executions):
        if (
            other.arn != execution.arn
            and other.record_id == execution.record_id
            and (not is_of_event or other.sequencer == execution.sequencer)
            and other.outcome in DONE
            and (other.outcome == "Processed" or was_worked_on(other))
            and _stopped(known, other) <= _stopped(known, execution)
        ):
            return Cause(other.sequencer, other.version_id, other.arn, other.stopped)
    for record in known.facts.records:  # its execution may be older than what was read
        if record["id"] == execution.record_id and record.get("status") == "DONE":
            described = s3_object(parsed(record.get("event")))
            sequencer = described.get("sequencer") or record.get("sequencer")
            if not is_of_event or sequencer == execution.sequencer:
                return Cause(sequencer, described.get("version-id"))
    sequencer = execution.sequencer if is_of_event else None
    return Cause(sequencer, execution.version_id, is_certain=False)


def _stopped(known: Known, execution: Execution) -> datetime:
    return execution.stopped or known.facts.now


def _retry(known: Known, execution: Execution) -> Cause:
    """Find the next attempt: an execution, or a message that waits."""
    reason = reason_of(execution)
    for other in known.executions:
        if (
            (other.sequencer, other.version_id) == (execution.sequencer, execution.version_id)
            and other.attempt > execution.attempt
            and (other.started or known.facts.now) >= (execution.started or known.facts.now)
        ):
            return Cause(execution=other.arn, at=other.started, reason=reason)
    for each in known.queued:
        if each.queue == "retrying" and each.sequencer == execution.sequencer:
            return Cause(at=each.next, reason=reason)
    return Cause(reason=reason, is_certain=False)


def _blocker(known: Known, execution: Execution) -> Cause | None:
    for arn, record in known.locks.items():
        if record["id"] == execution.record_id:
            sequencer, at = known.held(arn, record)
            return Cause(sequencer, execution.version_id, arn, at)
    return None
