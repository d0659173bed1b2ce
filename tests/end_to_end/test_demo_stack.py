"""`inorder demo --stack-name`: in a stack on the local AWS, and in one that answers as AWS does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from inorder import PROJECT, cli, demo, deployed_demo
from inorder.aws.executions import Entry, LocalStateMachine, history, wait_until
from inorder.aws.stack import Connection, Stack, deploy
from inorder.demo import Run
from inorder.local_aws import LocalAws
from inorder.pictures import own_pairs
from tests.conftest import picture
from tests.end_to_end.conftest import RED, Workflow
from tests.end_to_end.test_cli import exported
from tests.engines.test_log import Log

KEYS = 2


@pytest.fixture(autouse=True)
def environment(local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "OUT", tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", local.endpoint_url)
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 60)  # so that what is broken fails soon


@pytest.fixture(scope="module")
def stack(local: LocalAws) -> Stack:
    return deploy(local, "shown", {})


@pytest.fixture(scope="module")
def untouched(local: LocalAws) -> Stack:
    """Give a stack that no test may use."""
    return deploy(local, "untouched", {})


def run(*stacks: str, arguments: Sequence[str] = (), answer: str = "") -> Result:
    named = [word for stack in stacks for word in ("--stack-name", stack)]
    return CliRunner(mix_stderr=False).invoke(
        cli.main, ["demo", "--keys", str(KEYS), *named, *arguments], input=answer
    )


def summary(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "demo" / "summary.json").read_text())


def contents(local: LocalAws, stack: Stack) -> list[str]:
    """List the keys of all versions in the stack's buckets."""
    s3 = local.client("s3")
    found = [
        s3.list_object_versions(Bucket=bucket)
        for bucket in (stack.input_bucket, stack.output_bucket)
    ]
    kinds = ("Versions", "DeleteMarkers")
    return [each["Key"] for page in found for kind in kinds for each in page.get(kind, [])]


def was_used(local: LocalAws, stack: Stack) -> bool:
    return LocalStateMachine(local.client("stepfunctions"), stack.state_machine_arn).arns() != []


def assert_nothing_is_left(local: LocalAws, stack: Stack) -> None:
    machine = LocalStateMachine(local.client("stepfunctions"), stack.state_machine_arn)
    assert machine.arns("RUNNING") == []
    assert was_used(local, stack)
    assert contents(local, stack) == []


def test_the_stack_of_up_is_shown_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = CliRunner(mix_stderr=False)
    up = runner.invoke(cli.main, ["up"])
    try:
        for name, value in exported(up.stdout).items():
            monkeypatch.setenv(name, value)
        result = run(os.environ["STACK_NAME"])
    finally:
        runner.invoke(cli.main, ["down"])
    assert result.exit_code == 0, result.output
    assert "starts 4 executions" in result.stderr
    assert "where it costs nothing" in result.stderr
    shown = summary(tmp_path)["inorder"]
    assert (shown["keys"], shown["events"]) == (KEYS, 4 * KEYS)
    assert shown["processed"] + shown["superseded"] + shown["duplicates"] == 4 * KEYS
    faults = ("stale", "missing", "lost", "repeated", "parked")
    assert [shown[name] for name in faults] == [0] * 5


def test_two_stacks_are_compared_and_every_version_of_an_upload_is_removed(
    local: LocalAws, tmp_path: Path
) -> None:
    versioned = deploy(local, "versioned", {"InputBucketVersioning": "Enabled"})
    off = deploy(local, "without", {"Policy": "uncoordinated"})
    result = run("versioned", "without")
    assert result.exit_code == 0, result.output
    shown = summary(tmp_path)
    assert list(shown) == ["versioned", "without"]
    assert shown["without"]["repeated"] == 2 * KEYS
    assert shown["versioned"]["repeated"] == 0
    for each in (versioned, off):
        assert_nothing_is_left(local, each)


def test_parked_events_are_told_and_every_version_leaves_no_output_either(
    local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "GAP_SECONDS", 0)  # no old picture is read before it is replaced
    stack = deploy(local, "each-version", {"Policy": "every-version"})
    result = run(stack.name)
    assert result.exit_code == 0, result.output
    shown = summary(tmp_path)[stack.name]
    assert (shown["processed"], shown["parked"], shown["stale"]) == (KEYS, 2 * KEYS, 0)
    assert "4 events were parked: inorder parked --stack-name each-version" in result.stderr
    assert_nothing_is_left(local, stack)


