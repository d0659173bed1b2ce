"""An execution, put together from what happened in it."""

from __future__ import annotations

import json
from collections import Counter
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
from inorder.run import with_object
from tests.conftest import picture
from tests.in_process import INPUT, InProcess

START = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
STARTED = Entry("ExecutionStarted", {"input": '{"key": 1}'})
ENTERED = Entry("PassStateEntered", {"name": "Processed", "input": '{"key": 1}'})


def test_the_outcome_of_an_execution_is_that_of_its_output_or_its_error() -> None:
    def ended(kind: str, **details: str) -> tuple[str, str | None, str]:
        found = execution_of("arn", [STARTED, Entry(kind, details)])
        return found.status, found.outcome, found.cause

    superseded = ended("ExecutionSucceeded", output='{"outcome": "Superseded"}')
    assert superseded == ("SUCCEEDED", "Superseded", "")
    others: list[Any] = [{}, {"outcome": ""}, [], None, "Processed"]
    for output in others:
        assert ended("ExecutionSucceeded", output=json.dumps(output))[1] is None
    parked = ended("ExecutionFailed", error="Parked", cause="why")
    assert parked == ("FAILED", "Parked", "why")
    for kind, status in (("ExecutionAborted", "ABORTED"), ("ExecutionTimedOut", "TIMED_OUT")):
        assert ended(kind, error="", cause="") == (status, None, "")


def test_an_execution_without_an_end_runs_and_nothing_counts_that_is_written_after_the_end() -> (
    None
):
    execution = execution_of("arn", [STARTED, ENTERED])
    step = Step("Processed", "Pass", {"key": 1}, None)
    assert execution == Execution("arn", "RUNNING", {"key": 1}, steps=(step,), waited=0)
    assert (execution.path, execution.outcome) == (["Processed"], None)
    entries = [STARTED, Entry("ExecutionAborted", {}), ENTERED]
    assert execution_of("arn", entries) == Execution("arn", "ABORTED", {"key": 1}, waited=0)


def test_an_uncoordinated_creation_before_a_deletion_has_an_outcome(aws: InProcess) -> None:
    said: list[str] = []
    machine, deletion = aws.machine("uncoordinated"), aws.delete("x.png")
    changed = with_object(deletion, picture((255, 0, 0)), aws.s3, INPUT, machine.run, said.append)
    assert "The creation ended as Processed." in said
    assert machine.run(changed).outcome == "Processed"


def test_a_local_state_machine_lists_and_describes_its_executions(aws: InProcess) -> None:
    machine = aws.machine("latest-wins")
    event = aws.upload("x.png", picture((255, 0, 0)))
    execution = machine.run(event)
    assert execution.event == event
    assert (execution.path[0], execution.path[-1]) == ("S3 Object Event?", "Processed")
    assert machine.wait_for(1) == machine.all() == [execution.summary]
    assert machine.describe(execution.arn) == execution
    assert machine.arns("RUNNING") == []
    assert machine.arrived() == {"x.png": [event]}
    assert machine.all("x.") == [execution.summary]
    assert machine.all("y.") == []
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
    """A local engine with many executions, which counts what it is asked for."""

    def __init__(self, number: int) -> None:
        self.status = dict.fromkeys(range(number), "SUCCEEDED")
        self.asked: list[str] = []

    def get_paginator(self, operation: str) -> Any:
        pages = self._list if operation == "list_executions" else self._history
        return SimpleNamespace(paginate=pages)

    def describe_execution(self, executionArn: str) -> Any:  # noqa: N803
        return {"input": json.dumps(created(f"{executionArn}.png"))}

    def _list(
        self,
        stateMachineArn: str,  # noqa: ARG002, N803
        statusFilter: str = "",  # noqa: N803
        PaginationConfig: Any = None,  # noqa: N803
    ) -> Iterator[Any]:
        size = (PaginationConfig or {"PageSize": 1000})["PageSize"]
        wanted = [each for each in self.status if statusFilter in ("", self.status[each])]
        wanted.sort(reverse=True)
        for first in range(0, max(len(wanted), 1), size):
            self.asked.append(f"list {statusFilter}".strip())
            yield {"executions": [self._item(each) for each in wanted[first : first + size]]}

    def _item(self, number: int) -> dict[str, Any]:
        at = START + timedelta(seconds=number)
        return {"executionArn": f"{number}", "status": self.status[number], "startDate": at}

    def _history(self, executionArn: str, **_: Any) -> Iterator[Any]:  # noqa: N803
        self.asked.append("history")
        at = START + timedelta(seconds=int(executionArn))
        event = {"input": json.dumps(created(f"{executionArn}.png"))}
        events = [
            {"type": "ExecutionStarted", "id": 1, "executionStartedEventDetails": event},
            {"type": "ExecutionSucceeded", "id": 2, "executionSucceededEventDetails": {}},
        ]
        yield {"events": [each | {"timestamp": at} for each in events]}


def test_a_list_asks_only_for_what_is_new() -> None:
    engine = Engine(1500)
    machine = LocalStateMachine(engine, "arn")
    assert len(machine.select()) == 1500
    assert Counter(engine.asked) == {"list": 2, "history": 1500}
    engine.asked.clear()
    assert len(machine.select()) == 1500
    assert engine.asked == ["list"]
    engine.status[1500] = "RUNNING"
    engine.asked.clear()
    assert machine.select()[0].ended_as == "Running"
    assert engine.asked == ["list", "list"]  # the second page has nothing new
    engine.status[1500] = "SUCCEEDED"
    engine.asked.clear()
    assert machine.select()[0].ended_as == "Succeeded"
    assert Counter(engine.asked) == {"list": 2, "history": 1}


def test_an_end_is_noticed_wherever_the_engine_lists_the_execution() -> None:
    engine = Engine(400)
    machine, wanted = LocalStateMachine(engine, "arn"), Filter(key="5.png")
    for status in ("RUNNING", "RUNNING", "SUCCEEDED"):
        engine.status[5] = status
        assert machine.select(wanted)[0].status == status


def test_a_list_of_the_newest_reads_no_older_ones() -> None:
    engine = Engine(1500)
    machine = LocalStateMachine(engine, "arn")
    assert [each.key for each in machine.select(Filter(limit=2))] == ["1499.png", "1498.png"]
    assert Counter(engine.asked) == {"list": 1, "history": 2}
    since = START + timedelta(seconds=1490)
    engine.asked.clear()
    assert len(LocalStateMachine(engine, "arn").select(Filter(since=since))) == 10
    assert Counter(engine.asked) == {"list": 2, "history": 10}
