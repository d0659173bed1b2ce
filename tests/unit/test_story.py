"""The story of an object, told from facts that are built here: no service is called."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inorder.audit.repairing import next_sequencer
from inorder.model.execution import ANSWERED, Entry, Execution, Step, execution_of
from inorder.story import Story, tell
from inorder.story.parts import Cause, Facts, Output, Queued, Source
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


WAITS = Step("Wait For Lock", "Wait", {}, None, at(1))


def read(done: Execution, **item: str) -> Execution:
    """Let the last state of an execution say what it has read."""
    plain = {"answer": "Superseded"}  # of the function
    answer = {name: {"S": text} for name, text in item.items()} or plain
    return replace(done, output={"outcome": done.outcome, "read": answer})


def output_for(sequencer: str, etag: str = "e", version: str | None = None) -> Output:
    metadata = {"sequencer": sequencer, "source-etag": etag}
    return Output("out-x.png", metadata | ({"source-version-id": version} if version else {}))


def facts(*executions: Execution, **changes: Any) -> Facts:
    """Build the facts of a key of latest-wins, whose object has the ETag ``e``."""
    source = Source("e", None, at(0))
    usual = Facts("input", "x.png", "latest-wins", "newest", NOW, executions, source=source)
    return replace(usual, **changes)


def event(sequencer: str, etag: str = "e", **changes: Any) -> dict[str, Any]:
    return created("x.png", sequencer=sequencer, etag=etag, **changes)


def answered(outcome: str, sequencer: str = A, name: str = "it") -> Execution:
    """Build an execution of which only the function's line is known."""
    line = {"key": "x.png", "sequencer": sequencer, "version_id": None, "outcome": outcome}
    return execution_of(f"arn:of:{name}", [Entry(ANSWERED, line, at(1))])


def record(sequencer: str, status: str = "DONE", **more: Any) -> dict[str, Any]:
    body = json.dumps(event(sequencer))
    return {"id": "input/x.png", "event": body, "sequencer": sequencer, "status": status, **more}


def ids(story: Story) -> list[str]:
    return [delivery.execution.rpartition(":")[2] for delivery in story.deliveries]


def test_executions_are_told_in_the_order_in_which_they_started() -> None:
    late = execution("late", event(A), "Superseded", 5, 6)
    early = execution("early", event(B), "Processed", 1, 2)
    story = tell(facts(late, early, outputs=(output_for(B),)))
    assert ids(story) == ["early", "late"]
    assert [event.sequencer for event in story.events] == [A, B]
    one, two = (execution(version, event(A, version_id=version)) for version in ("v1", "v2"))
    assert ids(tell(facts(one, two, version_id="v2"))) == ["v2"]


FIRST_WINS = {"keeps": "first", "policy": "first-wins"}
EACH = {"keeps": "each", "policy": "every-version"}
UNORDERED = {"keeps": "last"}
OUTPUT, OLD_OUTPUT = {"outputs": (output_for(A),)}, {"outputs": (output_for(A, "old"),)}
LOG_OFF = {"executions": "The log has the level OFF: it has no executions."}
LOG_ERROR = {"executions": "The log has the level ERROR."}
IS_FOLDER = read(execution("it", created("f/", sequencer=A, etag="e", size=0), "Superseded"))
FOLDER = Source("e", None, at(0), is_folder=True)
FIRST = execution("first", event(A), "Processed", 0, 1)
AGAIN = read(execution("it", event(A), "Duplicate", 2, 3), sequencer=A, status="DONE")
OTHER_FIRST = execution("other", event(B), "Processed", 0.5, 1)
AFTER_OTHER = read(execution("it", event(A), "Duplicate", 2, 3), sequencer=B, status="DONE")
WAITER = read(execution("it", event(A), "Superseded", 1, 4), sequencer=B)
LATE = read(execution("it", event(A), "Superseded", 5, 6))
NEWEST = execution("newest", event(B), "Processed", 2, 5, steps=(claimed(3),))
NEWER = execution("newer", event(C), "Processed", 3.5, 9)
RETRYING = execution("it", event(A), "Retrying")
RETRY = {"retry": {"attempt": 1, "since": "0", "reasons": ["Fault: why"]}}
RETRIED = execution("again", event(A) | RETRY, "Processed", 6, 7)
PARKS = execution("it", event(A), "Parked")
LOST = Step("Lost", "Fail", {}, None)
QUEUED = Queued("retrying", "m", None, A, at(1), "Fault", at(300), 1)
OLD = execution("it", event(A), None, -300, None, steps=(claimed(-299),))
UNREAD_RETRIES = {"events that are retried": "They could not be read."}


