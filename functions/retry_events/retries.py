"""Decides about an event that failed, or has waited: it waits, is started, or is parked.

A state machine sends such an event to the retry queue. The event then waits for a delay that grows
with each attempt. What has happened so far travels in ``retry``, a field of the execution's input
that only this function writes, and that comes back when the execution fails again.

While the stack is paused, and if events wait until their object is quiet, the rule sends them to
another queue. Such an event has not failed, so it is started as it came, without a history.

Nothing here reads a clock or calls a service.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

from inorder_fence.records import (
    Json,
    as_json,
    object_key_of,
    retry_message,
    without_history,
)

FIRST_SECONDS, GROWTH, LONGEST_SECONDS = 5, 1.5, 900
# After throttling the delay grows half as fast. If it grew faster, the last events of a burst would
# wait although the function has capacity; if slower, more retries would be refused. See
# bench/bursts.py.
THROTTLED, THROTTLED_SHARE = "Lambda.TooManyRequestsException", 1 / 2
MAXIMUM_REASONS, REASON_CHARACTERS = 10, 200
# An event whose key stayed locked has not failed. So it is never parked for that, and its delay
# stops growing below a minute: the lock may be free soon.
LOCKED, LOCKED_GROWTHS = "KeyLocked", 6
# However short the patience, it is tried for a day while its execution cannot be started.
LOCKED_PATIENCE = 86_400.0
# For how long after its patience an event is refused before it is parked: in a pause, its patience
# may end before anybody has tried it.
REFUSED_SECONDS = 3_600.0
# How often an event is retried after an error that the event itself makes likely, however long the
# patience. A function is out of time also while S3 does not answer: 12 retries take three quarters
# of an hour. No outage makes it crash, or run out of memory.
# Step Functions reports the error type of Lambda's answer, such as that of a timeout:
# https://github.com/aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws/issues/917
# and that of a crash: https://github.com/awslabs/amazon-s3-find-and-forget/pull/283
# Its guide names Lambda.Unknown for an answer without a type, of a timeout or of too little memory:
# https://docs.aws.amazon.com/step-functions/latest/dg/bp-lambda-serviceexception.html
# Python raises MemoryError, and a sweep names an execution that died.
RETRIES_AT_MOST = {
    "Sandbox.Timedout": 12,
    "Lambda.Unknown": 12,
    "Runtime.ExitError": 3,
    "Runtime.OutOfMemory": 3,
    "MemoryError": 3,
    "ExecutionDied": 40,
    "NotClaimed": 0,  # a sweep has counted
    # A function's answer is above 256 KiB. AWS's guide says that no state catches this error, but
    # States.ALL has caught it in a recording of AWS, in tests/aws/services/stepfunctions/v2 of
    # https://github.com/localstack/localstack
    "States.DataLimitExceeded": 0,
}
COUNTED = {LOCKED, THROTTLED, *RETRIES_AT_MOST}  # the errors whose number decides something
# Of an event that cannot be started; a day before SQS deletes its message, it is parked anyhow.
NOT_STARTED, LONGEST_LIFE = "NotStarted", 13 * 86_400
WAITING_STARTED = "WaitingStarted"
# https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
MAXIMUM_INPUT_BYTES = 262_144
_GROWTHS = math.ceil(math.log(LONGEST_SECONDS / FIRST_SECONDS, GROWTH))  # to the longest delay
_COUNTED = re.compile(r"(?P<text>.*) \((?P<count>\d{1,9}) times\)", re.DOTALL)
# More than the longest patience allows. Python writes a number of at most 4,300 digits.
# https://docs.python.org/3/library/stdtypes.html#integer-string-conversion-length-limitation
_MOST_ATTEMPTS = 99_999
_REQUEST = re.compile(r"RequestId: [0-9a-f-]+ (Error: )?")  # Lambda begins with it
_EPOCH_SECONDS = re.compile(r"[0-9]{1,11}")


@dataclass(frozen=True)
class Wait:
    """The message stays in the queue for a number of seconds."""

    seconds: int  # from 1 to 900
    outcome: str = "RetryWaiting"


@dataclass(frozen=True)
class Merged:
    """The message is finished, because another one has parked its event."""

    outcome: ClassVar = "RetryMerged"


@dataclass(frozen=True)
class Message:
    """A message of the retry queue."""

    id: str  # its ID, the same each time that SQS delivers it
    body: str
    sent: float  # when it was sent, in seconds since 1970
    receives: int = 1  # how often SQS has delivered it, this time included

    def delay(self, growths: float) -> float:
        """Compute a delay in seconds.

        It is between half of the grown delay and all of it, so that events that failed together do
        not return together. The same message always has the same delay.

        Parameters
        ----------
        growths : float
            How often the first delay has grown; after throttling, by a part of once.
        """
        whole = longest_delay(growths)
        share = int(sha256(self.id.encode()).hexdigest()[:8], 16) / 16**8
        return whole * (1 + share) / 2

    def postpone(self) -> Wait:
        """Decide what to do when a service refuses: wait, for longer with each delivery."""
        return _wait(self.delay(self.receives - 1))

    def refused(self) -> float:
        """Tell for how many seconds a service has refused it, from its deliveries."""
        return sum(self.delay(number) for number in range(self.receives - 1))


@dataclass(frozen=True)
class Start:
    """An execution is started."""

    input: str
    outcome: str = "RetryStarted"


@dataclass(frozen=True)
class Park:
    """The event is parked."""

    body: str  # of the message for the queue of parked events
    outcome: ClassVar = "RetryParked"


@dataclass(frozen=True)
class Waiting:
    """An event that has waited, and has not failed."""

    message: Message  # the whole event, as EventBridge has sent it
    body: Json  # with the field `event`
    name: ClassVar = "waiting"  # begins the execution's

    @classmethod
    def read(cls, message: Message) -> Waiting | None:
        """Read a message; None if it is no event of an object."""
        with suppress(ValueError, RecursionError):
            event = json.loads(message.body)
            if object_key_of(event):
                return cls(message, {"event": event})
        return None

    def decide(self, _now: float, _patience: float) -> Start:
        """Start it without a history, so that the patience begins with its first failure."""
        return Start(self.message.body, WAITING_STARTED)

    def decide_again(self, refusal: str, now: float, patience: float) -> Wait | Park:
        """Decide what to do when the execution could not be started.

        How long it waited before does not count.
        """
        if self.message.refused() < patience and now < self.message.sent + LONGEST_LIFE:
            return self.message.postpone()
        body = json.loads(retry_message(self.body["event"], NOT_STARTED, refusal, ""))
        return Park(as_json(body | {"outcome": "Parked"}))


@dataclass(frozen=True)
class Fault:
    """An event whose execution failed."""

    message: Message  # the message in which the state machine has sent it
    body: Json
    attempt: int  # the retry that failed; 0 if it was the first execution
    since: int  # when the first execution of the event had failed, in seconds since 1970
    # Why the executions failed, the last reason last. A reason that came again has its count.
    reasons: tuple[str, ...]
    name: ClassVar = "retry"  # begins the execution's

    @classmethod
    def read(cls, message: Message) -> Fault | None:
        """Read a message.

        Returns
        -------
        Fault or None
            None if no state machine has sent it.
        """
        try:
            body = json.loads(message.body)
        except (ValueError, RecursionError):
            return None
        match body:
            case {"outcome": "Retrying", "event": dict(event), "reason": dict(reason)}:
                attempt, since, reasons = _history(event.get("retry"), int(message.sent))
                if _count(reasons, LOCKED) == attempt:  # it has not failed before
                    since = int(message.sent)
                reasons = _with_reason(reasons, _text(reason))
                return cls(message, _named(body), attempt, since, reasons)
        return None

    def decide(self, now: float, patience: float) -> Wait | Start | Park:
        """Decide what to do.

        An event that failed before the patience was over is tried once more, however late it is
        now: while the queue was not read, it was not tried.

        Parameters
        ----------
        now : float
            The time, in seconds since 1970.
        patience : float
            For how many seconds after its first failure an event is retried.
        """
        try:
            return self._decide(now, patience)
        except RecursionError:  # nested more deeply than can be written
            return Park(self.message.body)

    def decide_again(self, refusal: str, now: float, patience: float) -> Wait | Park:
        """Decide what to do when the execution could not be started."""
        patience = max(patience, LOCKED_PATIENCE) if self._is_locked() else patience
        is_over = now >= self.since + patience and self.message.refused() >= REFUSED_SECONDS
        if is_over or now >= self.message.sent + LONGEST_LIFE:
            return self._park(refusal)
        return self.message.postpone()

    def _decide(self, now: float, patience: float) -> Wait | Start | Park:
        is_rejection = self.body["reason"].get("rejected") is True
        is_over = self.message.sent >= self.since + patience and not self._is_locked()
        is_hopeless = any(
            _count(self.reasons, error) > at_most for error, at_most in RETRIES_AT_MOST.items()
        )
        if is_rejection or is_over or is_hopeless:
            return self._park()
        due = self.message.sent + self.message.delay(self._growths())
        if now < due:
            return _wait(due - now)
        start = Start(self._input())
        if len(start.input.encode()) > MAXIMUM_INPUT_BYTES:
            return self._park("The event is too large to be started with its reasons")
        return start

    def _growths(self) -> float:
        """Tell how often the delay has grown: after a failure, by failures only."""
        locked = min(_count(self.reasons, LOCKED), self.attempt + 1)  # others may write more
        if self._is_locked():
            return min(locked - 1, LOCKED_GROWTHS)
        throttled = min(_count(self.reasons, THROTTLED), self.attempt + 1 - locked)
        return self.attempt - locked - throttled * (1 - THROTTLED_SHARE)

    def _is_locked(self) -> bool:
        """Tell whether the event has waited for its key's lock, and has not failed."""
        return bool(self.body["reason"].get("Error") == LOCKED)

    def _input(self) -> str:
        history = {
            "attempt": self.attempt + 1,
            "since": str(self.since),
            "reasons": list(self.reasons),
        }
        return as_json({**without_history(self.body["event"]), "retry": history})

    def _park(self, refusal: str | None = None) -> Park:
        """Park the event with its reason, and with all reasons if it was retried."""
        reason = self.body["reason"]
        if self.attempt or refusal:
            reasons = _with_reason(self.reasons, refusal) if refusal else self.reasons
            reason = {
                **reason,
                "attempts": self.attempt + 1,
                "since": str(self.since),
                "reasons": list(reasons),
            }
        event = without_history(self.body["event"])
        return Park(as_json({**self.body, "outcome": "Parked", "reason": reason, "event": event}))


