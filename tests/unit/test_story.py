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
    *,
    steps: tuple[Step, ...] = (),
    reason: tuple[str, str] | None = None,
) -> Execution:
    """Build an execution that ended with an outcome, or that runs if it has no end."""
    failed = outcome in {"Parked", "InvalidEvent", "NotParked", "States.Runtime"}
    why = dict(zip(("Error", "Cause"), reason, strict=True)) if reason else {}
    output = {"outcome": outcome, "object_key": record_of(event), "reason": why}
    return Execution(
        f"arn:aws:states:r:1:execution:machine:{name}",
        status or ("RUNNING" if end is None else "FAILED" if failed else "SUCCEEDED"),
        event,
        output if outcome and not failed else None,
        outcome if failed else None,
        json.dumps(why) if failed and reason else "",
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


def told(story: Story, name: str) -> Any:
    """Give what a story says about an execution."""
    [found] = [each for each in story.deliveries if each.id == name]
    return found


def test_executions_are_told_in_the_order_in_which_they_started() -> None:
    late = execution("late", event(A), "Superseded", 5, 6)
    early = execution("early", event(B), "Processed", 1, 2)
    story = tell(facts(late, early, outputs=(made_of(B),)))
    assert [each.id for each in story.deliveries] == ["early", "late"]
    assert [each.sequencer for each in story.events] == [A, B]
    assert tell(facts()).sentences()[0] == "No execution of an event of this object was found."
    one, two = event(A, version_id="v1"), event(B, version_id="v2")
    asked = facts(execution("one", one), execution("two", two), version_id="v2")
    assert [each.id for each in tell(asked).deliveries] == ["two"]


WHY = ("Fault", "why")
FIRST_WINS = {"keeps": "first", "policy": "first-wins"}
CONTENT_HASH = {"keeps": None, "policy": "content-hash"}
LOG_OFF = {"executions": "The log has the level OFF: it has no executions."}
WAITER = execution("it", event(A), "Superseded", 1, 4, steps=(read(sequencer=B),))
LATE = execution("it", event(A), "Superseded", 5, 6, steps=(WORKED,))
FIRST = execution("first", event(A), "Processed", 0, 1)
AGAIN = execution("it", event(A), "Duplicate", 2, 3)
OTHER_FIRST = execution("first", event(B), "Processed", 0, 1)
RETRYING = execution("it", event(A), "Retrying", reason=WHY)
RETRY = {"retry": {"attempt": 1, "since": "0", "reasons": ["Fault: why"]}}
QUEUED = Queued("retrying", "m", None, A, at(1), "Fault", at(300), 1)
OLD = execution("it", event(A), None, -300, None, steps=(claimed(-299),))
INVALID = {"detail": {"bucket": {"name": "input"}, "object": {"key": "x.png"}}}
ANOTHER = json.dumps(created("other.png", sequencer="99"))
CONTENT = {"id": "content:s/t/h", "status": "DONE", "event": ANOTHER}
FORWARDED = replace(
    execution("it", event(B), "Duplicate"),
    output={"outcome": "Duplicate", "content": CONTENT["id"]},
)
ENDS: dict[tuple[Any, ...], str] = {
    (None, 0, 1, "TIMED_OUT"): "TimedOut. It ended in Claim Key, unfinished.",
    (None, 0, 1, "ABORTED"): "Aborted. It ended in Claim Key, unfinished.",
    ("Own",): "Own. It ended in Claim Key, an outcome of the policy's own.",
    ("NotParked",): "NotParked. Fault: why.",
    ("InvalidEvent",): "InvalidEvent. Fault: why.",
    ("States.Runtime",): "No state of the policy has foreseen this: Fault: why.",
}
# What is known, what is said about the execution `it`, and what is said to have caused its end.
TOLD: dict[str, tuple[Any, ...]] = {
    "superseded by what it has read in the record": (
        facts(
            WAITER,
            execution("newest", event(B), "Processed", 2, 5, steps=(claimed(3),)),
            execution("newer", event(C), "Processed", 3.5, 9, steps=(claimed(8),)),
        ),
        "The newer event 0B, recorded at 2026-11-22 11:56:03 UTC by execution newest,",
        {"sequencer": B, "at": at(3), "is_certain": True},
    ),
    "superseded by what was not read": (
        facts(WAITER),
        "The newer event 0B",
        {"sequencer": B, "at": None, "execution": None},
    ),
    "superseded by the function": (
        facts(LATE, execution("newer", event(B), "Processed", 1, 2, steps=(claimed(1.5),))),
        "probably event 0B",
        {"sequencer": B, "is_certain": False},
    ),
    "a newer event came after the end": (
        facts(LATE, execution("later", event(B), "Processed", 7, 8)),
        "no newer event is known",
        {"sequencer": None},
    ),
    "superseded by a later version": (
        facts(
            replace(LATE, event=event("FF", version_id="v1") | {"time": at(0).isoformat()}),
            execution("two", event("01", version_id="v2") | {"time": at(1).isoformat()}),
        ),
        "Superseded",
        {"version_id": "v2"},
    ),
    "a duplicate of a processed event, and of no other one": (
        facts(FIRST, execution("other", event(B), "Processed", 1.2, 1.5), AGAIN),
        "Execution first had processed this event at 2026-11-22 11:56:01",
        {"execution": FIRST.arn},
    ),
    "a duplicate of what only the record knows": (
        facts(AGAIN, records=(record(A),)),
        "The record says that this event was processed before.",
    ),
    "a duplicate of what was not read": (
        facts(AGAIN),
        "by an execution that was not read",
        {"is_certain": False},
    ),
    "a duplicate of another event": (
        facts(OTHER_FIRST, AGAIN, **FIRST_WINS),
        "Execution first had processed event 0B",
    ),
    "a duplicate of another event with the content": (
        facts(FORWARDED, records=(CONTENT,), **CONTENT_HASH),
        "The record says that event 99 was processed before.",
    ),
    "parked": (facts(execution("it", event(A), "Parked", reason=WHY)), "Parked. Fault: why."),
    "retried later": (
        facts(RETRYING, queued=(QUEUED,)),
        "Fault: why. It is tried again at 2026-11-22 12:01:00 UTC.",
        {"at": at(300)},
    ),
    "a retry that was started": (
        facts(RETRYING, execution("again", event(A) | RETRY, "Processed", 6, 7)),
        "Retrying",
        {"execution": RETRYING.arn.replace(":it", ":again")},
    ),
    "a retry": (
        facts(replace(RETRYING, arn="first"), replace(RETRYING, event=event(A) | RETRY)),
        "execution it (attempt 2): Retrying",
    ),
    "a retry that the function has not read": (
        facts(RETRYING),
        "as soon as the function that retries reads it",
    ),
    "a retry when the queue was not read": (
        facts(RETRYING, unread={"retrying": "The events that are retried could not be read."}),
        "When it is tried again is not known.",
    ),
    **{
        said: (facts(execution("it", event(A), *ended, steps=(claimed(1),), reason=WHY)), said)
        for ended, said in ENDS.items()
    },
    "a deletion": (
        facts(execution("it", deletion(B)), source=None),
        "event 0B (deleted), execution it: Processed. The output was removed",
    ),
    "the log has no end": (
        facts(OLD, from_log=True),
        "Unknown. The log has no end of it; the last state there is Claim Key.",
    ),
    "an event without a sequencer": (
        facts(execution("it", INVALID, "InvalidEvent", reason=WHY)),
        "event (unknown) (created), execution it: InvalidEvent.",
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_an_execution_is_told_with_its_cause(case: str) -> None:
    known, said, *causes = TOLD[case]
    found = told(tell(known), "it")
    assert said in found.text
    for cause in causes:
        assert {name: getattr(found.cause, name) for name in cause} == cause


def outcomes(*executions: Execution, **more: Any) -> dict[str | None, str]:
    return {each.sequencer: each.outcome for each in tell(facts(*executions, **more)).events}


def test_an_event_has_one_outcome_whatever_became_of_its_other_executions() -> None:
    [only] = tell(facts(FIRST, AGAIN)).events
    assert (only.outcome, only.executions) == ("Processed", (FIRST.arn, AGAIN.arn))
    running = execution("again", event(A), None, 200, None)
    story = tell(facts(FIRST, running))
    assert [each.outcome for each in story.deliveries] == ["Processed", "Working"]
    assert outcomes(FIRST, running) == {A: "Processed"}
    assert outcomes(OTHER_FIRST, AGAIN) == {A: "Duplicate", B: "Processed"}
    assert outcomes(RETRYING, execution("again", event(A) | RETRY)) == {A: "Processed"}
    assert outcomes(execution("bad", INVALID, "InvalidEvent", reason=WHY)) == {}
    assert outcomes(records=(record(A),)) == {A: "Processed"}
    story = tell(facts(OLD, records=(record(A),), from_log=True))
    assert story.events[0].outcome == "Processed"  # the record knows


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
    assert "Waiting. Execution holder holds the lock" in told(story, "waiter").text
    assert "Working. It is in Claim Key." in told(story, "holder").text
    assert story.verdict.state == "pending"


HOLDER = execution("holder", event(A), None, 0, None)
TIMED_OUT = execution("holder", event(A), None, 0, 5, status="TIMED_OUT")


@pytest.mark.parametrize(
    ("known", "is_dead", "said"),
    [
        (
            facts(TIMED_OUT, records=(held_by(TIMED_OUT, 1),)),
            *(True, "It ended as TimedOut: the next event of the key, or the schedule, breaks"),
        ),
        (facts(records=(held_by(HOLDER, -600),)), True, "cannot be alive"),  # older than any
        (facts(records=(held_by(HOLDER, 200),)), False, "for event (unknown)"),
    ],
)
def test_the_lock_of_an_execution_that_ended_or_was_not_read(
    known: Facts, is_dead: bool, said: str
) -> None:
    [lock] = tell(known).locks
    assert lock.is_dead is is_dead
    assert said in lock.text


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
    unscheduled = tell(facts(records=(stuck,), heal_minutes=0))
    assert "inorder stuck --redrive starts it again" in unscheduled.pending[0].text
    assert unscheduled.verdict.state == "wrong"


@pytest.mark.parametrize(
    ("failed", "queued", "said", "state"),
    [
        (
            (execution("it", event(A), "Parked", reason=WHY),),
            Queued("parked", "0123456789", None, A, at(1), "InvalidImage: no image"),
            *("`inorder redrive 01234567` starts it again.", "parked"),
        ),
        (
            (RETRYING,),
            QUEUED,
            *("failed first at 2026-11-22 11:56:01 UTC, and 1 times so far", "pending"),
        ),
        (
            (),
            Queued("undelivered", "m", None, A, at(1), "NO_PERMISSIONS: why", event=event(A)),
            "it is in UndeliveredEventsQueue since 2026-11-22 11:56:01 UTC. NO_PERMISSIONS: why",
            "wrong",
        ),
    ],
    ids=["parked", "retrying", "undelivered"],
)
def test_what_a_queue_has_is_pending(
    failed: tuple[Execution, ...], queued: Queued, said: str, state: str
) -> None:
    story = tell(facts(*failed, queued=(queued,)))
    assert said in story.pending[0].text
    assert story.verdict.state == state


# Whether the output is right

ONE, TWO = event("F", "e", version_id="v1"), event("1", "e2", version_id="v2")
VERSIONS = (execution("one", ONE, "Processed", 0, 1), execution("two", TWO, "Processed", 2, 3))
CURRENT = Source("e2", "v2", at(2))
OUTPUT, OLD_OUTPUT = {"outputs": (made_of(A),)}, {"outputs": (made_of(A, "old"),)}
PARKED = execution("bad", event(A), "Parked", reason=WHY)
UNREAD = {"source": "The object could not be read: AccessDenied"}
DELETED = execution("it", deletion(B), "Retrying", reason=WHY)
DIED = execution("died", event(A), None, status="TIMED_OUT")
RUNNING = execution("a", event(A), None, 0, None)
EACH = {"keeps": "each", "policy": "every-version"}
MARKED = (
    execution("one", event(A, version_id="v1")),
    execution("marker", deletion(B, version_id="m")),
)
THREE = execution("a", event(A)), execution("b", deletion(B)), execution("c", event(C))
B_RETRYING = execution("it", event(B), "Retrying", reason=WHY)
B_DONE = execution("b", event(B))


VERDICTS: list[tuple[Facts, str, str]] = [
    # latest-wins: the output is that of the object as it is now
    (facts(FIRST, **OUTPUT), "right", "The output out-x.png is that of event 0A."),
    (facts(**OUTPUT, unread=LOG_OFF), "right", ""),
    (facts(FIRST, B_RETRYING, **OUTPUT), "right", "event 0B (Retrying) has the same content."),
    (facts(B_DONE, **OLD_OUTPUT), "wrong", ""),
    (facts(execution("b", event(B), None, 0, None), **OLD_OUTPUT), "pending", ""),
    (facts(execution("b", event(B), "Superseded"), **OLD_OUTPUT), "unknown", ""),
    (facts(DIED), "pending", ""),  # there is a schedule
    (facts(DIED, heal_minutes=0), "wrong", ""),
    (facts(DIED, heal_minutes=0, has_table=False), "wrong", "Nothing starts it again"),
    (facts(), "wrong", "UndeliveredEventsQueue"),
    (
        facts(source=Source("e", None, NOW - timedelta(seconds=5))),
        *("pending", "changed 5.0 s ago; its event may be on its way"),
    ),
    (facts(unread=LOG_OFF), "unknown", ""),
    (facts(unread={"outputs": "The output could not be read: AccessDenied"}), "unknown", ""),
    (facts(records=(held_by(HOLDER, 200),), unread=LOG_OFF), "pending", ""),
    (facts(OLD, from_log=True), "unknown", ""),
    (facts(PARKED), "parked", "was parked, and is no longer in the queue"),
    (facts(PARKED, unread={"parked": "Not read."}), "parked", "is parked"),
    # It is deleted.
    (facts(execution("it", deletion(B)), source=None), "right", ""),
    (facts(DELETED, source=None, **OUTPUT), "pending", ""),
    (facts(source=None, **OUTPUT), "wrong", ""),
    (facts(source=None, handles_deletions=False, **OUTPUT), "right", ""),
    # It was not read, so its newest event decides.
    (facts(FIRST, unread=UNREAD, **OUTPUT), "right", ""),
    (facts(FIRST, execution("b", event(B), None, 2, None), unread=UNREAD, **OUTPUT), "pending", ""),
    (facts(unread=UNREAD | LOG_OFF, **OUTPUT), "unknown", ""),
    # The current version decides.
    (facts(*VERSIONS, source=CURRENT, outputs=(made_of("1", "e2", "v2"),)), "right", ""),
    (
        facts(*VERSIONS, source=CURRENT, outputs=(made_of("F", "e", "v1"),)),
        *("wrong", "event 1, which should decide it"),
    ),
    # every-version: each event has its own, unless it was deleted or superseded
    (facts(FIRST, B_DONE, outputs=(made_of(A), made_of(B)), **EACH), "right", ""),
    (facts(FIRST, B_DONE, **OUTPUT, **EACH), "wrong", "1 of the events lacks one."),
    (
        facts(FIRST, B_DONE, **OUTPUT, **EACH),
        *("wrong", "event 0B, which should have one, ended as Processed"),
    ),
    (facts(*THREE, outputs=(made_of(C),), **EACH), "right", ""),
    (facts(*MARKED, outputs=(made_of(A, "e", "v1"),), **EACH), "right", ""),
    (facts(*MARKED, outputs=(), **EACH), "wrong", ""),
    (facts(LATE, B_DONE, outputs=(made_of(B),), **EACH), "right", ""),
    # first-wins: the first event's
    (facts(OTHER_FIRST, AGAIN, outputs=(made_of(B),), **FIRST_WINS), "right", ""),
    (facts(FIRST, outputs=(made_of(B),), **FIRST_WINS), "wrong", ""),
    (facts(outputs=(made_of(B),), **FIRST_WINS), "unknown", ""),
    (facts(**FIRST_WINS), "unknown", ""),
    (facts(RUNNING, **FIRST_WINS), "pending", ""),
    # uncoordinated promises nothing, and its stale output is named.
    (
        facts(execution("a", event(A, "old")), B_DONE, **OLD_OUTPUT, keeps="last", has_table=False),
        *("wrong", ""),
    ),
    # content-hash has no outputs.
    (
        facts(RETRYING, **CONTENT_HASH),
        *("pending", "This policy writes no outputs."),
    ),
    (facts(FORWARDED, records=(CONTENT,), **CONTENT_HASH), "right", ""),
]


@pytest.mark.parametrize(("given", "state", "said"), VERDICTS)
def test_the_output_is_judged(given: Facts, state: str, said: str) -> None:
    verdict = tell(given).verdict
    assert verdict.state == state, verdict.text
    assert said in verdict.text


def test_what_is_not_known_is_named() -> None:
    story = tell(facts(outputs=(made_of(A),), unread=LOG_OFF))
    assert story.unknown == tuple(LOG_OFF.values())
    assert "Not known: The log has the level OFF" in story.sentences()[-1]
    lost = replace(execution("lost", event(A)), missing=2, truncated=True)
    said = " ".join(tell(facts(lost, since=at(-1))).unknown)
    assert "The log lacks entries of 1 executions (lost)" in said
    assert "248 KB" in said
    assert "started before 2026-11-22 11:55:59 UTC were not read" in said
