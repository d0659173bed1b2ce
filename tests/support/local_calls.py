"""The calls that state machines make within ministack's process, where no proxy sees them.

A server of a test or of the comparison takes them over, gives errors the names of AWS, and pauses
between attempts as AWS does: ministack knows neither MaxDelaySeconds nor JitterStrategy.
"""

import random
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from inorder.ministack_parts import part, replaces


class CallFailedError(Exception):
    """A call fails with an error that the state machine catches or retries by its name."""


class Call(NamedTuple):
    """A call of a state's service."""

    state: str
    execution: Any
    service: str  # of the resource's ARN, such as `dynamodb`
    operation: str
    parameters: Any
    make: Callable[[], Any]

    def must_not_be_aborted(self) -> None:
        """End what ministack would go on with: the attempts of an execution that has ended."""
        if self.execution["status"] != "RUNNING":
            raise CallFailedError("Aborted")


def take_over(handle: Callable[[Call], Any]) -> None:
    """Let `handle` make each call, or raise CallFailedError, and give its result."""
    failed = part("services.stepfunctions._ExecutionError")
    task: ContextVar[tuple[str, Any]] = ContextVar("task")

    @replaces("services.stepfunctions._execute_task")
    def execute(original: Any, definition: Any, data: Any, execution: Any, context: Any) -> Any:
        task.set((context["State"]["Name"], execution))
        return original(definition, data, execution, context)

    @replaces("services.stepfunctions._find_matching_retrier")
    def find(original: Any, retriers: Any, error: str, counts: Any) -> Any:
        retrier, number = original(retriers, error, counts)
        if retrier is None:
            return retrier, number
        delay = retrier["IntervalSeconds"] * retrier["BackoffRate"] ** counts.get(number, 0)
        delay = min(delay, retrier.get("MaxDelaySeconds", delay))
        if retrier["JitterStrategy"] == "FULL":
            delay = random.uniform(0, delay)  # noqa: S311 - not for a secret
        return {**retrier, "IntervalSeconds": delay, "BackoffRate": 1}, number

    @replaces("services.stepfunctions._invoke_resource")
    def invoke(original: Any, resource: str, parameters: Any) -> Any:
        def make() -> Any:
            try:
                return original(resource, parameters)
            except failed as error:
                if "TooManyRequestsException" in error.cause:
                    error.error = "Lambda.TooManyRequestsException"
                raise

        *_, service, operation = resource.split(":")[:7]
        try:
            return handle(Call(*task.get(), service, operation, parameters, make))
        except CallFailedError as error:
            raise failed(str(error), "") from None
