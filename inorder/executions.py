"""What became of executions on a local AWS, which lists Express executions as AWS does not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inorder.local_aws import LocalAws


@dataclass(frozen=True)
class Execution:
    """An execution, running or ended.

    Attributes
    ----------
    arn : str
        Its ARN.
    status : str
        ``RUNNING``, ``SUCCEEDED``, ``FAILED``, ``TIMED_OUT`` or ``ABORTED``.
    event : dict
        Its input.
    outcome : str or None
        ``Processed``, ``Duplicate``, ``Superseded``, or the error it failed with, such as
        ``Parked``. None while it runs, and if it was aborted.
    cause : str or None
        Why it failed.
    """

    arn: str
    status: str
    event: Any
    outcome: str | None
    cause: str | None


class Executions:
    """The executions of one state machine on a local AWS."""

    def __init__(self, local: LocalAws, state_machine_arn: str) -> None:
        self._states = local.client("stepfunctions")
        self._state_machine_arn = state_machine_arn
        self._events: dict[str, Any] = {}

    def start(self, event: Any) -> str:
        """Start an execution with an event as its input and give its ARN."""
        arn: str = self._states.start_execution(
            stateMachineArn=self._state_machine_arn, input=json.dumps(event)
        )["executionArn"]
        return arn

    def stop(self, arn: str) -> None:
        """Abort an execution. A function that it has invoked goes on, as on AWS."""
        self._states.stop_execution(executionArn=arn)

    def arns(self, status: str | None = None) -> list[str]:
        """List the ARNs of all executions, or of those in one status."""
        pages = self._states.get_paginator("list_executions").paginate(
            stateMachineArn=self._state_machine_arn, **({"statusFilter": status} if status else {})
        )
        return [execution["executionArn"] for page in pages for execution in page["executions"]]

    def describe(self, arn: str) -> Execution:
        """Read one execution."""
        described = self._states.describe_execution(executionArn=arn)
        status = described["status"]
        outcome = described.get("error")
        if status == "SUCCEEDED":
            outcome = json.loads(described["output"]).get("outcome", "Processed")
        event = json.loads(described["input"])
        return Execution(arn, status, event, outcome, described.get("cause"))

    def all(self) -> list[Execution]:
        """Read all executions."""
        return [self.describe(arn) for arn in self.arns()]

    def events(self, key: str, count: int, seconds: float = 60) -> list[Any]:
        """Wait for the events of one S3 key, oldest first.

        Parameters
        ----------
        key : str
            The S3 key.
        count : int
            How many distinct events, by their sequencers, to wait for.
        seconds : float
            For how long.

        Raises
        ------
        TimeoutError
            Fewer have come.
        """
        found: dict[str, Any] = {}

        def arrived() -> bool:
            for arn in set(self.arns()) - set(self._events):
                self._events[arn] = self.describe(arn).event
            for event in list(self._events.values()):
                described = s3_object(event)
                if described.get("key") == key:
                    found[described["sequencer"]] = event
            return len(found) >= count

        wait_until(arrived, seconds, f"{count} events of {key}")
        return [found[sequencer] for sequencer in sorted(found)]

    def path(self, arn: str) -> list[str]:
        """List the states that an execution entered, in order."""
        pages = self._states.get_paginator("get_execution_history").paginate(executionArn=arn)
        events = [event for page in pages for event in page["events"]]
        entered = [event.get("stateEnteredEventDetails") for event in events]
        return [details["name"] for details in entered if details]

    def wait(self, arn: str, seconds: float = 60) -> Execution:
        """Wait until an execution has ended.

        Raises
        ------
        TimeoutError
            It has not, after `seconds`.
        """
        execution = None

        def ended() -> bool:
            nonlocal execution
            execution = self.describe(arn)
            return execution.status != "RUNNING"

        wait_until(ended, seconds, f"the end of {arn}")
        assert execution is not None  # noqa: S101 - for the type checker
        return execution

    def wait_for(self, count: int, seconds: float = 60) -> list[Execution]:
        """Wait until there have been `count` executions and all have ended.

        Raises
        ------
        TimeoutError
            That is not so, after `seconds`.
        """
        wait_until(
            lambda: len(self.arns()) >= count and not self.arns("RUNNING"),
            seconds,
            f"{count} executions to end",
        )
        return self.all()


def s3_object(event: Any) -> dict[str, Any]:
    """Give ``detail.object`` of an event of S3; nothing of any other input."""
    detail = event.get("detail") if isinstance(event, dict) else None
    described = detail.get("object") if isinstance(detail, dict) else None
    return described if isinstance(described, dict) and "sequencer" in described else {}


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition.

    Raises
    ------
    TimeoutError
        It does not hold after `seconds`. The message says `what` was waited for.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {seconds:.0f} s for {what}.")
        time.sleep(0.1)
