"""The demonstration of long work, as a user types it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from inorder import commands
from inorder.commands.main import main
from inorder.demo.run import _outcomes_of_long_work
from inorder.model.execution import Execution
from tests.support.events import created


def test_the_demonstration_shows_that_events_wait_without_polls_and_no_output_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)
    done = CliRunner(mix_stderr=False).invoke(main, ["demo", "--keys", "2", "--policy=long-work"])
    assert done.exit_code == 0, done.output
    rows = re.findall(r"│ (.*?) +│ +(\d+) │ +(\d+) │", done.stdout)
    on = {name: int(number) for name, _, number in rows}
    assert on["Events delivered"] == 8
    ends = ("Processed", "Superseded", "Duplicates dropped")
    assert sum(on[each] for each in ends) == 8
    assert on["Ended as waiting"] >= 2
    page = (tmp_path / "demo" / "console.html").read_text(encoding="utf-8")
    assert '"policy":"long-work"' in page.replace(" ", "")


def test_a_delivery_of_long_work_that_waited_counts_as_what_its_event_became() -> None:
    def ended(name: str, sequencer: str, outcome: str, error: str | None = None) -> Execution:
        event = created("k", sequencer=sequencer) | (
            {"retry": {"attempt": 1}} if "retried" in name else {}
        )
        status = "FAILED" if error else "SUCCEEDED"
        return Execution(f"arn:x:machine:{name}", status, event, {"outcome": outcome}, error)

    died = Execution(
        "arn:x:machine:d", "FAILED", created("k", sequencer="01"), error="States.TaskFailed"
    )
    waited = [ended(name, "02", "Waiting") for name in "ab"]
    others = [ended("c", "01", "Waiting"), ended("after-retried", "01", "Superseded"), died]
    started = ended("after-x", "02", "Processed")
    counted = {"Processed": 1, "Duplicate": 1, "Superseded": 2, "Retrying": 1}
    assert _outcomes_of_long_work([*waited, *others, started]) == counted
    # Nobody has started the newest event.
    assert _outcomes_of_long_work([*waited, died]) == {"Waiting": 2, "Retrying": 1}
