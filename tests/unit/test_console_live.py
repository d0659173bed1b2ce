"""The console's list of executions: read once, and then only what is new."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inorder.aws.executions import StateMachine
from inorder.console import live
from inorder.console.live import LiveList
from inorder.model.execution import ANY, Entry, Execution, Filter

START = datetime(2026, 11, 22, 10, tzinfo=UTC)


def execution(number: int, status: str = "RUNNING") -> Execution:
    detail = {"bucket": {"name": "b"}, "object": {"key": f"k/{number}", "sequencer": "0A"}}
    output = None if status == "RUNNING" else {"outcome": "Processed"}
    at = START + timedelta(seconds=number)
    return Execution(f"arn:of:{number}", status, {"detail": detail}, output, started=at)


class Machine(StateMachine):
    """Lists what it is told to list."""

    poll_seconds = 0

    def __init__(self, *executions: Execution) -> None:
        super().__init__(None, "arn")
        self.listed = list(executions)
        self.error: Exception | None = None

    def select(self, wanted: Filter = ANY) -> list[Execution]:
        if self.error:
            raise self.error
        return self.listed[: wanted.limit]

    def entries(self, arn: str) -> list[Entry]:
        raise NotImplementedError(arn)

    def find(self, beginning: str, since: datetime | None = None) -> Execution:
        raise NotImplementedError(beginning, since)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(live, "PATIENCE_SECONDS", 30)


def answer(of: LiveList, revision: int | None = None) -> Any:
    return json.loads(of.answer(revision))


def ids(whole: Any) -> list[str]:
    return [execution["id"] for execution in whole["executions"]]


def test_executions_stay_newest_first_when_the_engine_forgets_them() -> None:
    machine = Machine(execution(1), execution(3, "SUCCEEDED"), execution(2, "SUCCEEDED"))
    of = LiveList(machine)
    assert ids(answer(of)) == ["3", "2", "1"]
    machine.listed = [execution(4)]
    assert ids(answer(of)) == ["4", "3", "2", "1"]


def test_later_answers_have_only_what_changed() -> None:
    machine = Machine(execution(1), execution(2))
    of = LiveList(machine)
    first = answer(of)
    assert (first["is_whole"], ids(first)) == (True, ["2", "1"])
    machine.listed = [execution(1, "SUCCEEDED"), execution(2), execution(3)]
    changed = answer(of, revision=first["revision"])
    assert (changed["is_whole"], ids(changed)) == (False, ["3", "1"])
    assert answer(of, revision=changed["revision"])["executions"] == []
    assert answer(of, revision=changed["revision"] + 1)["is_whole"]  # of another server


def test_an_answer_is_the_error_until_reading_succeeds() -> None:
    machine = Machine(execution(1))
    machine.error = OSError("Throttling")
    of = LiveList(machine)
    with pytest.raises(OSError, match="Throttling"):
        answer(of)
    machine.error = None
    assert ids(answer(of)) == ["1"]
