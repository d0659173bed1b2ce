"""What the tables of the policies share: their types, services' responses, and common states.

Each policy has one table, ``tests/policies/<policy>/cases.py``. `test_paths` runs its paths on
moto and ministack, `mock_config` writes them for Step Functions Local, and `test_states` takes from
them what follows each state. Only Choices have rows of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from unittest.mock import ANY

from inorder.events import SEQUENCER, created, shipped
from inorder.model.policies import definition

Data = dict[str, Any]


class Row(NamedTuple):
    """A state, its input, and the state that follows; a Task also has a response."""

    state: str
    input: Any
    following: str | None
    response: str = ""


class Output(NamedTuple):
    """A state, its input and output, a Task's response, and the event if not the table's."""

    state: str
    input: Any
    output: Any
    response: str = ""
    event: Any = None


class Write(NamedTuple):
    """A Task that writes, and the record before and after, without its ID; None is no record."""

    state: str
    before: Data | None
    after: Data | None
    is_refused: bool = False


class Entry(NamedTuple):
    """A state in a path; a Task with its response to each attempt."""

    state: str
    responses: tuple[str, ...]


@dataclass(frozen=True)
class Path:
    """A way through a state machine from an input, with every service mocked.

    A Task's name is followed by its responses, one for each attempt: ``Claim Key: Busy, Written``
    or, for three equal ones, ``Claim Key: Busy*3``.
    """

    steps: list[str]
    event: Any

    @cached_property
    def entries(self) -> list[Entry]:
        """The steps, taken apart."""
        return [_entry(step) for step in self.steps]

    @property
    def states(self) -> list[str]:
        """The names of the states."""
        return [entry.state for entry in self.entries]

    @property
    def has_helpful_retry(self) -> bool:
        """Whether some attempt ends otherwise than the one before it."""
        return any(len(set(entry.responses)) > 1 for entry in self.entries)


def _entry(step: str) -> Entry:
    state, _, told = step.partition(": ")
    responses: list[str] = []
    for each in told.split(", ") if told else []:
        name, _, times = each.partition("*")
        responses += int(times or 1) * [name]
    return Entry(state, tuple(responses))


@dataclass(frozen=True)
class Cases:
    """The table of a policy.

    `data` is input that suits every state but the Choices, and `event` the execution's input. There
    is what follows each Choice, what each Pass gives and each Task whose result is read later, what
    conditional writes change, and the paths by their names, of letters and digits for Step
    Functions Local.
    """

    data: Data
    choices: list[Row]
    outputs: list[Output]
    writes: list[Write]
    paths: dict[str, Path]
    event: Any

    @property
    def rows(self) -> list[Row]:
        """What follows each state: the rows of the Choices, and those that the paths imply."""
        of_choices = {row.state for row in self.choices}
        ways = {
            (entry.state, following and following.state, "".join(entry.responses[-1:]))
            for path in self.paths.values()
            for entry, following in pairwise([*path.entries, None])
            if entry and entry.state not in of_choices
        }
        # The engine itself makes timeouts, so no path has one. It leads on as a fault does or,
        # where the paths have none, as a failed condition does.
        with_fault = {state for state, _, response in ways if response in FAULTS}
        ways |= {
            (state, to, TIMED_OUT)
            for state, to, response in ways
            if response in FAULTS or (response == CONDITION_FAILED and state not in with_fault)
        }
        return [*self.choices, *(Row(state, self.data, to, answer) for state, to, answer in ways)]


# --- Events, limits and services' responses ------------------------------------------------------

CREATED = shipped("object-created")
DELETED = shipped("object-deleted")
VERSIONED = shipped("object-created-in-versioned-bucket")
NO_S3_EVENT = shipped("s3-notification-test-event")
ID = "pictures/holiday/a b+c%2B'é.png"  # of the key record that belongs to CREATED
EXECUTION = "arn:test"
FAULT = {"Error": "Some.Fault", "Cause": "because"}
NO_LOCK = {"lock_token": "", "break_at_poll": 0}
EXPIRES_AT = "1795000000"
NEVER = 253402300799  # the last second of the year 9999
SINCE = {"in_progress_since": "then"}  # has a record in the index


def limits_of(module: str) -> dict[str, int]:
    """Read the limits in the ASL file of the policy whose folder has a module."""
    states = definition(module.split(".")[-2])["States"]
    limits: dict[str, int] = states["Count Poll"]["Parameters"]["limits"]
    return limits


def waiter_data(limits: dict[str, int]) -> Data:
    """Build the data of an execution at its first poll, and of all later states."""
    return {
        "object_key": "b/k",
        "sequencer": "0B",
        "lock_token": "mine",
        "expires_at": str(NEVER),
        "limits": limits,
        "polls": 1,
        "watched_lock": {"lock_token": "theirs", "break_at_poll": limits["lease_polls"] + 1},
        "record": item(lock_token="theirs", event="{}"),
        "inversion": answer(PROCESSED),
        "fault": FAULT,
    }


# What *Prepare Event* prepares for an execution that may have to wait.
WAITER_START = {"lock_token": ANY, "expires_at": str(NEVER), "polls": 0, "watched_lock": NO_LOCK}


def item(**attributes: str) -> Data:
    """Build what GetItem returns; an attribute that is empty is left out."""
    return {"Item": {name: {"S": value} for name, value in attributes.items() if value}}


def answer(payload: Any) -> Data:
    """Build what lambda:invoke returns."""
    return {"Payload": payload}


def _record(**attributes: str) -> Data:
    return {"Return": item(**attributes)}


def _attributes(**attributes: str) -> Data:
    """Build what UpdateItem returns."""
    return {"Attributes": item(**attributes)["Item"]}


def _error(name: str, cause: str) -> Data:
    return {"Throw": {"Error": name, "Cause": cause}}


OLDER, NEWER = (f"{int(SEQUENCER, 16) + step:018X}" for step in (-1, 1))
_FREE = {"status": "FAILED", "sequencer": SEQUENCER}
_LOCKED = _FREE | {"status": "IN_PROGRESS", "lock_token": "theirs"}
PROCESSED = {
    "outcome": "Processed",
    "output_key": "holiday/out-beach.png",
    "expires_at": EXPIRES_AT,
}
SUPERSEDED = PROCESSED | {"outcome": "Superseded"}
REJECTED = {
    "outcome": "Rejected",
    "error": "InvalidImage",
    "cause": "cannot identify image file",
    "expires_at": EXPIRES_AT,
}
HASHED = {"hash": "9f86d081884c7d65", "now": "1794000000", "expires_at": EXPIRES_AT}
CONDITION_FAILED, TIMED_OUT = "ConditionFailed", "TimedOut"
FAULTS = ("Busy", "Unanswered", "FunctionFailed", "ForwardFailed", "QueueLost", "StartRefused")
TOO_LARGE = "States.DataLimitExceeded"
RESPONSES: dict[str, Data] = {
    CONDITION_FAILED: _error(
        "DynamoDB.ConditionalCheckFailedException", "The conditional request failed"
    ),
    TIMED_OUT: _error("States.Timeout", "The service did not answer in time."),
    "Busy": _error("DynamoDB.ThrottlingException", "The table is busy."),
    "Unanswered": _error("DynamoDB.SdkClientException", "The answer did not come."),
    "FunctionFailed": _error("Lambda.ServiceException", "The function could not be run."),
    "Throttled": _error("Lambda.TooManyRequestsException", "Rate Exceeded."),
    "ForwardFailed": _error("EventBridge.FailedEntry", "The bus took the call but not the event."),
    "QueueLost": _error("SQS.SdkClientException", "The queue cannot be reached."),
    "TooLarge": _error(TOO_LARGE, "The data has more than 262144 bytes."),
    "Written": {"Return": {}},
    "Released": {"Return": _attributes(event="{}")},
    "Started": {"Return": {"ExecutionArn": "arn:newest", "StartDate": "then"}},
    "StartRefused": _error("StepFunctions.ExecutionLimitExceededException", "Too many executions."),
    "Claimed": {"Return": _attributes(lock_token="mine")},
    "Recorded": {"Return": _attributes(lock_token="theirs")},
    "Sent": {"Return": {"MessageId": "5f0c3a52-8a4e-4c57-9d0b-2b9a6f1e7c11"}},
    "Forwarded": {"Return": {"FailedEntryCount": 0, "Entries": [{"EventId": "5f0c3a52"}]}},
    "Processed": {"Return": answer(PROCESSED)},
    "Superseded": {"Return": answer(SUPERSEDED)},
    "Rejected": {"Return": answer(REJECTED)},
    "Unknown": {"Return": answer({"outcome": "Sure"})},
    "Hashed": {"Return": answer(HASHED)},
    "Free": _record(**_FREE),
    "Done": _record(**_FREE | {"status": "DONE"}),
    "Locked": _record(**_LOCKED),
    "LockedAnew": _record(**_LOCKED | {"lock_token": "another"}),
    "LockedWithEvent": _record(**_LOCKED | {"sequencer": OLDER}, event="{}"),
    "NewerRecorded": _record(**_LOCKED | {"sequencer": NEWER}),
    "OlderWaits": _record(sequencer=OLDER, oldest_waiting=OLDER),
    "NoRecord": {"Return": {}},
    "OwnLock": _record(sequencer=SEQUENCER, lock_token="mine"),
    "OwnTurn": _record(sequencer=OLDER, oldest_waiting=SEQUENCER),
    "EventInProgress": _record(status="IN_PROGRESS", sequencer=SEQUENCER),
    "EventDone": {"Return": {"Item": {"status": {"S": "DONE"}, "expires_at": {"N": EXPIRES_AT}}}},
}

# --- Parts of paths ------------------------------------------------------------------------------

PREPARED = ["S3 Object Event?", "Prepare Event"]
VERSION_PREPARED = ["S3 Object Event?", "Prepare Version"]
NO_BUS = ["Send By EventBridge: ForwardFailed*2", "Not Parked"]
NOT_RETRIED = ["Retry Event: QueueLost*2", *NO_BUS]


def ends(
    release: str, *more: str, judge: str = "Retried Later?", answered: str = ""
) -> tuple[list[str], list[str]]:
    """Build the steps of an execution that parks its event, and of one that has it retried.

    They have the `release` of the lock with its response, `more` steps, and `judge`, which tells
    the two apart. `answered` tells whether this execution may release the key as failed.
    """
    steps = [*([answered] if answered else []), release, *more, judge]
    return ["Park Event: Sent", *steps, "Parked"], ["Retry Event: Sent", *steps, "Retrying"]


def inverted(answered: str) -> list[str]:
    """Invoke the function, which answers."""
    return [f"Invert Image: {answered}", "Outcome?"]


ATTEMPT_FAILED = ["Invert Image: FunctionFailed", "Attempt Again?"]


def second_attempts(
    claimed: list[str],
    late: list[str],
    renewed: list[str],
    retried: list[str],
    *,
    is_repeated: bool = True,
) -> dict[str, list[str]]:
    """Build the paths on which the function fails, and the lock is or is not renewed.

    `claimed` and `late` are the steps before the function, in `late` too many for another attempt;
    `renewed` those after the renewal, and `retried` from *Retry Event* on.
    """
    failed = [*claimed, *ATTEMPT_FAILED]
    repeated = [*failed, "Renew Lock: Busy, Written", *renewed]
    return {
        "ProcessedAtTheSecondAttempt": [*failed, "Renew Lock: Written", *renewed],
        **({"ProcessedAtTheSecondAttemptAfterRetry": repeated} if is_repeated else {}),
        "LockLostBeforeTheSecondAttempt": [*failed, "Renew Lock: ConditionFailed", *retried],
        "RenewalFailedRetried": [*failed, f"Renew Lock: Busy*{1 + is_repeated}", *retried],
        "NoSecondAttemptAfterSevenPolls": [*late, *ATTEMPT_FAILED, *retried],
    }


def parked_answers(
    claimed: list[str], failed: list[str], parked: list[str], retried: list[str]
) -> dict[str, list[str]]:
    """Build the paths on which the function fails, or its answer is parked.

    `claimed` are the steps before the function, `failed` those with it when it fails, and `parked`
    and `retried` those from *Park Event* or *Retry Event* on.
    """
    rejected = [*claimed, *inverted("Rejected"), "Reject Object"]
    again = [step.replace(": ", ": Busy, ") for step in parked[1:]]
    failed = [*claimed, *failed]
    return {
        "InvalidImageParked": [*rejected, *parked],
        "InvalidImageParkedAfterRetries": [*rejected, "Park Event: QueueLost, Sent", *again],
        "UnknownResultParked": [*claimed, *inverted("Unknown"), "Reject Result", *parked],
        "FunctionFailedRetried": [*failed, *retried],
        "FunctionFailedRetriedAfterRetry": [*failed, "Retry Event: QueueLost, Sent", *retried[1:]],
        "FunctionFailedRetriedByBus": [*failed, *by_bus("Retry Event", retried)],
        "FunctionFailedRetriedByBusAfterRetry": [
            *failed,
            "Retry Event: QueueLost*2",
            "Send By EventBridge: ForwardFailed, Forwarded",
            *retried[1:],
        ],
        "FunctionFailedNotRetried": [*failed, *NOT_RETRIED],
        "InvalidImageRetriedByBus": [*rejected, *by_bus("Park Event", retried)],
        "InvalidImageNotParked": [*rejected, "Park Event: QueueLost*2", *NO_BUS],
    }


def by_bus(state: str, retried: list[str]) -> list[str]:
    """Build the end of an execution whose `state` cannot reach the queue: it uses EventBridge."""
    return [f"{state}: QueueLost*2", "Send By EventBridge: Forwarded", *retried[1:]]


def paths(named: dict[str, list[str]], event: Any = CREATED) -> dict[str, Path]:
    """Build paths that have the same input."""
    return {name: Path(steps, event) for name, steps in named.items()}


def invalid_events(first: str = "S3 Object Event?") -> dict[str, Path]:
    """Build the paths of an input that the first state refuses."""
    no_queue, bus = [first, "Park Invalid Event: QueueLost*2"], "Send Invalid Event By EventBridge"
    named = {
        "InvalidEventParked": [first, "Park Invalid Event: Sent", "Invalid Event"],
        "InvalidEventParkedAfterRetry": [
            first,
            "Park Invalid Event: QueueLost, Sent",
            "Invalid Event",
        ],
        "InvalidEventSentByBus": [*no_queue, f"{bus}: Forwarded", "Invalid Event"],
        "InvalidEventSentByBusAfterRetry": [
            *no_queue,
            f"{bus}: ForwardFailed, Forwarded",
            "Invalid Event",
        ],
        "InvalidEventNotParked": [*no_queue, f"{bus}: ForwardFailed*2", "Not Parked"],
    }
    return paths(named, NO_S3_EVENT)


@dataclass(frozen=True)
class Polls:
    """Parts of the path of a waiter: the two states of a poll, and the steps to the next one."""

    limits: dict[str, int]
    read: str = "Read Key Record"
    judge: str = "Key State?"
    wait: tuple[str, ...] = ("Wait For Lock",)

    def poll(self, responses: str) -> list[str]:
        """Read the record once."""
        return ["Count Poll", f"{self.read}: {responses}", self.judge]

    def watch(self, seen: str, polls: int, state: str = "Watch Lock") -> list[str]:
        """Poll a number of times and wait after each; what is seen is new at the first."""
        steps = [*self.poll(seen), state, *self.wait]
        for _ in range(1, polls):
            steps += [*self.poll(seen), *self.wait]
        return steps

    def lease(self, seen: str = "Locked") -> list[str]:
        """Watch a lock until its lease is over."""
        return [*self.watch(seen, self.limits["lease_polls"]), *self.poll(seen)]

    def all(self) -> list[str]:
        """Poll as often as allowed; the lock changes, so that no lease is over before."""
        lease = self.limits["lease_polls"]
        anew = self.limits["maximum_polls"] - lease
        return [
            *self.watch("Locked", anew - 1),
            *self.watch("LockedAnew", lease),
            *self.poll("LockedAnew"),
        ]

    def named(self, waits: list[str], again: list[str], retried: list[str]) -> dict[str, list[str]]:
        """Build the paths of the waiters: `waits` ends with a refused claim, `again` starts so."""
        lease = [*waits, *self.lease()]
        duplicate = [*self.wait, *self.poll("Done"), "Duplicate"]
        refused_again = [*self.poll("Free"), *waits[-2:], *self.wait]
        return {
            "LockedThenProcessed": [*waits, *self.watch("Locked", 2), *self.poll("Free"), *again],
            "PollFailedThenProcessed": [
                *waits,
                *self.poll("Busy"),
                *self.wait,
                *self.poll("Free"),
                *again,
            ],
            "RefusedAgainThenProcessed": [*waits, *refused_again, *self.poll("Free"), *again],
            "DeadHolderThenProcessed": [*lease, "Break Lock: Written", *again],
            "DeadHolderThenProcessedAfterRetry": [*lease, "Break Lock: Busy, Written", *again],
            "LockChangedAsItWasBrokenThenDuplicate": [
                *lease,
                "Break Lock: ConditionFailed",
                *duplicate,
            ],
            "LockNotBrokenThenDuplicate": [*lease, "Break Lock: Busy*2", *duplicate],
            "GaveUpWaiting": [*waits, *self.all(), "Give Up Waiting", *retried],
        }


# --- Rows of states that several files have -------------------------------------------------------


def s3_events(*, deletions: bool = True, versions: bool = True) -> list[Row]:
    """Give the rows that tell an S3 event from anything else, and one with a version."""
    accepted: list[Any] = [CREATED, created(version_id=5), *([DELETED] if deletions else [])]
    refused: list[Any] = [
        {},
        [],
        "text",
        NO_S3_EVENT,
        *([] if deletions else [DELETED]),
        {name: value for name, value in created().items() if name != "detail-type"},
        created() | {"detail-type": "Object Restore Completed"},
        created() | {"detail": created()["detail"] | {"bucket": {}}},
        created(bucket=5),
        *(created(**{field: None}) for field in ("key", "sequencer", "etag")),
        *(created(**{field: 5}) for field in ("key", "sequencer", "etag")),
        created(sequencer=""),
        created(etag=""),
    ]
    return [
        *(Row("S3 Object Event?", event, "Prepare Event") for event in accepted),
        Row("S3 Object Event?", VERSIONED, "Prepare Version" if versions else "Prepare Event"),
        *(Row("S3 Object Event?", event, "Park Invalid Event") for event in refused),
    ]


def waiting(
    data: Data, locked: Data, *, judge: str = "Key State?", claim: str = "Claim Key"
) -> list[Row]:
    """Give the rows of a waiter's decision about a record that is `locked` as ``theirs``."""
    limits = data["limits"]
    start = data | {"watched_lock": NO_LOCK}
    watched = {"lock_token": "theirs", "break_at_poll": limits["lease_polls"] + 1}
    watching = {"watched_lock": watched}

    def at(poll: int) -> Data:
        return {"polls": poll}

    def seen(changed: Data, *more: Data) -> Data:
        merged = start | {"record": item(**(locked | changed))}
        for each in more:
            merged |= each
        return merged

    last, over = limits["lease_polls"] + 1, limits["maximum_polls"]
    free, done = {"lock_token": ""}, {"lock_token": "", "status": "DONE"}
    decided = [
        (unread(start), "Wait For Lock"),
        (unread(start | watching | at(last)), "Wait For Lock"),
        (unread(start | at(over)), "Give Up Waiting"),
        (start | {"record": {}}, claim),
        (seen(done), "Duplicate"),
        (seen(done, at(over)), "Duplicate"),
        (seen(free), claim),
        (seen(free | {"status": "FAILED"}), claim),
        (seen(free, at(over - 1)), claim),
        (seen(free, at(over)), "Give Up Waiting"),
        (seen({}), "Watch Lock"),
        (seen({"lock_token": "mine"}), "Watch Lock"),
        (seen({}, at(last)), "Watch Lock"),
        (seen({}, watching), "Wait For Lock"),
        (seen({}, watching, at(last - 1)), "Wait For Lock"),
        (seen({}, watching, at(last)), "Break Lock"),
        (seen({}, {"watched_lock": watched | {"break_at_poll": 1}}), "Break Lock"),
        (seen({"lock_token": "another"}, watching, at(last)), "Watch Lock"),
        (seen({}, watching, at(over)), "Give Up Waiting"),
    ]
    return [Row(judge, data, following) for data, following in decided]


