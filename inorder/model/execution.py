"""Executions: what goes in, the states passed, what comes out. Nothing here calls a service."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal, NamedTuple

from inorder.asl.definition import EXPRESS_SECONDS
from inorder.audit.repairing import repaired_at
from inorder.model.outcomes import STARTED_NAME
from inorder_fence.records import key_in, object_key_of, s3_object

ENDS = {
    "ExecutionSucceeded": "SUCCEEDED",
    "ExecutionFailed": "FAILED",
    "ExecutionAborted": "ABORTED",
    "ExecutionTimedOut": "TIMED_OUT",
}
ANSWERED = "FunctionAnswered"  # an entry that the function has written, not the state machine
# A last state of one of these types has the name of the outcome, which the output also has.
LAST_EXITED = ("PassStateExited", "SucceedStateExited")
# What JSON, or a time in it, may raise that somebody else has written.
UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError)
BEGINNING = datetime.fromtimestamp(0, UTC)  # instead of a time that is not known
LIFE = timedelta(seconds=EXPRESS_SECONDS)
# What to call the end of an execution without an outcome.
STATUSES = {
    "RUNNING": "Running",
    "SUCCEEDED": "Succeeded",
    "FAILED": "Failed",
    "ABORTED": "Aborted",
    "TIMED_OUT": "TimedOut",
}
# Calls of a service or a function, as all entries name them: https://docs.aws.amazon.com/
# step-functions/latest/apireference/API_HistoryEvent.html. An optimized integration, such as
# Lambda's, has the first; a function whose ARN is the Resource itself has the second.
_CALLS = ("Task", "LambdaFunction")
_BEGUN = {f"{call}Scheduled" for call in _CALLS}
_SUCCEEDED = {f"{call}Succeeded" for call in _CALLS}
_FAILED = {
    f"{call}{how}"
    for call in _CALLS
    for how in ("Failed", "TimedOut", "StartFailed", "ScheduleFailed", "SubmitFailed")
}


@dataclass(frozen=True)
class Attempt:
    """One call of a service or a function by a Task. A Task that is retried has several."""

    started: datetime | None = None  # None if the source does not tell, or if it has not ended
    ended: datetime | None = None
    error: str | None = None  # None if it succeeded, or has not ended
    cause: str = ""


@dataclass(frozen=True)
class Step:
    """A state that an execution passed."""

    state: str  # its name; empty if the source has calls of a Task, but not which Task it was
    type: str  # such as ``Task``
    # The data it received and returned. A state that fails, as the last one may, returns None.
    input: Any
    output: Any
    # None if the source does not tell, or if the state has not ended.
    entered: datetime | None = None
    exited: datetime | None = None
    error: str | None = None  # the error that it ended with, which a Catch may have caught
    cause: str = ""
    attempts: tuple[Attempt, ...] = ()  # the calls of a Task, the last one last

    @property
    def seconds(self) -> float | None:
        """How long it took; None if it has not ended, or if a time is missing."""
        return _seconds(self.entered, self.exited)


@dataclass(frozen=True)
class Execution:
    """An execution, running or ended."""

    arn: str
    status: str  # ``RUNNING``, ``SUCCEEDED``, ``FAILED``, ``TIMED_OUT`` or ``ABORTED``
    event: Any  # its input; None if the source does not tell
    output: Any = None
    error: str | None = None
    cause: str = ""
    # The states that it has passed, in order; empty in a list of executions.
    steps: tuple[Step, ...] = ()
    started: datetime | None = None  # None if the source does not tell, or if it runs
    stopped: datetime | None = None
    # The seconds it has spent in Wait states; None if that was not read.
    waited: float | None = None
    missing: int = 0  # how many of its entries the log lacks, as far as one can tell
    truncated: bool = False  # whether the log has cut some of its data off
    # The key, version and sequencer that the function's line names; None if that was not read.
    answer: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """The last part of its ARN, by which engines tell executions of one name apart."""
        return self.arn.rpartition(":")[2]

    @property
    def policy(self) -> str:
        """The policy whose state machine ran it; "" if template.yaml has not named that."""
        machine = [*self.arn.split(":"), *[""] * 7][6]
        return machine.rpartition("_")[2] if "_" in machine else ""

    @property
    def is_started_by_holder(self) -> bool:
        """Whether another execution has started it, when that released the key (latest-wins)."""
        return f":{STARTED_NAME}" in self.arn

    @property
    def outcome(self) -> str | None:
        """Its output's ``outcome``, such as ``Processed``, or the error, such as ``Parked``."""
        named = self.output.get("outcome") if isinstance(self.output, dict) else None
        return named if named and isinstance(named, str) else self.error

    @property
    def ended_as(self) -> str:
        """Its outcome or, without one, its status: ``Running``, ``TimedOut``, ``Aborted``, ..."""
        return str(self.outcome or STATUSES[self.status])

    @property
    def subject(self) -> str:
        """The S3 key and the sequencer of its event, or its ARN."""
        described = s3_object(self.event)
        return f"{described.get('key')} {described['sequencer']}" if described else self.arn

    @property
    def key(self) -> str | None:
        """The S3 key of its event; None if it has none, or if it is not known."""
        match self.event:
            case {"detail": {"object": {"key": key}}}:
                return str(key)
            case None:  # the log lacks it
                if self.answer:
                    return str(self.answer["key"])
                return key_in(str(self._in_data("object_key") or ""))
        return None

    @property
    def version_id(self) -> str | None:
        """The version that its event names; only of an event that can be read."""
        version = s3_object(self.event).get("version-id") or (self.answer or {}).get("version_id")
        return version if isinstance(version, str) else None

    @property
    def sequencer(self) -> str | None:
        """The sequencer of its event."""
        sequencer = s3_object(self.event).get("sequencer") or self._in_data("sequencer")
        sequencer = sequencer or (self.answer or {}).get("sequencer")
        return str(sequencer) if sequencer else None

    @property
    def is_repair(self) -> bool:
        """Whether an audit has made its event, and not S3."""
        return repaired_at(self.sequencer) is not None

    @property
    def is_deletion(self) -> bool | None:
        """Whether its event says that an object was deleted; None if the event is not known."""
        if self.event is None:
            return None
        return isinstance(self.event, dict) and self.event.get("detail-type") == "Object Deleted"

    @property
    def record_id(self) -> str | None:
        """The `object_key` that it locks."""
        object_key = self._in_data("object_key")
        return str(object_key) if object_key else object_key_of(self.event)

    @property
    def attempt(self) -> int:
        """Which attempt at its event it is: 1, and one more for each retry before."""
        match self.event:
            case {"retry": {"attempt": int(attempt)}}:
                return 1 + attempt
        return 1

    @property
    def seen(self) -> datetime | None:
        """When it started or, if that is not known, when it had ended."""
        return self.started or self.stopped

    @property
    def seconds(self) -> float | None:
        """How long it took; None if it runs, or if a time is missing."""
        return _seconds(self.started, self.stopped)

    @property
    def summary(self) -> Execution:
        """The same without its steps, as it is in a list.

        If its event is not known, its last state is there, whose data may tell the key.
        """
        return replace(self, steps=self.steps[-1:] if self.event is None else ())

    @property
    def path(self) -> list[str]:
        """The names of the states that it has passed."""
        return [step.state for step in self.steps if step.state]

    def _in_data(self, name: str) -> Any:
        """Give a field of its output, or else of the data that its states have passed on."""
        for data in (self.output, *(step.input for step in reversed(self.steps))):
            if isinstance(data, dict) and data.get(name):
                return data[name]
        return None