@pytest.mark.parametrize(
    ("key_facts", "cause", "text"),
    [
        (
            facts(WAITER, NEWEST, NEWER),
            Cause(B, None, NEWEST.arn, at(3)),
            "The newer event 0B had been recorded at 2026-11-22 11:56:03 UTC by execution newest.",
        ),
        (facts(WAITER, NEWER), Cause(B, None), "The newer event 0B had been recorded."),
        (facts(FIRST, AGAIN), Cause(A, None, FIRST.arn, at(1)), "event was done at 2026-"),
        (facts(AGAIN, records=(record(A),)), Cause(A, None), "By its record, this event was done."),
        (
            facts(OTHER_FIRST, FIRST, AFTER_OTHER, **FIRST_WINS),
            Cause(B, None, OTHER_FIRST.arn, at(1)),
            "event 0B was done at",
        ),
        (facts(RETRYING, queued=(QUEUED,)), Cause(A, None, at=at(300)), "Fault: why. It will be"),
        (facts(RETRYING, RETRIED), Cause(A, None, RETRIED.arn, at(6)), "Fault: why. Execution aga"),
        (facts(answered("Retrying")), None, "Retrying. The log does not have the reason. It was h"),
        (facts(execution("it", event(A), "Parked")), None, "Fault: why."),
        (facts(replace(PARKS, steps=(LOST,))), None, "Parked. Fault: why."),
        (facts(replace(PARKS, steps=(claimed(1),))), None, "The policy has no state for this: Fau"),
        # A newer event has ended; that it was the reason, nothing says.
        (facts(LATE, NEWEST), None, "The function answered"),
        (facts(execution("it", event(A), "Superseded"), NEWEST), None, "Nothing that was read"),
        (facts(RETRYING, unread=UNREAD_RETRIES), None, "nothing says when it will be retried"),
    ],
)
def test_an_execution_is_told_with_what_its_last_state_says(
    key_facts: Facts, cause: Cause | None, text: str
) -> None:
    story = tell(key_facts)
    delivery = story.deliveries[ids(story).index("it")]
    assert delivery.cause == cause
    assert f"execution it: {delivery.outcome}." in delivery.text
    assert text in delivery.text
    assert "probably" not in " ".join(story.sentences())


@pytest.mark.parametrize(
    ("key_facts", "events"),
    [
        (facts(FIRST, AGAIN, records=(record(A),), queued=(QUEUED,)), [(A, None)]),
        (facts(execution("it", event(A, version_id="v")), queued=(QUEUED,)), [(A, "v")]),
        (facts(records=(record(B),), queued=(QUEUED,)), [(A, None), (B, None)]),
        (facts(execution("bad", {"detail": {"object": {"key": "x.png"}}}, "Parked")), []),
    ],
)
def test_an_event_of_several_sources_is_one(
    key_facts: Facts, events: list[tuple[str, str | None]]
) -> None:
    assert [(event.sequencer, event.version_id) for event in tell(key_facts).events] == events


def held_by(holder: Execution, since: float) -> dict[str, Any]:
    lock = {"lock_token": "t", "execution": holder.arn, "in_progress_since": at(since).isoformat()}
    return record(str(holder.sequencer), "IN_PROGRESS", **lock)


HOLDER = execution("holder", event(A), None, 200, None, steps=(claimed(200),))
NEWEST_B = {"event": json.dumps(event(B)), "sequencer": B}
WAITS_NOW = execution("waiter", event(B), None, 210, None, steps=(WAITS,))
B_DONE = execution("b", event(B))
DIED = replace(execution("died", event(A), None), status="TIMED_OUT")


def kinds(story: Story) -> list[str]:
    return [part.kind for part in story.pending]


def test_a_lock_tells_its_holder_and_who_waits() -> None:
    story = tell(facts(HOLDER, WAITS_NOW, records=(held_by(HOLDER, 201),)))
    [lock] = story.pending
    assert (lock.kind, lock.sequencer) == ("lock", A)
    waiter = story.deliveries[1]
    assert [delivery.outcome for delivery in story.deliveries] == ["Working", "Waiting"]
    assert waiter.cause == Cause(A, None, HOLDER.arn, at(201))
    assert story.verdict.state == "pending"
    frees = "A sweep frees the lock at 2026-11-22 12:02:01 UTC."
    story = tell(facts(DIED, records=(held_by(DIED, 1),)))
    assert f"It ended as TimedOut. {frees}" in story.pending[0].text
    assert story.verdict.state == "pending"


