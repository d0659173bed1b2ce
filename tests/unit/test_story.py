"""The story of an object, told from facts that are built here: no service is called."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inorder.model.execution import ANSWERED, Entry, Execution, Step, execution_of
from inorder.story import tell
from inorder.story.parts import Facts, Output, Queued, Source
from tests.support.events import created, deleted

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
A, B, C = "0A", "0B", "0C"  # sequencers, oldest first


def at(seconds: float) -> datetime:
    """Give a time, in seconds after the first event."""
    return NOW - timedelta(minutes=4) + timedelta(seconds=seconds)


def execution(
    name: str,
    event: Any,
    outcome: str | None = "Processed",
    start: float = 0,
    end: float | None = 1,
    steps: tuple[Step, ...] = (),
) -> Execution:
    """Build an execution that ended with an outcome, or that runs if it has no end."""
    failed = outcome == "Parked"
    why = {"Error": "Fault", "Cause": "why"}
    return Execution(
        f"arn:aws:states:r:1:execution:machine:{name}",
        "RUNNING" if end is None else "FAILED" if failed else "SUCCEEDED",
        event,
        {"outcome": outcome, "reason": why} if outcome and not failed else None,
        outcome if failed else None,
        json.dumps(why) if failed else "",
        steps,
        at(start),
        None if end is None else at(end),
        waited=0,
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


def answered(outcome: str, sequencer: str = A, name: str = "it") -> Execution:
    """Build an execution of which only the function's line is known."""
    said = {"key": "x.png", "sequencer": sequencer, "version_id": None, "outcome": outcome}
    return execution_of(f"arn:of:{name}", [Entry(ANSWERED, said, at(1))])


def record(sequencer: str, status: str = "DONE", **more: Any) -> dict[str, Any]:
    body = json.dumps(event(sequencer))
    return {"id": "input/x.png", "event": body, "sequencer": sequencer, "status": status, **more}


def test_executions_are_told_in_the_order_in_which_they_started() -> None:
    late = execution("late", event(A), "Superseded", 5, 6)
    early = execution("early", event(B), "Processed", 1, 2)
    story = tell(facts(late, early, outputs=(made_of(B),)))
    assert [each.id for each in story.deliveries] == ["early", "late"]
    assert [each.sequencer for each in story.events] == [A, B]
    one, two = (execution(each, event(A, version_id=each)) for each in ("v1", "v2"))
    asked = facts(one, two, version_id="v2")
    assert [each.id for each in tell(asked).deliveries] == ["v2"]


FIRST_WINS = {"keeps": "first", "policy": "first-wins"}
EACH = {"keeps": "each", "policy": "every-version"}
UNORDERED = {"keeps": "last", "has_table": False}
OUTPUT, OLD_OUTPUT = {"outputs": (made_of(A),)}, {"outputs": (made_of(A, "old"),)}
LOG_OFF = {"executions": "The log has the level OFF: it has no executions."}
LOG_ERROR = {"executions": "The log has the level ERROR."}
IS_FOLDER = execution(
    "it", created("f/", sequencer=A, etag="e", size=0), "Superseded", steps=(WORKED,)
)
FOLDER = Source("e", None, at(0), is_folder=True)
FIRST = execution("first", event(A), "Processed", 0, 1)
AGAIN = execution("it", event(A), "Duplicate", 2, 3)
OF_VERSION = execution("other", event(A, version_id="v"), "Retrying")
OTHER_FIRST = execution("other", event(B), "Processed", 0.5, 1)
WAITER = execution("it", event(A), "Superseded", 1, 4, steps=(READ,))
LATE = execution("it", event(A), "Superseded", 5, 6, steps=(WORKED,))
NEWEST = execution("newest", event(B), "Processed", 2, 5, steps=(claimed(3),))
NEWER = execution("newer", event(C), "Processed", 3.5, 9)
RETRYING = execution("it", event(A), "Retrying")
RETRY = {"retry": {"attempt": 1, "since": "0", "reasons": ["Fault: why"]}}
RETRIED = execution("again", event(A) | RETRY, "Processed", 6, 7)
QUEUED = Queued("retrying", "m", None, A, at(1), "Fault", at(300), 1)
OLD = execution("it", event(A), None, -300, None, steps=(claimed(-299),))
INVALID = {"detail": {"bucket": {"name": "input"}, "object": {"key": "x.png"}}}


