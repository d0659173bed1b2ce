"""`inorder run`, and a new policy of `inorder policy new`, which passes the tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from inorder import PROJECT, commands
from inorder.aws.executions import Execution, LocalStateMachine, Step
from inorder.commands import local as local_commands
from inorder.commands.main import main
from inorder.events import shipped

EVENTS = PROJECT / "events"
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".aws-sam", "out", "__pycache__", ".*_cache")
# Of the tests that read every policy of the project, the quick ones.
OF_EVERY_POLICY = [
    "tests/unit/test_documents.py",
    "tests/template/test_roles.py",
    "tests/policies/test_definition.py",
]


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Result:
    monkeypatch.setattr(commands, "OUT", tmp_path / "out")
    forkserver.ensure_running()  # SAM's, which stays for the next test
    before = psutil.Process().children()
    result = CliRunner(mix_stderr=False).invoke(main, ["run", *map(str, arguments)])
    assert psutil.Process().children() == before
    return result


def test_run_creates_an_object_shows_the_path_of_its_deletion_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = LocalStateMachine.run

    def run_later(machine: LocalStateMachine, event: Any, seconds: float) -> Execution:
        before = machine.arns()
        time.sleep(1)
        assert machine.arns() == before  # neither the upload nor the deletion starts any
        return go_on(machine, event, seconds)

    monkeypatch.setattr(LocalStateMachine, "run", run_later)
    arguments = (EVENTS / "delete-marker-created.json", "--policy", "every-version")
    result = run(tmp_path, monkeypatch, *arguments)
    assert result.exit_code == 0, result.output
    shown = [line for line in result.stdout.splitlines() if not line.startswith("     ")]
    path = [line.split("  ")[-1].rpartition(" (")[0] for line in shown]
    assert (path[0], path[-1]) == ("S3 Object Event?", "Processed")
    assert path.index("Claim Key") < path.index("Invert Image") < path.index("Release Lock")
    given = shipped("delete-marker-created")["detail"]
    assert f'"key": {json.dumps(given["object"]["key"], ensure_ascii=False)}' in result.stdout
    assert "The creation ended as Processed." in result.stderr
    changed = re.findall(r"detail\.([\w.-]+): ", result.stderr)
    assert {"bucket.name", "object.version-id"} <= set(changed)
    assert not {"object.etag", "object.sequencer"} & set(changed)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("step", "code", "last"),
    [
        (Step("Parked", "Fail", "a\x9b31mb", None), 0, "Ended in Parked: InvalidImage: \\x9b"),
        (Step("Work", "Task", "", None), 1, "Error: No state of the policy has foreseen this."),
    ],
)
def test_run_fails_if_the_execution_ends_in_no_state_of_its_policy_and_prints_harmlessly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step, code: int, last: str
) -> None:
    failed = Execution("arn", "FAILED", {}, error="InvalidImage", cause="\x9b", steps=(step,))
    monkeypatch.setattr(local_commands, "run_event", lambda *_: failed)
    result = run(tmp_path, monkeypatch, EVENTS / "object-created.json")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (code, last)
    assert "\x9b" not in result.output
    assert f"{step.state} ({step.type})" in result.stdout
    as_json = run(tmp_path, monkeypatch, EVENTS / "object-created.json", "--json")
    assert json.loads(as_json.stdout)["state"] == step.state


def test_a_new_policy_passes_its_tests(tmp_path: Path) -> None:
    """Test_new_policy shows that it deploys what its source does."""
    project = Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=NOT_COPIED))
    for command in (
        ["inorder.commands.main", "policy", "new", "my-policy"],
        ["pytest", "-q", *OF_EVERY_POLICY, "tests/policies/my_policy"],
    ):
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", *command],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
