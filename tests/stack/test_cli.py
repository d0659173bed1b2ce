"""`inorder up`, `inorder put` and `inorder down`, as a user runs them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import boto3
import psutil
import pytest
from click.testing import CliRunner, Result

from inorder import commands, local_aws
from inorder.aws.stack import describe
from inorder.commands.main import main
from tests.conftest import picture


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(main, arguments)


def test_up_prints_the_environment_and_put_shows_an_event_and_down_removes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = run("up")
    assert up.exit_code == 0, up.output
    for line in up.stdout.splitlines():
        export, setting = shlex.split(line)
        assert export == "export"
        monkeypatch.setenv(*setting.split("=", 1))
    assert describe(boto3.client("cloudformation"), os.environ["STACK_NAME"]).input_bucket
    assert run("up").stdout == up.stdout
    file, bad = tmp_path / "cat.png", tmp_path / "bad.png"
    file.write_bytes(picture((255, 0, 0)))
    bad.write_text("no picture")
    # What `up` says last, with another file; a second upload of the same content has its own event.
    assert ".venv/bin/inorder put " in up.stderr.splitlines()[-1]
    for key in ("pictures/cat.png", "pictures/cat.png"):
        shown = run("put", str(file), key)
        assert shown.exit_code == 0, shown.output
        assert "Outcome   Processed" in shown.stdout
        assert " 1  S3 Object Event? (Choice" in shown.stdout
    assert "That is right" in run("why", "/pictures/cat.png").stdout
    assert run("doctor").exit_code == 0
    assert "Outcome   Parked: " in run("put", str(bad)).stdout
    assert len(run("executions").stdout.splitlines()) == 4
    file.unlink()
    bad.unlink()
    server = local_aws.recall(tmp_path / "local-aws.json")
    assert server
    connections = psutil.Process(server.pid).net_connections()
    listening = {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    assert run("down").exit_code == 0
    assert server.process is None
    assert list(tmp_path.iterdir()) == []
