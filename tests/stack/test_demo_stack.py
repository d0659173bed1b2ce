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
from tests.stack.conftest import RED, SECONDS, Workflow
from tests.stack.like_aws import LikeAws, as_on_aws

KEYS = 2


@pytest.fixture(autouse=True)
def environment(local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", local.endpoint_url)


@pytest.fixture(scope="module")
def stack(local: LocalAws) -> Stack:
    return deploy(local, "shown", {})


def run(*stacks: str, arguments: Sequence[str] = (), answer: str = "", keys: int = KEYS) -> Result:
    named = [word for stack in stacks for word in ("--stack-name", stack)]
    return CliRunner(mix_stderr=False).invoke(
        main, ["demo", "--keys", str(keys), *named, *arguments], input=answer
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


def assert_nothing_is_left(local: LocalAws, stack: Stack) -> None:
    machine = LocalStateMachine(local.client("stepfunctions"), stack.state_machine_arn)
    assert machine.arns("RUNNING") == []
    assert machine.arns() != []
    assert contents(local, stack) == []


def test_stacks_are_compared_without_a_question_and_nothing_is_left_in_them(
    local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "GAP_SECONDS", 0)  # the old picture is replaced before it is read
    versions = {"InputBucketVersioning": "Enabled"}
    off = deploy(local, "without", {"Policy": "uncoordinated", **versions})
    every = deploy(local, "each-version", {"Policy": "every-version"})
    result = run("without", "each-version", keys=1)
    assert result.exit_code == 0, result.output
    assert "where it costs nothing" in result.stderr
    shown = summary(tmp_path)
    assert list(shown) == ["without", "each-version"]
    assert shown["without"]["repeated"] == 2
    each = shown["each-version"]
    if each["processed"] == 1:  # else the machine was too slow to replace it so soon
        assert "2 events were parked: inorder parked --stack-name each-version" in result.stderr
    assert 2 * each["processed"] + each["parked"] == 4
    assert each["stale"] == 0
    for stack in (off, every):
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
    local: LocalAws, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, workflow = local.client("events"), Workflow(local, stack)
    workflow.upload("other/x.png", picture(RED))
    workflow.of_key("other/x.png", 1)
    others = ["other/x.png", "other/out-x.png"]
    workflow.disable_rules()
    with monkeypatch.context() as patch:
        patch.setattr(demo, "PATIENCE_SECONDS", 1)
        patch.setattr(deployed_demo, "FIRST_EVENT_TRIES", 3)
        patch.setattr(deployed_demo, "FIRST_EVENT_SECONDS", 0.5)
        result = run(stack.name)
    assert result.exit_code == 1
    complaint = result.stderr.splitlines()[-1]
    first = f"the event of s3://{stack.input_bucket}/inorder-demo-"
    assert f"Waiting for {first}" in result.stderr
    assert complaint.startswith(f"Error: Waited 2 s for {first}")
    assert "which was uploaded 3 times. Is EventBridge switched on" in complaint
    assert contents(local, stack) == others

    def one_upload_in_vain(*_: Any) -> None:
        monkeypatch.setattr(deployed_demo, "wait_until", wait_until)
        for rule in events.list_rules(NamePrefix=f"{stack.name}-")["Rules"]:
            events.enable_rule(Name=rule["Name"])
        raise TimeoutError

    monkeypatch.setattr(deployed_demo, "wait_until", one_upload_in_vain)
    result = run(stack.name)
    assert result.exit_code == 0, result.output
    assert summary(tmp_path)[stack.name]["events"] == 4 * KEYS
    assert contents(local, stack) == others
    workflow.delete("other/x.png")
    workflow.of_key("other/x.png", 2)


def test_an_interrupted_demonstration_removes_what_it_created(
    local: LocalAws, stack: Stack
) -> None:
    command = subprocess.Popen(  # noqa: S603 - our own interpreter
        [
            *(sys.executable, "-m", "inorder.commands.main"),
            *("demo", "--keys", "30", "--stack-name", stack.name),
        ],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: len(contents(local, stack)) > 3, SECONDS, "uploads")
    finally:
        command.terminate()
    _, said = command.communicate(timeout=2 * SECONDS)
    assert command.returncode == 128 + 15
    assert "Removing inorder-demo-" in said
    assert_nothing_is_left(local, stack)


@pytest.mark.parametrize("option", [("--policy", "optimistic"), ("--port", "1")])
def test_a_deployed_stack_has_its_policy_and_its_place(option: tuple[str, str]) -> None:
    result = run("any", arguments=option)
    assert result.exit_code == 2
    assert "has a policy and a place already" in result.stderr


# --- A stack that answers as AWS does -------------------------------------------------------------


def test_on_aws_it_begins_with_a_yes_and_events_and_outcomes_are_read_from_the_log(
    local: LocalAws, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = LikeAws(local, stack)
    as_on_aws(monkeypatch, aws)
    result = run(stack.name, answer="n\n")
    assert result.exit_code == 1
    assert "Begin? [y/N]" in result.stderr
    assert contents(local, stack) == []
    seen: dict[str, float] = {}
    written: set[str] = set()

    def changed(key: str, entries: list[Entry]) -> list[Entry]:
        """Write deletions late, and let the executions of one key end without an outcome."""
        if '"Object Deleted"' in entries[0].details["input"]:
            if time.monotonic() - seen.setdefault(key, time.monotonic()) < 3:
                return []
            written.add(key)
        elif "001" in key and entries[-1].type == "ExecutionSucceeded":
            return [*entries[:-1], Entry("ExecutionTimedOut", {})]
        return entries

    with aws.writing(changed):
        result = run(stack.name, arguments=["--yes"])
        assert len(written) == KEYS + 1  # it has waited for what its own deletions caused
    assert result.exit_code == 1
    assert "roughly 0.01 US dollars" in result.stderr
    shown = summary(tmp_path)[stack.name]
    assert (shown["events"], shown["lost"], shown["duplicates"]) == (4 * KEYS, 4, 1)
    assert shown["processed"] + shown["superseded"] == 3
    assert_nothing_is_left(local, stack)