def park_unread(message: Message) -> Park:
    """Park what is no fault of an event: a rejected input that is no object, or any other text."""
    try:
        body = json.loads(message.body)
        match body:
            case {"outcome": "Retrying", "reason": dict()}:
                return Park(as_json({**_named(body), "outcome": "Parked"}))
    except (ValueError, RecursionError):
        pass
    return Park(message.body)


def longest_delay(growths: float) -> float:
    """Give the longest delay, in seconds, after the first one has grown so often."""
    grown: float = FIRST_SECONDS * GROWTH ** min(growths, _GROWTHS)
    return min(grown, LONGEST_SECONDS)


def _named(body: Json) -> Json:
    """Leave out what has no name: a state machine gives an invalid event an empty one."""
    return {name: value for name, value in body.items() if value != ""}


def _wait(seconds: float) -> Wait:
    return Wait(min(math.ceil(seconds), LONGEST_SECONDS))


def _history(retry: Any, sent: int) -> tuple[int, int, tuple[str, ...]]:
    """Read the field `retry`; one that this function has not written counts as absent."""
    match retry:
        case {"attempt": int(attempt), "since": str(since), "reasons": [*reasons]} if (
            0 < attempt <= _MOST_ATTEMPTS
            and _EPOCH_SECONDS.fullmatch(since)
            and all(isinstance(reason, str) for reason in reasons)
        ):
            return attempt, min(int(since), sent), tuple(reasons)
    return 0, sent, ()


