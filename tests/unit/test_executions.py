"""An execution, put together from what happened in it."""

from __future__ import annotations

from typing import Any

import pytest

from inorder.aws.executions import (
    Entry,
    Execution,
    Step,
    execution_of,
)
from tests.conftest import picture
from tests.support.in_process import InProcess

STARTED = Entry("ExecutionStarted", {"input": '{"key": 1}'})
ENTERED = Entry("PassStateEntered", {"name": "Processed", "input": '{"key": 1}'})


@pytest.mark.parametrize(
    ("kind", "details", "expected"),
    [
        ("Succeeded", {"output": '{"outcome": "Superseded"}'}, ("SUCCEEDED", "Superseded", "")),
        *(
            ("Succeeded", {"output": output}, ("SUCCEEDED", None, ""))
            for output in ("{}", '{"outcome": ""}', "[]", "null", '"Processed"')
        ),
        ("Failed", {"error": "Parked", "cause": "why"}, ("FAILED", "Parked", "why")),
        ("Aborted", {"error": "", "cause": ""}, ("ABORTED", None, "")),
        ("TimedOut", {"error": "", "cause": ""}, ("TIMED_OUT", None, "")),
    ],
)
def test_the_outcome_of_an_execution_is_that_of_its_output_or_its_error(
    kind: str, details: dict[str, str], expected: tuple[str, str | None, str]
) -> None:
    found = execution_of("arn", [STARTED, Entry(f"Execution{kind}", details), ENTERED])
    assert (found.status, found.outcome, found.cause) == expected
    assert found.steps == ()  # what is written after the end does not count


def test_an_execution_without_an_end_runs() -> None:
    execution = execution_of("arn", [STARTED, ENTERED])
    step = Step("Processed", "Pass", {"key": 1}, None)
    assert execution == Execution("arn", "RUNNING", {"key": 1}, steps=(step,), waited=0)
    assert (execution.path, execution.outcome) == (["Processed"], None)


def test_an_event_that_is_retried_has_ended_when_its_retry_has(aws: InProcess) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("no connection")

    aws.wait_scale, aws.invoke = 0.02, broken
    machine = aws.machine("latest-wins")
    event = aws.upload("x.png", picture((255, 0, 0)))
    assert machine.run(event).outcome == "Retrying"
    with pytest.raises(TimeoutError, match="1 of 2 executions have started"):
        machine.wait_for(1, 0)
    aws.invoke = aws.handle
    machine.run(event)
    assert {each.outcome for each in machine.wait_for(1)} == {"Retrying", "Processed"}