def unread(data: Data) -> Data:
    """Give the data of a poll whose read has failed."""
    return {name: value for name, value in data.items() if name != "record"}


def first_poll(data: Data, wait: str, state: str = "First Poll?") -> list[Row]:
    """Let only the first poll come without a wait."""
    first = {name: value for name, value in data.items() if name != "limits"}
    return [Row(state, first, "Count Poll"), Row(state, data, wait)]


def attempts(data: Data) -> list[Row]:
    """Let there be one more attempt, if the execution has not waited for too long."""

    def at(poll: int) -> Data:
        return data | {"polls": poll}

    return [
        *(Row("Attempt Again?", at(poll), "Renew Lock") for poll in (0, 6)),
        Row("Attempt Again?", at(7), "Retry Event"),
        Row("Attempt Again?", at(0) | {"renewal": {"attempt": 2}}, "Retry Event"),
    ]


def answers(*, processed: str, superseded: str, expires: bool = True) -> list[Row]:
    """Give the rows of what the function may answer."""
    accepted = {"Processed": processed, "Superseded": superseded}
    rejected = {"outcome": "Rejected", "error": "InvalidImage", "cause": "cut", "expires_at": "1"}
    decided: list[tuple[Any, str]] = [
        *(({"outcome": name, "expires_at": "1"}, to) for name, to in accepted.items()),
        (rejected, "Reject Object"),
    ]
    unknown: list[Any] = [
        *(
            {name: rejected[name] for name in rejected if name != lacks}
            for lacks in ("error", "cause")
        ),
        rejected | {"outcome": "Sure"},
        {"outcome": "Sure", "expires_at": "1"},
        {"outcome": 1, "expires_at": "1"},
        {},
        "Processed",
        None,
    ]
    if expires:
        unknown += [{"outcome": name} for name in accepted]
        unknown += [{"outcome": name, "expires_at": 1} for name in accepted]
        unknown += [{**rejected, "expires_at": 1}, {**rejected, "expires_at": None}]
    decided += [(payload, "Reject Result") for payload in unknown]
    return [Row("Outcome?", {"inversion": answer(payload)}, to) for payload, to in decided]