def _text(reason: Json) -> str:
    """Write a reason in one line, without what differs each time, such as the ID of a request."""
    cause = str(reason.get("Cause", ""))
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        cause = json.loads(cause)["errorMessage"]  # of an exception in a function
    cause = _REQUEST.sub("", str(cause)).partition(" (Service: ")[0]
    return f"{reason.get('Error')}: {cause}"


def _with_reason(reasons: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Add a reason as the last one, and count it if it is there already.

    An error whose number decides something is one reason, whatever else the text has: Lambda may
    give the time and an ID in it.
    """
    counts, text = _counts(reasons), _line(text)
    error = text.partition(":")[0]
    if error in COUNTED:
        same = [other for other in counts if other.startswith(f"{error}:")]
        number = sum(counts.pop(other) for other in same)
    else:
        number = counts.pop(text, 0)
    counts[text] = number + 1
    written = [f"{line} ({count} times)" if count > 1 else line for line, count in counts.items()]
    return tuple(written[-MAXIMUM_REASONS:])


def _count(reasons: tuple[str, ...], error: str) -> int:
    """Give how often an error came."""
    counts = _counts(reasons)
    return sum(count for text, count in counts.items() if text.startswith(f"{error}:"))


def _counts(reasons: tuple[str, ...]) -> dict[str, int]:
    """Give how often each reason came."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counted = _COUNTED.fullmatch(reason)
        text, count = counted.group("text", "count") if counted else (reason, 1)
        counts[_line(text)] = int(count)
    return counts


def _line(text: str) -> str:
    return " ".join(text.split())[:REASON_CHARACTERS]
