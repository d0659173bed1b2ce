"""What locks, records and queues say: what will still happen, and what a person must decide."""

from collections.abc import Iterator, Mapping
from typing import Any

from inorder.model.execution import LIFE
from inorder.story.executions import id_of
from inorder.story.parts import Pending, Queued, named, sentence
from inorder.story.view import View, parsed, time_of
from inorder.wording import INORDER, clock, counted, span, verb
from inorder_fence.records import s3_object
from inorder_fence.stuck import COUNT, DEAD_AFTER, LOCK, SINCE

AT_ONCE = f"`{INORDER} stuck --redrive` does so at once."
BY_SWEEP = f"The next sweep, of one each minute, {{}}; {AT_ONCE}"


def tell_pending(view: View) -> Iterator[Pending]:
    """Tell what the records of the object say, and then what the queues have."""
    for record in view.facts.records:
        yield from _recorded(view, record)
    yield from (_queued(view, queued) for queued in view.queued)


def _recorded(view: View, record: Mapping[str, Any]) -> Iterator[Pending]:
    since = time_of(record.get(SINCE))
    described = s3_object(parsed(record.get("event")))
    sequencer = described.get("sequencer") or record.get("sequencer")
    if LOCK in record:
        yield _lock(view, record)
        holder = view.by_arn.get(str(record.get("execution")))
        if not (holder and holder.sequencer):
            text = f"Event {sequencer} is the newest that is recorded, and it is not finished."
            yield Pending("waiting", sequencer, text)
        elif holder.sequencer != sequencer:
            text = f"Event {sequencer} is the newest that is recorded, and waits for the lock."
            yield Pending("waiting", sequencer, text)
    elif since and sequencer not in {queued.sequencer for queued in view.queued}:
        free = f"Event {sequencer} is recorded and not finished, and no execution has the lock."
        if COUNT in record:
            handed = f"A sweep has handed it to the retry queue {_times(int(record[COUNT]))}."
            last = f"A sweep last changed this record at {clock(since)}."
            yield Pending("stuck", sequencer, f"{free} {handed} {last}")
        elif view.facts.now - since > DEAD_AFTER:
            yield Pending("stuck", sequencer, f"{free} {BY_SWEEP.format('retries it')}")
        else:
            sweep = f"If none takes it, a sweep retries it at {clock(since + DEAD_AFTER)}."
            yield Pending("waiting", sequencer, f"{free} {sweep}")


def _lock(view: View, record: Mapping[str, Any]) -> Pending:
    """Say who has a lock, whether the holder can still run, and who waits for it."""
    arn, since = str(record.get("execution", "")), time_of(record.get(SINCE))
    age = view.facts.now - since if since else None
    holder = view.by_arn.get(arn)
    held = f"has held the lock for {span(age.total_seconds())}," if age else "holds the lock,"
    event = named(holder.sequencer) if holder else "an event that is not known"
    text = f"Execution {id_of(arn)} {held} since {clock(since)}, for {event}."
    ended = f"ended as {holder.ended_as}" if holder and holder.status != "RUNNING" else ""
    if ended or (age and age > LIFE):
        frees = f"A sweep frees the lock at {clock(since + DEAD_AFTER)}." if since else ""
        if age and age > DEAD_AFTER:
            frees = BY_SWEEP.format("frees the lock")
        text += f" It {ended or 'can no longer run'}. {frees}"
    waiting = [
        execution.id
        for execution in view.executions
        if execution.record_id == record["id"] and view.outcome(execution) == "Waiting"
    ]
    if waiting:
        number = len(waiting)
        wait = f"{counted(number, 'execution')} {verb(number, 'wait')}"
        text += f" {wait} for it: {', '.join(waiting)}."
    return Pending("lock", holder.sequencer if holder else None, text)


def _queued(view: View, item: Queued) -> Pending:
    """Say why an event is in a queue, and what becomes of it."""
    event, since = f"Event {item.sequencer or '(unknown)'}", clock(item.since)
    if item.queue == "parked":
        text = f"{event} has been parked since {since}: {sentence(item.reason)} {item.remedy}"
        return Pending("overtaken" if item.is_overtaken else "parked", item.sequencer, text)
    text = f"{event} has failed {_times(item.attempts)} since {since}: {sentence(item.reason)}"
    return Pending("retrying", item.sequencer, f"{text} {view.retried(item)}")


def _times(number: int) -> str:
    return "once" if number == 1 else counted(number, "time")
