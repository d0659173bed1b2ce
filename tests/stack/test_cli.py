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
from click.testing import CliRunner

from inorder import PROJECT, commands, local_aws
from inorder.aws.executions import wait_until
from inorder.commands.main import main
from tests.stack.conftest import SECONDS


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setattr(commands, "OUT", tmp_path)
    return CliRunner(mix_stderr=False)


def exported(output: str) -> dict[str, str]:
    words = [shlex.split(line) for line in output.splitlines()]
    assert all(line[0] == "export" for line in words)
    return dict(line[1].split("=", 1) for line in words)


def test_up_prints_the_environment_for_boto3_and_down_removes_everything(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = runner.invoke(main, ["up"])
    assert up.exit_code == 0, up.output
    for name, value in exported(up.stdout).items():
        monkeypatch.setenv(name, value)
    stack = os.environ["STACK_NAME"]
    [described] = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    assert {output["OutputKey"] for output in described["Outputs"]} >= {
        "InputBucketName",
        "OutputBucketName",
        "StateMachineArn",
    }
    again = runner.invoke(main, ["up"])
    assert exported(again.stdout) == exported(up.stdout)
    elsewhere = runner.invoke(main, ["up", "--port", "1"])
    assert elsewhere.exit_code == 1
    assert "runs on port" in elsewhere.stderr

    server = local_aws.recall(tmp_path / "local-aws.json")
    assert server
    listening = {
        connection.laddr.ip
        for connection in psutil.Process(server.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    down = runner.invoke(main, ["down"])
    assert down.exit_code == 0
    assert server.process is None
    assert list(tmp_path.iterdir()) == []


def test_the_demonstration_ends_without_stale_outputs_if_the_policy_is_on(
    runner: CliRunner, tmp_path: Path
) -> None:
    result = runner.invoke(main, ["demo", "--keys", "6"])
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    on, off = summary["on"], summary["off"]
    assert (on["keys"], on["events"], on["stale"], on["missing"], on["parked"]) == (6, 24, 0, 0, 0)
    assert on["processed"] + on["superseded"] + on["duplicates"] == 24
    # On a busy machine a function may time out, and without coordination its event is then lost.
    assert off["processed"] + off["lost"] == off["events"] == 24
    assert (on["slow"], off["slow"], off["missing"]) == (1, 1, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo"]
    page = (tmp_path / "demo" / "console.html").read_text()
    [data] = re.findall(r'id="saved">(.+)</script>', page)
    assert len(json.loads(data)["/api/story"]) == 6
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [
        "console.html",
        "contact-sheet-off.png",
        "contact-sheet-on.png",
        "report.html",
        "summary.json",
    ]
    assert re.search(r"Stale outputs\W+\d+\W+0\W", result.stdout)


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