def test_a_newer_event_in_the_record_waits_for_the_lock() -> None:
    story = tell(facts(HOLDER, records=(held_by(HOLDER, 100) | NEWEST_B,)))
    assert [(part.kind, part.sequencer) for part in story.pending] == [("lock", A), ("waiting", B)]
    waits = "Event 0B is the newest that is recorded, and waits for the lock."
    assert story.pending[1].text == waits
    assert [event.sequencer for event in story.events] == [A, B]


@pytest.mark.parametrize(
    ("since", "more", "kind", "text"),
    [
        (200, {}, "waiting", "If none takes it, a sweep retries it at 2026-11-22 12:05:20 UTC."),
        (-900, {}, "stuck", "The next sweep, of one each minute, retries it; `inorder stuck"),
        # A sweep sets the time anew, also if it only frees the lock: the count tells of hand-overs.
        (
            230,
            {"hand_overs": 1},
            "stuck",
            "handed it to the retry queue once. A sweep last changed",
        ),
        (
            230,
            {"hand_overs": 3},
            "stuck",
            "queue 3 times. A sweep last changed this record at 2026-",
        ),
    ],
)
def test_a_record_without_a_lock_tells_what_will_take_it(
    since: float, more: dict[str, Any], kind: str, text: str
) -> None:
    free = record(A, "IN_PROGRESS", in_progress_since=at(since).isoformat(), **more)
    story = tell(facts(records=(free,), **OLD_OUTPUT))
    assert kinds(story) == [kind]
    assert text in story.pending[0].text
    assert story.verdict.state == "pending"
    working = execution("again", event(A), None, 231, None)
    verdict = tell(facts(working, records=(free,))).verdict
    assert "Not yet: event 0A is being processed." in verdict.text


PARKED = execution("it", event(A), "Parked")
IN_QUEUE = Queued(
    *("parked", "0123456789", None, A, at(1), "InvalidImage: no image"),
    remedy="Replace the object: until the function is changed, a redrive would be parked again.",
)
OVERTAKEN = replace(IN_QUEUE, remedy="Overtaken: a command removes it.", is_overtaken=True)


def test_what_a_queue_has_is_pending_once() -> None:
    retried = facts(RETRYING, queued=(QUEUED,), records=(held_by(HOLDER, 100),))
    for key_facts, state in ((facts(PARKED, queued=(IN_QUEUE,)), "parked"), (retried, "pending")):
        story = tell(key_facts)
        assert kinds(story)[-1] == key_facts.queued[0].queue
        assert story.verdict.state == state
        assert " ".join(story.sentences()).count(story.pending[-1].text) == 1


PAUSE = "The stack is paused: 2 events wait."
IN_A_PAUSE = {"pause": PAUSE, "is_paused": True, **OLD_OUTPUT}


def test_an_event_may_still_wait_after_a_pause() -> None:
    waiting = "The stack was paused: 2 events wait."
    verdict = tell(facts(pause=waiting, **OLD_OUTPUT)).verdict
    assert (verdict.state, verdict.text.endswith(f"it may wait. {waiting}")) == ("pending", True)


def test_a_pause_changes_no_other_verdict() -> None:
    for case in (facts(FIRST, **OUTPUT), facts(PARKED, queued=(IN_QUEUE,)), facts(B_RUNS)):
        assert tell(replace(case, pause=PAUSE, is_paused=True)).verdict == tell(case).verdict


def test_a_parked_event_that_was_overtaken_decides_nothing() -> None:
    story = tell(facts(PARKED, B_DONE, queued=(OVERTAKEN,), outputs=(output_for(B),)))
    assert (kinds(story), story.verdict.state) == (["overtaken"], "right")
    assert "Overtaken: a command removes it." in story.sentences()[-2]