def test_a_stale_and_a_missing_output_are_found(
    local: LocalAws, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, outputs_of = local.client("s3"), Run._outputs

    def with_faults(self: Run) -> Any:
        listed = s3.list_objects_v2(Bucket=stack.output_bucket)["Contents"]
        _, first, second = (each["Key"] for each in listed)
        s3.delete_object(Bucket=stack.output_bucket, Key=second)
        old = demo._inverse(own_pairs(1)[0].old)
        s3.put_object(Bucket=stack.output_bucket, Key=first, Body=old)
        return outputs_of(self)

    monkeypatch.setattr(Run, "_outputs", with_faults)
    result = run(stack.name)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("Error: With coordination, no output may be")
    shown = summary(tmp_path)[stack.name]
    assert (shown["stale"], shown["missing"]) == (1, 1)
    assert_nothing_is_left(local, stack)


def test_objects_and_executions_of_others_are_left_alone(local: LocalAws, tmp_path: Path) -> None:
    stack = deploy(local, "in-use", {})
    workflow = Workflow(local, stack)
    workflow.upload("other/x.png", picture(RED))
    workflow.of_key("other/x.png", 1)
    assert run(stack.name).exit_code == 0
    assert summary(tmp_path)[stack.name]["events"] == 4 * KEYS
    assert contents(local, stack) == ["other/x.png", "other/out-x.png"]


def test_a_first_event_that_does_not_arrive_is_named_and_the_uploads_removed(
    local: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = deploy(local, "deaf", {})
    Workflow(local, stack).disable_rules()
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 1)
    monkeypatch.setattr(deployed_demo, "FIRST_EVENT_TRIES", 3)
    monkeypatch.setattr(deployed_demo, "FIRST_EVENT_SECONDS", 0.5)
    result = run(stack.name)
    assert result.exit_code == 1
    complaint = result.stderr.splitlines()[-1]
    first = f"the event of s3://{stack.input_bucket}/inorder-demo-"
    assert f"Waiting for {first}" in result.stderr
    assert complaint.startswith(f"Error: Waited 2 s for {first}")
    assert "which was uploaded 3 times. Is EventBridge switched on" in complaint
    assert contents(local, stack) == []


def test_a_demonstration_begins_when_s3_has_sent_a_first_event(
    local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, events = deploy(local, "soon", {}), local.client("events")
    Workflow(local, stack).disable_rules()
    vain: list[list[str]] = []

    def two_uploads_in_vain(*arguments: Any) -> None:
        if len(vain) == 2:
            wait_until(*arguments)
            return
        vain.append(contents(local, stack))
        if len(vain) == 2:
            for rule in events.list_rules(NamePrefix=f"{stack.name}-")["Rules"]:
                events.enable_rule(Name=rule["Name"])
        raise TimeoutError

    monkeypatch.setattr(deployed_demo, "wait_until", two_uploads_in_vain)
    result = run(stack.name)
    assert result.exit_code == 0, result.output
    assert [len(each) for each in vain] == [1, 1]  # one object, and no output
    assert summary(tmp_path)[stack.name]["events"] == 4 * KEYS
    assert_nothing_is_left(local, stack)


def test_an_interrupted_demonstration_removes_what_it_created(
    local: LocalAws, stack: Stack
) -> None:
    command = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "inorder.cli", "demo", "--keys", "30", "--stack-name", stack.name],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: len(contents(local, stack)) > 3, 60, "uploads")
    finally:
        command.terminate()
    _, said = command.communicate(timeout=90)
    assert command.returncode == 128 + 15
    assert "Removing inorder-demo-" in said
    assert_nothing_is_left(local, stack)


def test_a_stack_that_is_not_there_is_named() -> None:
    result = run("nowhere")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "nowhere" in line


def test_a_policy_without_pictures_cannot_be_shown(local: LocalAws) -> None:
    content = {"Policy": "content-hash", "ContentSources": "com.example.none"}
    stack = deploy(local, "content", content)
    result = run(stack.name)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.endswith("has the policy content-hash, which makes no pictures to compare.")
    assert not was_used(local, stack)


@pytest.mark.parametrize("option", [("--policy", "optimistic"), ("--port", "1")])
def test_a_stack_has_its_own_policy_and_place(option: tuple[str, str]) -> None:
    result = run("any", arguments=option)
    assert result.exit_code == 2
    assert "has a policy and a place already" in result.stderr


# --- A stack that answers as AWS does -------------------------------------------------------------

Change = Callable[[str, list[Entry]], list[Entry]]  # of an execution's entries, by its key


def unchanged(key: str, entries: list[Entry]) -> list[Entry]:  # noqa: ARG001
    return entries