def sent() -> list[Row]:
    """Give the rows that tell a parked event from one that is retried."""
    return [
        Row("Retried Later?", {"sent": {"outcome": outcome}}, outcome)
        for outcome in ("Retrying", "Parked")
    ]


# --- What states give ----------------------------------------------------------------------------


def adds(state: str, data: Data, response: str = "", **added: Any) -> Output:
    """Let a state add fields to its input, or replace some."""
    return Output(state, data, data | added, response)


def no_data(state: str, event: Any) -> Output:
    """Let the first state hand on nothing of the event."""
    return Output(state, event, {})


def prepared(start: Data, **ids: str) -> list[Output]:
    """Give what *Prepare Event* and *Prepare Version* prepare, from nothing but the event.

    `ids` are formats with the fields ``key``, which has the version, and ``sequencer``.
    """
    outputs = [no_data("S3 Object Event?", CREATED)]
    for state, event in (("Prepare Event", CREATED), ("Prepare Version", VERSIONED)):
        described = event["detail"]["object"]
        name = f"{event['detail']['bucket']['name']}/{described['key']}"
        key = f"{name}#{described['version-id']}" if event is VERSIONED else name
        sequencer = described["sequencer"]
        own = {each: text.format(key=key, sequencer=sequencer) for each, text in ids.items()}
        output = {"object_key": key, **own, "sequencer": sequencer, **start}
        outputs.append(Output(state, {}, output, event=event))
    return outputs


