"""`inorder run`, and a new policy of `inorder policy new`, which passes the tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from inorder import PROJECT, commands
from inorder.commands.main import main
from tests.support.events import shipped

NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".aws-sam", "out", "__pycache__", ".*_cache")
# Of the tests that read every policy of the project, the quick ones.
OF_EVERY_POLICY = [
    "tests/unit/test_documents.py",
    "tests/template/test_roles.py",
    "tests/policies/test_definition.py",
]


def test_run_creates_an_object_deletes_it_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)
    forkserver.ensure_running()  # SAM's, which stays for the next test
    before = psutil.Process().children()
    arguments = [str(PROJECT / "events" / "delete-marker-created.json")]
    arguments += ["--policy", "every-version"]
    result = CliRunner(mix_stderr=False).invoke(main, ["run", *arguments])
    assert result.exit_code == 0, result.output
    assert "Invert Image" in result.stdout
    assert "The creation ended as Processed." in result.stderr
    given = shipped("delete-marker-created")["detail"]
    assert f'"key": {json.dumps(given["object"]["key"], ensure_ascii=False)}' in result.stdout
    assert psutil.Process().children() == before
    assert list(tmp_path.iterdir()) == []


def test_a_new_policy_passes_its_tests(tmp_path: Path) -> None:
    """What it deploys is shown by test_new_policy.py."""
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
