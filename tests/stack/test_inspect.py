"""`inorder executions`, `inorder execution` and `inorder why`, as a user runs them on a stack."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import httpx2
import psutil
import pytest
from click.testing import Result

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import Connection
from inorder.aws.usage import measure
from tests.conftest import picture
from tests.stack.conftest import GREEN, RED, SECONDS, Inorder, Workflow, inorder_on
from tests.stack.like_aws import LikeAws, as_on_aws

# Markup of rich, an escape, a newline, an override of the direction, and text from right to left.
STRANGE = "a/[red]b\x1b[31m\n\u202e\u05e9\u05dc\u05d5\u05dd.png"
# A job in the background of a shell ignores SIGINT, and so would the command that a test starts.
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("inorder.commands.main", run_name="__main__")
"""


@pytest.fixture
def inorder(monkeypatch: pytest.MonkeyPatch, workflow: Workflow) -> Inorder:
    invoke = inorder_on(workflow, monkeypatch)

    def succeed(*arguments: str) -> Result:
        result = invoke(*arguments)
        assert result.exit_code == 0, result.output
        return result

    return succeed


def lines(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def three_events(workflow: Workflow, key: str) -> list[Any]:
    """Process an upload, a newer one, and the first one again; give the events."""
    workflow.upload(key, picture(RED))
    workflow.of_key(key, 1)
    workflow.upload(key, picture(GREEN))
    workflow.of_key(key, 2)
    older, newer = workflow.events(key, 2)
    workflow.run(older)
    return [older, newer]


def test_executions_are_listed_one_is_shown_and_why_tells_their_story(
    workflow: Workflow, inorder: Inorder
) -> None:
    older, newer = (
        each["detail"]["object"]["sequencer"] for each in three_events(workflow, "list/a.png")
    )
    workflow.upload("list/bad.png", b"no image")
    workflow.of_key("list/bad.png", 1)
    listed = lines(inorder("executions", "--prefix", "list/", "--json"))
    assert [(each["key"], each["ended_as"]) for each in listed] == [
        ("list/a.png", "Processed"),
        ("list/a.png", "Processed"),
        ("list/a.png", "Superseded"),
        ("list/bad.png", "Parked"),
    ]
    assert all(each["seconds"] > 0 and each["waited"] == 0 for each in listed)
    selected = ["--key", "list/a.png", "--outcome", "superseded", "--since", "10m"]
    [superseded] = lines(inorder("executions", *selected, "--json"))
    table = inorder("executions", *selected).stdout.splitlines()
    assert table[0].split() == [
        *("Start", "(UTC)", "ID", "Key", "Sequencer", "Outcome", "Waited", "Duration", "Attempt")
    ]
    assert table[1].split()[3:6] == ["list/a.png", superseded["sequencer"], "Superseded"]
    assert superseded["id"].startswith(table[1].split()[2])
    shown = inorder("execution", superseded["id"][:-1]).stdout  # one test starts many alike
    assert f"ARN       {superseded['arn']}" in shown
    assert "attempt 1: DynamoDB.ConditionalCheckFailedException" in shown
    assert "Superseded (Pass, 0.0 s)" in shown
    whole = json.loads(inorder("execution", superseded["arn"], "--json").stdout)
    assert whole["steps"][-1]["output"]["outcome"] == "Superseded"
    assert inorder("executions", "--prefix", "none/").stderr == "There are no such executions.\n"

    told = inorder("why", "list/a.png").stdout.splitlines()
    outcomes = [line.split(": ")[2].partition(".")[0] for line in told[:3]]
    assert outcomes == ["Processed", "Processed", "Superseded"]
    assert f"event {older} (created)" in told[2]
    assert f"The newer event {newer}, recorded at " in told[2]
    assert f"The output list/out-a.png is that of event {newer}. That is right" in told[3]
    story = json.loads(inorder("why", "list/a.png", "--json").stdout)
    assert story["verdict"]["state"] == "right"
    assert story["deliveries"][2]["cause"]["execution"] == story["deliveries"][1]["execution"]
    assert [len(each["executions"]) for each in story["events"]] == [2, 1]
    told = inorder("why", "list/bad.png").stdout.splitlines()
    assert "Parked. InvalidImage: not a readable image" in "".join(told)
    assert "There is no output." in "".join(told)


def test_a_strange_key_is_printed_harmlessly_and_found(
    workflow: Workflow, inorder: Inorder
) -> None:
    workflow.upload(STRANGE, picture(RED))
    [ended] = workflow.of_key(STRANGE, 1)
    shown = r"a/[red]b\x1b[31m\n\u202e" + "\u05e9\u05dc\u05d5\u05dd.png"
    for arguments in (("executions", "--key", STRANGE), ("execution", ended.arn), ("why", STRANGE)):
        printed = inorder(*arguments).stdout
        assert not {"\x1b", "\u202e"} & set(printed)
        assert shown in printed.replace("a/out-", "a/")
    story = json.loads(inorder("why", STRANGE, "--json").stdout)
    assert (story["key"], story["verdict"]["state"]) == (STRANGE, "right")


@contextmanager
def running(workflow: Workflow, *command: str) -> Iterator[tuple[IO[str], psutil.Process]]:
    """Run a command, give what it prints, and interrupt it as Ctrl-C does."""
    process = subprocess.Popen(  # noqa: S603 - the text above
        [sys.executable, "-c", INTERRUPTIBLE, *command],
        cwd=PROJECT,
        env=os.environ | workflow.local.environment | {"STACK_NAME": workflow.stack.name},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    with process.stdout:
        try:
            yield process.stdout, psutil.Process(process.pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            process.wait()


def test_follow_prints_what_starts_and_what_ends_until_it_is_interrupted(
    workflow: Workflow,
) -> None:
    with running(workflow, "executions", "--prefix", "f/", "--follow", "--json") as (printed, _):
        workflow.upload("f/x.png", picture(RED))
        seen = [json.loads(printed.readline())]
        while seen[-1]["ended_as"] == "Running":
            seen.append(json.loads(printed.readline()))
        assert {each["key"] for each in seen} == {"f/x.png"}
        assert seen[-1]["ended_as"] == "Processed"


def test_the_console_is_served_on_loopback_until_it_is_interrupted(workflow: Workflow) -> None:
    with running(workflow, "console") as (printed, process):
        address, _, token = printed.readline().strip().partition("#token=")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        connections = process.net_connections()
        listening = {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}
        assert listening == {"127.0.0.1"}
        own = {"Origin": address.rstrip("/"), "X-Inorder-Token": token}
        assert httpx2.get(f"{address}api/executions", headers=own).status_code == 200


def test_each_metric_of_a_deployed_stack_is_asked_for_but_a_local_one_has_no_bill(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    inorder = inorder_on(workflow, monkeypatch)
    measured = measure(Connection(workflow.stack.name), 1)
    assert measured.memory == 1769
    assert measured.used["alarms"] == 7
    asked = "\n".join(measured.silent)
    for name in (
        f"ExecutionsStarted of {workflow.stack.state_machine_arn}",
        f"ConsumedWriteCapacityUnits of {workflow.stack.key_table}, InProgress",
        f"ConsumedReadCapacityUnits of {workflow.stack.key_table}, InProgress",
        f"IncomingBytes of /aws/vendedlogs/states/{workflow.stack.name}",
        f"NumberOfEmptyReceives of {workflow.stack.retry_events_queue_url.rsplit('/', 1)[-1]}",
        f"Invocations of {workflow.resource('HealKeysFunction')}",
    ):
        assert name in asked
    result = inorder("cost", "--stack-name", workflow.stack.name)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert "A local AWS has no such metrics." in line


# On AWS, from the log


def test_on_aws_all_is_read_from_the_log(
    workflow: Workflow, inorder: Inorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = LikeAws(workflow.local, workflow.stack)
    as_on_aws(monkeypatch, aws)
    with aws.writing():
        _, newer = three_events(workflow, "log/x.png")

        def all_ended() -> bool:
            listed = lines(inorder("executions", "--key", "log/x.png", "--json"))
            return [each["ended_as"] for each in listed] == ["Processed", "Processed", "Superseded"]

        wait_until(all_ended, SECONDS, "the log")
    story = json.loads(inorder("why", "log/x.png", "--json").stdout)
    cause = story["deliveries"][2]["cause"]
    assert cause["sequencer"] == newer["detail"]["object"]["sequencer"]
    assert (cause["execution"], cause["is_certain"]) == (story["deliveries"][1]["execution"], True)
    assert story["verdict"]["state"] == "right"
    shown = json.loads(inorder("execution", story["deliveries"][2]["id"], "--json").stdout)
    assert shown["missing"] == 0
    assert shown["steps"][2]["attempts"][0]["error"] == "DynamoDB.ConditionalCheckFailedException"