def outcomes(data: Data, *names: str) -> list[Output]:
    """Give the outputs of executions that succeed."""
    told = {"object_key": data["object_key"], "sequencer": data["sequencer"]}
    results = {
        "Processed": {"result": data["inversion"]["Payload"]},
        "Retrying": {"reason": data["fault"]},
    }
    return [Output(name, data, {"outcome": name} | told | results.get(name, {})) for name in names]


def rejections(data: Data) -> list[Output]:
    """Give the reasons for which a function's answer is parked."""
    rejected, unknown = data | {"inversion": answer(REJECTED)}, data | {"inversion": answer(None)}
    reason = {"Error": REJECTED["error"], "Cause": REJECTED["cause"], "rejected": True}
    ids = {"object_key", "event_id", "record_id"}
    names = {*ids, "sequencer", "lock_token", "claim", "recorded"} & set(data)
    kept = {name: data[name] for name in names}
    expires = {"expires_at": REJECTED["expires_at"], "fault": reason}
    return [
        Output("Reject Object", rejected, kept | expires)
        if "lock_token" in data
        else adds("Reject Object", rejected, fault=reason),
        adds("Reject Result", unknown, fault=UNKNOWN_RESULT),
    ]


class Ending:
    """Equals each text with this end."""

    def __init__(self, end: str) -> None:
        self._end = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.endswith(self._end)

    __hash__ = None  # type: ignore[assignment]


