"""`inorder run`, and a new policy from `inorder policy new` to its first output."""

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
from inorder.asl import check_file
from inorder.aws import stack
from inorder.aws.executions import Execution, LocalStateMachine, Step
from inorder.aws.stack import deploy
from inorder.commands import local as local_commands
from inorder.commands.main import main
from inorder.events import shipped
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import CYAN, RED, Workflow

EVENTS = PROJECT / "events"
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".aws-sam", "out", "__pycache__", ".*_cache")
TASKS = [
    *("Record Event", "Claim Key", "Read Event Record", "Invert Image"),
    *("Mark Event Done", "Release Lock"),
]
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
    assert path[0] == "S3 Object Event?"
    assert [state for state in path if state in TASKS] == TASKS
    assert path[-1] == "Processed"
    given = shipped("delete-marker-created")["detail"]
    assert f'"key": {json.dumps(given["object"]["key"], ensure_ascii=False)}' in result.stdout
    assert "The creation ended as Processed." in result.stderr
    assert f"detail.bucket.name: {given['bucket']['name']} -> " in result.stderr
    version = given["object"]["version-id"]
    assert f"detail.object.version-id: {version} -> " in result.stderr
    assert not re.search("detail.object.(etag|sequencer)", result.stderr)
    assert result.stderr.endswith("Ended in Processed.\n")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("step", "code", "last"),
    [
        (
            Step("Parked", "Fail", "a\x9b31mb[red]c", None),
            0,
            "Ended in Parked: InvalidImage: \\x9b",
        ),
        (Step("Work", "Task", "", None), 1, "Error: No state of the policy has foreseen this."),
    ],
)
def test_run_fails_if_the_execution_ends_in_no_state_of_its_policy_and_prints_harmlessly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step, code: int, last: str
) -> None:
    failed = Execution("arn", "FAILED", {}, error="InvalidImage", cause="\x9b", steps=(step,))
    monkeypatch.setattr(local_commands, "run_event", lambda *_: failed)
    result = run(tmp_path, monkeypatch, EVENTS / "object-created.json")
    as_json = run(tmp_path, monkeypatch, EVENTS / "object-created.json", "--json")
    [line] = as_json.stdout.splitlines()
    assert json.loads(line)["state"] == step.state
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (code, last)
    assert "\x9b" not in result.output
    assert f"{step.state} ({step.type})" in result.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the project, as somebody has it who makes a policy."""
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=NOT_COPIED))


def in_project(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, check=False
    )


def test_a_new_policy_passes_its_tests_and_processes_an_upload_when_it_is_deployed(
    project: Path, local: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = in_project(project, "inorder.commands.main", "policy", "new", "my-policy")
    assert made.returncode == 0, made.stderr
    assert check_file(project / "statemachine" / "my_policy.asl.json") == []
    tested = in_project(project, "pytest", "-q", *OF_EVERY_POLICY, "tests/policies/my_policy")
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout

    monkeypatch.setattr(stack, "PROJECT", project)
    workflow = Workflow(local, deploy(local, "own-policy", {"Policy": "my-policy"}))
    assert "MyPolicyStateMachine" in workflow.stack.state_machine_arn
    workflow.upload("folder/x.png", picture(RED))
    [execution] = workflow.of_key("folder/x.png", 1)
    assert execution.outcome == "Processed"
    assert workflow.colour("folder/x.png") == CYAN
