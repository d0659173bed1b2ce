"""The story of an object: its executions, what holds it, and what is to come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from inorder.model.execution import LIFE, Execution
from inorder.story.causes import cause_of
from inorder.story.events import events_of
from inorder.story.judging import judge
from inorder.story.parts import Delivery, Facts, Lock, Pending, Story, clock, span
from inorder.story.reading import Reading, parsed, time_of
from inorder.story.sentences import said_queued, said_stuck, short_id, told
from inorder_fence.records import locked, s3_object
from inorder_fence.stuck import DEAD_AFTER


def tell(facts: Facts) -> Story:
    """Tell the story of an object."""
    known = Reading(facts)
    deliveries = tuple(_delivery(known, each) for each in known.executions)
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


def _delivery(known: Reading, execution: Execution) -> Delivery:
    outcome = known.outcome(execution)
    cause = cause_of(known, execution, outcome)
    return Delivery(
        execution.arn,
        execution.id,
        execution.sequencer,
        execution.version_id,
        execution.is_deletion,
        execution.started,
        execution.stopped,
        outcome,
        execution.waited,
        execution.attempt,
        cause,
        told(known.facts, execution, outcome, cause),
    )


def _lock(known: Reading, record: Mapping[str, Any]) -> Lock:
    arn = str(record.get("execution", ""))
    sequencer, since = known.held(arn, record)
    holder = known.by_arn.get(arn)
    age = (known.facts.now - since) if since else None
    has_ended = bool(holder and holder.status != "RUNNING")
    is_dead = has_ended or bool(age and age > LIFE)
    waiting = tuple(
        each.arn
        for each in known.executions
        if each.record_id == locked(str(record["id"])) and known.outcome(each) == "Waiting"
    )
    text = (
        f"Execution {short_id(arn)} holds the lock since {clock(since)}"
        f"{f', for {span(age.total_seconds())}' if age else ''}, for event"
        f" {sequencer or '(unknown)'}."
    )
    if is_dead:
        why = f"ended as {holder.ended_as}" if holder and has_ended else "cannot be alive"
        text += f" It {why}: the next event of the key, or the schedule, breaks the lock."
    if waiting:
        text += f" {len(waiting)} wait for it: {', '.join(map(short_id, waiting))}."
    return Lock(str(record["id"]), arn, sequencer, since, is_dead, waiting, text)


def _pending(known: Reading) -> Iterable[Pending]:
    for each in known.queued:
        text = said_queued(each)
        yield Pending(
            each.queue, each.sequencer, each.version_id, each.since, each.next, each.id, text
        )
    for record in known.facts.records:
        since = time_of(record.get("in_progress_since"))
        if since is None:
            continue
        waits = known.waits(record)
        described = s3_object(parsed(record.get("event")))
        sequencer = described.get("sequencer") or record.get("sequencer")
        age = known.facts.now - since
        is_stuck = age > DEAD_AFTER
        if not is_stuck and not waits:
            continue  # its lock is told
        yield Pending(
            "stuck" if is_stuck else "waiting",
            sequencer,
            described.get("version-id"),
            since,
            None,
            str(record["id"]),
            said_stuck(known.facts, sequencer, since)
            if is_stuck
            else (
                f"Event {sequencer} is recorded as the newest since {clock(since)} and waits"
                " for the lock."
            ),
        )


def _unknown(known: Reading) -> Iterable[str]:
    yield from dict.fromkeys((known.facts.unread or {}).values())
    lost = [each for each in known.executions if each.missing]
    if lost:
        names = ", ".join(each.id for each in lost[:3])
        yield (
            f"The log lacks entries of {len(lost)} executions ({names}), so states may be"
            " missing from them."
        )
    if any(each.truncated for each in known.executions):
        yield "The log has cut off some data, which is longer than 248 KB."
    if known.facts.since and known.facts.has("executions"):
        yield f"Executions that started before {clock(known.facts.since)} were not read."
