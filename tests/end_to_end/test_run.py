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

from inorder import PROJECT, commands, new_policy
from inorder.aws import stack
from inorder.aws.stack import deploy
from inorder.commands.main import main
from inorder.events import created, shipped
from inorder.local_aws import LocalAws
from inorder.run import run_event
from tests.conftest import picture
from tests.end_to_end.conftest import CYAN, RED, Workflow

EVENTS = PROJECT / "events"
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".aws-sam", "out", "__pycache__", ".*_cache")
# The tests that read every policy of the project. The others name their policies.
OF_EVERY_POLICY = [
    "tests/unit/test_documents.py",
    "tests/unit/test_parameters.py",
    "tests/unit/test_policies.py",
    "tests/unit/test_roles.py",
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


def test_the_upload_of_run_starts_no_execution_of_its_own(tmp_path: Path) -> None:
    event = created(sequencer="00")  # older than any sequencer of S3

    def wait_once_it_is_there(said: str) -> None:
        if said.startswith("detail."):
            time.sleep(2)

    content = picture(RED)
    ended = run_event(event, "latest-wins", content, tmp_path / "aws", wait_once_it_is_there)
    assert ended.outcome == "Processed"


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


def test_run_parks_an_object_that_is_no_image_and_prints_no_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(created("a\x9b31mb[red]c")))
    result = run(tmp_path, monkeypatch, file, "--image", file)
    assert result.exit_code == 0, result.output
    assert "Ended in Parked: Parked: " in result.stderr
    assert "InvalidImage" in result.stderr
    assert "\x9b" not in result.output
    assert '"key": "a\\x9b31mb[red]c"' in result.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the project, as somebody has it who makes a policy."""
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=NOT_COPIED))


def contents(project: Path) -> dict[str, bytes]:
    files = [file for file in project.rglob("*") if file.is_file()]
    return {str(file.relative_to(project)): file.read_bytes() for file in files}


def in_project(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, check=False
    )


def test_a_new_policy_passes_its_tests_and_processes_an_upload_when_it_is_deployed(
    project: Path, local: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(project)
    made = in_project(project, "inorder.commands.main", "policy", "new", "my-policy")
    assert made.returncode == 0, made.stderr
    after = contents(project)
    touched = {name for name in after if after[name] != before.get(name)}
    assert {name for name in touched if "__pycache__" not in name} == {
        "docs/policies.md",
        "statemachine/my_policy.asl.json",
        "statemachine/policies.toml",
        "template.yaml",
        "tests/policies/my_policy/__init__.py",
        "tests/policies/my_policy/cases.py",
        "tests/policies/my_policy/promise.py",
        "tests/policies/my_policy/test_my_policy.py",
    }
    checked = in_project(
        project, "inorder.commands.main", "check", "statemachine/my_policy.asl.json"
    )
    assert checked.returncode == 0, checked.stderr
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


def test_run_fails_if_the_execution_ends_in_no_state_of_its_policy(project: Path) -> None:
    new_policy.create("my-policy", "uncoordinated", project)
    file = project / "statemachine" / "my_policy.asl.json"
    definition = json.loads(file.read_text())
    del definition["States"]["Invert Image"]["Retry"], definition["States"]["Invert Image"]["Catch"]
    del definition["States"]["Lost"]
    file.write_text(json.dumps(definition))
    command = ("inorder.commands.main", "run", "events/order-placed.json", "--policy", "my-policy")
    ended = in_project(project, *command)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "Error: No state of the policy has foreseen this."
    assert "Invert Image (Task)" in ended.stdout