class LikeAws:
    """The local AWS, but Express executions are neither listed nor described; they write a log.

    https://docs.aws.amazon.com/step-functions/latest/apireference/API_ListExecutions.html
    """

    def __init__(
        self, local: LocalAws, stack: Stack, level: str = "ALL", *, data: bool = True
    ) -> None:
        self._engine = local.client("stepfunctions")
        self._machine = LocalStateMachine(self._engine, stack.state_machine_arn)
        self._earlier = set(self._machine.arns())  # of other tests
        self._written: dict[str, int] = {}  # entries of each execution
        self._log = Log(local, f"/aws/vendedlogs/states/{uuid4()}")
        arn = f"arn:aws:logs:us-east-1:000000000000:log-group:{self._log.name}:*"
        self._logging = {
            "level": level,
            "includeExecutionData": data,
            "destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": arn}}],
        }

    def client(self, connect: Callable[[Connection, str], Any]) -> Callable[..., Any]:
        def connected(connection: Connection, service: str) -> Any:
            client = connect(connection, service)
            if service == "stepfunctions":
                for call in ("ListExecutions", "DescribeExecution", "GetExecutionHistory"):
                    client.meta.events.register(f"before-call.sfn.{call}", self._refuse)
                client.meta.events.register("after-call.sfn.DescribeStateMachine", self._describe)
            return client

        return connected

    @staticmethod
    def _refuse(**_: Any) -> tuple[Any, dict[str, Any]]:
        error = {"Code": "StateMachineTypeNotSupported", "Message": "EXPRESS"}
        return SimpleNamespace(status_code=400), {"Error": error, "ResponseMetadata": {}}

    def _describe(self, parsed: dict[str, Any], **_: Any) -> None:
        parsed["loggingConfiguration"] = self._logging

    @contextmanager
    def writing(self, change: Change = unchanged) -> Iterator[None]:
        """Write the entries of all executions to the log, as they come."""
        stopped = threading.Event()

        def write() -> None:
            while not stopped.wait(0.1):
                for execution in self._machine.all():
                    happened = history(self._engine, execution.arn)
                    if execution.arn in self._earlier or not happened:
                        continue
                    entries = change(execution.event["detail"]["object"]["key"], happened)
                    done = self._written.get(execution.arn, 0)
                    if len(entries) > done:
                        self._log.write(execution.arn, entries, first=done)
                        self._written[execution.arn] = len(entries)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            stopped.set()
            writer.join()


def as_on_aws(monkeypatch: pytest.MonkeyPatch, aws: LikeAws) -> None:
    monkeypatch.setattr(Connection, "client", aws.client(Connection.client))
    monkeypatch.setattr(Connection, "is_local", False)


def test_on_aws_events_and_outcomes_are_read_from_the_log(
    local: LocalAws, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = LikeAws(local, stack)
    as_on_aws(monkeypatch, aws)
    seen: dict[str, float] = {}
    written: set[str] = set()

    def deletions_late(key: str, entries: list[Entry]) -> list[Entry]:
        if '"Object Deleted"' not in entries[0].details["input"]:
            return entries
        if time.monotonic() - seen.setdefault(key, time.monotonic()) < 3:
            return []
        written.add(key)
        return entries

    with aws.writing(deletions_late):
        result = run(stack.name, arguments=["--yes"])
        assert len(written) == KEYS + 1  # it has waited for what its own deletions caused
    assert result.exit_code == 0, result.output
    assert "roughly 0.01 US dollars" in result.stderr
    shown = summary(tmp_path)[stack.name]
    assert shown["events"] == 4 * KEYS
    assert shown["processed"] + shown["superseded"] + shown["duplicates"] == 4 * KEYS
    assert shown["duplicates"] == KEYS
    assert_nothing_is_left(local, stack)


def test_on_aws_nothing_begins_without_a_yes(
    local: LocalAws, untouched: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_aws(monkeypatch, LikeAws(local, untouched))
    result = run(untouched.name, answer="n\n")
    assert result.exit_code == 1
    assert "Begin? [y/N]" in result.stderr
    assert not was_used(local, untouched)


@pytest.mark.parametrize(("level", "data"), [("ERROR", True), ("OFF", True), ("ALL", False)])
def test_on_aws_a_log_that_lacks_what_is_counted_is_refused_before_anything_begins(
    level: str, data: bool, local: LocalAws, untouched: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 1)
    as_on_aws(monkeypatch, LikeAws(local, untouched, level, data=data))
    result = run(untouched.name, arguments=["--yes"])
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert f"has the level {level}, with{'' if data else 'out'} execution data." in line
    assert not was_used(local, untouched)


def test_on_aws_an_end_that_the_log_lacks_is_named_and_nothing_is_left(
    local: LocalAws, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 10)
    monkeypatch.setattr(deployed_demo, "SHORT_PATIENCE_SECONDS", 1)
    aws = LikeAws(local, stack)
    as_on_aws(monkeypatch, aws)

    def without_ends(key: str, entries: list[Entry]) -> list[Entry]:
        ends = entries[-1].type in {"ExecutionSucceeded", "ExecutionFailed"}
        return entries[:-1] if "001" in key and ends else entries

    with aws.writing(without_ends):
        result = run(stack.name, arguments=["--yes"])
    assert result.exit_code == 1
    complaint = result.stderr.splitlines()[-1]
    expected = "8 of 8 executions have started, and 4 of these have not ended: inorder-demo-"
    assert expected in complaint
    assert contents(local, stack) == []


def test_on_aws_an_execution_without_an_outcome_is_counted(
    local: LocalAws, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = LikeAws(local, stack)
    as_on_aws(monkeypatch, aws)

    def timed_out(key: str, entries: list[Entry]) -> list[Entry]:
        ends = entries[-1].type == "ExecutionSucceeded"
        return [*entries[:-1], Entry("ExecutionTimedOut", {})] if "001" in key and ends else entries

    with aws.writing(timed_out):
        result = run(stack.name, arguments=["--yes"])
    assert result.exit_code == 1
    assert summary(tmp_path)[stack.name]["lost"] == 4
    assert_nothing_is_left(local, stack)
