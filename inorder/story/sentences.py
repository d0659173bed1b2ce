"""The sentences of a story, one for each execution, lock and event that is not finished."""

from datetime import datetime, timedelta

from inorder.model.execution import Execution
from inorder.story.parts import Cause, Facts, Lock, Queued, clock, counted, named, span
from inorder.story.reading import was_worked_on
from inorder_fence.records import s3_object


def told(facts: Facts, execution: Execution, outcome: str, cause: Cause | None) -> str:
    """Say when an execution started, which event it had, and how and why it ended."""
    what = {True: " (deleted)", False: " (created)", None: ""}[execution.is_deletion]
    attempt = f" (attempt {execution.attempt})" if execution.attempt > 1 else ""
    if execution.is_started_by_holder:
        attempt += " (started as the lock was released)"
    event = f"{named(execution.sequencer)}{_version(execution.version_id)}{what}"
    waited = f" It waited {span(execution.waited)}." if execution.waited else ""
    said = _said(facts, execution, outcome, cause)
    return (
        f"{clock(execution.seen)}: {event}, execution {execution.id}{attempt}:"
        f" {outcome}. {said}{waited}"
    )


def _said(facts: Facts, execution: Execution, outcome: str, cause: Cause | None) -> str:
    last = execution.path[-1] if execution.path else "a state that is not known"
    if cause is None:
        texts = {
            "Processed": _said_processed(execution),
            "Waiting": "It waits for the lock.",
            "Working": f"It is in {last}.",
            "Unknown": f"The log does not have its end; the last state there is {last}. It can no"
            " longer run, so it has died, or the log lacks entries.",
        }
        return texts[outcome]
    texts = {
        "Superseded": _said_superseded(execution, cause),
        "Duplicate": _said_duplicate(execution, cause),
        "Retrying": _said_retrying(facts, cause),
        "Waiting": _said_waiting(cause),
        **dict.fromkeys(("Parked", "NotParked", "TimedOut", "Aborted"), _sentence(cause.reason)),
    }
    if outcome in texts:
        return texts[outcome]
    if execution.status == "SUCCEEDED":
        return f"It ended in {last}, an outcome of the policy's own."
    return f"The policy has no state for this: {_sentence(cause.reason)}"


def _said_processed(execution: Execution) -> str:
    took = f" after {span(execution.seconds)}" if execution.seconds is not None else ""
    if execution.is_deletion is None:
        return "The function answered that it has made the output this event's."
    return f"The output was {'removed' if execution.is_deletion else 'written'}{took}."


def _said_superseded(execution: Execution, cause: Cause) -> str:
    if cause.sequencer is None:
        found = "its object had been replaced or deleted, or a newer output was there"
        if s3_object(execution.event).get("size") == 0 and str(execution.key).endswith("/"):
            found = "its object was a folder marker, of which nothing is made"
        return f"The function found that {found}; no newer event is known."
    name = f"{named(cause.sequencer)}{_version(cause.version_id)}"
    by = f" by execution {_id(cause.execution)}" if cause.execution else ""
    when = f", recorded at {clock(cause.at)}{by}" if cause.at else ""
    if cause.is_certain:
        return f"The newer {name}{when}{',' if when else ''} decides the output."
    if was_worked_on(execution):
        return f"The function found that its object or output is newer: probably {name}{when}."
    return f"A newer event decides the output, probably {name}{when}."


def _said_duplicate(execution: Execution, cause: Cause) -> str:
    is_same = cause.sequencer == execution.sequencer
    name = "this event" if is_same else named(cause.sequencer)
    if cause.execution:
        return f"Execution {_id(cause.execution)} had processed {name} at {clock(cause.at)}."
    if cause.is_certain:
        return f"The record says that {name} was processed before."
    return "It was processed before, by an execution that was not read."


def _said_waiting(cause: Cause) -> str:
    holder = f"It waits for execution {_id(cause.execution)}"
    return f"{holder}, which has held the lock since {clock(cause.at)}."


def _said_retrying(facts: Facts, cause: Cause) -> str:
    if cause.execution:
        later = f"Execution {_id(cause.execution)} tried again at {clock(cause.at)}."
    elif cause.at:
        later = f"It is tried again at {clock(cause.at)}."
    elif not facts.has("events that are retried"):
        later = "When it is tried again is not known."
    else:
        later = "It is tried again as soon as the function that retries reads it."
    return f"{_sentence(cause.reason)} {later}"


def said_locked(lock: Lock, age: timedelta | None, death: str) -> str:
    """Say who holds a lock, whether the holder has died, and who waits for it."""
    held = f"has held the lock for {span(age.total_seconds())}," if age else "holds the lock,"
    since = f" since {clock(lock.since)}," if lock.since else ""
    text = f"Execution {_id(lock.execution)} {held}{since} for {named(lock.sequencer)}."
    if death:
        text += f" It {death}: a sweep frees the key, six minutes after it was locked."
    if lock.waiting:
        verb = "waits" if len(lock.waiting) == 1 else "wait"
        waiting = ", ".join(map(_id, lock.waiting))
        text += f" {counted(len(lock.waiting), 'execution')} {verb} for it: {waiting}."
    return text


def said_recorded(sequencer: str | None, since: datetime) -> str:
    """Say that an event waits for the lock."""
    recorded = f"Event {sequencer} has been recorded as the newest since {clock(since)}"
    return f"{recorded}, and waits for the lock."


def said_stuck(sequencer: str | None, since: datetime, hand_overs: int) -> str:
    """Say what becomes of an event whose execution died."""
    text = f"Event {sequencer} is unfinished: its execution has died."
    if hand_overs:
        handed = f"handed it to the retry queue {_times(hand_overs)}, last at {clock(since)}"
        return f"{text} A sweep has {handed}."
    return f"{text} The next sweep, of one each minute, retries it."


def said_queued(each: Queued) -> str:
    """Say why an event is in a queue, and what becomes of it."""
    event, since, why = f"Event {each.sequencer or '(unknown)'}", clock(each.since), each.reason
    if each.queue == "parked":
        again = f"`inorder redrive {each.id[:8]}` starts it again."
        return f"{event} has been parked since {since}: {_sentence(why)} {again}"
    failed = f"has failed {_times(each.attempts)} since {since}: {_sentence(why)}"
    return f"{event} {failed} It is tried again at {clock(each.next)}."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _version(version_id: str | None) -> str:
    return f" of version {version_id}" if version_id else ""


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _id(arn: str | None) -> str:
    """Give the last part of the ARN of an execution."""
    return (arn or "").rpartition(":")[2]
