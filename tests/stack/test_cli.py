"""A local AWS that `inorder up` starts, and what README tells a user to do with it."""

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import boto3
import psutil
import pytest

from inorder import commands, local_aws
from inorder.aws.stack import describe
from tests.conftest import picture
from tests.support.commands import run
from tests.support.replacing import replaced

# Markup of rich, an escape, a newline, an override of the direction, and text from right to left.
STRANGE = "list/[red]b\x1b[31m\n\u202e\u05e9\u05dc\u05d5\u05dd.png"
SHOWN = r"list/[red]b\x1b[31m\n\u202e" + "\u05e9\u05dc\u05d5\u05dd.png"


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)


def test_up_prints_the_commands_environment_and_down_removes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = run("up")
    assert up.exit_code == 0, up.output
    for line in up.stdout.splitlines():
        export, setting = shlex.split(line)
        assert export == "export"
        monkeypatch.setenv(*setting.split("=", 1))
    assert describe(boto3.client("cloudformation"), os.environ["STACK_NAME"]).input_bucket
    again = run("up")
    assert again.stdout == up.stdout
    assert "Kept: the policy latest-wins. Choose another one by --policy." in again.stderr
    # What `up` says last, with other files; the same content again has an event of its own.
    assert "inorder put " in up.stderr.splitlines()[-1]
    file, bad = tmp_path / "cat.png", tmp_path / "bad.png"
    file.write_bytes(picture((255, 0, 0)))
    bad.write_text("no picture")
    for _ in range(2):
        shown = run("put", str(file), STRANGE).stdout
        for line in (f"Key       {SHOWN}", "Outcome   Processed", "States    S3 Object Event? > "):
            assert line in shown
    assert run("doctor").exit_code == 0
    parked = run("put", str(bad))
    assert (parked.exit_code, "Outcome   Parked: " in parked.stdout) == (1, True)
    *_, newer, last = map(json.loads, run("executions", "--json").stdout.splitlines())
    assert [newer["ended_as"], last["key"]] == ["Processed", "bad.png"]
    selected = ["--prefix", "list/", "--key", STRANGE, "--outcome", "processed", "--since", "10m"]
    listed = run("executions", *selected, "--limit", "1").stdout
    assert listed.splitlines()[1].split()[3:6] == [SHOWN, newer["sequencer"], "Processed"]
    execution = run("execution", newer["id"][:-1]).stdout
    assert f"ARN       {newer['arn']}" in execution
    why = run("why", f"/{STRANGE}").stdout
    output = replaced(SHOWN, "list/", "list/out-")
    cause = f"The output {output} was made for event {newer['sequencer']}."
    assert f"{cause} That is right" in why
    assert not {"\x1b", "\u202e"} & set(shown + listed + execution + why)
    file.unlink()
    bad.unlink()
    template = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    boto3.client("cloudformation").create_stack(StackName="another", TemplateBody=template)
    for stack, reason in {"nowhere": "Name the stack by", "another": "no output Input"}.items():
        [line] = run("stuck", "--stack-name", stack).stderr.splitlines()
        assert line.startswith("Error: ")
        assert reason in line
    file = tmp_path / "local-aws.json"
    recalled = local_aws.recall(file)
    assert recalled
    server = replace(recalled, started=recalled.started + 1)  # a clock was set
    assert server.process
    for wrong in ({"started": server.started - 3600}, {"pid": os.getpid()}):
        assert replace(server, **wrong).process is None, wrong
    connections = psutil.Process(server.pid).net_connections()
    listening = {
        connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    assert run("down").stderr.startswith("The local AWS is stopped. ")
    assert server.process is None
    assert [file.name for file in tmp_path.iterdir()] == ["local-aws.lock"]
