"""What the table of a policy has, ``tests/policies/<policy>/cases.py``: rows, outputs, writes.

`test_states` runs it through TestState.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.support.events import SEQUENCER, shipped

Data = dict[str, Any]
# What follows each state that is no Choice, or "" at an end: "Sent: Parked; Busy*2 TimedOut: Lost"
# by the responses to its Task. "Busy*2" is the answer to each of two attempts. The engine itself
# makes "TimedOut".
Flow = Mapping[str, str]
CREATED = shipped("object-created")
DELETED = shipped("object-deleted")
VERSIONED = shipped("object-created-in-versioned-bucket")
# What S3 sends to a queue to try it.
NO_S3_EVENT = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "pictures"}


class Row(NamedTuple):
    """A state, its input, and the state that follows; a Task's response; an event of its own."""

    state: str
    input: Any
    following: str | None
    response: str = ""
    event: Any = None  # of the execution, if not the table's


class Effect(NamedTuple):
    """A state, its input and output, a Task's response, and an event of its own."""

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
    """The table of a policy."""

    data: Data  # input that suits every state but the Choices
    choices: list[Row]
    flow: Flow  # of all other states
    outputs: list[Effect]  # of each Pass, and of each Task whose result is read later
    writes: list[Write]  # of each state with a condition
    stories: list[str]  # `stories` explains them
    seconds: float  # of the longest execution
    # The small changes of the file that no test can notice, each with the reason: `make mutants`.
    survivors: Mapping[str, str] = field(default_factory=dict)

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


EXECUTION = "arn:test"
FAULT = {"Error": "Some.Fault", "Cause": "because"}
EXPIRES_AT = "1795000000"
NEVER = 253402300799  # the last second of the year 9999


def item(**attributes: str) -> Data:
    """Build what GetItem returns; an attribute that is empty is left out."""
    return {"Item": {name: {"S": value} for name, value in attributes.items() if value}}


def answer(payload: Any) -> Data:
    return {"Payload": payload}


PROCESSED = {"outcome": "Processed", "output_key": "out-beach.png", "expires_at": EXPIRES_AT}
SUPERSEDED = PROCESSED | {"outcome": "Superseded"}
INVALID = {"error": "InvalidImage", "cause": "cannot identify image file"}
REJECTED = {"outcome": "Rejected", "expires_at": EXPIRES_AT, **INVALID}
CONDITION_FAILED, TIMED_OUT = "ConditionFailed", "TimedOut"
ERRORS = {
    CONDITION_FAILED: "DynamoDB.ConditionalCheckFailedException",
    TIMED_OUT: "States.Timeout",
    "Busy": "DynamoDB.ThrottlingException",
    "Unanswered": "DynamoDB.SdkClientException",
    "FunctionFailed": "Lambda.ServiceException",
    "Throttled": "Lambda.TooManyRequestsException",
    "ForwardFailed": "EventBridge.FailedEntry",
    "QueueLost": "SQS.SdkClientException",
    "StartRefused": "StepFunctions.ExecutionLimitExceededException",
    "TooLarge": "States.DataLimitExceeded",
    "FarTooLarge": "Function.ResponseSizeTooLarge",
    "NotJson": "Runtime.MarshalError",
}
RESPONSES: dict[str, Data] = {
    **{name: {"Throw": {"Error": error, "Cause": name}} for name, error in ERRORS.items()},
    "Written": {"Return": {}},
    "Released": {"Return": {"Attributes": item(event="{}", sequencer="0C")["Item"]}},
    "Started": {"Return": {"ExecutionArn": "arn:newest", "StartDate": "then"}},
    "Sent": {"Return": {"MessageId": "5f0c3a52-8a4e-4c57-9d0b-2b9a6f1e7c11"}},
    "Forwarded": {"Return": {"FailedEntryCount": 0, "Entries": [{"EventId": "5f0c3a52"}]}},
    "Processed": {"Return": answer(PROCESSED)},
    "Superseded": {"Return": answer(SUPERSEDED)},
    "Rejected": {"Return": answer(REJECTED)},
    "Unknown": {"Return": answer({"outcome": "Sure"})},
    "Found": {"Return": item(status="FAILED", sequencer=SEQUENCER)},
    "NoRecord": {"Return": {}},
}