@dataclass(frozen=True)
class Filter:
    """Which executions to list. Each part that is given must fit."""

    key: str | None = None
    prefix: str = ""
    # It `ended_as` one of these, in upper or lower case.
    outcomes: frozenset[str] = frozenset()
    since: datetime | None = None  # when it started, or later
    limit: int | None = None  # the greatest number to list: the newest

    def accepts(self, execution: Execution) -> bool:
        """Tell whether an execution is to be listed; the limit does not count here."""
        wanted = {outcome.lower() for outcome in self.outcomes}
        return (
            self.key in (None, execution.key)
            and (execution.key or "").startswith(self.prefix)
            and (not wanted or execution.ended_as.lower() in wanted)
            and self.covers(execution.started)
        )

    def select(self, executions: Iterable[Execution]) -> list[Execution]:
        """Take as many as are to be listed, the one that started last first."""
        accepted = islice(filter(self.accepts, executions), self.limit)
        return sorted(accepted, key=lambda execution: execution.seen or BEGINNING, reverse=True)

    def covers(self, started: datetime | None) -> bool:
        """Tell whether an execution that started then is to be listed; an unknown time is."""
        return started is None or self.since is None or started >= self.since


ANY = Filter()


class Entry(NamedTuple):
    """One thing that happened in an execution.

    `id` counts from 1; 0 if the source has none.
    """

    type: str
    details: dict[str, Any]
    time: datetime | None = None
    id: int = 0


def execution_of(arn: str, entries: Iterable[Entry], is_whole: bool = True) -> Execution:
    """Put an execution together from what happened in it, in that order.

    Without an entry of its end, the execution is running. A log may lack some, and entries of an
    unknown type change nothing. If they should be all, those that are not there are missing.
    """
    reader = _Reader(Execution(arn, "RUNNING", None))
    for entry in entries:
        reader.read(entry)
        if reader.execution.status != "RUNNING":
            break
    else:
        reader.answer()
    return replace(
        reader.execution,
        steps=tuple(reader.steps),
        waited=_waited(reader.steps),
        missing=reader.missing if is_whole else 0,
    )