UNKNOWN_RESULT = {
    "Error": "UnknownResult",
    "Cause": Ending(" It returned: null"),
    "rejected": True,
}


def handed_over(data: Data) -> list[Output]:
    """Give what the states add that send an event to a queue."""
    return [
        adds("Park Event", data, "Sent", sent={"outcome": "Parked"}),
        adds("Retry Event", data, "Sent", sent={"outcome": "Retrying"}),
        adds("Send By EventBridge", data, "Forwarded", sent={"outcome": "Retrying"}),
    ]


def waiter_outputs(data: Data, *drops: str, locked: str = "key") -> list[Output]:
    """Give what a waiter reads, counts (which drops fields) and remembers, and why it gives up."""
    dropped = {"record", "inversion", "fault", *drops}
    counted = {name: value for name, value in data.items() if name not in dropped}
    seen = data | {"polls": 7, "watched_lock": NO_LOCK}
    watched = {"lock_token": "theirs", "break_at_poll": 7 + data["limits"]["lease_polls"]}
    cause = f"The {locked} stayed locked for as long as an execution can wait."
    reason = {"Error": f"{locked.capitalize()}Locked", "Cause": cause}
    read = f"Read {locked.capitalize()} Record"
    return [
        adds(read, data, "Free", record=RESPONSES["Free"]["Return"]),
        adds(read, data, TIMED_OUT, refusal=ANY),
        Output("Count Poll", seen, counted | {"polls": 8, "watched_lock": NO_LOCK}),
        adds("Watch Lock", seen, watched_lock=watched),
        adds("Give Up Waiting", data, fault=reason),
    ]


