"""The diffs of docs/policies.md: each applies to the shipped files, and does what it says.

A test is bound to a diff by the heading above it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import boto3
import pytest
from cfnlint import ManualArgs
from cfnlint.api import lint
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT
from inorder.asl import check_file
from inorder.asl.lease import LeaseNumbers, lease_numbers
from inorder.aws.executions import wait_until
from tests import in_process
from tests.conftest import picture
from tests.in_process import Faults, InProcess
from tests.policies.situations import GREEN, RED, SHORT, HeldBack, sequencer_of

DIFFS: dict[str, str] = dict(
    re.findall(
        r"^### (.+)\n(?:(?!###|```).*\n)*```diff\n((?:.*\n)*?)```$",
        (PROJECT / "docs" / "policies.md").read_text(),
        re.MULTILINE,
    )
)
BOUND: set[str] = set()
ACCOUNT = "arn:aws:lambda:us-east-1:123456789012:function"
NEW_FUNCTIONS = {
    "ResizeImageFunctionArn": f"{ACCOUNT}:resize-image:live",
    "IndexImageFunctionArn": f"{ACCOUNT}:index-image:live",
    "InvertUrgentImageFunctionArn": f"{ACCOUNT}:invert-urgent-image:live",
}


def wish(title: str, policy: str = "latest-wins") -> pytest.MarkDecorator:
    """Run a test in a copy of the project to which a diff has been applied."""
    BOUND.add(title)
    bound = pytest.param(title, marks=pytest.mark.policy(policy))
    return pytest.mark.parametrize("wished", [bound], indirect=True)


def patched(title: str, folder: Path) -> None:
    """Copy what the diffs are made for, and apply one."""
    for name in ("statemachine", "functions"):
        shutil.copytree(PROJECT / name, folder / name)
    shutil.copy(PROJECT / "template.yaml", folder)
    command = ["git", "apply", "-"]
    subprocess.run(command, input=DIFFS[title], cwd=folder, text=True, check=True)  # noqa: S603


@pytest.fixture
def wished(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    patched(request.param, tmp_path)
    for file in (tmp_path / "statemachine").iterdir():
        text = file.read_text()
        for name, arn in NEW_FUNCTIONS.items():
            text = text.replace(f"${{{name}}}", arn)
        file.write_text(text)
    monkeypatch.setattr(in_process, "PROJECT", tmp_path)
    return tmp_path


@pytest.fixture
def aws(wished: Path, aws: InProcess) -> InProcess:  # noqa: ARG001 - first the diff, then the file
    return aws


def numbers(wished: Path) -> LeaseNumbers:
    computed = lease_numbers(
        json.loads((wished / "statemachine" / "latest_wins.asl.json").read_text())
    )
    assert computed
    return computed


def invoked_functions() -> list[str]:
    """Tell from now on which functions are invoked."""
    names: list[str] = []
    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register(
        "provide-client-params.lambda.Invoke",
        lambda params, **_: names.append(params["FunctionName"].split(":")[6]),
    )
    return names


def test_each_diff_has_a_test_of_what_it_does() -> None:
    headings = re.findall("^```diff$", (PROJECT / "docs" / "policies.md").read_text(), re.MULTILINE)
    assert len(DIFFS) == len(headings)
    assert set(DIFFS) == BOUND


@pytest.mark.parametrize("title", DIFFS)
def test_check_and_lint_find_nothing_after_a_diff(title: str, tmp_path: Path) -> None:
    patched(title, tmp_path)
    for file in re.findall(r"^\+\+\+ b/(.+)$", DIFFS[title], re.MULTILINE):
        if file == "template.yaml":
            template = (tmp_path / file).read_text()
            assert lint(template, config=ManualArgs(regions=["us-east-1"])) == []
        else:
            assert check_file(tmp_path / file) == []


@wish("Skip instead of waiting", "first-wins")
def test_one_waits_for_a_lock_and_the_others_are_skipped(aws: InProcess) -> None:
    held = HeldBack(aws)
    holder = aws.start(aws.upload("x.png", picture(RED)))
    assert held.worked.wait(30)
    waiting = aws.start(aws.upload("x.png", picture(RED)))
    wait_until(lambda: "watched_lock" in aws.record("input/x.png"), 30, "somebody who waits")
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Skipped"
    held.release.set()
    assert aws.wait(holder).outcome == "Processed"
    waited = aws.wait(waiting)
    assert waited.outcome == "Duplicate"
    assert "Wait For Lock" in waited.path


@wish("Another function")
def test_another_function_gets_what_it_wants(aws: InProcess) -> None:
    names = invoked_functions()
    aws.invoke = lambda _: {"outcome": "Processed", "expires_at": "1800000000"}
    event = aws.upload("x.png", picture(RED))
    assert aws.run(event).outcome == "Processed"
    assert names == ["resize-image"]
    assert aws.invocations == [
        {"bucket": "input", "key": "x.png", "sequencer": sequencer_of(event), "width": 320}
    ]


@wish("Two steps under the lock")
def test_the_second_step_is_under_the_lock_and_parks_if_it_fails(
    wished: Path, aws: InProcess
) -> None:
    assert numbers(wished).lease == 90
    names, locks = invoked_functions(), []
    broken = True

    def step(payload: Any) -> Any:
        if "result" not in payload:
            return aws.handle(payload)
        locks.append("lock_token" in aws.record("input/x.png"))
        if broken:
            raise RuntimeError("no index")
        return {}

    aws.invoke = step
    event = aws.upload("x.png", picture(RED))
    assert aws.run(event).outcome == "Parked"
    broken = False
    assert aws.run(event).outcome == "Processed"
    assert names == ["invert-image", "index-image"] * 2
    assert locks == [True, True]
    assert aws.run(event).outcome == "Duplicate"


@wish("Two steps under the lock")
def test_a_superseded_event_takes_no_second_step(aws: InProcess) -> None:
    names = invoked_functions()
    older = aws.upload("x.png", picture(RED))
    aws.upload("x.png", picture(GREEN))
    assert aws.run(older).outcome == "Superseded"
    assert names == ["invert-image"]


@wish("Urgent keys first")
def test_urgent_keys_have_a_function_of_their_own(aws: InProcess) -> None:
    names = invoked_functions()
    assert aws.run(aws.upload("urgent/x.png", picture(RED))).outcome == "Processed"
    assert aws.run(aws.upload("not/urgent/x.png", picture(RED))).outcome == "Processed"
    assert names == ["invert-urgent-image", "invert-image"]


@wish("A quota for each key")
def test_a_key_has_three_events_until_its_count_expires(aws: InProcess) -> None:
    for _ in range(3):
        assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    fourth = aws.upload("x.png", picture(GREEN))
    assert aws.run(fourth).outcome == "Parked"
    [message] = aws.parked()
    assert (message["event"], message["reason"]["Error"]) == (fourth, "OverQuota")
    assert aws.run(aws.upload("y.png", picture(RED))).outcome == "Processed"
    count = aws.record("quota:input/x.png")
    assert (count["uses"], "expires_at" in count) == (3, True)
    assert "lock_token" not in aws.record("input/x.png")
    aws.table.delete_item(Key={"id": "quota:input/x.png"})
    assert aws.run(fourth).outcome == "Processed"


@wish("Only some keys")
def test_other_keys_start_nothing_and_are_ignored(wished: Path, aws: InProcess) -> None:
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    assert aws.run(aws.upload("x.txt", picture(RED))).outcome == "Ignored"
    assert len(aws.invocations) == 1
    resources = yaml_parse((wished / "template.yaml").read_text())["Resources"]
    rule = resources["LatestWinsStateMachine"]["Properties"]["Events"]["ObjectChanged"]
    keys = rule["Properties"]["Pattern"]["detail"]["object"]["key"]
    assert [each["suffix"] for each in keys] == [".jpg", ".png"]


@wish("Only some sizes")
def test_small_and_large_objects_are_ignored(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    for size, outcome in [(99, "Ignored"), (50_000_001, "Ignored"), (100, "Processed")]:
        event["detail"]["object"]["size"] = size
        assert aws.run(event).outcome == outcome
    assert aws.run(aws.delete("x.png")).outcome == "Processed"


@wish("A notification of each output")
def test_what_is_processed_is_told_once(aws: InProcess) -> None:
    events, sqs = boto3.client("events"), boto3.client("sqs")
    queue = sqs.create_queue(QueueName="told")["QueueUrl"]
    events.put_rule(Name="told", EventPattern='{"source": ["inorder"]}')
    target = {"Id": "queue", "Arn": "arn:aws:sqs:us-east-1:123456789012:told"}
    events.put_targets(Rule="told", Targets=[target])
    superseded = aws.upload("x.png", picture(GREEN))
    event = aws.upload("x.png", picture(RED))
    assert aws.run(superseded).outcome == "Superseded"
    assert aws.run(event).outcome == "Processed"
    assert aws.run(event).outcome == "Duplicate"
    [message] = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    told = json.loads(message["Body"])
    assert (told["source"], told["detail-type"]) == ("inorder", "Output Written")
    assert told["detail"]["object_key"] == "input/x.png"
    assert told["detail"]["result"]["output_key"] == "out-x.png"


@wish("A notification of each output")
def test_what_cannot_be_told_is_parked(aws: InProcess) -> None:
    assert Faults().refuse("eventbridge.PutEvents", 100) == []
    event = aws.upload("x.png", picture(RED))
    assert aws.run(event).outcome == "Parked"
    assert aws.record("input/x.png")["status"] == "FAILED"


@wish("A dry run")
def test_a_dry_run_decides_and_does_nothing(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert aws.run(newer).outcome == "Processed"
    assert aws.run(newer).outcome == "Duplicate"
    assert aws.run(older).outcome == "Superseded"
    assert aws.invocations == []
    assert aws.outputs() == []


@wish("A function that takes a minute")
def test_a_minute_leaves_room_for_one_attempt(wished: Path, aws: InProcess) -> None:
    assert numbers(wished) == (109, 111, 114, 289)
    template = yaml_parse((wished / "template.yaml").read_text())
    assert template["Resources"]["InvertImageFunction"]["Properties"]["Timeout"] == 60

    def broken(_: Any) -> Any:
        raise RuntimeError("no connection")

    aws.wait_scale = SHORT
    aws.invoke = broken
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Parked"
    assert len(aws.invocations) == 1


@wish("One event for all versions", "first-wins")
def test_all_versions_of_a_key_have_one_event(aws: InProcess) -> None:
    aws.keep_versions()
    first, second = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert aws.run(first).outcome == "Superseded"  # not current any more
    assert aws.run(second).outcome == "Processed"
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Duplicate"
    assert len(aws.table.scan()["Items"]) == 1


@wish("Parking what came too late")
def test_an_older_event_is_parked(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert aws.run(newer).outcome == "Processed"
    assert aws.run(older).outcome == "Parked"
    [message] = aws.parked()
    assert (message["event"], message["reason"]["Error"]) == (older, "Superseded")
    assert aws.record("input/x.png")["status"] == "DONE"
