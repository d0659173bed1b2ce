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


def test_a_local_state_machine_lists_finds_and_describes_its_executions(aws: InProcess) -> None:
    machine = aws.machine("latest-wins")
    event = aws.upload("x.png", picture((255, 0, 0)))
    execution = machine.run(event)
    assert execution.event == event
    assert (execution.path[0], execution.path[-1]) == ("S3 Object Event?", "Processed")
    assert machine.wait_for(1) == machine.all() == machine.all("x.") == [execution.summary]
    assert machine.describe(execution.arn) == machine.find(execution.id[:20]) == execution
    assert (machine.arns("RUNNING"), machine.all("y.")) == ([], [])
    assert machine.arrived() == {"x.png": [event]}
    missing = r"Waited 0 s: 1 of 2 executions have started, and 0 of these have not ended\."
    with pytest.raises(TimeoutError, match=missing):
        machine.wait_for(2, 0)


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
