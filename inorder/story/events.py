"""What is known of each event, put together from records, queues and executions."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from inorder.model.execution import LIFE
from inorder.model.outcomes import DONE
from inorder.story.parts import Event, order
from inorder.story.reading import HAND_OVERS, Known, happened, parsed, time_of
from inorder_fence.records import s3_object
from inorder_fence.stuck import DEAD_AFTER


def events_of(known: Known, outcomes: Mapping[str, str]) -> tuple[Event, ...]:
    """Put together what records, queues and executions say about each event.

    Parameters
    ----------
    outcomes : Mapping[str, str]
        How each execution ended, or what it does, by its ARN.
    """
    found: dict[tuple[str | None, str], Event] = {}
    for learnt in _learnt(known, outcomes):
        if learnt.sequencer is not None and known.is_wanted(learnt.version_id):
            identity = (learnt.version_id, learnt.sequencer)
            if learnt.version_id is None and learnt.is_deletion is None:  # the event is not known
                identity = next((each for each in found if each[1] == learnt.sequencer), identity)
            earlier = found.get(identity)
            found[identity] = _together(known, earlier, learnt) if earlier else learnt
    return tuple(sorted(found.values(), key=_by_age))


def _learnt(known: Known, outcomes: Mapping[str, str]) -> Iterator[Event]:
    for record in known.facts.records:
        if "event" in record:  # the lock of every-version has none: its events have their own
            event = parsed(record["event"])
            version_id = s3_object(event).get("version-id")
            yield _event(event, record.get("sequencer"), version_id, _status(known, record))
    for each in known.queued:
        yield _event(each.event, each.sequencer, each.version_id, each.queue.capitalize())
    for run in known.executions:
        event = _event(run.event, run.sequencer, run.version_id, outcomes[run.arn])
        yield replace(event, executions=(run.arn,), at=happened(run))


def _status(known: Known, record: Mapping[str, Any]) -> str:
    """Tell what a record says has become of its event."""
    since = time_of(record.get("in_progress_since"))
    waits = known.waits(record)
    is_old = since and known.facts.now - since > (DEAD_AFTER if waits else LIFE)
    is_dead = is_old or record.get(HAND_OVERS)
    unfinished = "Died" if is_dead else "Waiting" if waits else "Working"
    statuses = {"DONE": "Processed", "IN_PROGRESS": unfinished}
    return statuses.get(str(record.get("status")), "Unknown")


def _together(known: Known, earlier: Event, learnt: Event) -> Event:
    """Add what a later source, or execution, says about an event."""
    before, outcome = earlier.outcome, learnt.outcome
    if outcome == "Duplicate" and known.facts.keeps == "first":
        outcome = before if before != "Unknown" else outcome  # another event was processed
    elif outcome == "Duplicate":
        outcome = "Processed"
    is_final = before == "Processed" or (
        before in {"Parked", "Retrying"} and outcome not in DONE | {"Working", "Waiting"}
    )
    return replace(
        earlier,
        is_deletion=earlier.is_deletion if learnt.is_deletion is None else learnt.is_deletion,
        etag=earlier.etag or learnt.etag,
        at=earlier.at or learnt.at,
        outcome=before if is_final or outcome == "Unknown" else outcome,
        executions=earlier.executions + learnt.executions,
    )


def _event(event: Any, sequencer: Any, version_id: Any, outcome: str) -> Event:
    """Give what a source says about an event; the event itself may be missing there."""
    if described := s3_object(event):
        is_deletion = event.get("detail-type") == "Object Deleted"
        at, etag = time_of(event.get("time")), described.get("etag")
        sequencer, version_id = described["sequencer"], described.get("version-id")
    else:
        is_deletion, at, etag = None, None, None
    named = str(sequencer) if sequencer else None
    version_id = version_id if isinstance(version_id, str) else None
    return Event(named, version_id, is_deletion, etag, at, outcome, ())


def _by_age(event: Event) -> tuple[float, Any]:
    """Order events: by sequencer within a version, and versions by time."""
    at = event.at.timestamp() if event.version_id and event.at else 0
    return at, order(event.sequencer)
