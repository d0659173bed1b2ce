"""The story of an object, told from facts that are built here: no service is called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inorder.events import created, deleted
from inorder.execution import Execution, Step
from inorder.story import Facts, Output, Queued, Source, Story, tell

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
A, B, C = "0A", "0B", "0C"  # sequencers, oldest first
RECORD = "input/x.png"


def at(seconds: float) -> datetime:
    """Give a time, in seconds after the first event."""
    return NOW - timedelta(minutes=4) + timedelta(seconds=seconds)


def execution(
    name: str,
    event: Any,
    outcome: str | None = "Processed",
    start: float = 0,
    end: float | None = 1,
    *,
    steps: tuple[Step, ...] = (),
    reason: tuple[str, str] | None = None,
    status: str | None = None,
) -> Execution:
    """Build an execution that ended with an outcome, or that runs if it has no end."""
    failed = outcome in {"Parked", "InvalidEvent", "NotParked", "States.Runtime"}
    described = {"Error": reason[0], "Cause": reason[1]} if reason else {}
    output: dict[str, Any] = {"outcome": outcome, "object_key": record_of(event)}
    if reason and not failed:
        output["reason"] = described
    return Execution(
        f"arn:aws:states:r:1:execution:machine:{name}",
        status or ("RUNNING" if end is None else "FAILED" if failed else "SUCCEEDED"),
        event,
        output if outcome and not failed else None,
        outcome if failed else None,
        json.dumps(described) if failed and reason else "",
        steps,
        at(start),
        None if end is None else at(end),
        0,
    )


def record_of(event: Any) -> str:
    described = event["detail"]["object"]
    version = described.get("version-id")
    return f"input/{described['key']}" + (f"#{version}" if version else "")


def claimed(end: float) -> Step:
    return Step("Claim Key", "Task", {}, {}, at(end - 0.1), at(end))


def read(**record: str) -> Step:
    """Build the last step of a waiter, which has read a record."""
    item = {name: {"S": value} for name, value in record.items()}
    return Step("Key State?", "Choice", {"record": {"Item": item}}, {})


WORKED = Step("Outcome?", "Choice", {"inversion": {"Payload": {"outcome": "Superseded"}}}, {})
WAITS = Step("Wait For Lock", "Wait", {}, None, at(1))


def made_of(sequencer: str, etag: str = "e", version: str | None = None) -> Output:
    return Output("out-x.png", sequencer, etag, version, NOW)


def facts(*executions: Execution, **changes: Any) -> Facts:
    """Build the facts of a key of latest-wins, whose object has the ETag ``e``."""
    known: dict[str, Any] = {
        "executions": executions,
        "source": Source("e", None, at(0)),
        "keeps": "newest",
    }
    return Facts("input", "x.png", "latest-wins", now=NOW, **(known | changes))


def event(sequencer: str, etag: str = "e", **changes: Any) -> dict[str, Any]:
    return created("x.png", sequencer=sequencer, etag=etag, **changes)


def deletion(sequencer: str, **changes: Any) -> dict[str, Any]:
    return deleted("x.png", sequencer=sequencer, **changes)


def record(sequencer: str, status: str = "DONE", **more: Any) -> dict[str, Any]:
    claimed_by = {"sequencer": sequencer, "status": status}
    return {"id": RECORD, "event": json.dumps(event(sequencer)), **claimed_by, **more}


def text_of(story: Story, name: str) -> str:
    [text] = [each.text for each in story.deliveries if each.id == name]
    return text


def cause_of(story: Story, name: str) -> Any:
    [cause] = [each.cause for each in story.deliveries if each.id == name]
    return cause


# Which other event caused the outcome


def test_executions_are_told_in_the_order_in_which_they_started() -> None:
    late = execution("late", event(A), "Superseded", 5, 6)
    early = execution("early", event(B), "Processed", 1, 2)
    story = tell(facts(late, early, outputs=(made_of(B),)))
    assert [each.id for each in story.deliveries] == ["early", "late"]
    assert [each.sequencer for each in story.events] == [A, B]


def test_the_event_that_superseded_a_waiter_is_the_one_that_it_read_in_the_record() -> None:
    waiter = execution("waiter", event(A), "Superseded", 1, 4, steps=(read(sequencer=B),))
    newest = execution("newest", event(B), "Processed", 2, 5, steps=(claimed(3),))
    newer = execution("newer", event(C), "Processed", 3.5, 9, steps=(claimed(8),))
    story = tell(facts(waiter, newest, newer))
    cause = cause_of(story, "waiter")
    assert (cause.sequencer, cause.at, cause.is_certain) == (B, at(3), True)
    assert cause.execution == newest.arn
    assert "The newer event 0B, recorded at 2026-11-22 11:56:03 UTC by execution newest," in (
        text_of(story, "waiter")
    )


def test_an_event_that_superseded_without_being_read_itself_is_named_without_a_time() -> None:
    waiter = execution("waiter", event(A), "Superseded", 1, 4, steps=(read(sequencer=B),))
    cause = cause_of(tell(facts(waiter)), "waiter")
    assert (cause.sequencer, cause.at, cause.execution) == (B, None, None)


def test_what_the_function_superseded_is_told_as_probable() -> None:
    late = execution("late", event(A), "Superseded", 5, 6, steps=(WORKED,))
    newer = execution("newer", event(B), "Processed", 1, 2, steps=(claimed(1.5),))
    story = tell(facts(late, newer))
    cause = cause_of(story, "late")
    assert (cause.sequencer, cause.is_certain) == (B, False)
    assert "probably event 0B" in text_of(story, "late")


def test_a_newer_event_that_came_after_the_end_superseded_nothing() -> None:
    done = execution("done", event(A), "Superseded", 1, 2, steps=(WORKED,))
    story = tell(facts(done, execution("later", event(B), "Processed", 3, 4)))
    assert cause_of(story, "done").sequencer is None
    assert "no newer event is known" in text_of(story, "done")


def test_a_version_is_superseded_by_another_version_that_came_later() -> None:
    one = event("FF", version_id="v1") | {"time": at(0).isoformat()}
    two = event("01", version_id="v2") | {"time": at(1).isoformat()}
    story = tell(
        facts(
            execution("one", one, "Superseded", 2, 3, steps=(WORKED,)),
            execution("two", two, "Processed", 1.5, 2.5),
        )
    )
    assert cause_of(story, "one").version_id == "v2"
    assert [each.version_id for each in story.events] == ["v1", "v2"]


def test_a_duplicate_names_the_execution_that_processed_the_event() -> None:
    first = execution("first", event(A), "Processed", 0, 1)
    again = execution("again", event(A), "Duplicate", 2, 3)
    story = tell(facts(first, again))
    assert cause_of(story, "again").execution == first.arn
    assert "Execution first had processed this event at 2026-11-22 11:56:01" in (
        text_of(story, "again")
    )
    [only] = story.events
    assert (only.outcome, only.executions) == ("Processed", (first.arn, again.arn))


def test_a_duplicate_of_what_was_not_read_is_explained_by_the_record() -> None:
    again = execution("again", event(A), "Duplicate")
    assert "The record says that this event was processed before." in text_of(
        tell(facts(again, records=(record(A),))), "again"
    )
    story = tell(facts(again))
    assert not cause_of(story, "again").is_certain
    assert "by an execution that was not read" in text_of(story, "again")


def test_first_wins_names_the_other_event_that_was_processed() -> None:
    first = execution("first", event(B), "Processed", 0, 1)
    other = execution("other", event(A), "Duplicate", 2, 3)
    told = facts(first, other, outputs=(made_of(B),))
    story = tell(replace(told, keeps="first", policy="first-wins"))
    assert "Execution first had processed event 0B" in text_of(story, "other")
    assert {each.sequencer: each.outcome for each in story.events} == {
        A: "Duplicate",
        B: "Processed",
    }
    assert story.verdict.state == "right"


def test_content_hash_explains_a_duplicate_by_the_record_of_the_content() -> None:
    content = {"outcome": "Duplicate", "content": "content:s/t/h"}
    again = replace(execution("again", event(B), "Duplicate"), output=content)
    other = created("other.png", sequencer="99")
    kept = {"id": "content:s/t/h", "status": "DONE", "event": json.dumps(other)}
    told = replace(facts(again, records=(kept,)), keeps=None, policy="content-hash")
    story = tell(told)
    assert "The record says that event 99 was processed before." in text_of(story, "again")
    assert story.verdict.state == "right"


def test_a_parked_event_tells_why_and_how_to_start_it_again() -> None:
    reason = ("InvalidImage", "no image")
    parked = execution("bad", event(A), "Parked", reason=reason)
    queued = Queued("parked", "0123456789", None, A, at(1), "InvalidImage: no image")
    story = tell(facts(parked, queued=(queued,), records=(record(A, "FAILED"),)))
    assert "Parked. InvalidImage: no image." in text_of(story, "bad")
    [pending] = story.pending
    assert "`inorder redrive 01234567` starts it again." in pending.text
    assert (story.verdict.state, story.events[0].outcome) == ("parked", "Parked")


def test_an_event_that_is_no_longer_in_the_queue_was_parked() -> None:
    parked = execution("bad", event(A), "Parked", reason=("InvalidImage", "no image"))
    story = tell(facts(parked))
    assert story.verdict.state == "parked"
    assert "was parked, and is no longer in the queue" in story.verdict.text
    unread = tell(facts(parked, unread={"parked": "The parked events could not be read."}))
    assert "is parked" in unread.verdict.text


def test_a_retry_is_told_with_its_reason_and_the_next_attempt() -> None:
    failed = execution("failed", event(A), "Retrying", reason=("States.Timeout", "too slow"))
    queued = Queued("retrying", "m", None, A, at(1), "States.Timeout", at(300), 1)
    story = tell(facts(failed, queued=(queued,)))
    assert cause_of(story, "failed").at == at(300)
    text = text_of(story, "failed")
    assert "States.Timeout: too slow. It is tried again at 2026-11-22 12:01:00 UTC." in text
    assert "failed first at 2026-11-22 11:56:01 UTC, and 1 times so far" in story.pending[0].text
    assert story.verdict.state == "pending"


def test_a_retry_that_was_started_is_named_and_numbered() -> None:
    failed = execution("failed", event(A), "Retrying", 0, 1, reason=("Fault", "why"))
    retry = {"retry": {"attempt": 1, "since": "0", "reasons": ["Fault: why"]}}
    again = execution("again", event(A) | retry, "Processed", 6, 7)
    story = tell(facts(failed, again, outputs=(made_of(A),)))
    assert cause_of(story, "failed").execution == again.arn
    assert "execution again (attempt 2): Processed" in text_of(story, "again")
    assert story.events[0].outcome == "Processed"


def test_a_retry_that_the_function_has_not_read_is_told_as_such() -> None:
    failed = execution("failed", event(A), "Retrying", reason=("Fault", "why"))
    assert "as soon as the function that retries reads it" in text_of(tell(facts(failed)), "failed")
    unread = facts(failed, unread={"retrying": "The events that are retried could not be read."})
    assert "When it is tried again is not known." in text_of(tell(unread), "failed")


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        (None, "TIMED_OUT", "TimedOut. It ended in Claim Key, unfinished."),
        (None, "ABORTED", "Aborted. It ended in Claim Key, unfinished."),
        ("Ignored", "SUCCEEDED", "Ignored. It ended in Claim Key, an outcome of the policy's own."),
        ("NotParked", None, "NotParked. Fault: why."),
        ("InvalidEvent", None, "InvalidEvent. Fault: why."),
        ("States.Runtime", None, "No state of the policy has foreseen this: Fault: why."),
    ],
)
def test_other_ends_are_told(outcome: str | None, status: str | None, said: str) -> None:
    ended = execution(
        "it", event(A), outcome, steps=(claimed(1),), reason=("Fault", "why"), status=status
    )
    assert said in text_of(tell(facts(ended)), "it")


# Who holds the lock, and what waits


def held_by(holder: Execution, since: float, **more: Any) -> dict[str, Any]:
    lock = {"lock_token": "t", "execution": holder.arn, "in_progress_since": at(since).isoformat()}
    return record(str(holder.sequencer), "IN_PROGRESS", **lock, **more)


def test_a_lock_tells_its_holder_and_who_waits() -> None:
    holder = execution("holder", event(A), None, 200, None, steps=(claimed(200),))
    waiter = execution("waiter", event(B), None, 210, None, steps=(WAITS,))
    story = tell(facts(holder, waiter, records=(held_by(holder, 201),)))
    [lock] = story.locks
    assert (lock.execution, lock.sequencer, lock.since) == (holder.arn, A, at(201))
    assert (lock.is_dead, lock.waiting) == (False, (waiter.arn,))
    assert "holds the lock since 2026-11-22 11:59:21 UTC, for 39 s, for event 0A" in lock.text
    assert "1 wait for it: waiter." in lock.text
    assert "Waiting. Execution holder holds the lock" in text_of(story, "waiter")
    assert "Working. It is in Claim Key." in text_of(story, "holder")
    assert story.verdict.state == "pending"


def test_a_lock_of_an_execution_that_ended_is_dead() -> None:
    holder = execution("holder", event(A), None, 0, 5, status="TIMED_OUT")
    [lock] = tell(facts(holder, records=(held_by(holder, 1),))).locks
    assert lock.is_dead
    assert "It ended as TimedOut: the next event of the key, or the schedule, breaks" in lock.text


def test_a_lock_that_is_older_than_any_execution_is_dead_whoever_held_it() -> None:
    holder = execution("holder", event(A), None, 0, None)
    [lock] = tell(facts(records=(held_by(holder, -600),))).locks
    assert lock.is_dead
    assert "cannot be alive" in lock.text


def test_a_newer_event_in_the_record_waits_until_it_is_stuck() -> None:
    holder = execution("holder", event(A), None, 90, None, steps=(claimed(91),))
    lock = {"lock_token": "t", "execution": holder.arn}
    waiting = record(B, "IN_PROGRESS", **lock, in_progress_since=at(100).isoformat())
    story = tell(facts(holder, records=(waiting,)))
    assert [each.kind for each in story.pending] == ["waiting"]
    assert [each.outcome for each in story.events] == ["Working", "Waiting"]
    [held] = story.locks
    assert (held.sequencer, held.since) == (A, at(91))
    stuck = record(B, "IN_PROGRESS", in_progress_since=at(-900).isoformat())
    story = tell(facts(records=(stuck,), outputs=(made_of(A, "old"),)))
    assert [each.kind for each in story.pending] == ["stuck"]
    assert "The schedule, which runs every 15 minutes" in story.pending[0].text
    assert story.verdict.state == "pending"
    unscheduled = tell(replace(facts(records=(stuck,)), heal_minutes=0))
    assert "inorder stuck --redrive starts it again" in unscheduled.pending[0].text
    assert unscheduled.verdict.state == "wrong"


def test_without_the_execution_of_the_holder_its_event_is_not_known() -> None:
    holder = execution("holder", event(A), None, 0, None)
    [lock] = tell(facts(records=(held_by(holder, 200),))).locks
    assert lock.sequencer is None
    assert "for event (unknown)" in lock.text


# Whether the output is right


def test_an_output_of_the_object_as_it_is_now_is_right() -> None:
    story = tell(facts(execution("it", event(A)), outputs=(made_of(A),)))
    assert story.verdict.state == "right"
    assert "The output out-x.png is that of event 0A." in story.verdict.text


def test_an_output_of_the_object_as_it_is_now_is_right_without_a_log() -> None:
    unread = {"executions": "The log has the level OFF: it has no executions."}
    story = tell(facts(outputs=(made_of(A),), unread=unread))
    assert story.verdict.state == "right"
    assert story.unknown == tuple(unread.values())
    assert "Not known: The log has the level OFF" in story.sentences()[-1]


def test_the_same_content_uploaded_again_is_right_and_mentioned() -> None:
    failed = execution("it", event(B), "Retrying", reason=("Fault", "why"))
    story = tell(facts(execution("a", event(A)), failed, outputs=(made_of(A),)))
    assert story.verdict.state == "right"
    assert "The newer event 0B (Retrying) has the same content." in story.verdict.text


@pytest.mark.parametrize(
    ("outcome", "end", "state"),
    [("Processed", 1, "wrong"), (None, None, "pending"), ("Superseded", 1, "unknown")],
)
def test_an_old_output_is_judged_by_the_event_of_the_object(
    outcome: str | None, end: float | None, state: str
) -> None:
    newer = execution("newer", event(B), outcome, 0, end)
    story = tell(facts(newer, outputs=(made_of(A, "old"),)))
    assert story.verdict.state == state


@pytest.mark.parametrize(("minutes", "state"), [(15, "pending"), (0, "wrong")])
def test_an_execution_that_died_is_healed_if_there_is_a_schedule(minutes: int, state: str) -> None:
    died = execution("died", event(A), None, status="TIMED_OUT")
    story = tell(replace(facts(died), heal_minutes=minutes))
    assert story.verdict.state == state


def test_an_object_without_an_event_is_wrong_unless_it_has_just_changed() -> None:
    assert tell(facts()).verdict.state == "wrong"
    assert "UndeliveredEventsQueue" in tell(facts()).verdict.text
    fresh = tell(facts(source=Source("e", None, NOW - timedelta(seconds=5))))
    assert fresh.verdict.state == "pending"
    assert "changed 5.0 s ago; its event may be on its way" in fresh.verdict.text
    unread = tell(facts(unread={"executions": "The log has the level OFF."}))
    assert unread.verdict.state == "unknown"


def test_an_undelivered_event_is_named() -> None:
    queued = Queued("undelivered", "m", None, A, at(1), "NO_PERMISSIONS: why", event=event(A))
    story = tell(facts(queued=(queued,)))
    assert story.verdict.state == "wrong"
    assert "it is in UndeliveredEventsQueue since 2026-11-22 11:56:01 UTC. NO_PERMISSIONS: why" in (
        story.pending[0].text
    )


def test_no_output_of_a_deleted_object_is_right() -> None:
    story = tell(facts(execution("it", deletion(B)), source=None))
    assert story.verdict.state == "right"
    assert "event 0B (deleted)" in text_of(story, "it")
    assert "The output was removed" in text_of(story, "it")


def test_the_output_of_a_deleted_object_is_judged_by_the_deletion() -> None:
    old = (made_of(A),)
    failed = execution("it", deletion(B), "Retrying", reason=("Fault", "why"))
    assert tell(facts(failed, source=None, outputs=old)).verdict.state == "pending"
    assert tell(facts(source=None, outputs=old)).verdict.state == "wrong"
    kept = replace(facts(source=None, outputs=old), handles_deletions=False)
    assert tell(kept).verdict.state == "right"


def test_without_the_object_the_newest_event_decides() -> None:
    unread = {"source": "The object could not be read: AccessDenied"}
    first, newer = execution("a", event(A)), execution("b", event(B), None, 2, None)
    assert tell(facts(first, outputs=(made_of(A),), unread=unread)).verdict.state == "right"
    pending = tell(facts(first, newer, outputs=(made_of(A),), unread=unread))
    assert pending.verdict.state == "pending"
    log_off = unread | {"executions": "The log has the level OFF."}
    assert tell(facts(outputs=(made_of(A),), unread=log_off)).verdict.state == "unknown"


def test_an_output_that_could_not_be_read_is_unknown() -> None:
    unread = {"outputs": "The output could not be read: AccessDenied"}
    assert tell(facts(unread=unread)).verdict.state == "unknown"


def test_the_current_version_decides() -> None:
    one, two = event("F", "e", version_id="v1"), event("1", "e2", version_id="v2")
    both = (execution("one", one, "Processed", 0, 1), execution("two", two, "Processed", 2, 3))
    current = Source("e2", "v2", at(2))
    right = tell(facts(*both, source=current, outputs=(made_of("1", "e2", "v2"),)))
    assert right.verdict.state == "right"
    wrong = tell(facts(*both, source=current, outputs=(made_of("F", "e", "v1"),)))
    assert wrong.verdict.state == "wrong"
    assert "event 1, which should decide it" in wrong.verdict.text


def test_only_the_version_that_is_asked_for_is_told() -> None:
    one, two = event(A, version_id="v1"), event(B, version_id="v2")
    asked = replace(facts(execution("one", one), execution("two", two)), version_id="v2")
    assert [each.id for each in tell(asked).deliveries] == ["two"]


def each_event(*executions: Execution, outputs: tuple[Output, ...], **changes: Any) -> Story:
    return tell(
        replace(
            facts(*executions, outputs=outputs, **changes), keeps="each", policy="every-version"
        )
    )


def test_under_every_version_each_event_has_its_output() -> None:
    both = execution("a", event(A)), execution("b", event(B))
    story = each_event(*both, outputs=(made_of(A), made_of(B)))
    assert story.verdict.state == "right"
    lacking = each_event(*both, outputs=(made_of(A),))
    assert lacking.verdict.state == "wrong"
    assert "1 of the events lacks one." in lacking.verdict.text
    assert "event 0B, which should have one, ended as Processed" in lacking.verdict.text


def test_under_every_version_deletions_remove_older_outputs() -> None:
    three = execution("a", event(A)), execution("b", deletion(B)), execution("c", event(C))
    assert each_event(*three, outputs=(made_of(C),)).verdict.state == "right"
    versions = (
        execution("one", event(A, version_id="v1")),
        execution("marker", deletion(B, version_id="m")),
    )
    kept = each_event(*versions, outputs=(made_of(A, "e", "v1"),))
    assert kept.verdict.state == "right"
    assert each_event(*versions, outputs=()).verdict.state == "wrong"


def test_first_wins_is_wrong_with_another_output_and_unknown_without_the_first_event() -> None:
    def told(*executions: Execution, **more: Any) -> Story:
        return tell(replace(facts(*executions, **more), keeps="first", policy="first-wins"))

    first = execution("a", event(A))
    assert told(first, outputs=(made_of(B),)).verdict.state == "wrong"
    assert told(outputs=(made_of(B),)).verdict.state == "unknown"
    assert told().verdict.state == "unknown"
    assert told(execution("a", event(A), None, 0, None)).verdict.state == "pending"


def test_uncoordinated_promises_nothing_and_its_stale_output_is_named() -> None:
    both = execution("a", event(A, "old")), execution("b", event(B))
    stale = replace(facts(*both, outputs=(made_of(A, "old"),)), keeps="last", has_table=False)
    assert tell(stale).verdict.state == "wrong"


def test_optimistic_has_no_record_and_an_execution_that_died_is_not_healed() -> None:
    died = execution("died", event(A), None, status="ABORTED")
    story = tell(replace(facts(died), has_table=False, heal_minutes=0))
    assert story.verdict.state == "wrong"
    assert "Nothing starts it again" in story.verdict.text


def test_content_hash_tells_what_is_not_forwarded_yet() -> None:
    failed = execution("it", event(A), "Retrying", reason=("Fault", "why"))
    story = tell(replace(facts(failed), keeps=None, policy="content-hash"))
    assert story.verdict.state == "pending"
    assert "This policy writes no outputs." in story.verdict.text


# What is not known


def test_an_execution_without_an_end_in_the_log_is_unknown_after_five_minutes() -> None:
    old = replace(execution("old", event(A), None, -300, None, steps=(claimed(-299),)))
    story = tell(replace(facts(old), from_log=True))
    assert "Unknown. The log has no end of it; the last state there is Claim Key." in (
        text_of(story, "old")
    )
    assert story.verdict.state == "unknown"
    done = tell(replace(facts(old, records=(record(A),)), from_log=True))
    assert done.events[0].outcome == "Processed"  # the record knows


def test_missing_entries_and_truncated_data_are_named() -> None:
    lost = replace(execution("lost", event(A)), missing=2, truncated=True)
    story = tell(replace(facts(lost), since=at(-1)))
    assert any("The log lacks entries of 1 executions (lost)" in each for each in story.unknown)
    assert any("248 KB" in each for each in story.unknown)
    assert any("started before 2026-11-22 11:55:59 UTC were not read" in x for x in story.unknown)


def test_records_alone_tell_what_became_of_the_newest_event() -> None:
    unread: Mapping[Any, str] = {"executions": "The log has the level ERROR."}
    working = held_by(execution("h", event(A), None, 0, None), 200)
    assert tell(facts(records=(working,), unread=unread)).verdict.state == "pending"
    assert [each.outcome for each in tell(facts(records=(record(A),))).events] == ["Processed"]


def test_an_event_without_a_sequencer_is_told_but_not_counted() -> None:
    invalid = {"detail": {"bucket": {"name": "input"}, "object": {"key": "x.png"}}}
    ended = execution("bad", invalid, "InvalidEvent", reason=("InvalidEvent", "no sequencer"))
    story = tell(facts(ended))
    assert "event (unknown) (created), execution bad: InvalidEvent." in text_of(story, "bad")
    assert story.events == ()


def test_without_any_execution_the_story_says_so() -> None:
    assert tell(facts()).sentences()[0] == "No execution of an event of this object was found."


def test_another_event_that_was_processed_is_not_the_original_of_a_duplicate() -> None:
    first = execution("first", event(A), "Processed", 0, 1)
    other = execution("other", event(B), "Processed", 1.2, 1.5)
    again = execution("again", event(A), "Duplicate", 2, 3)
    assert cause_of(tell(facts(first, other, again)), "again").execution == first.arn


def test_an_event_stays_processed_while_it_is_delivered_again() -> None:
    first = execution("first", event(A), "Processed", 0, 1)
    again = execution("again", event(A), None, 200, None)
    story = tell(facts(first, again))
    assert [each.outcome for each in story.deliveries] == ["Processed", "Working"]
    assert [each.outcome for each in story.events] == ["Processed"]


def test_under_every_version_a_superseded_event_needs_no_output() -> None:
    gone = execution("a", event(A), "Superseded", steps=(WORKED,))
    story = each_event(gone, execution("b", event(B)), outputs=(made_of(B),))
    assert story.verdict.state == "right"
