"""What locks, records and queues say: what will still happen, and what a person must decide."""

from collections.abc import Iterator, Mapping
from typing import Any

from inorder.model.execution import LIFE
from inorder.story.executions import id_of
from inorder.story.known import Known, parsed, time_of
from inorder.story.parts import Pending, Queued, named, sentence
from inorder.wording import clock, counted, span
from inorder_fence.records import s3_object
from inorder_fence.stuck import COUNT, DEAD_AFTER, LOCK, SINCE

BY_SWEEP = "The next sweep, of one each minute, {}; `inorder stuck --redrive` does so at once."


def tell_pending(known: Known) -> Iterator[Pending]:
    """Tell what the records of the object say, and then what the queues have."""
    for record in known.facts.records:
        yield from _recorded(known, record)
    yield from (_queued(each) for each in known.queued)


def _recorded(known: Known, record: Mapping[str, Any]) -> Iterator[Pending]:
    since = time_of(record.get(SINCE))
    described = s3_object(parsed(record.get("event")))
    sequencer = described.get("sequencer") or record.get("sequencer")
    if LOCK in record:
        yield _lock(known, record)
        holder = known.by_arn.get(str(record.get("execution")))
        if not (holder and holder.sequencer):
            text = f"Event {sequencer} is the newest that is recorded, and it is not finished."
            yield Pending("waiting", sequencer, text)
        elif holder.sequencer != sequencer:
            text = f"Event {sequencer} is the newest that is recorded, and waits for the lock."
            yield Pending("waiting", sequencer, text)
    elif since and sequencer not in {each.sequencer for each in known.queued}:
        free = f"Event {sequencer} is recorded and not finished, and no execution has the lock."
        if COUNT in record:
            handed = f"handed it to the retry queue {_times(int(record[COUNT]))}, last at"
            yield Pending("stuck", sequencer, f"{free} A sweep has {handed} {clock(since)}.")
        elif known.facts.now - since > DEAD_AFTER:
            yield Pending("stuck", sequencer, f"{free} {BY_SWEEP.format('retries it')}")
        else:
            sweep = f"If none takes it, a sweep retries it at {clock(since + DEAD_AFTER)}."
            yield Pending("waiting", sequencer, f"{free} {sweep}")


def _lock(known: Known, record: Mapping[str, Any]) -> Pending:
    """Say who has a lock, whether the holder can still run, and who waits for it."""
    arn, since = str(record.get("execution", "")), time_of(record.get(SINCE))
    age = known.facts.now - since if since else None
    holder = known.by_arn.get(arn)
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
        each.id
        for each in known.executions
        if each.record_id == record["id"] and known.outcome(each) == "Waiting"
    ]
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        text += f" {counted(len(waiting), 'execution')} {verb} for it: {', '.join(waiting)}."
    return Pending("lock", holder.sequencer if holder else None, text)


def _queued(each: Queued) -> Pending:
    """Say why an event is in a queue, and what becomes of it."""
    event, since = f"Event {each.sequencer or '(unknown)'}", clock(each.since)
    if each.queue == "parked":
        text = f"{event} has been parked since {since}: {sentence(each.reason)} {each.remedy}"
        return Pending("overtaken" if each.is_overtaken else "parked", each.sequencer, text)
    text = f"{event} has failed {_times(each.attempts)} since {since}: {sentence(each.reason)}"
    return Pending("retrying", each.sequencer, f"{text} It will be retried at {clock(each.next)}.")


def _times(number: int) -> str:
    return "once" if number == 1 else counted(number, "time")
