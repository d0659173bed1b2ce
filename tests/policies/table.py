"""What the table of a policy has, ``tests/policies/<policy>/cases.py``: rows, events, responses.

`test_states` runs it through TestState. `paths` makes ways through the state machine of it, which
`test_paths` takes on ministack, and `mock_config` writes for Step Functions Local.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from inorder.events import SEQUENCER, shipped

Data = dict[str, Any]
# What follows each state that is no Choice, or "" at an end: "Sent: Parked; Busy*2 TimedOut: Lost"
# by the responses to its Task. "Busy*2" is the answer to each of two attempts. The engine itself
# makes "TimedOut".
Flow = Mapping[str, str]


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


class Way(NamedTuple):
    """What follows a state after a response to each of some attempts."""

    state: str
    response: str
    attempts: int
    following: str | None


@dataclass(frozen=True)
class Cases:
    """The table of a policy.

    `data` is input that suits every state but the Choices, and `events` are inputs of executions.
    There is what follows each Choice and each other state, what each Pass gives and each Task whose
    result is read later, and what conditional writes change.
    """

    data: Data
    choices: list[Row]
    flow: Flow
    outputs: list[Output]
    writes: list[Write]
    events: list[Any]

    @property
    def event(self) -> Any:
        return self.events[0]

    @property
    def ways(self) -> Iterator[Way]:
        for state, follows in self.flow.items():
            for part in follows.split("; "):
                responses, _, following = part.rpartition(": ")
                for told in responses.split() or [""]:
                    response, _, attempts = told.partition("*")
                    yield Way(state, response, int(attempts or 1), following or None)

    @property
    def rows(self) -> list[Row]:
        others = (Row(way.state, self.data, way.following, way.response) for way in self.ways)
        return [*self.choices, *others]


# --- The events, and what services answer: mocks, and records -------------------------------------

CREATED = shipped("object-created")
DELETED = shipped("object-deleted")
VERSIONED = shipped("object-created-in-versioned-bucket")
NO_S3_EVENT = shipped("s3-notification-test-event")
EXECUTION = "arn:test"
FAULT = {"Error": "Some.Fault", "Cause": "because"}
EXPIRES_AT = "1795000000"
NEVER = 253402300799  # the last second of the year 9999


def item(**attributes: str) -> Data:
    """Build what GetItem returns; an attribute that is empty is left out."""
    return {"Item": {name: {"S": value} for name, value in attributes.items() if value}}


def answer(payload: Any) -> Data:
    return {"Payload": payload}


def _record(**attributes: str) -> Data:
    return {"Return": item(**attributes)}


def _attributes(**attributes: str) -> Data:
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
