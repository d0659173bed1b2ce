"""`inorder run`, as a user runs it."""

from __future__ import annotations

import json
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from inorder import PROJECT, commands
from inorder.commands.main import main
from tests.support.events import shipped


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
