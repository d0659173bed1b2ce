"""`inorder up` and `inorder down`, as a user runs them."""

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


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(main, arguments)


def test_up_prints_the_environment_for_boto3_and_down_removes_everything(
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
    server = local_aws.recall(tmp_path / "local-aws.json")
    assert server
    connections = psutil.Process(server.pid).net_connections()
    listening = {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    assert run("down").exit_code == 0
    assert server.process is None
    assert list(tmp_path.iterdir()) == []
