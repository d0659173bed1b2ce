"""What the cases of a policy consist of, which `tests/policies/<policy>/cases.py` has.

`test_states` runs them through TestState.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tests.support.events import SEQUENCER, shipped

Data = dict[str, Any]
EXECUTION = "arn:test"
FAULT = {"Error": "Some.Fault", "Cause": "because"}
EXPIRES_AT = "1795000000"
NEVER = 253402300799  # the last second of the year 9999
CREATED = shipped("object-created")
DELETED = shipped("object-deleted")
VERSIONED = shipped("object-created-in-versioned-bucket")
# What S3 sends to a queue to try it.
NO_S3_EVENT = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "pictures"}


@dataclass(frozen=True)
class Response:
    """What a service gives to a Task, at each of some attempts: a result, or an error."""

    result: Any = None
    error: str = ""
    attempts: int = 1

    def times(self, attempts: int) -> "Response":
        """Give the same at each of so many attempts, after which the Task gives up."""
        return replace(self, attempts=attempts)


class Row(NamedTuple):
    """A state, its input, and the state that follows; a Task's response; an event of its own."""

    state: str
    input: Any
    following: str | None
    response: Response | None = None
    event: Any = None  # of the execution, if not the table's


class Effect(NamedTuple):
    """A state, its input and output, a Task's response, and an event of its own."""

    state: str
    input: Any
    output: Any
    response: Response | None = None
    event: Any = None


class Write(NamedTuple):
    """A Task that writes, and the record before and after, without its ID; None is no record."""

    state: str
    before: Data | None
    after: Data | None
    is_refused: bool = False


# Which states may follow a state, each after which responses to its Task.
Targets = Mapping[str, Sequence[Response]]
Transitions = Mapping[str, Targets]
END: Targets = {}


@dataclass(frozen=True)
class Cases:
    """The cases of a policy."""

    data: Data  # input that suits every state but the Choices
    choices: list[Row]
    transitions: Transitions  # of all other states
    outputs: list[Effect]  # of each Pass, and of each Task whose result is read later
    writes: list[Write]  # of each state with a condition
    stories: list[str]  # `stories` explains them
    seconds: float  # of the longest execution
    # The small changes of the file that no test can notice, each with the reason: `make mutants`.
    survivors: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> Iterator[Row]:
        yield from self.choices
        for state, targets in self.transitions.items():
            if not targets:
                yield Row(state, self.data, None)
            for following, responses in targets.items():
                if not responses:
                    yield Row(state, self.data, following)
                for response in responses:
                    yield Row(state, self.data, following, response)


def item(**attributes: str) -> Data:
    """Build what GetItem returns; an attribute that is empty is left out."""
    return {"Item": {name: {"S": value} for name, value in attributes.items() if value}}


def answer(payload: Any) -> Data:
    """Build what an invocation returns."""
    return {"Payload": payload}


# What the function answers.
PROCESSED = {"outcome": "Processed", "output_key": "out-beach.png", "expires_at": EXPIRES_AT}
SUPERSEDED = PROCESSED | {"outcome": "Superseded"}
INVALID = {"error": "InvalidImage", "cause": "cannot identify image file"}
REJECTED = {"outcome": "Rejected", "expires_at": EXPIRES_AT, **INVALID}
UNKNOWN = {"outcome": "Sure"}

# What services return.
WRITTEN = Response({})
NO_RECORD = Response({})
FOUND = Response(item(status="FAILED", sequencer=SEQUENCER))
STATE_MACHINE = "test"  # the name of the one in which a state is tested
RELEASED = Response(
    {"Attributes": item(event="{}", sequencer="0C", state_machine=STATE_MACHINE)["Item"]}
)
STARTED = Response({"ExecutionArn": "arn:newest", "StartDate": "then"})
SENT = Response({"MessageId": "5f0c3a52-8a4e-4c57-9d0b-2b9a6f1e7c11"})
FORWARDED = Response({"FailedEntryCount": 0, "Entries": [{"EventId": "5f0c3a52"}]})
ANSWERED_PROCESSED, ANSWERED_SUPERSEDED, ANSWERED_REJECTED, ANSWERED_UNKNOWN = (
    Response(answer(payload)) for payload in (PROCESSED, SUPERSEDED, REJECTED, UNKNOWN)
)

# The errors of services.
CONDITION_FAILED = Response(error="DynamoDB.ConditionalCheckFailedException")
BUSY = Response(error="DynamoDB.ThrottlingException")
UNANSWERED = Response(error="DynamoDB.SdkClientException")
FUNCTION_FAILED = Response(error="Lambda.ServiceException")
THROTTLED = Response(error="Lambda.TooManyRequestsException")
FORWARD_FAILED = Response(error="EventBridge.FailedEntry")
QUEUE_LOST = Response(error="SQS.SdkClientException")
START_REFUSED = Response(error="StepFunctions.ExecutionLimitExceededException")
TOO_LARGE = Response(error="States.DataLimitExceeded")
FAR_TOO_LARGE = Response(error="Function.ResponseSizeTooLarge")
NOT_JSON = Response(error="Runtime.MarshalError")
TIMED_OUT = Response(error="States.Timeout")  # which the engine itself makes
