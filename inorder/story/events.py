"""What is known of each event, put together from records, queues and executions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from inorder.model.execution import LIFE
from inorder.model.outcomes import DONE
from inorder.story.parts import Event, order
from inorder.story.reading import Reading, happened, parsed, time_of
from inorder_fence.records import s3_object
from inorder_fence.stuck import DEAD_AFTER

_ALIVE = {"Working", "Waiting"}


def events_of(known: Reading, outcomes: Mapping[str, str]) -> tuple[Event, ...]:
    """Put together what records, queues and executions say about each event."""
    found: dict[tuple[str | None, str], Event] = {}
    for learnt in (
        *(each for record in known.facts.records for each in _recorded_events(known, record)),
        *(
            _event(each.event, each.sequencer, each.version_id, each.queue.capitalize())
            for each in known.queued
        ),
        *(
            replace(
                _event(each.event, each.sequencer, each.version_id, outcomes[each.arn]),
                executions=(each.arn,),
                at=happened(each),
            )
            for each in known.executions
        ),
    ):
        if learnt.sequencer is None or not known.is_wanted(learnt.version_id):
            continue
        identity = (learnt.version_id, learnt.sequencer)
        earlier = found.get(identity)
        found[identity] = _together(known, earlier, learnt) if earlier else learnt
    return tuple(sorted(found.values(), key=_by_age))


def _recorded_events(known: Reading, record: Mapping[str, Any]) -> Iterator[Event]:
    """Give the event of a record."""
    if "event" not in record:
        return  # the lock of every-version, whose events have records of their own
    event = parsed(record["event"])
    since = time_of(record.get("in_progress_since"))
    waits = known.waits(record)
    is_dead = since and known.facts.now - since > (DEAD_AFTER if waits else LIFE)
    unfinished = "Died" if is_dead else "Waiting" if waits else "Working"
    statuses = {"DONE": "Processed", "IN_PROGRESS": unfinished}
    outcome = statuses.get(str(record.get("status")), "Unknown")
    version_id = s3_object(event).get("version-id")
    yield _event(event, record.get("sequencer"), version_id, outcome)


def _together(known: Reading, earlier: Event, learnt: Event) -> Event:
    """Add what a later source, or execution, says about an event."""
    before, outcome = earlier.outcome, learnt.outcome
    if outcome == "Duplicate" and known.facts.keeps in {"first", None}:
        outcome = before if before != "Unknown" else outcome  # another event was processed
    elif outcome == "Duplicate":
        outcome = "Processed"
    if before == "Processed" or (before in {"Parked", "Retrying"} and outcome not in DONE | _ALIVE):
        outcome = before
    return replace(
        earlier,
        is_deletion=earlier.is_deletion if learnt.is_deletion is None else learnt.is_deletion,
        etag=earlier.etag or learnt.etag,
        at=earlier.at or learnt.at,
        outcome=outcome if outcome != "Unknown" else before,
        executions=earlier.executions + learnt.executions,
    )


def _event(event: Any, sequencer: Any, version_id: Any, outcome: str) -> Event:
    """Give what a source says about an event; the event itself may be missing there."""
    described = s3_object(event)
    if not described:
        found = str(sequencer) if sequencer else None
        return Event(found, version_id, None, None, None, outcome, ())
    return Event(
        str(described["sequencer"]),
        described.get("version-id"),
        event.get("detail-type") == "Object Deleted",
        described.get("etag"),
        time_of(event.get("time")),
        outcome,
        (),
    )


def _by_age(event: Event) -> tuple[float, Any]:
    """Order events: by sequencers or, as those of two versions do not compare, by time first."""
    at = event.at.timestamp() if event.version_id and event.at else 0
    return at, order(event.sequencer)
