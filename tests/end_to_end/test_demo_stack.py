"""`inorder demo --stack-name`: in a stack on the local AWS, and in one that answers as AWS does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from inorder import PROJECT, commands
from inorder.aws.executions import Entry, LocalStateMachine, wait_until
from inorder.aws.stack import Stack, deploy
from inorder.commands.main import main
from inorder.demo import deployed as deployed_demo
from inorder.demo import run as demo
from inorder.demo.pictures import own_pairs
from inorder.demo.run import Run
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.end_to_end.conftest import RED, Workflow
from tests.end_to_end.like_aws import LikeAws, as_on_aws

KEYS = 2


@pytest.fixture(autouse=True)
def environment(local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", local.endpoint_url)
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 60)  # so that what is broken fails soon


@pytest.fixture(scope="module")
def stack(local: LocalAws) -> Stack:
    return deploy(local, "shown", {})


def run(*stacks: str, arguments: Sequence[str] = (), answer: str = "") -> Result:
    named = [word for stack in stacks for word in ("--stack-name", stack)]
    return CliRunner(mix_stderr=False).invoke(
        main, ["demo", "--keys", str(KEYS), *named, *arguments], input=answer
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


def test_stacks_are_compared_without_a_question_and_nothing_is_left_in_them(
    local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "GAP_SECONDS", 0)  # no old picture is read before it is replaced
    versioned = deploy(local, "versioned", {"InputBucketVersioning": "Enabled"})
    off = deploy(local, "without", {"Policy": "uncoordinated"})
    every = deploy(local, "each-version", {"Policy": "every-version"})
    result = run("versioned", "without", "each-version")
    assert result.exit_code == 0, result.output
    assert "where it costs nothing" in result.stderr
    assert "4 events were parked: inorder parked --stack-name each-version" in result.stderr
    shown = summary(tmp_path)
    assert list(shown) == ["versioned", "without", "each-version"]
    assert shown["without"]["repeated"] == 2 * KEYS
    one, each = shown["versioned"], shown["each-version"]
    assert one["processed"] + one["superseded"] + one["duplicates"] == one["events"] == 4 * KEYS
    faults = ("stale", "missing", "lost", "repeated", "parked")
    assert [one[name] for name in faults] == [0] * 5
    assert (each["processed"], each["parked"], each["stale"]) == (KEYS, 2 * KEYS, 0)
    for stack in (versioned, off, every):
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


def test_objects_of_others_are_left_alone_and_the_first_event_may_come_late_or_not_at_all(
    local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, events = deploy(local, "in-use", {}), local.client("events")
    workflow = Workflow(local, stack)
    workflow.upload("other/x.png", picture(RED))
    workflow.of_key("other/x.png", 1)
    others = ["other/x.png", "other/out-x.png"]
    workflow.disable_rules()
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
    assert contents(local, stack) == others

    tries: list[list[str]] = []

    def one_upload_in_vain(*arguments: Any) -> None:
        tries.append(contents(local, stack))
        if len(tries) > 1:
            wait_until(*arguments)
            return
        for rule in events.list_rules(NamePrefix=f"{stack.name}-")["Rules"]:
            events.enable_rule(Name=rule["Name"])
        raise TimeoutError

    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 60)
    monkeypatch.setattr(deployed_demo, "FIRST_EVENT_SECONDS", 5)
    monkeypatch.setattr(deployed_demo, "wait_until", one_upload_in_vain)
    result = run(stack.name)
    assert result.exit_code == 0, result.output
    assert len(tries[0]) == len(others) + 1  # one object, and no output
    assert summary(tmp_path)[stack.name]["events"] == 4 * KEYS
    assert contents(local, stack) == others


def test_an_interrupted_demonstration_removes_what_it_created(
    local: LocalAws, stack: Stack
) -> None:
    command = subprocess.Popen(  # noqa: S603 - our own interpreter
        [
            sys.executable,
            "-m",
            "inorder.commands.main",
            "demo",
            "--keys",
            "30",
            "--stack-name",
            stack.name,
        ],
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


def test_a_stack_that_cannot_be_shown_is_named(local: LocalAws) -> None:
    content = {"Policy": "content-hash", "ContentSources": "com.example.none"}
    stack = deploy(local, "content", content)
    for name, said in (
        ("nowhere", "nowhere"),
        (stack.name, "has the policy content-hash, which makes no pictures to compare."),
    ):
        result = run(name)
        assert result.exit_code == 1
        [line] = result.stderr.splitlines()
        assert line.startswith("Error: ")
        assert said in line
    assert not was_used(local, stack)
    for option in (("--policy", "optimistic"), ("--port", "1")):
        result = run("any", arguments=option)
        assert result.exit_code == 2
        assert "has a policy and a place already" in result.stderr


# --- A stack that answers as AWS does -------------------------------------------------------------


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


def test_on_aws_nothing_begins_without_a_yes_and_a_log_that_has_what_is_counted(
    local: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    untouched = deploy(local, "untouched", {})
    with monkeypatch.context() as patch:
        as_on_aws(patch, LikeAws(local, untouched))
        result = run(untouched.name, answer="n\n")
        assert result.exit_code == 1
        assert "Begin? [y/N]" in result.stderr
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 1)
    for level, data in (("ERROR", True), ("OFF", True), ("ALL", False)):
        with monkeypatch.context() as patch:
            as_on_aws(patch, LikeAws(local, untouched, level, data=data))
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
