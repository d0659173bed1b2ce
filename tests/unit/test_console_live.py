"""The console's list of executions: read once, and then only what is new."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from inorder.console import live
from inorder.console.live import LiveList
from inorder.model.execution import Execution
from tests.support.events import created

START = datetime(2026, 11, 22, 10, tzinfo=UTC)


def execution(number: int, status: str = "RUNNING") -> Execution:
    output = None if status == "RUNNING" else {"outcome": "Processed"}
    at = START + timedelta(seconds=number)
    return Execution(f"arn:of:{number}", status, created(f"k/{number}"), output, started=at)


@pytest.fixture(autouse=True)
def each_answer_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(live, "PATIENCE_SECONDS", 30)


def live_list(*reads: list[Execution] | Exception) -> LiveList:
    """Build a list whose state machine gives or raises one of these each time it is read."""
    results = iter(reads)
    select, changed = Mock(side_effect=results), Mock(side_effect=results)
    return LiveList(Mock(poll_seconds=0, select=select, changed=changed))


def answer(executions: LiveList, revision: int | None = None) -> Any:
    return json.loads(executions.answer(revision))


def ids(whole: Any) -> list[str]:
    return [execution["id"] for execution in whole["executions"]]


def test_executions_stay_newest_first_when_the_engine_forgets_them() -> None:
    listed = [execution(1), execution(3, "SUCCEEDED"), execution(2, "SUCCEEDED")]
    executions = live_list(listed, [execution(4)])
    assert ids(answer(executions)) == ["3", "2", "1"]
    assert ids(answer(executions)) == ["4", "3", "2", "1"]


def test_only_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST", 2)
    monkeypatch.setattr(live, "FIRST", 2)
    executions = live_list([execution(1), execution(2)], [execution(3)])
    assert ids(answer(executions)) == ["2", "1"]
    whole = answer(executions)
    assert (ids(whole), whole["is_loading"], whole["most"]) == (["3", "2"], False, 2)


def test_later_answers_have_only_what_changed() -> None:
    later = [execution(1, "SUCCEEDED"), execution(2), execution(3)]
    executions = live_list([execution(1), execution(2)], later, later, later)
    first = answer(executions)
    assert (first["is_whole"], ids(first)) == (True, ["2", "1"])
    changed = answer(executions, revision=first["revision"])
    assert (changed["is_whole"], ids(changed)) == (False, ["3", "1"])
    assert answer(executions, revision=changed["revision"])["executions"] == []
    assert answer(executions, revision=changed["revision"] + 1)["is_whole"]  # of another server


def test_an_answer_is_the_error_until_reading_succeeds() -> None:
    executions = live_list(OSError("Throttling"), [execution(1)])
    with pytest.raises(OSError, match="Throttling"):
        answer(executions)
    assert ids(answer(executions)) == ["1"]