class _Reader:
    """What is known of an execution after some of its entries."""

    def __init__(self, begun: Execution) -> None:
        self.execution = begun
        self.steps: list[Step] = []
        self.missing = 0
        self._last_id = 0
        self._answered: datetime | None = None
        self._left = 0, ""  # the ID and the name of the latest in LAST_EXITED

    def read(self, entry: Entry) -> None:
        """Learn from the next entry."""
        kind, details, at, number = entry
        if _is_cut(details, "input") or _is_cut(details, "output"):
            self.execution = replace(self.execution, truncated=True)
        if number:
            self.missing += max(number - self._last_id - 1, 0)
            self._last_id = number
        if kind == "ExecutionStarted":
            self.execution = replace(self.execution, event=_data(details, "input"), started=at)
        elif kind.endswith("StateEntered"):
            state_type = kind.removesuffix("StateEntered")
            step = Step(str(details.get("name")), state_type, _data(details, "input"), None, at)
            self.steps.append(step)
        elif kind.endswith("StateExited"):
            if self.steps and self.steps[-1].state == details.get("name"):
                self._change(output=_data(details, "output"), exited=at)
            if kind in LAST_EXITED:
                self._left = number, str(details.get("name"))
        elif kind in ENDS:
            named = self._outcome(kind, details, number)
            self._end(kind, details | named, at)
        elif kind == ANSWERED:
            self.execution, self._answered = replace(self.execution, answer=details), at
        elif kind in _BEGUN | _SUCCEEDED | _FAILED:
            self._call(kind, details, at)

    def answer(self) -> None:
        """Take the function's answer for the end of an execution, if it has none."""
        outcome = (self.execution.answer or {}).get("outcome")
        if outcome:
            self._end("ExecutionSucceeded", _output(outcome), self._answered)

    def _outcome(self, kind: str, details: Mapping[str, Any], number: int) -> dict[str, str]:
        """Take the outcome from the last state or the answer, if the log is without data."""
        if kind != "ExecutionSucceeded" or "output" in details:
            return {}
        before, name = self._left
        answered = (self.execution.answer or {}).get("outcome")
        outcome = name if before and before == number - 1 else answered
        return _output(outcome) if outcome else {}

    def _end(self, kind: str, details: dict[str, Any], at: datetime | None) -> None:
        error = str(details["error"]) if details.get("error") else None
        cause = str(details.get("cause") or "")
        end = {"output": _data(details, "output"), "error": error, "cause": cause}
        self.execution = replace(self.execution, status=ENDS[kind], stopped=at, **end)
        if error and self.steps and self.steps[-1].exited is None:
            self._change(error=error, cause=cause)

    def _call(self, kind: str, details: dict[str, Any], at: datetime | None) -> None:
        """Read what became of a call of a service."""
        within = self.steps and self.steps[-1].type == "Task" and self.steps[-1].exited is None
        if not within:
            self.steps.append(Step("", "Task", None, None))  # the log lacks the state
        if kind in _BEGUN:
            attempts = (*self.steps[-1].attempts, Attempt(at))
            self._change(attempts=attempts, error=None, cause="")
            return
        *before, last = self.steps[-1].attempts or (Attempt(),)
        if last.ended or last.error:  # the log lacks its beginning
            before, last = [*before, last], Attempt()
        error = None
        if kind in _FAILED:
            timeout = "States.Timeout" if kind.endswith("TimedOut") else "Unknown"
            error = str(details.get("error") or timeout)
        cause = str(details.get("cause") or "")
        last = replace(last, ended=at, error=error, cause=cause)
        self._change(attempts=(*before, last), error=error, cause=cause)

    def _change(self, **changes: Any) -> None:
        self.steps[-1] = replace(self.steps[-1], **changes)


def _output(outcome: str) -> dict[str, str]:
    return {"output": json.dumps({"outcome": outcome})}


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None


def _waited(steps: Iterable[Step]) -> float | None:
    waits = [step.seconds for step in steps if step.type == "Wait"]
    measured = [seconds for seconds in waits if seconds is not None]
    return sum(measured) if measured or not waits else None


def to_json(value: Any, indent: int | None = None) -> str:
    """Write an execution, a step, or what consists of them, with times in the form of ISO 8601."""

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, datetime):
            return leaf.astimezone(UTC).isoformat(timespec="milliseconds")
        return sorted(leaf) if isinstance(leaf, frozenset) else str(leaf)

    return json.dumps(value, default=plain, indent=indent)


def described(execution: Execution) -> dict[str, Any]:
    """Give an execution with all that can be said about it, for `to_json`."""
    facts = (
        *("id", "key", "sequencer", "version_id", "record_id", "is_repair"),
        *("ended_as", "attempt", "seconds", "seen"),
    )
    whole = asdict(execution)
    steps = [
        values | {"seconds": step.seconds}
        for values, step in zip(whole.pop("steps"), execution.steps, strict=True)
    ]
    return {
        **{name: getattr(execution, name) for name in facts},
        **whole,
        **({"steps": steps} if steps else {}),
    }


def _data(details: Mapping[str, Any], name: Literal["input", "output"]) -> Any:
    """Parse an input or an output; None if the entry has none, or only a part of it.

    A log entry has at most 248 KB of it:
    https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
    """
    if name in details and not _is_cut(details, name):
        with suppress(*UNREADABLE):
            return json.loads(details[name])
    return None


def _is_cut(details: Mapping[str, Any], name: Literal["input", "output"]) -> bool:
    """Tell whether the log has cut an input or an output off."""
    more = details.get(f"{name}Details")
    return isinstance(more, dict) and bool(more.get("truncated"))
