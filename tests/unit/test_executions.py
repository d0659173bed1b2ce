"""An execution, put together from what happened in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from inorder.aws.executions import (
    Entry,
    Execution,
    Filter,
    LocalStateMachine,
    Step,
    execution_of,
)
from inorder.events import created
from tests.conftest import picture
from tests.support.in_process import InProcess

START = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
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


class Engine:
    """A local engine with many executions."""

    def __init__(self, number: int) -> None:
        self.status = dict.fromkeys(range(number), "SUCCEEDED")

    def get_paginator(self, operation: str) -> Any:
        pages = self._list if operation == "list_executions" else self._history
        return SimpleNamespace(paginate=pages)

    def describe_execution(self, executionArn: str) -> Any:  # noqa: N803
        return {"input": json.dumps(created(f"{executionArn}.png"))}

    def _list(
        self,
        statusFilter: str = "",  # noqa: N803
        PaginationConfig: Any = None,  # noqa: N803
        **_: Any,
    ) -> Iterator[Any]:
        size = (PaginationConfig or {"PageSize": 1000})["PageSize"]
        wanted = [each for each in self.status if statusFilter in ("", self.status[each])]
        wanted.sort(reverse=True)
        for first in range(0, max(len(wanted), 1), size):
            yield {
                "executions": [
                    {"executionArn": f"{number}", "status": self.status[number]}
                    | {"startDate": START + timedelta(seconds=number)}
                    for number in wanted[first : first + size]
                ]
            }

    def _history(self, executionArn: str, **_: Any) -> Iterator[Any]:  # noqa: N803
        at = {"timestamp": START + timedelta(seconds=int(executionArn))}
        event = {"input": json.dumps(created(f"{executionArn}.png"))}
        yield {
            "events": [
                at | {"type": "ExecutionStarted", "id": 1, "executionStartedEventDetails": event},
                at | {"type": "ExecutionSucceeded", "id": 2, "executionSucceededEventDetails": {}},
            ]
        }


def test_an_end_is_noticed_wherever_the_engine_lists_the_execution() -> None:
    engine = Engine(400)
    machine = LocalStateMachine(engine, "arn")
    for status in ("RUNNING", "RUNNING", "SUCCEEDED"):
        engine.status[5] = status
        assert machine.select(Filter(key="5.png"))[0].status == status


@pytest.mark.parametrize(
    ("wanted", "count"),
    [(Filter(limit=2), 2), (Filter(since=START + timedelta(seconds=2490)), 10)],
)
def test_a_list_of_the_newest_has_no_older_ones(wanted: Filter, count: int) -> None:
    found = LocalStateMachine(Engine(2500), "arn").select(wanted)  # of three pages
    newest = range(2499, 2499 - count, -1)
    assert [each.key for each in found] == [f"{number}.png" for number in newest]
