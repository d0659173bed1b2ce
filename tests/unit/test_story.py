"""The story of an object, told from facts that are built here: no service is called."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inorder.events import created, deleted
from inorder.model.execution import Execution, Step
from inorder.story import tell
from inorder.story.parts import Facts, Output, Queued, Source, Story

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
    status: str | None = None,
    steps: tuple[Step, ...] = (),
) -> Execution:
    """Build an execution that ended with an outcome, or that runs if it has no end."""
    failed = outcome in {"Parked", "InvalidEvent", "NotParked", "States.Runtime"}
    why = {"Error": "Fault", "Cause": "why"}
    return Execution(
        f"arn:aws:states:r:1:execution:machine:{name}",
        status or ("RUNNING" if end is None else "FAILED" if failed else "SUCCEEDED"),
        event,
        {"outcome": outcome, "reason": why} if outcome and not failed else None,
        outcome if failed else None,
        json.dumps(why) if failed else "",
        steps,
        at(start),
        None if end is None else at(end),
        0,
    )


def claimed(end: float) -> Step:
    return Step("Claim Key", "Task", {}, {}, at(end - 0.1), at(end))


READ = Step("Key State?", "Choice", {"record": {"Item": {"sequencer": {"S": B}}}}, {})
WORKED = Step("Outcome?", "Choice", {"inversion": {"Payload": {"outcome": "Superseded"}}}, {})
WAITS = Step("Wait For Lock", "Wait", {}, None, at(1))


def made_of(sequencer: str, etag: str = "e", version: str | None = None) -> Output:
    return Output("out-x.png", sequencer, etag, version, NOW)


def facts(*executions: Execution, **changes: Any) -> Facts:
    """Build the facts of a key of latest-wins, whose object has the ETag ``e``."""
    known: dict[str, Any] = {
        **{"bucket": "input", "key": "x.png", "policy": "latest-wins", "keeps": "newest"},
        **{"now": NOW, "executions": executions, "source": Source("e", None, at(0))},
    }
    return Facts(**known | changes)


def event(sequencer: str, etag: str = "e", **changes: Any) -> dict[str, Any]:
    return created("x.png", sequencer=sequencer, etag=etag, **changes)


def deletion(sequencer: str, **changes: Any) -> dict[str, Any]:
    return deleted("x.png", sequencer=sequencer, **changes)


def record(sequencer: str, status: str = "DONE", **more: Any) -> dict[str, Any]:
    claimed_by = {"sequencer": sequencer, "status": status}
    return {"id": RECORD, "event": json.dumps(event(sequencer)), **claimed_by, **more}


def test_executions_are_told_in_the_order_in_which_they_started() -> None:
    late = execution("late", event(A), "Superseded", 5, 6)
    early = execution("early", event(B), "Processed", 1, 2)
    story = tell(facts(late, early, outputs=(made_of(B),)))
    assert [each.id for each in story.deliveries] == ["early", "late"]
    assert [each.sequencer for each in story.events] == [A, B]
    one, two = event(A, version_id="v1"), event(B, version_id="v2")
    asked = facts(execution("one", one), execution("two", two), version_id="v2")
    assert [each.id for each in tell(asked).deliveries] == ["two"]


FIRST_WINS = {"keeps": "first", "policy": "first-wins"}
CONTENT_HASH = {"keeps": None, "policy": "content-hash"}
LOG_OFF = {"executions": "The log has the level OFF: it has no executions."}
WAITER = execution("it", event(A), "Superseded", 1, 4, steps=(READ,))
LATE = execution("it", event(A), "Superseded", 5, 6, steps=(WORKED,))
FIRST = execution("first", event(A), "Processed", 0, 1)
AGAIN = execution("it", event(A), "Duplicate", 2, 3)
OTHER_FIRST = execution("first", event(B), "Processed", 0, 1)
RETRYING = execution("it", event(A), "Retrying")
RETRY = {"retry": {"attempt": 1, "since": "0", "reasons": ["Fault: why"]}}
RETRIED = execution("again", event(A) | RETRY, "Processed", 6, 7)
QUEUED = Queued("retrying", "m", None, A, at(1), "Fault", at(300), 1)
OLD = execution("it", event(A), None, -300, None, steps=(claimed(-299),))
INVALID = {"detail": {"bucket": {"name": "input"}, "object": {"key": "x.png"}}}
ANOTHER = json.dumps(created("other.png", sequencer="99"))
CONTENT = {"id": "content:s/t/h", "status": "DONE", "event": ANOTHER}
FORWARDED = replace(
    execution("it", event(B), "Duplicate"),
    output={"outcome": "Duplicate", "content": CONTENT["id"]},
)
NEWEST = execution("newest", event(B), "Processed", 2, 5, steps=(claimed(3),))
SOONER = execution("newest", event(B), "Processed", 1, 2, steps=(claimed(1.5),))
# What is known, and what is said to have caused the end of the execution `it`.
CAUSES: dict[str, tuple[Facts, dict[str, Any]]] = {
    "superseded by what it has read in the record": (
        facts(WAITER, NEWEST, execution("newer", event(C), "Processed", 3.5, 9)),
        {"sequencer": B, "at": at(3), "execution": NEWEST.arn, "is_certain": True},
    ),
    "superseded by what was not read": (
        facts(WAITER),
        {"sequencer": B, "at": None, "execution": None},
    ),
    "superseded by the function": (facts(LATE, SOONER), {"sequencer": B, "is_certain": False}),
    "a newer event came after the end": (
        facts(LATE, execution("later", event(B), "Processed", 7, 8)),
        {"sequencer": None},
    ),
    "superseded by a later version": (
        facts(
            replace(LATE, event=event("FF", version_id="v1") | {"time": at(0).isoformat()}),
            execution("two", event("01", version_id="v2") | {"time": at(1).isoformat()}),
        ),
        {"version_id": "v2"},
    ),
    "a duplicate of a processed event, and of no other one": (
        facts(FIRST, execution("other", event(B), "Processed", 1.2, 1.5), AGAIN),
        {"execution": FIRST.arn, "at": at(1)},
    ),
    "a duplicate of what only the record knows": (
        facts(AGAIN, records=(record(A),)),
        {"sequencer": A, "execution": None, "is_certain": True},
    ),
    "a duplicate of what was not read": (facts(AGAIN), {"is_certain": False}),
    "a duplicate of another event": (
        facts(OTHER_FIRST, AGAIN, **FIRST_WINS),
        {"sequencer": B, "execution": OTHER_FIRST.arn},
    ),
    "a duplicate of another event with the content": (
        facts(FORWARDED, records=(CONTENT,), **CONTENT_HASH),
        {"sequencer": "99", "is_certain": True},
    ),
    "retried later": (facts(RETRYING, queued=(QUEUED,)), {"at": at(300), "reason": "Fault: why"}),
    "a retry that was started": (facts(RETRYING, RETRIED), {"execution": RETRIED.arn, "at": at(6)}),
    "a retry that the function has not read": (facts(RETRYING), {"at": None, "is_certain": False}),
    "parked": (facts(execution("it", event(A), "Parked")), {"reason": "Fault: why"}),
}


def told(story: Story, name: str) -> Any:
    """Give what a story says about an execution."""
    [found] = [each for each in story.deliveries if each.id == name]
    return found


@pytest.mark.parametrize("case", CAUSES)
def test_an_execution_is_told_with_its_cause(case: str) -> None:
    known, cause = CAUSES[case]
    found = told(tell(known), "it")
    assert {name: getattr(found.cause, name) for name in cause} == cause
    assert f"execution it: {found.outcome}." in found.text


@pytest.mark.parametrize(
    ("known", "outcomes"),
    [
        (facts(FIRST, AGAIN), {A: "Processed"}),
        (facts(FIRST, execution("again", event(A), None, 200, None)), {A: "Processed"}),
        (facts(OTHER_FIRST, AGAIN), {A: "Duplicate", B: "Processed"}),
        (facts(RETRYING, RETRIED), {A: "Processed"}),
        (facts(execution("bad", INVALID, "InvalidEvent")), {}),  # no sequencer
        (facts(execution("it", event(A), None, 200, None)), {A: "Working"}),
        (facts(execution("it", event(A), "Own")), {A: "Own"}),
        (facts(execution("it", event(A), "States.Runtime")), {A: "States.Runtime"}),
        (facts(records=(record(A),)), {A: "Processed"}),
        (facts(OLD, records=(record(A),), from_log=True), {A: "Processed"}),  # the record knows
    ],
)
def test_an_event_has_one_outcome_whatever_became_of_its_other_executions(
    known: Facts, outcomes: dict[str, str]
) -> None:
    assert {each.sequencer: each.outcome for each in tell(known).events} == outcomes


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
    assert told(story, "waiter").outcome == "Waiting"
    assert told(story, "waiter").cause.execution == holder.arn
    assert told(story, "holder").outcome == "Working"
    assert story.verdict.state == "pending"


HOLDER = execution("holder", event(A), None, 0, None)
TIMED_OUT = execution("holder", event(A), None, 0, 5, status="TIMED_OUT")


@pytest.mark.parametrize(
    ("known", "is_dead", "sequencer"),
    [
        (facts(TIMED_OUT, records=(held_by(TIMED_OUT, 1),)), True, A),
        (facts(records=(held_by(HOLDER, -600),)), True, None),  # longer than any can live
        (facts(records=(held_by(HOLDER, 200),)), False, None),
    ],
)
def test_the_lock_of_an_execution_that_ended_or_was_not_read(
    known: Facts, is_dead: bool, sequencer: str | None
) -> None:
    [lock] = tell(known).locks
    assert (lock.is_dead, lock.sequencer) == (is_dead, sequencer)


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
    for minutes, state in ((15, "pending"), (0, "wrong")):
        story = tell(facts(records=(stuck,), outputs=(made_of(A, "old"),), heal_minutes=minutes))
        assert [each.kind for each in story.pending] == ["stuck"]
        assert story.verdict.state == state


UNDELIVERED = Queued("undelivered", "m", None, A, at(1), "NO_PERMISSIONS: why", event=event(A))


@pytest.mark.parametrize(
    ("failed", "queued", "said", "state"),
    [
        (
            (execution("it", event(A), "Parked"),),
            Queued("parked", "0123456789", None, A, at(1), "InvalidImage: no image"),
            *("`inorder redrive 01234567` starts it again.", "parked"),
        ),
        ((RETRYING,), QUEUED, "It is tried again at", "pending"),
        ((), UNDELIVERED, "NO_PERMISSIONS: why", "wrong"),
    ],
    ids=["parked", "retrying", "undelivered"],
)
def test_what_a_queue_has_is_pending(
    failed: tuple[Execution, ...], queued: Queued, said: str, state: str
) -> None:
    story = tell(facts(*failed, queued=(queued,)))
    assert story.pending[0].kind == queued.queue
    assert said in story.pending[0].text
    assert story.verdict.state == state


# Whether the output is right

ONE, TWO = event("F", "e", version_id="v1"), event("1", "e2", version_id="v2")
VERSIONS = (execution("one", ONE, "Processed", 0, 1), execution("two", TWO, "Processed", 2, 3))
CURRENT = Source("e2", "v2", at(2))
OUTPUT, OLD_OUTPUT = {"outputs": (made_of(A),)}, {"outputs": (made_of(A, "old"),)}
PARKED = execution("bad", event(A), "Parked")
UNREAD = {"source": "The object could not be read: AccessDenied"}
NO_OUTPUTS = {"outputs": "The output could not be read: AccessDenied"}
DELETED = execution("it", deletion(B), "Retrying")
DIED = execution("died", event(A), None, status="TIMED_OUT")
RUNNING = execution("a", event(A), None, 0, None)
EACH = {"keeps": "each", "policy": "every-version"}
MARKED = (
    execution("one", event(A, version_id="v1")),
    execution("marker", deletion(B, version_id="m")),
)
THREE = execution("a", event(A)), execution("b", deletion(B)), execution("c", event(C))
B_RETRYING = execution("it", event(B), "Retrying")
B_DONE = execution("b", event(B))
B_RUNS = execution("b", event(B), None, 2, None)
JUST_CHANGED = Source("e", None, NOW - timedelta(seconds=5))  # its event may be on its way
UNORDERED = {"keeps": "last", "has_table": False}


@pytest.mark.parametrize(
    ("given", "state"),
    [
        # latest-wins: the output is that of the object as it is now
        (facts(FIRST, **OUTPUT), "right"),
        (facts(**OUTPUT, unread=LOG_OFF), "right"),
        (facts(FIRST, B_RETRYING, **OUTPUT), "right"),  # it has the same content
        (facts(B_DONE, **OLD_OUTPUT), "wrong"),
        (facts(B_RUNS, **OLD_OUTPUT), "pending"),
        (facts(execution("b", event(B), "Superseded"), **OLD_OUTPUT), "unknown"),
        (facts(DIED), "pending"),  # there is a schedule
        (facts(DIED, heal_minutes=0), "wrong"),
        (facts(DIED, has_table=False), "wrong"),
        (facts(), "wrong"),
        (facts(source=JUST_CHANGED), "pending"),
        (facts(unread=LOG_OFF), "unknown"),
        (facts(unread=NO_OUTPUTS), "unknown"),
        (facts(records=(held_by(HOLDER, 200),), unread=LOG_OFF), "pending"),
        (facts(OLD, from_log=True), "unknown"),
        (facts(PARKED), "parked"),
        # It is deleted.
        (facts(execution("it", deletion(B)), source=None), "right"),
        (facts(DELETED, source=None, **OUTPUT), "pending"),
        (facts(source=None, **OUTPUT), "wrong"),
        (facts(source=None, handles_deletions=False, **OUTPUT), "right"),
        # It was not read, so its newest event decides.
        (facts(FIRST, unread=UNREAD, **OUTPUT), "right"),
        (facts(FIRST, B_RUNS, unread=UNREAD, **OUTPUT), "pending"),
        (facts(unread=UNREAD | LOG_OFF, **OUTPUT), "unknown"),
        # The current version decides.
        (facts(*VERSIONS, source=CURRENT, outputs=(made_of("1", "e2", "v2"),)), "right"),
        (facts(*VERSIONS, source=CURRENT, outputs=(made_of("F", "e", "v1"),)), "wrong"),
        # every-version: each event has its own, unless it was deleted or superseded
        (facts(FIRST, B_DONE, outputs=(made_of(A), made_of(B)), **EACH), "right"),
        (facts(FIRST, B_DONE, **OUTPUT, **EACH), "wrong"),
        (facts(*THREE, outputs=(made_of(C),), **EACH), "right"),
        (facts(*MARKED, outputs=(made_of(A, "e", "v1"),), **EACH), "right"),
        (facts(*MARKED, outputs=(), **EACH), "wrong"),
        (facts(LATE, B_DONE, outputs=(made_of(B),), **EACH), "right"),
        # first-wins: the first event's
        (facts(OTHER_FIRST, AGAIN, outputs=(made_of(B),), **FIRST_WINS), "right"),
        (facts(FIRST, outputs=(made_of(B),), **FIRST_WINS), "wrong"),
        (facts(outputs=(made_of(B),), **FIRST_WINS), "unknown"),
        (facts(**FIRST_WINS), "unknown"),
        (facts(RUNNING, **FIRST_WINS), "pending"),
        # uncoordinated promises nothing, and its stale output is named.
        (facts(execution("a", event(A, "old")), B_DONE, **OLD_OUTPUT, **UNORDERED), "wrong"),
        # content-hash has no outputs.
        (facts(RETRYING, **CONTENT_HASH), "pending"),
        (facts(FORWARDED, records=(CONTENT,), **CONTENT_HASH), "right"),
    ],
)
def test_the_output_is_judged(given: Facts, state: str) -> None:
    verdict = tell(given).verdict
    assert verdict.state == state, verdict.text


def test_what_is_not_known_is_named() -> None:
    story = tell(facts(outputs=(made_of(A),), unread=LOG_OFF))
    assert story.unknown == tuple(LOG_OFF.values())
    assert "Not known: The log has the level OFF" in story.sentences()[-1]
    lost = replace(execution("lost", event(A)), missing=2, truncated=True)
    said = " ".join(tell(facts(lost, since=at(-1))).unknown)
    for each in ("The log lacks entries of 1 executions (lost)", "cut off", "were not read"):
        assert each in said
