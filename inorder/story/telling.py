"""The story of an object: its executions, its events, and what is still to come."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from inorder.story.executions import tell_execution
from inorder.story.judging import judge
from inorder.story.parts import Event, Facts, Judgement, Story, order
from inorder.story.pending import tell_pending
from inorder.story.view import View, parsed, time_of
from inorder.wording import clock, counted
from inorder_fence.records import s3_object


def tell(facts: Facts) -> Story:
    """Tell the story of an object."""
    view = View(facts)
    story = Story(
        *(facts.bucket, facts.key, facts.policy, _events(view)),
        tuple(tell_execution(view, execution) for execution in view.executions),
        tuple(tell_pending(view)),
        facts.outputs,
        Judgement("unknown", ""),
        tuple(_unknown(view)),
    )
    return replace(story, verdict=judge(view, story))


def _events(view: View) -> tuple[Event, ...]:
    """List the events of which records, queues and executions tell, oldest first."""
    events: dict[tuple[str | None, str], Event] = {}
    # The event itself may be missing in a source; then another source may have it.
    for event in sorted(_sources(view), key=lambda event: event.is_deletion is None):
        is_told = event.is_deletion is None and event.sequencer in {name for _, name in events}
        if event.sequencer and view.is_wanted(event.version_id) and not is_told:
            events.setdefault((event.version_id, event.sequencer), event)
    return tuple(sorted(events.values(), key=_by_age))


def _sources(view: View) -> Iterator[Event]:
    for run in view.executions:
        yield _event(run.event, run.sequencer, run.version_id, run.seen)
    for queued in view.queued:
        yield _event(queued.event, queued.sequencer, queued.version_id, None)
    for record in view.facts.records:
        yield _event(parsed(record.get("event")), record.get("sequencer"), None, None)


def _event(event: Any, sequencer: Any, version_id: Any, seen: Any) -> Event:
    """Give what a source says about an event."""
    is_deletion, at, etag = None, seen, None
    if described := s3_object(event):
        is_deletion = event.get("detail-type") == "Object Deleted"
        at, etag = time_of(event.get("time")) or seen, described.get("etag")
        sequencer, version_id = described["sequencer"], described.get("version-id")
    version_id = version_id if isinstance(version_id, str) else None
    return Event(str(sequencer) if sequencer else None, version_id, is_deletion, etag, at)


def _by_age(event: Event) -> tuple[float, Any]:
    """Order events: by sequencer within a version, and versions by time."""
    at = event.at.timestamp() if event.version_id and event.at else 0
    return at, order(event.sequencer)


def _unknown(view: View) -> Iterator[str]:
    yield from dict.fromkeys((view.facts.unread or {}).values())
    if lost := [execution.id for execution in view.executions if execution.missing]:
        yield (
            f"The log lacks entries of {counted(len(lost), 'execution')}"
            f" ({', '.join(lost[:3])}), so states may be missing there."
        )
    if any(execution.truncated for execution in view.executions):
        yield "The log has cut off some data, which is longer than 248 KB."
    if view.facts.since and view.facts.has("executions"):
        yield f"Executions that started before {clock(view.facts.since)} were not read."
