"""The story of an object: its executions, its events, and what is still to come."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from inorder.story.executions import tell_execution
from inorder.story.judging import judge
from inorder.story.known import Known, parsed, time_of
from inorder.story.parts import Event, Facts, Judgement, Story, order
from inorder.story.pending import tell_pending
from inorder.wording import clock, counted
from inorder_fence.records import s3_object


def tell(facts: Facts) -> Story:
    """Tell the story of an object."""
    known = Known(facts)
    story = Story(
        *(facts.bucket, facts.key, facts.policy, _events(known)),
        tuple(tell_execution(known, each) for each in known.executions),
        tuple(tell_pending(known)),
        facts.outputs,
        Judgement("unknown", ""),
        tuple(_unknown(known)),
    )
    return replace(story, verdict=judge(known, story))


def _events(known: Known) -> tuple[Event, ...]:
    """List the events of which records, queues and executions tell, oldest first."""
    events: dict[tuple[str | None, str], Event] = {}
    # The event itself may be missing in a source; then another source may have it.
    for each in sorted(_sources(known), key=lambda each: each.is_deletion is None):
        is_told = each.is_deletion is None and each.sequencer in {name for _, name in events}
        if each.sequencer and known.is_wanted(each.version_id) and not is_told:
            events.setdefault((each.version_id, each.sequencer), each)
    return tuple(sorted(events.values(), key=_by_age))


def _sources(known: Known) -> Iterator[Event]:
    for run in known.executions:
        yield _event(run.event, run.sequencer, run.version_id, run.seen)
    for each in known.queued:
        yield _event(each.event, each.sequencer, each.version_id, None)
    for record in known.facts.records:
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


def _unknown(known: Known) -> Iterator[str]:
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