@pytest.mark.parametrize(
    ("known", "cause"),
    [
        (facts(WAITER, NEWEST, NEWER), {"sequencer": B, "at": at(3), "execution": NEWEST.arn}),
        # The function does not tell which event is newer.
        (facts(LATE, NEWEST), {"sequencer": B, "is_certain": False}),
        (facts(FIRST, OTHER_FIRST, AGAIN), {"execution": FIRST.arn, "at": at(1)}),
        (facts(AGAIN, records=(record(A),)), {"sequencer": A, "execution": None}),
        (facts(AGAIN), {"is_certain": False}),
        (facts(OTHER_FIRST, AGAIN, **FIRST_WINS), {"execution": OTHER_FIRST.arn}),
        (facts(RETRYING, queued=(QUEUED,)), {"at": at(300), "reason": "Fault: why"}),
        (facts(RETRYING, RETRIED), {"execution": RETRIED.arn, "at": at(6)}),
        (facts(execution("it", event(A), "Parked")), {"reason": "Fault: why"}),
    ],
)
def test_an_execution_is_told_with_its_cause(known: Facts, cause: dict[str, Any]) -> None:
    [found] = [each for each in tell(known).deliveries if each.id == "it"]
    assert {name: getattr(found.cause, name) for name in cause} == cause
    assert f"execution it: {found.outcome}." in found.text


@pytest.mark.parametrize(
    ("known", "outcomes"),
    [
        (facts(FIRST, AGAIN), {A: "Processed"}),
        (facts(RETRYING, RETRIED), {A: "Processed"}),
        (facts(OF_VERSION, answered("Processed")), {A: "Processed"}),
        (facts(execution("bad", INVALID, "Parked")), {}),  # no sequencer
        (facts(execution("it", event(A), "Own")), {A: "Own"}),
        (facts(OLD, records=(record(A),), from_log=True), {A: "Processed"}),  # the record knows
    ],
)
def test_an_event_has_one_outcome_of_all_executions(known: Facts, outcomes: dict[str, str]) -> None:
    assert [(each.sequencer, each.outcome) for each in tell(known).events] == [*outcomes.items()]


def held_by(holder: Execution, since: float) -> dict[str, Any]:
    lock = {"lock_token": "t", "execution": holder.arn, "in_progress_since": at(since).isoformat()}
    return record(str(holder.sequencer), "IN_PROGRESS", **lock)


HOLDER = execution("holder", event(A), None, 200, None, steps=(claimed(200),))
NEWEST_B = {"event": json.dumps(event(B)), "sequencer": B}
WAITS_NOW = execution("waiter", event(B), None, 210, None, steps=(WAITS,))
DIED = replace(execution("died", event(A), None), status="TIMED_OUT")


def test_a_lock_tells_its_holder_who_waits_and_whether_it_is_dead() -> None:
    story = tell(facts(HOLDER, WAITS_NOW, records=(held_by(HOLDER, 201),)))
    [lock] = story.locks
    assert (lock.execution, lock.sequencer, lock.since) == (HOLDER.arn, A, at(201))
    assert (lock.is_dead, lock.waiting) == (False, (WAITS_NOW.arn,))
    assert [each.outcome for each in story.deliveries] == ["Working", "Waiting"]
    assert story.verdict.state == "pending"
    old = held_by(HOLDER, -600)  # longer than any execution can live
    for known in (facts(DIED, records=(held_by(DIED, 1),)), facts(records=(old,))):
        assert [each.is_dead for each in tell(known).locks] == [True]


def test_a_newer_event_in_the_record_waits_until_it_is_stuck() -> None:
    story = tell(facts(HOLDER, records=(held_by(HOLDER, 100) | NEWEST_B,)))
    assert [each.kind for each in story.pending] == ["waiting"]
    assert [each.outcome for each in story.events] == ["Working", "Waiting"]
    stuck = record(B, "IN_PROGRESS", in_progress_since=at(-900).isoformat())
    story = tell(facts(records=(stuck,), **OLD_OUTPUT))
    assert [each.kind for each in story.pending] == ["stuck"]
    assert story.verdict.state == "pending"


