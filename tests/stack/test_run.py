"""`inorder run`, and a new policy from `inorder policy new` to its first output."""

from __future__ import annotations

import json
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


def steps(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_run_shows_the_path_of_an_event_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = LocalStateMachine.run

    def run_later(machine: LocalStateMachine, event: Any, seconds: float) -> Execution:
        time.sleep(1)
        assert machine.arns() == []  # the upload starts none
        return go_on(machine, event, seconds)

    monkeypatch.setattr(LocalStateMachine, "run", run_later)
    result = run(tmp_path, monkeypatch, EVENTS / "object-created.json")
    assert result.exit_code == 0, result.output
    shown = [line for line in result.stdout.splitlines() if not line.startswith("     ")]
    assert [line.split("  ")[-1].rpartition(" (")[0] for line in shown] == [
        "S3 Object Event?",
        "Prepare Event",
        "Claim Key",
        "Lock Taken?",
        "Invert Image",
        "Outcome?",
        "Release Lock",
        "Final Outcome?",
        "Processed",
    ]
    assert '"key": "holiday/a b+c%2B\'é.png"' in result.stdout
    assert '"output_key": "holiday/out-a b+c%2B\'é.png"' in result.stdout
    assert "detail.bucket.name: pictures -> " in result.stderr
    assert "detail.object.etag: 9b2cf535f27731c974343645a3985328 -> " in result.stderr
    assert result.stderr.endswith("Ended in Processed.\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_run_creates_an_object_and_its_output_before_it_deletes_the_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (EVENTS / "delete-marker-created.json", "--policy", "every-version", "--json")
    result = run(tmp_path, monkeypatch, *arguments)
    assert result.exit_code == 0, result.output
    assert "The creation ended as Processed." in result.stderr
    path = steps(result)
    assert [step["state"] for step in path if step["type"] == "Task"] == [
        "Record Event",
        "Claim Key",
        "Read Event Record",
        "Invert Image",
        "Mark Event Done",
        "Release Lock",
    ]
    used = path[0]["input"]["detail"]["object"]
    given = shipped("delete-marker-created")["detail"]["object"]
    assert {name for name in given if given[name] != used[name]} == {"version-id"}


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
