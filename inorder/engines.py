"""State machines on whichever engine, in one shape: what goes in, the states passed, what came out.

AWS keeps no history of an Express execution but its log, and the local engines write no log but
keep a history: so there are two places to read from, and one form of what is read.
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

POLL_SECONDS = 0.03
LOG_POLL_SECONDS = 2  # a log takes a few seconds to arrive, and reading it costs money
ENDS = {
    "ExecutionSucceeded": "SUCCEEDED",
    "ExecutionFailed": "FAILED",
    "ExecutionAborted": "ABORTED",
    "ExecutionTimedOut": "TIMED_OUT",
}


class Difference(NamedTuple):
    """Where an engine is not as AWS is, and what the harness does about it."""

    engine: str
    differs: str
    therefore: str


DIFFERENCES = (
    Difference(
        "moto",
        "runs functions in Docker only",
        "the handlers are called in this process, by a hook",
    ),
    Difference("moto", "wants a name for each execution", "each has one, made up"),
    Difference("moto", "waits in real time", "tests scale its waits"),
    Difference(
        "moto",
        "catches States.Runtime with States.ALL",
        "inorder check finds paths that may be absent",
    ),
    Difference(
        "moto, ministack",
        "keep a history of Express executions and write no log",
        "it is read from there; on AWS from the log",
    ),
    Difference(
        "moto, ministack",
        "ARNs are ...:execution:..., and names may not repeat",
        "no test reads an ARN",
    ),
    Difference(
        "ministack",
        "every exception of a function is a Runtime.HandlerError",
        "the ASL catches States.TaskFailed and branches on what the function returns",
    ),
    Difference(
        "ministack",
        "a throttled invocation is Lambda.Unknown",
        "the retry for throttling is tested on moto",
    ),
    Difference(
        "ministack",
        "MaxDelaySeconds, JitterStrategy and TimeoutSeconds of a machine have no effect",
        "no scenario depends on them",
    ),
    Difference(
        "ministack",
        "StringLessThanPath and its like are never true",
        "sequencers are ordered in DynamoDB's conditions; inorder check refuses the operators",
    ),
    Difference(
        "ministack",
        "EventBridge events of S3 carry no version-id",
        "versioned events are made by hand",
    ),
    Difference(
        "ministack, moto",
        "PutEvents takes a detail that is no object",
        "no scenario forwards one",
    ),
    Difference(
        "moto",
        "reads no file of mocks",
        "the tests hand each case's responses to it",
    ),
    Difference(
        "ministack",
        "repeats a mocked error when it retries, and reads the next response at the next entry",
        "mocked cases with retries that help are run on moto",
    ),
    Difference(
        "ministack",
        "calls the service when no mocked response is left",
        "the tests count the responses",
    ),
    Difference(
        "sfn-local",
        "cannot be pointed at a local EventBridge",
        "Forward Event is mocked even where all the rest is real",
    ),
    Difference(
        "sfn-local",
        "scales Wait states alone, not the delays between attempts",
        "its tests have more time",
    ),
    Difference(
        "sfn-local",
        "executions of STANDARD machines alone are sure to have a history",
        "the same ASL is created as STANDARD there",
    ),
    Difference(
        "sfn-local",
        "knows neither JSONata nor variables nor aws-sdk",
        "no ASL file has any of them",
    ),
)


@dataclass(frozen=True)
class Step:
    """A state that an execution passed.

    Attributes
    ----------
    state : str
        Its name.
    type : str
        Such as ``Task``.
    input, output : object
        What it got and gave. A state that fails, as the last one may, gives None.
    """

    state: str
    type: str
    input: Any
    output: Any


@dataclass(frozen=True)
class Ended:
    """An execution that has ended.

    Attributes
    ----------
    status : str
        ``SUCCEEDED``, ``FAILED``, ``ABORTED`` or ``TIMED_OUT``.
    output : object
        What it gave, if it succeeded.
    error : str or None
        What it failed with, if it did.
    cause : str
        Why it failed; empty if it did not.
    steps : tuple of Step
        The states it passed, in order.
    """

    status: str
    output: Any
    error: str | None
    cause: str
    steps: tuple[Step, ...]

    @property
    def outcome(self) -> str | None:
        """``Processed`` and the like, or the error it failed with."""
        named = self.output.get("outcome") if isinstance(self.output, dict) else None
        return named or self.error

    @property
    def path(self) -> list[str]:
        """The names of the states it passed."""
        return [step.state for step in self.steps]


class Entry(NamedTuple):
    """One thing that happened in an execution."""

    type: str
    details: dict[str, Any]


def ended(entries: Iterable[Entry]) -> Ended | None:
    """Put an execution together from what happened in it.

    Parameters
    ----------
    entries : iterable of Entry
        In the order in which they happened.

    Returns
    -------
    Ended or None
        None if it still runs, or its end has not been logged yet.
    """
    steps: list[Step] = []
    for kind, details in entries:
        if kind.endswith("StateEntered"):
            state_type = kind.removesuffix("StateEntered")
            steps.append(Step(details["name"], state_type, json.loads(details["input"]), None))
        elif kind.endswith("StateExited"):
            steps[-1] = replace(steps[-1], output=json.loads(details["output"]))
        elif kind in ENDS:
            output = json.loads(details["output"]) if "output" in details else None
            error, cause = details.get("error"), details.get("cause", "")
            return Ended(ENDS[kind], output, error, cause, tuple(steps))
    return None


def history_entries(states: Any, execution: str) -> list[Entry]:
    """Read what happened from the history that local engines keep.

    Parameters
    ----------
    states : SFNClient
        Of the engine.
    execution : str
        Its ARN.
    """
    pages = states.get_paginator("get_execution_history").paginate(executionArn=execution)
    return [
        Entry(event["type"], next((v for k, v in event.items() if k.endswith("Details")), {}))
        for page in pages
        for event in page["events"]
    ]


def log_entries(logs: Any, log_group: str, execution: str) -> list[Entry]:
    """Read what happened from the log of a state machine, at level ALL with execution data.

    Parameters
    ----------
    logs : CloudWatchLogsClient
        Of AWS.
    log_group : str
        Its name.
    execution : str
        Its ARN.
    """
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=log_group, filterPattern=f'{{ $.execution_arn = "{execution}" }}'
    )
    messages = [json.loads(event["message"]) for page in pages for event in page["events"]]
    # Entries may be stored in another order, and twice. Their IDs count from 1.
    of_execution = [each for each in messages if each["execution_arn"] == execution]
    by_id = {int(message["id"]): message for message in of_execution}
    return [Entry(by_id[at]["type"], by_id[at].get("details", {})) for at in sorted(by_id)]


class StateMachine(ABC):
    """A state machine on an engine."""

    def __init__(self, states: Any, arn: str) -> None:
        self._states, self.arn = states, arn

    def start(self, event: Any) -> str:
        """Start an execution with an event as its input and give its ARN."""
        execution: str = self._states.start_execution(
            stateMachineArn=self.arn, name=f"inorder-{uuid4()}", input=json.dumps(event)
        )["executionArn"]
        return execution

    def wait(self, execution: str, seconds: float) -> Ended:
        """Wait until an execution has ended.

        Raises
        ------
        TimeoutError
            It has not, after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not (found := self._ended(execution)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Waited {seconds:.0f} s for the end of {execution}.")
            time.sleep(self._pause)
        return found

    def run(self, event: Any, seconds: float) -> Ended:
        """Start an execution and wait until it has ended."""
        return self.wait(self.start(event), seconds)

    def delete(self) -> None:
        """Delete the state machine."""
        self._states.delete_state_machine(stateMachineArn=self.arn)

    _pause: float

    @abstractmethod
    def _ended(self, execution: str) -> Ended | None: ...


class LocalStateMachine(StateMachine):
    """A state machine on moto, ministack or Step Functions Local."""

    _pause = POLL_SECONDS

    def _ended(self, execution: str) -> Ended | None:
        running = self._states.describe_execution(executionArn=execution)["status"] == "RUNNING"
        return None if running else ended(history_entries(self._states, execution))


class AwsStateMachine(StateMachine):
    """A state machine on AWS.

    Parameters
    ----------
    states : SFNClient
        Of AWS.
    arn : str
        Of the state machine.
    logs : CloudWatchLogsClient
        Of AWS.
    log_group : str
        Its log's.
    """

    _pause = LOG_POLL_SECONDS

    def __init__(self, states: Any, arn: str, logs: Any, log_group: str) -> None:
        super().__init__(states, arn)
        self._logs, self._log_group = logs, log_group

    def _ended(self, execution: str) -> Ended | None:
        return ended(log_entries(self._logs, self._log_group, execution))


def substitute(file: Path, substitutions: Mapping[str, str]) -> str:
    """Read an ASL file, with its ``${Names}`` replaced as SAM does it.

    Raises
    ------
    KeyError
        The file asks for a name that is not given.
    """
    text = file.read_text(encoding="utf-8")
    return re.sub(r"\$\{(\w+)\}", lambda found: substitutions[found[1]], text)


def create_local(
    states: Any,
    file: Path,
    substitutions: Mapping[str, str],
    machine_type: str = "EXPRESS",
    name: str | None = None,
) -> LocalStateMachine:
    """Create a state machine of an ASL file on a local engine.

    Parameters
    ----------
    states : SFNClient
        Of the engine.
    file : Path
        The file as it is shipped.
    substitutions : Mapping
        What stands for its ``${Names}``.
    machine_type : str
        ``STANDARD`` on Step Functions Local, see `DIFFERENCES`.
    name : str, optional
        Made up if none is given. Step Functions Local finds its mocks by it.
    """
    created = states.create_state_machine(
        name=name or f"inorder-{uuid4()}",
        definition=substitute(file, substitutions),
        roleArn="arn:aws:iam::123456789012:role/local",
        type=machine_type,
    )
    return LocalStateMachine(states, created["stateMachineArn"])


def create_on_aws(
    states: Any, logs: Any, stack_machine: str, file: Path, substitutions: Mapping[str, str]
) -> AwsStateMachine:
    """Create a state machine of an ASL file on AWS, with the role and the log of a deployed one.

    Parameters
    ----------
    states : SFNClient
        Of AWS.
    logs : CloudWatchLogsClient
        Of AWS.
    stack_machine : str
        ARN of the state machine of a stack.
    file : Path
        The file as it is shipped.
    substitutions : Mapping
        What stands for its ``${Names}``.
    """
    described = states.describe_state_machine(stateMachineArn=stack_machine)
    created = states.create_state_machine(
        name=f"inorder-{uuid4()}",
        definition=substitute(file, substitutions),
        roleArn=described["roleArn"],
        type="EXPRESS",
        loggingConfiguration=described["loggingConfiguration"],
    )
    [destination] = described["loggingConfiguration"]["destinations"]
    log_group = destination["cloudWatchLogsLogGroup"]["logGroupArn"].split(":")[6]
    return AwsStateMachine(states, created["stateMachineArn"], logs, log_group)