def test_a_key_that_a_sweep_has_handed_over_is_not_called_in_progress() -> None:
    """A sweep renews the time of the claim, so only its count tells that nothing works there."""
    for number, times in ((1, "once"), (3, "3 times")):
        swept = held_by(HOLDER, 230) | {"hand_overs": number}
        story = tell(facts(records=(swept,), **OLD_OUTPUT))
        assert story.verdict.state == "pending"
        assert [each.outcome for each in story.events] == ["Died"]
        [lock], [pending] = story.locks, story.pending
        assert (lock.is_dead, lock.since, pending.kind) == (True, None, "stuck")
        handed = f"has handed it to the retry queue {times}, last at 2026-11-22 11:59:50 UTC"
        assert f"Event 0A is unfinished: its execution has died. A sweep {handed}" in pending.text
    again = execution("again", event(A), None, 231, None)
    assert tell(facts(again, records=(swept,))).events[0].outcome == "Working"


PARKED = execution("it", event(A), "Parked")
IN_QUEUE = Queued("parked", "0123456789", None, A, at(1), "InvalidImage: no image")


def test_what_a_queue_has_is_pending_once() -> None:
    retried = facts(RETRYING, queued=(QUEUED,), records=(held_by(HOLDER, -900),))
    for known, state in ((facts(PARKED, queued=(IN_QUEUE,)), "parked"), (retried, "pending")):
        story = tell(known)
        assert [each.kind for each in story.pending] == [known.queued[0].queue]
        assert story.verdict.state == state


ONE, TWO = event("F", "e", version_id="v1"), event("1", "e2", version_id="v2")
VERSIONS = (execution("one", ONE, "Processed", 0, 1), execution("two", TWO, "Processed", 2, 3))
CURRENT = Source("e2", "v2", at(2))
JUST_CHANGED = Source("e", None, NOW - timedelta(seconds=5))  # its event may be on its way
UNREAD = {"object": "The object could not be read: AccessDenied"}
NO_OUTPUTS = {"output": "The output could not be read: AccessDenied"}
B_DONE = execution("b", event(B))
B_RUNS = execution("b", event(B), None, 2, None)
DELETION = deleted("x.png", sequencer=B)
MARKER = execution("m", deleted("x.png", sequencer="FF", version_id="m"))
THREE = execution("a", event(A)), execution("b", DELETION), execution("c", event(C))
OWN = {"is_own_function": True}
LEFT_OUT = {"left_out": "its key does not end in .jpg (KeySuffix)"}
BY_LINE = answered("Processed")


@pytest.mark.parametrize(
    "row",
    [
        # latest-wins: the output was made from the object as it is now
        (facts(FIRST, **OUTPUT), "right"),
        (facts(B_DONE, **OLD_OUTPUT), "wrong"),
        (facts(B_RUNS, **OLD_OUTPUT), "pending"),
        (facts(DIED), "pending"),  # there is a schedule
        (facts(DIED, has_table=False), "wrong"),
        (facts(), "wrong"),
        (facts(source=JUST_CHANGED), "pending"),
        (facts(unread=LOG_OFF), "unknown"),
        (facts(unread=NO_OUTPUTS), "unknown"),
        (facts(OLD, from_log=True), "unknown"),
        # It is deleted.
        (facts(execution("it", DELETION), source=None), "right"),
        (facts(execution("it", DELETION, "Retrying"), source=None, **OUTPUT), "pending"),
        (facts(source=None, **OUTPUT), "wrong"),
        (facts(source=None, handles_deletions=False, **OUTPUT), "right"),
        (facts(FIRST, unread=UNREAD, **OUTPUT), "unknown"),
        # The current version decides.
        (facts(*VERSIONS, source=CURRENT, outputs=(made_of("1", "e2", "v2"),)), "right"),
        (facts(*VERSIONS, source=CURRENT, outputs=(made_of("F", "e", "v1"),)), "wrong"),
        # every-version: each event has its own, unless it was deleted
        (facts(FIRST, B_DONE, outputs=(made_of(A), made_of(B)), **EACH), "right"),
        (facts(FIRST, B_DONE, **OUTPUT, **EACH), "wrong"),
        (facts(*THREE, outputs=(made_of(C),), **EACH), "right"),
        (facts(VERSIONS[0], MARKER, **EACH), "wrong"),  # a delete marker removes no version
        # first-wins: the first event's
        (facts(OTHER_FIRST, AGAIN, outputs=(made_of(B),), **FIRST_WINS), "right"),
        (facts(FIRST, outputs=(made_of(B),), **FIRST_WINS), "wrong"),
        (facts(outputs=(made_of(B),), **FIRST_WINS), "unknown"),
        # uncoordinated promises nothing, and its stale output is named.
        (facts(execution("a", event(A, "old")), B_DONE, **OLD_OUTPUT, **UNORDERED), "wrong"),
        # What the stack does not have is not called right.
        (facts(source=None), "none", "There is no such object"),
        (facts(source=None, **FIRST_WINS), "none", "There is no such object"),
        (facts(source=None, near=("y.png", "z.png")), "none", "Keys like it: y.png, z.png."),
        (facts(source=None, unread=LOG_OFF), "none", "There is no such object"),
        (facts(IS_FOLDER, source=FOLDER), "none", "is a folder marker"),
        (facts(source=FOLDER, outputs=(made_of(B, "old"),)), "wrong", "No event of that change"),
        # At the level ERROR, the function's line tells what did not fail.
        (facts(BY_LINE, unread=LOG_ERROR, source=Source("f")), "unknown", "not known"),
        (facts(**LEFT_OUT), "none", "its key does not end in .jpg (KeySuffix)"),
        (facts(B_DONE, outputs=(made_of(B),), **LEFT_OUT), "right", "starts an execution now"),
        # A user's function may write elsewhere, and without the fence's metadata.
        (facts(FIRST, **OWN), "unknown", "a function of your own (WorkFunctionArn)"),
        (facts(B_RUNS, **OWN), "pending", "is being processed"),
        (facts(FIRST, outputs=(Output("out-x.png"),), **OWN), "unknown", "(WorkFunctionArn)"),
        (facts(FIRST, outputs=(Output("out-x.png"),), **OWN, **FIRST_WINS), "unknown", "your own"),
        (facts(FIRST, outputs=(made_of(A, "old"),), **OWN), "wrong", "Something else"),
        (facts(**OWN), "wrong", "No event of that change is known"),
    ],
)
def test_the_output_is_judged(row: tuple[Facts, str, *tuple[str, ...]]) -> None:
    """A row has facts, a verdict and, if it is not plain, a part of its text."""
    given, state, *said = row
    verdict = tell(given).verdict
    assert verdict.state == state, verdict.text
    assert all(each in verdict.text for each in said)