ONE, TWO = event("F", "e", version_id="v1"), event("1", "e2", version_id="v2")
VERSIONS = (execution("one", ONE, "Processed", 0, 1), execution("two", TWO, "Processed", 2, 3))
REPAIR = next_sequencer("F", 5, "e")
REPAIR_EVENT = event(REPAIR, version_id="v1", time="2026-11-22T11:57:00Z")
REPAIRED, REPAIRS = execution("r", REPAIR_EVENT), execution("r", REPAIR_EVENT, None, 60, None)
BY_HAND = Output("out-x.png/v1", {})
CURRENT = Source("e2", "v2", at(2))
JUST_CHANGED = Source("e", None, NOW - timedelta(seconds=5))  # its event may be on its way
UNREAD = {"object": "The object could not be read: AccessDenied"}
NO_OUTPUTS = {"output": "The output could not be read: AccessDenied"}
B_RUNS = execution("b", event(B), None, 2, None)
DELETION = deleted("x.png", sequencer=B)
DELETION_PARKED = execution("it", DELETION, "Parked")
MARKER = execution("m", deleted("x.png", sequencer="FF", version_id="m"))
THREE = execution("a", event(A)), execution("b", DELETION), execution("c", event(C))
FOREIGN = {"outputs": (Output("out-x.png", {}),)}  # without the fence's metadata
OF_ANOTHER_BUCKET = {"outputs": (Output("out-x.png", {"source-bucket": "other"}),)}
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
        (facts(DIED, records=(held_by(DIED, 1),)), "pending"),  # a sweep retries it
        (
            facts(DIED),
            "wrong",
            "--prefix x.png --repair` (and all other keys that begin so) mends it.",
        ),
        (facts(), "wrong"),
        (facts(source=JUST_CHANGED), "pending"),
        (facts(quiet_seconds=240), "pending", "its event may be on its way"),
        (facts(unread=LOG_OFF), "unknown"),
        (facts(unread=NO_OUTPUTS), "unknown"),
        (facts(OLD, from_log=True), "wrong", "nothing that was read will still act on it"),
        (facts(RETRYING), "pending", "was handed to the retry queue"),
        (facts(FIRST, queued=(OVERTAKEN,)), "wrong", "was changed or removed since"),
        (facts(PARKED), "parked", "the queue no longer has it. Replace the object, or"),
        (
            facts(**FOREIGN),
            "wrong",
            "--repair --foreign` (and all other keys that begin so) mends it.",
        ),
        (facts(source=None, **FOREIGN), "wrong", "No repair replaces"),
        (facts(DELETION_PARKED, source=None, **FOREIGN), "parked", "No repair replaces"),
        (facts(**FOREIGN, **FIRST_WINS), "wrong", "No repair replaces"),
        (facts(**OF_ANOTHER_BUCKET), "wrong", "No repair replaces"),
        (
            facts(PARKED, **FOREIGN),
            "parked",
            "--foreign` (and all other keys that begin so) tries it again.",
        ),
        # It is deleted.
        (facts(execution("it", DELETION), source=None), "right"),
        (facts(execution("it", DELETION, "Retrying"), source=None, **OUTPUT), "pending"),
        (facts(source=None, **OUTPUT), "wrong"),
        (facts(source=None, handles_deletions=False, **OUTPUT), "right"),
        (facts(FIRST, unread=UNREAD, **OUTPUT), "unknown"),
        # The current version decides.
        (facts(*VERSIONS, source=CURRENT, outputs=(output_for("1", "e2", "v2"),)), "right"),
        (facts(*VERSIONS, source=CURRENT, outputs=(output_for("F", "e", "v1"),)), "wrong"),
        # every-version: each event has its own, unless it was deleted
        (facts(FIRST, B_DONE, outputs=(output_for(A), output_for(B)), **EACH), "right"),
        (facts(FIRST, B_DONE, **OUTPUT, **EACH), "wrong"),
        (facts(*THREE, outputs=(output_for(C),), **EACH), "right"),
        (facts(VERSIONS[0], REPAIRED, outputs=(output_for(REPAIR, "e", "v1"),), **EACH), "right"),
        (facts(VERSIONS[0], REPAIRED, **EACH), "wrong", "1 of the events lacks one."),
        (facts(VERSIONS[0], REPAIRS, **EACH), "pending", "Not yet: repair F0"),
        (facts(VERSIONS[0], outputs=(BY_HAND,), **EACH), "wrong", "No repair replaces"),
        (facts(VERSIONS[0], MARKER, **EACH), "wrong"),  # a delete marker removes no version
        # first-wins: the first event's
        (facts(OTHER_FIRST, AGAIN, outputs=(output_for(B),), **FIRST_WINS), "right"),
        (facts(FIRST, **OLD_OUTPUT, **FIRST_WINS), "right", "made first"),
        (facts(FIRST, **FIRST_WINS), "wrong", "was changed or removed since"),
        # uncoordinated promises nothing, and its stale output is named.
        (facts(execution("a", event(A, "old")), B_DONE, **OLD_OUTPUT, **UNORDERED), "wrong"),
        # What the stack does not have is not called right.
        (facts(source=None), "none", "There is no such object"),
        (facts(source=None, **FIRST_WINS), "none", "There is no such object"),
        (facts(source=None, near=("y.png", "z.png")), "none", "Keys like it: y.png, z.png."),
        (facts(source=None, unread=LOG_OFF), "none", "There is no such object"),
        (facts(IS_FOLDER, source=FOLDER), "none", "is a folder marker"),
        (facts(source=FOLDER, **OLD_OUTPUT), "wrong", "No event of the object's change"),
        # At the level ERROR, the function's line tells what did not fail.
        (facts(BY_LINE, unread=LOG_ERROR, source=Source("f")), "unknown", "Not all was read"),
        (facts(**LEFT_OUT), "none", "its key does not end in .jpg (KeySuffix)"),
        (facts(B_DONE, outputs=(output_for(B),), **LEFT_OUT), "right", "starts an execution now"),
        # In a pause, the object's event may be among those that wait.
        (facts(**IN_A_PAUSE), "pending", f"was read: it may wait. {PAUSE} Until the pause ends"),
        (facts(source=None, **IN_A_PAUSE), "pending", "No event of the deletion was read: it may"),
        (facts(FIRST, **IN_A_PAUSE | EACH, source=Source("new")), "pending", "it may wait."),
        (facts(RETRYING, queued=(QUEUED,), **IN_A_PAUSE), "pending", f"the pause ends. {PAUSE}"),
        # A user's function may write elsewhere, and without the fence's metadata.
        (facts(FIRST, **OWN), "unknown", "a function of your own (WorkFunctionArn)"),
        (facts(B_RUNS, **OWN), "pending", "is being processed"),
        (facts(FIRST, **FOREIGN, **OWN), "unknown", "(WorkFunctionArn)"),
        (facts(FIRST, **FOREIGN, **OWN, **FIRST_WINS), "unknown", "your own"),
        (facts(FIRST, **OLD_OUTPUT, **OWN), "wrong", "was changed or removed"),
        (facts(**OWN), "wrong", "No event of the object's change at 2026-11-22 11:56:00 UTC was"),
        (facts(execution("it", event(A), "Own")), "unknown", "only the policy says"),
    ],
)
def test_the_output_is_judged(row: tuple[Facts, str, *tuple[str, ...]]) -> None:
    """A row has facts, a verdict and, if it is not plain, a part of its text."""
    key_facts, state, *parts = row
    verdict = tell(key_facts).verdict
    assert verdict.state == state, verdict.text
    assert all(part in verdict.text for part in parts)


