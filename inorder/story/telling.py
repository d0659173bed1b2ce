"""Why each execution of an object ended as it did, what holds the object, and what is to come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from heal_keys.stuck import DEAD_AFTER
from inorder.model.execution import LIFE, Execution, s3_object, subject_of
from inorder.story.judging import judge
from inorder.story.parts import (
    DONE,
    Cause,
    Delivery,
    Event,
    Facts,
    Lock,
    Pending,
    Queued,
    Story,
    clock,
    order,
    span,
)

_ALIVE = {"Working", "Waiting"}
# The states of the shipped policies that write an event to the table.
RECORDING = {"Claim Key", "Claim Content", "Record Event"}


def tell(facts: Facts) -> Story:
    """Tell the story of an object.

    Parameters
    ----------
    facts : Facts
        What could be read.
    """
    return _Telling(facts).story()


class _Telling:
    """Reads the facts of one object, part by part."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._executions = sorted(
            (each for each in facts.executions if self._is_wanted(each.version_id)),
            key=lambda each: (each.started or facts.now, each.arn),
        )
        self._by_arn = {each.arn: each for each in self._executions}
        self._locks = {
            str(record["execution"]): record
            for record in facts.records
            if "lock_token" in record and "execution" in record
        }
        self._queued = [each for each in facts.queued if self._is_wanted(each.version_id)]

    def story(self) -> Story:
        facts = self._facts
        deliveries = tuple(map(self._delivery, self._executions))
        events = self._events({each.execution: each.outcome for each in deliveries})
        return Story(
            facts.bucket,
            facts.key,
            facts.policy,
            events,
            deliveries,
            tuple(self._lock(record) for record in facts.records if "lock_token" in record),
            tuple(self._pending()),
            facts.outputs,
            judge(facts, events),
            tuple(self._unknown()),
        )

    def _is_wanted(self, version_id: str | None) -> bool:
        return self._facts.version_id in (None, version_id)

    # One execution

    def _delivery(self, execution: Execution) -> Delivery:
        outcome = self._outcome(execution)
        cause = self._cause(execution, outcome)
        return Delivery(
            execution.arn,
            execution.id,
            execution.sequencer,
            execution.version_id,
            execution.is_deletion,
            execution.started,
            execution.stopped,
            outcome,
            execution.waited,
            execution.attempt,
            cause,
            self._text(execution, outcome, cause),
        )

    def _outcome(self, execution: Execution) -> str:
        if execution.status != "RUNNING":
            return execution.ended_as
        age = self._facts.now - (execution.started or self._facts.now)
        if self._facts.from_log and age > LIFE:
            return "Unknown"
        waits = any(step.type == "Wait" for step in execution.steps[-12:])
        return "Waiting" if waits and execution.arn not in self._locks else "Working"

    def _cause(self, execution: Execution, outcome: str) -> Cause | None:
        match outcome:
            case "Superseded":
                return self._superseder(execution)
            case "Duplicate":
                return self._original(execution)
            case "Retrying":
                return self._retry(execution)
            case "Processed" | "Working" | "Unknown":
                return None
            case "Waiting":
                return self._blocker(execution)
        return Cause(reason=_reason(execution))

    def _superseder(self, execution: Execution) -> Cause:
        """Find the newer event: the record names it if the state machine read one there."""
        if not _was_worked_on(execution):
            newest = _read_record(execution).get("sequencer")
            if newest and newest != execution.sequencer:
                return self._caused_by(newest, execution.version_id, is_certain=True)
        newer = [
            each
            for each in self._executions
            if self._is_newer(each, execution)
            and (each.started or self._facts.now) <= (execution.stopped or self._facts.now)
        ]
        if not newer:
            return Cause(is_certain=False)
        last = max(newer, key=lambda each: (_at(each) or self._facts.now, order(each.sequencer)))
        return self._caused_by(last.sequencer, last.version_id, is_certain=False)

    def _is_newer(self, other: Execution, execution: Execution) -> bool:
        if other.version_id != execution.version_id:  # their sequencers do not compare
            one, two = _at(other), _at(execution)
            return bool(one and two and one >= two)
        return order(other.sequencer) > order(execution.sequencer)

    def _caused_by(self, sequencer: str | None, version_id: str | None, is_certain: bool) -> Cause:
        times = [
            (at, each.arn)
            for each in self._executions
            if (each.sequencer, each.version_id) == (sequencer, version_id)
            and (at := _recorded(each))
        ]
        at, arn = min(times, default=(None, None))
        return Cause(sequencer, version_id, arn, at, is_certain=is_certain)

    def _original(self, execution: Execution) -> Cause:
        """Find the execution that processed the event before."""
        same = self._facts.keeps not in {"first", None}
        for other in reversed(self._executions):
            if (
                other.arn != execution.arn
                and other.record_id == execution.record_id
                and (not same or other.sequencer == execution.sequencer)
                and other.outcome in DONE
                and (other.outcome == "Processed" or _was_worked_on(other))
                and (other.stopped or self._facts.now) <= (execution.stopped or self._facts.now)
            ):
                return Cause(other.sequencer, other.version_id, other.arn, other.stopped)
        for record in self._facts.records:  # its execution may be older than what was read
            if subject_of(record) == execution.record_id and record.get("status") == "DONE":
                described = s3_object(_parsed(record.get("event")))
                sequencer = described.get("sequencer") or record.get("sequencer")
                if not same or sequencer == execution.sequencer:
                    return Cause(sequencer, described.get("version-id"))
        return Cause(execution.sequencer if same else None, execution.version_id, is_certain=False)

    def _retry(self, execution: Execution) -> Cause:
        """Find the next attempt: an execution, or a message that waits."""
        reason = _reason(execution)
        for other in self._executions:
            if (
                (other.sequencer, other.version_id) == (execution.sequencer, execution.version_id)
                and other.attempt > execution.attempt
                and (other.started or self._facts.now) >= (execution.started or self._facts.now)
            ):
                return Cause(execution=other.arn, at=other.started, reason=reason)
        for each in self._queued:
            if each.queue == "retrying" and each.sequencer == execution.sequencer:
                return Cause(at=each.next, reason=reason)
        return Cause(reason=reason, is_certain=False)

    def _blocker(self, execution: Execution) -> Cause | None:
        for arn, record in self._locks.items():
            if subject_of(record) == execution.record_id:
                sequencer, at = self._held(arn, record)
                return Cause(sequencer, execution.version_id, arn, at)
        return None

    def _text(self, execution: Execution, outcome: str, cause: Cause | None) -> str:
        what = {True: "deleted", False: "created"}[execution.is_deletion]
        version = f" of version {execution.version_id}" if execution.version_id else ""
        attempt = f" (attempt {execution.attempt})" if execution.attempt > 1 else ""
        if execution.is_started_by_holder:
            attempt += " (started as the lock was released)"
        event = f"event {execution.sequencer or '(unknown)'}{version} ({what})"
        waited = f" It waited {span(execution.waited)}." if execution.waited else ""
        said = self._said(execution, outcome, cause)
        return (
            f"{clock(execution.started)}: {event}, execution {execution.id}{attempt}:"
            f" {outcome}. {said}{waited}"
        ).strip()

    def _said(self, execution: Execution, outcome: str, cause: Cause | None) -> str:
        last = execution.path[-1] if execution.path else "a state that is not known"
        if cause is None:
            texts = {
                "Processed": self._processed(execution),
                "Waiting": "It waits for the lock.",
                "Working": f"It is in {last}.",
                "Unknown": f"The log has no end of it; the last state there is {last}. It cannot be"
                " alive, so its end is missing, or it died.",
            }
            return texts[outcome]
        texts = {
            "Superseded": self._said_superseded(execution, cause),
            "Duplicate": self._said_duplicate(execution, cause),
            "Retrying": self._said_retrying(cause),
            "Parked": _sentence(cause.reason),
            "InvalidEvent": _sentence(cause.reason),
            "NotParked": _sentence(cause.reason),
            "Waiting": f"Execution {_id(cause.execution)} holds the lock since {clock(cause.at)}.",
            **dict.fromkeys(("TimedOut", "Aborted"), f"It ended in {last}, unfinished."),
        }
        if outcome in texts:
            return texts[outcome]
        if execution.status == "SUCCEEDED":
            return f"It ended in {last}, an outcome of the policy's own."
        return f"No state of the policy has foreseen this: {_sentence(cause.reason)}"

    def _processed(self, execution: Execution) -> str:
        took = f" after {span(execution.seconds)}" if execution.seconds is not None else ""
        if self._facts.keeps is None:
            return f"The event was forwarded{took}."
        done = "The output was removed" if execution.is_deletion else "The output was written"
        return f"{done}{took}."

    def _said_superseded(self, execution: Execution, cause: Cause) -> str:
        if cause.sequencer is None:
            found = "its object had been replaced or deleted, or a newer output was there"
            return f"The function found that {found}; no newer event is known."
        version = f" of version {cause.version_id}" if cause.version_id else ""
        name = f"event {cause.sequencer}{version}"
        by = f" by execution {_id(cause.execution)}" if cause.execution else ""
        when = f", recorded at {clock(cause.at)}{by}" if cause.at else ""
        if cause.is_certain:
            return f"The newer {name}{when}{',' if when else ''} decides the output."
        if _was_worked_on(execution):
            return f"The function found that its object or output is newer: probably {name}{when}."
        return f"A newer event decides the output, probably {name}{when}."

    def _said_duplicate(self, execution: Execution, cause: Cause) -> str:
        if cause.execution:
            other = "" if cause.sequencer == execution.sequencer else f" event {cause.sequencer}"
            return (
                f"Execution {_id(cause.execution)} had processed{other or ' this event'}"
                f" at {clock(cause.at)}."
            )
        if cause.is_certain and cause.sequencer != execution.sequencer:
            return f"The record says that event {cause.sequencer} was processed before."
        if cause.is_certain:
            return "The record says that this event was processed before."
        return "It was processed before, by an execution that was not read."

    def _said_retrying(self, cause: Cause) -> str:
        if cause.execution:
            later = f"Execution {_id(cause.execution)} tried again at {clock(cause.at)}."
        elif cause.at:
            later = f"It is tried again at {clock(cause.at)}."
        elif not self._facts.has("retrying"):
            later = "When it is tried again is not known."
        else:
            later = "It is tried again as soon as the function that retries reads it."
        return f"{_sentence(cause.reason)} {later}"

    # The locks, and what is to come

    def _lock(self, record: Mapping[str, Any]) -> Lock:
        arn = str(record.get("execution", ""))
        sequencer, since = self._held(arn, record)
        holder = self._by_arn.get(arn)
        age = (self._facts.now - since) if since else None
        has_ended = bool(holder and holder.status != "RUNNING")
        is_dead = has_ended or bool(age and age > LIFE)
        waiting = tuple(
            each.arn
            for each in self._executions
            if each.record_id == subject_of(record) and self._outcome(each) == "Waiting"
        )
        text = (
            f"Execution {_id(arn)} holds the lock since {clock(since)}"
            f"{f', for {span(age.total_seconds())}' if age else ''}, for event"
            f" {sequencer or '(unknown)'}."
        )
        if is_dead:
            why = f"ended as {holder.ended_as}" if holder and has_ended else "cannot be alive"
            text += f" It {why}: the next event of the key, or the schedule, breaks the lock."
        if waiting:
            text += f" {len(waiting)} wait for it: {', '.join(map(_id, waiting))}."
        return Lock(str(record["id"]), arn, sequencer, since, is_dead, waiting, text)

    def _held(self, arn: str, record: Mapping[str, Any]) -> tuple[str | None, datetime | None]:
        """Give the event of a lock's holder, and since when it has the lock.

        Under `latest-wins` the record tells this of the newest event, which may be another's.
        """
        since = _time(record.get("in_progress_since") or record.get("claimed_at"))
        if self._waits(record) and arn in self._by_arn:
            return self._by_arn[arn].sequencer, _recorded(self._by_arn[arn])
        is_known = arn in self._by_arn or self._facts.keeps != "newest"
        return record.get("sequencer") if is_known else None, since

    def _waits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether the event of a record waits for an execution that works on another one."""
        if "execution" not in record or "event" not in record:
            return False
        holder = self._by_arn.get(str(record["execution"]))
        own = [each for each in self._executions if each.sequencer == record.get("sequencer")]
        if holder:
            return holder not in own
        return any(self._outcome(each) == "Waiting" for each in own)

    def _pending(self) -> Iterable[Pending]:
        for each in self._queued:
            text = _said_queued(each)
            yield Pending(
                each.queue, each.sequencer, each.version_id, each.since, each.next, each.id, text
            )
        for record in self._facts.records:
            since = _time(record.get("in_progress_since"))
            if since is None:
                continue
            waits = self._waits(record)
            described = s3_object(_parsed(record.get("event")))
            sequencer = described.get("sequencer") or record.get("sequencer")
            age = self._facts.now - since
            is_stuck = age > DEAD_AFTER
            if not is_stuck and not waits:
                continue  # its lock is told
            yield Pending(
                "stuck" if is_stuck else "waiting",
                sequencer,
                described.get("version-id"),
                since,
                None,
                str(record["id"]),
                self._said_stuck(sequencer, since)
                if is_stuck
                else (
                    f"Event {sequencer} is recorded as the newest since {clock(since)} and waits"
                    " for the lock."
                ),
            )

    def _said_stuck(self, sequencer: str | None, since: datetime) -> str:
        heals = (
            f"The schedule, which runs every {self._facts.heal_minutes} minutes, starts it again."
            if self._facts.heal_minutes
            else "There is no schedule: inorder stuck --redrive starts it again."
        )
        return (
            f"Event {sequencer} is not finished since {clock(since)}, longer than an execution can"
            f" live: its execution died. {heals}"
        )

    # What is known of each event

    def _events(self, outcomes: Mapping[str, str]) -> tuple[Event, ...]:
        """Put together what records, queues and executions say about each event."""
        found: dict[tuple[str | None, str], Event] = {}
        for learnt in (
            *(each for record in self._facts.records for each in self._recorded_events(record)),
            *(
                _event(each.event, each.sequencer, each.version_id, each.queue.capitalize())
                for each in self._queued
            ),
            *(
                replace(
                    _event(each.event, each.sequencer, each.version_id, outcomes[each.arn]),
                    executions=(each.arn,),
                    at=_at(each),
                )
                for each in self._executions
            ),
        ):
            if learnt.sequencer is None or not self._is_wanted(learnt.version_id):
                continue
            identity = (learnt.version_id, learnt.sequencer)
            known = found.get(identity)
            found[identity] = self._together(known, learnt) if known else learnt
        return tuple(sorted(found.values(), key=_by_age))

    def _recorded_events(self, record: Mapping[str, Any]) -> Iterator[Event]:
        """Give the event of a record."""
        if "event" not in record:
            return  # the lock of every-version, whose events have records of their own
        event = _parsed(record["event"])
        since = _time(record.get("in_progress_since"))
        waits = self._waits(record)
        is_dead = since and self._facts.now - since > (DEAD_AFTER if waits else LIFE)
        unfinished = "Died" if is_dead else "Waiting" if waits else "Working"
        statuses = {"DONE": "Processed", "IN_PROGRESS": unfinished}
        outcome = statuses.get(str(record.get("status")), "Unknown")
        version_id = s3_object(event).get("version-id")
        yield _event(event, record.get("sequencer"), version_id, outcome)

    def _together(self, known: Event, learnt: Event) -> Event:
        """Add what a later source, or execution, says about an event."""
        before, outcome = known.outcome, learnt.outcome
        if outcome == "Duplicate" and self._facts.keeps in {"first", None}:
            outcome = before if before != "Unknown" else outcome  # another event was processed
        elif outcome == "Duplicate":
            outcome = "Processed"
        if before == "Processed" or (
            before in {"Parked", "Retrying"} and outcome not in {*DONE, *_ALIVE}
        ):
            outcome = before
        return replace(
            known,
            is_deletion=known.is_deletion if learnt.is_deletion is None else learnt.is_deletion,
            etag=known.etag or learnt.etag,
            at=known.at or learnt.at,
            outcome=outcome if outcome != "Unknown" else before,
            executions=known.executions + learnt.executions,
        )

    def _unknown(self) -> Iterable[str]:
        yield from dict.fromkeys((self._facts.unread or {}).values())
        lost = [each for each in self._executions if each.missing]
        if lost:
            names = ", ".join(each.id for each in lost[:3])
            yield (
                f"The log lacks entries of {len(lost)} executions ({names}), so states may be"
                " missing from them."
            )
        if any(each.truncated for each in self._executions):
            yield "The log has cut off some data, which is longer than 248 KB."
        if self._facts.since and self._facts.has("executions"):
            yield f"Executions that started before {clock(self._facts.since)} were not read."


def _event(event: Any, sequencer: Any, version_id: Any, outcome: str) -> Event:
    """Give what a source says about an event; the event itself may be missing there."""
    described = s3_object(event)
    if not described:
        found = str(sequencer) if sequencer else None
        return Event(found, version_id, None, None, None, outcome, ())
    return Event(
        str(described["sequencer"]),
        described.get("version-id"),
        event.get("detail-type") == "Object Deleted",
        described.get("etag"),
        _time(event.get("time")),
        outcome,
        (),
    )


def _by_age(event: Event) -> tuple[float, str]:
    """Order events: by sequencers or, as those of two versions do not compare, by time first."""
    at = event.at.timestamp() if event.version_id and event.at else 0
    return at, order(event.sequencer)


def _at(execution: Execution) -> datetime | None:
    event = execution.event if isinstance(execution.event, dict) else {}
    return _time(event.get("time")) or execution.started


def _recorded(execution: Execution) -> datetime | None:
    """Give the time at which an execution wrote its event to the table; else when it started."""
    written = [
        step.exited
        for step in execution.steps
        if step.state in RECORDING and step.exited and not step.error
    ]
    return written[0] if written else execution.started


def _was_worked_on(execution: Execution) -> bool:
    """Tell whether the function has answered."""
    return any("inversion" in _object(step.input) for step in execution.steps)


def _read_record(execution: Execution) -> dict[str, str]:
    """Give what an execution read last in the record that it waited for."""
    for step in reversed(execution.steps):
        item = _object(_object(_object(step.input).get("record")).get("Item"))
        if item:
            return {name: str(_object(value).get("S", "")) for name, value in item.items()}
    return {}


def _reason(execution: Execution) -> str:
    """Give the error and the cause in one line."""
    reason = _object(execution.output).get("reason")
    if not isinstance(reason, dict):
        parsed = _parsed(execution.cause)
        reason = parsed if isinstance(parsed, dict) and "Error" in parsed else None
    if reason is None:
        text = f"{execution.error}: {execution.cause}" if execution.cause else f"{execution.error}"
    else:
        text = f"{reason.get('Error')}: {reason.get('Cause')}"
    return " ".join(text.split())


def _said_queued(each: Queued) -> str:
    event, since = f"Event {each.sequencer or '(unknown)'}", clock(each.since)
    reason = _sentence(each.reason)
    if each.queue == "parked":
        again = f"`inorder redrive {each.id[:8]}` starts it again."
        return f"{event} is parked since {since}: {reason} {again}"
    if each.queue == "retrying":
        failed = f"failed first at {since}, and {each.attempts} times so far: {reason}"
        return f"{event} {failed} It is tried again at {clock(each.next)}."
    return f"{event} started no execution; it is in UndeliveredEventsQueue since {since}. {reason}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _id(arn: str | None) -> str:
    return (arn or "").rpartition(":")[2]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None


def _time(text: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else None
