"""The story of an object: its executions, its locks, and what is still to come."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from inorder.model.execution import LIFE, Execution
from inorder.story.causes import cause_of
from inorder.story.events import events_of
from inorder.story.judging import judge
from inorder.story.parts import Facts, Lock, Pending, Story, ToldExecution, clock, counted
from inorder.story.reading import HAND_OVERS, Known, parsed, time_of
from inorder.story.sentences import said_locked, said_queued, said_recorded, said_stuck, told
from inorder_fence.records import s3_object
from inorder_fence.stuck import DEAD_AFTER


def tell(facts: Facts) -> Story:
    """Tell the story of an object."""
    known = Known(facts)
    deliveries = tuple(_told(known, each) for each in known.executions)
    events = events_of(known, {each.execution: each.outcome for each in deliveries})
    return Story(
        facts.bucket,
        facts.key,
        facts.policy,
        events,
        deliveries,
        tuple(_lock(known, record) for record in facts.records if "lock_token" in record),
        tuple(_pending(known)),
        facts.outputs,
        judge(facts, events),
        tuple(_unknown(known)),
    )


def _told(known: Known, execution: Execution) -> ToldExecution:
    outcome = known.outcome(execution)
    cause = cause_of(known, execution, outcome)
    return ToldExecution(
        execution.arn,
        execution.id,
        execution.sequencer,
        execution.version_id,
        execution.is_deletion,
        execution.started,
        outcome,
        cause,
        told(known.facts, execution, outcome, cause),
    )


def _lock(known: Known, record: Mapping[str, Any]) -> Lock:
    arn = str(record.get("execution", ""))
    sequencer, since = known.held(arn, record)
    age = (known.facts.now - since) if since else None
    waiting = tuple(
        each.arn
        for each in known.executions
        if each.record_id == record["id"] and known.outcome(each) == "Waiting"
    )
    holder = known.by_arn.get(arn)
    death = ""
    if holder and holder.status != "RUNNING":
        death = f"ended as {holder.ended_as}"
    elif record.get(HAND_OVERS):
        death = "has died"
    elif age and age > LIFE:
        death = "cannot be alive"
    lock = Lock(arn, sequencer, since, bool(death), waiting)
    return replace(lock, text=said_locked(lock, age, death))


def _pending(known: Known) -> Iterable[Pending]:
    queued = {each.sequencer for each in known.queued}
    for each in known.queued:
        yield Pending(each.queue, each.sequencer, each.id, said_queued(each))
    for record in known.facts.records:
        since = time_of(record.get("in_progress_since"))
        described = s3_object(parsed(record.get("event")))
        sequencer = described.get("sequencer") or record.get("sequencer")
        if since is None or sequencer in queued:
            continue
        hand_overs = int(record.get(HAND_OVERS, 0))
        if hand_overs or known.facts.now - since > DEAD_AFTER:
            text = said_stuck(sequencer, since, hand_overs)
            yield Pending("stuck", sequencer, str(record["id"]), text)
        elif known.waits(record):
            text = said_recorded(sequencer, since)
            yield Pending("waiting", sequencer, str(record["id"]), text)


def _unknown(known: Known) -> Iterable[str]:
    yield from dict.fromkeys((known.facts.unread or {}).values())
    if lost := [each.id for each in known.executions if each.missing]:
        yield (
            f"The log lacks entries of {counted(len(lost), 'execution')}"
            f" ({', '.join(lost[:3])}), so states may be missing there."
        )
    if any(each.truncated for each in known.executions):
        yield "The log has cut off some data, which is longer than 248 KB."
    if known.facts.since and known.facts.has("executions"):
        yield f"Executions that started before {clock(known.facts.since)} were not read."