def test_what_is_not_known_is_named() -> None:
    lost = replace(execution("lost", event(A)), missing=2, truncated=True)
    text = " ".join(tell(facts(lost, unread=UNREAD)).unknown)
    for part in (UNREAD["object"], "The log lacks entries of 1 execution (lost)", "cut off"):
        assert part in text


@pytest.mark.parametrize(
    ("key_facts", "text"),
    [
        (
            facts(HOLDER, WAITS_NOW, records=(held_by(HOLDER, 201),)),
            "Waiting. Execution holder has had the lock since 2026-11-22 11:59:21 UTC. Execution"
            " holder has held the lock for 39 s, since 2026-11-22 11:59:21 UTC, for event 0A."
            " 1 execution waits for it: waiter.",
        ),
        (
            facts(records=(held_by(HOLDER, -600),)),  # longer than any execution can live
            "Execution holder has held the lock for 14 minutes, since 2026-11-22 11:46:00 UTC, for"
            " an event that is not known. It can no longer run. The next sweep, of one each"
            " minute, frees the lock; `inorder stuck --redrive` does so at once.",
        ),
        (
            facts(PARKED, queued=(IN_QUEUE,)),
            "There is no output. Event 0A has been parked since 2026-11-22 11:56:01 UTC:"
            " InvalidImage: no image. Replace the object: until the function is changed, a redrive"
            " would be parked again.",
        ),
        (
            facts(IS_FOLDER, source=FOLDER),
            "Superseded. The function answered that this event has nothing to do: its object had"
            " been replaced or deleted, a newer output was there, or it is a folder marker.",
        ),
        (
            facts(BY_LINE, unread=LOG_ERROR),
            "2026-11-22 11:56:01 UTC: event 0A, execution it: Processed. The function answered that"
            " it has made the output this event's.",
        ),
        (
            facts(RETRYING, queued=(QUEUED,)),
            "There is no output. Not yet. Event 0A has failed once since 2026-11-22 11:56:01 UTC:"
            " Fault. It will be retried at 2026-11-22 12:01:00 UTC.",
        ),
    ],
)
def test_a_sentence_reads_as_it_is_spoken(key_facts: Facts, text: str) -> None:
    assert text in " ".join(tell(key_facts).sentences())