# --- What conditional writes change --------------------------------------------------------------


def refused(state: str, *records: Data | None) -> list[Write]:
    """Let a write be refused for each of some records."""
    return [Write(state, record, record, is_refused=True) for record in records]


def break_lock(kept: Data | None = None) -> list[Write]:
    """Let only the watched lock be broken; what is `kept` stays as it is.

    Otherwise the record is in the index afterwards, whether it was or not: its event is not done.
    """
    lock, after = {"lock_token": "theirs", "execution": "theirs"}, {"in_progress_since": ANY}
    befores = [kept] if kept else [SINCE, {}]
    return [
        *(Write("Break Lock", before | lock, kept or after) for before in befores),
        *refused("Break Lock", {"lock_token": "another", "execution": "another"}, {}),
    ]


def renew_lock() -> list[Write]:
    """Let an execution give another token to its own lock only."""
    renewed = {"lock_token": "mine/2", "execution": EXECUTION}
    return [
        *(
            Write("Renew Lock", renewed | {"lock_token": token}, renewed)
            for token in ("mine", "mine/2")  # the second one's answer was lost
        ),
        *refused("Renew Lock", None, {}, renewed | {"lock_token": "theirs"}),
    ]


def release(
    state: str,
    since: Mapping[str, str] = SINCE,
    tokens: Sequence[str] = ("mine", "mine/2"),
    **after: Any,
) -> list[Write]:
    """Let an execution release only its own lock, and take its record from the index.

    `since` is what has the record there, and `after` are the other attributes after the release.
    """
    mine = {"lock_token": "mine", "execution": EXECUTION, **since}
    return [
        *(Write(state, mine | {"lock_token": token}, after) for token in tokens),
        *refused(state, mine | {"lock_token": "theirs"}),
    ]
