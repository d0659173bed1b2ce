"""`inorder demo --stack-name`: in a stack on the local AWS, and in one that answers as AWS does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from inorder import PROJECT, commands
from inorder.aws.executions import Entry, wait_until
from inorder.aws.stack import deploy
from inorder.demo import deployed as deployed_demo
from inorder.demo import run as demo
from inorder.demo.pictures import own_pairs
from inorder.demo.run import Run
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import RED, SECONDS, Inorder, Workflow
from tests.stack.like_aws import LikeAws

KEYS = 2


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)


@pytest.fixture
def command(workflow: Workflow) -> list[str]:
    return ["demo", "--keys", str(KEYS), "--stack-name", workflow.stack.name]


def summary(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "demo" / "summary.json").read_text())


def contents(workflow: Workflow) -> list[str]:
    """List the demonstration's keys of all versions in the stack's buckets."""
    found: list[str] = []
    for bucket in (workflow.stack.input_bucket, workflow.stack.output_bucket):
        page = workflow.s3.list_object_versions(Bucket=bucket, Prefix="inorder-demo-")
        for kind in ("Versions", "DeleteMarkers"):
            found += [each["Key"] for each in page.get(kind, [])]
    return found


def assert_nothing_is_left(workflow: Workflow) -> None:
    assert workflow.executions.arns("RUNNING") == []
    assert contents(workflow) == []


def test_stacks_are_compared_without_a_question_and_nothing_is_left_in_them(
    local: LocalAws, inorder: Inorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "GAP_SECONDS", 0)  # the old picture is replaced before it is read
    versions = {"InputBucketVersioning": "Enabled"}
    off = deploy(local, "without", {"Policy": "uncoordinated", **versions})
    every = deploy(local, "each-version", {"Policy": "every-version"})
    named = ["--stack-name", "without", "--stack-name", "each-version"]
    assert inorder("demo", *named, "--port", "1").exit_code == 2  # they have a place already
    result = inorder("demo", "--keys", "1", *named)
    assert result.exit_code == 0, result.output
    shown = summary(tmp_path)
    assert list(shown) == ["without", "each-version"]
    assert shown["without"]["repeated"] == 2
    each = shown["each-version"]
    if each["processed"] == 1:  # else the machine was too slow to replace it so soon
        assert "2 events were parked: inorder parked --stack-name each-version" in result.stderr
    assert 2 * each["processed"] + each["parked"] == 4
    assert each["stale"] == 0
    for stack in (off, every):
        assert_nothing_is_left(Workflow(local, stack))


def test_the_first_event_may_come_late_or_not_at_all_and_objects_of_others_are_left_alone(
    workflow: Workflow,
    inorder: Inorder,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workflow.upload("others.png", picture(RED))
    workflow.of_key("others.png", 1)
    with ExitStack() as disabled:
        disabled.enter_context(workflow.without_events())
        with monkeypatch.context() as patch:
            patch.setattr(demo, "PATIENCE_SECONDS", 1)
            patch.setattr(deployed_demo, "FIRST_EVENT_TRIES", 3)
            patch.setattr(deployed_demo, "FIRST_EVENT_SECONDS", 0.5)
            result = inorder(*command)
        assert result.exit_code == 1
        first = f"the event of s3://{workflow.stack.input_bucket}/inorder-demo-"
        complaint = result.stderr.splitlines()[-1]
        assert complaint.startswith(f"Error: Waited 2 s for {first}")
        assert "which was uploaded 3 times. Is EventBridge switched on" in complaint
        assert contents(workflow) == []

        def one_upload_in_vain(*_: Any) -> None:
            monkeypatch.setattr(deployed_demo, "wait_until", wait_until)
            disabled.close()
            raise TimeoutError

        monkeypatch.setattr(deployed_demo, "wait_until", one_upload_in_vain)
        result = inorder(*command)
    assert result.exit_code == 0, result.output
    assert summary(tmp_path)[workflow.stack.name]["events"] == 4 * KEYS
    assert_nothing_is_left(workflow)
    assert workflow.s3.head_object(Bucket=workflow.stack.input_bucket, Key="others.png")
    assert workflow.output("others.png")


@pytest.mark.usefixtures("inorder")  # for the environment of the process
def test_an_interrupted_demonstration_removes_what_it_created(
    workflow: Workflow, command: list[str]
) -> None:
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "inorder.commands.main", *command, "--keys", "30"],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(contents(workflow)) > 3, SECONDS, "uploads")
    finally:
        process.terminate()
    assert process.wait(2 * SECONDS) == 128 + 15
    assert_nothing_is_left(workflow)


def test_on_aws_it_begins_with_a_yes_and_finds_what_is_stale_missing_or_lost_by_the_log(
    workflow: Workflow,
    inorder: Inorder,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aws, bucket, outputs_of = LikeAws(workflow), workflow.stack.output_bucket, Run._outputs
    aws.replace(monkeypatch)
    result = inorder(*command, input="n\n")
    assert result.exit_code == 1
    assert "Begin? [y/N]" in result.stderr
    assert contents(workflow) == []
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

    def with_faults(run: Run) -> Any:
        outputs = [each for each in contents(workflow) if "/out-" in each]
        _, first, second = sorted(outputs)
        workflow.s3.delete_object(Bucket=bucket, Key=second)
        old = demo._inverse(own_pairs(1)[0].old)
        workflow.s3.put_object(Bucket=bucket, Key=first, Body=old)
        return outputs_of(run)

    monkeypatch.setattr(Run, "_outputs", with_faults)
    with aws.writing(changed):
        result = inorder(*command, "--yes")
        assert len(written) == KEYS + 1  # it has waited for what its own deletions caused
    assert result.exit_code == 1
    assert "roughly 0.01 US dollars" in result.stderr
    shown = summary(tmp_path)[workflow.stack.name]
    assert (shown["events"], shown["lost"], shown["duplicates"]) == (4 * KEYS, 4, 1)
    assert shown["processed"] + shown["superseded"] == 3
    assert (shown["stale"], shown["missing"]) == (1, 1)
    assert_nothing_is_left(workflow)

    listed = inorder("executions", "--prefix", "inorder-demo-", "--outcome", "Superseded", "--json")
    superseded = json.loads(listed.stdout.splitlines()[-1])
    story = json.loads(inorder("why", superseded["key"], "--json").stdout)
    [cause] = [each["cause"] for each in story["deliveries"] if each["id"] == superseded["id"]]
    assert (cause["is_certain"], story["verdict"]["state"]) == (True, "right")
    told = json.loads(inorder("execution", superseded["id"], "--json").stdout)
    assert told["missing"] == 0
    errors = {attempt["error"] for step in told["steps"] for attempt in step["attempts"]}
    assert "DynamoDB.ConditionalCheckFailedException" in errors
