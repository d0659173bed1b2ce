"""`inorder demo --stack-name` compares stacks, and leaves nothing of its own in them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inorder import PROJECT, commands
from inorder.aws.executions import wait_until
from inorder.aws.stack import Connection, deploy
from inorder.demo import deployed as deployed_demo
from inorder.demo import run as demo
from inorder.demo.pictures import own_pairs
from inorder.demo.run import PictureRun
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import RED, SECONDS, Inorder, Workflow

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
    result = inorder("demo", "--keys", "1", *named)
    assert result.exit_code == 0, result.output
    shown = summary(tmp_path)
    assert list(shown) == ["without", "each-version"]
    assert shown["without"]["repeated"] == 2
    each = shown["each-version"]
    assert 2 * each["processed"] + each["parked"] == 4
    assert each["stale"] == 0
    for stack in (off, every):
        assert_nothing_is_left(Workflow(local, stack))


def test_without_events_it_fails_and_the_objects_of_others_are_left_alone(
    workflow: Workflow, inorder: Inorder, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow.upload("others.png", picture(RED))
    workflow.of_key("others.png", 1)
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 1)
    monkeypatch.setattr(deployed_demo, "FIRST_EVENT_TRIES", 3)
    monkeypatch.setattr(deployed_demo, "FIRST_EVENT_SECONDS", 0.5)
    with workflow.without_events():
        result = inorder(*command)
    assert (result.exit_code, "Is EventBridge switched on" in result.stderr) == (1, True)
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


def test_it_asks_before_it_costs_money_and_counts_what_is_stale_or_missing(
    workflow: Workflow,
    inorder: Inorder,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Connection, "is_local", False)
    result = inorder(*command, input="n\n")
    assert (result.exit_code, "Begin? [y/N]" in result.stderr) == (1, True)
    assert contents(workflow) == []
    bucket, outputs_of = workflow.stack.output_bucket, PictureRun.outputs

    def with_faults(run: PictureRun) -> Any:
        _, first, second = sorted(each for each in contents(workflow) if "/out-" in each)
        workflow.s3.delete_object(Bucket=bucket, Key=second)
        old = demo._inverse(own_pairs(1)[0].old)
        workflow.s3.put_object(Bucket=bucket, Key=first, Body=old)
        return outputs_of(run)

    monkeypatch.setattr(PictureRun, "outputs", with_faults)
    assert inorder(*command, "--yes").exit_code == 1
    shown = summary(tmp_path)[workflow.stack.name]
    assert (shown["events"], shown["stale"], shown["missing"]) == (4 * KEYS, 1, 1)
    assert_nothing_is_left(workflow)
