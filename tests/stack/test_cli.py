"""`inorder up`, `inorder down` and `inorder demo`, as a user runs them."""

from __future__ import annotations

import json
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


def test_the_demonstration_ends_without_stale_outputs_if_the_policy_is_on(tmp_path: Path) -> None:
    result = run("demo", "--keys", "6")
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    on, off = summary["on"], summary["off"]
    assert (on["keys"], on["events"], on["stale"], on["missing"], on["parked"]) == (6, 24, 0, 0, 0)
    assert on["processed"] + on["superseded"] + on["duplicates"] == 24
    # On a busy machine a function may time out, and without coordination its event is then lost.
    assert off["processed"] + off["lost"] == off["events"] == 24
