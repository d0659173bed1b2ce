"""`inorder up`, `inorder down` and `inorder demo`, as a user runs them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import boto3
import psutil
import pytest
from click.testing import CliRunner, Result

from inorder import PROJECT, commands, local_aws
from inorder.aws.executions import wait_until
from inorder.aws.stack import describe
from inorder.commands.main import main
from tests.stack.conftest import SECONDS


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
    elsewhere = run("up", "--port", "1")
    assert (elsewhere.exit_code, "runs on port" in elsewhere.stderr) == (1, True)

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
    folder = tmp_path / "demo"
    assert (folder / "report.html").exists()
    summary = json.loads((folder / "summary.json").read_text())
    on, off = summary["on"], summary["off"]
    assert (on["keys"], on["events"], on["stale"], on["missing"], on["parked"]) == (6, 24, 0, 0, 0)
    assert on["processed"] + on["superseded"] + on["duplicates"] == 24
    # On a busy machine a function may time out, and without coordination its event is then lost.
    assert off["processed"] + off["lost"] == off["events"] == 24
    assert (on["slow"], off["slow"], off["missing"]) == (1, 1, 0)
    [data] = re.findall(r'id="saved">(.+)</script>', (folder / "console.html").read_text())
    assert len(json.loads(data)["/api/story"]) == 6


def test_an_interrupted_demonstration_leaves_nothing_running() -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "inorder.commands.main", "demo", "--keys", "2"],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    process = psutil.Process(command.pid)
    wait_until(lambda: bool(process.children()), SECONDS, "the local AWS")
    family = process.children(recursive=True)
    process.terminate()
    assert command.wait(SECONDS) == 128 + 15
    _, alive = psutil.wait_procs(family, timeout=SECONDS)
    assert alive == []