def test_what_is_not_known_is_named() -> None:
    lost = replace(execution("lost", event(A)), missing=2, truncated=True)
    said = " ".join(tell(facts(lost, unread=UNREAD)).unknown)
    for each in (UNREAD["object"], "The log lacks entries of 1 execution (lost)", "cut off"):
        assert each in said


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            facts(HOLDER, WAITS_NOW, records=(held_by(HOLDER, 201),)),
            "Execution holder has held the lock for 39 s, since 2026-11-22 11:59:21 UTC, for event"
            " 0A. 1 execution waits for it: waiter.",
        ),
        (
            facts(records=(held_by(HOLDER, -600),)),
            "Execution holder has held the lock for 14 minutes, since 2026-11-22 11:46:00 UTC, for"
            " event (unknown). It cannot be alive: a sweep frees the key, six minutes after it"
            " was locked.",
        ),
        (
            facts(HOLDER, records=(held_by(HOLDER, 100) | NEWEST_B,)),
            "Event 0B has been recorded as the newest since 2026-11-22 11:57:40 UTC, and waits for"
            " the lock.",
        ),
        (
            facts(PARKED, queued=(IN_QUEUE,)),
            "Event 0A has been parked since 2026-11-22 11:56:01 UTC: InvalidImage: no image."
            " `inorder redrive 01234567` starts it again.",
        ),
        (
            facts(IS_FOLDER, source=FOLDER),
            "Superseded. The function found that its object was a folder marker, of which nothing"
            " is made; no newer event is known.",
        ),
        (
            facts(BY_LINE, unread=LOG_ERROR),
            "2026-11-22 11:56:01 UTC: event 0A, execution it: Processed. The function answered that"
            " it has made the output this event's.",
        ),
        (
            facts(answered("Superseded"), answered("Processed", B, "other")),
            "The function found that its object or output is newer: probably event 0B.",
        ),
        (
            facts(RETRYING, queued=(QUEUED,)),
            "Event 0A has failed once since 2026-11-22 11:56:01 UTC: Fault. It is tried again at"
            " 2026-11-22 12:01:00 UTC.",
        ),
    ],
)
def test_a_sentence_reads_as_it_is_spoken(known: Facts, said: str) -> None:
    assert any(said in each for each in tell(known).sentences()), tell(known).sentences()
