"""The recipes of docs/recipes: each applies to the shipped files, and does what its text says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT, new_policy
from inorder.asl import check_file
from inorder.asl.lease import lease_numbers
from inorder.aws.executions import wait_until
from tests.conftest import picture
from tests.policies.situations import GREEN, RED, HeldBack, sequencer_of
from tests.support import in_process
from tests.support.in_process import InProcess
from tests.support.linting import findings

FOLDER = PROJECT / "docs" / "recipes"
RECIPES = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.diff"))}
SECTIONS = {
    name: text
    for text in (FOLDER / "README.md").read_text().split("\n## ")[1:]
    for name in re.findall(r"\((.+)\.diff\)", text)
}
SECONDS = re.compile(r"holder (\d+), lease (\d+), waiter (\d+),\s+longest execution (\d+)")
COMMENT = re.compile(r'"Comment": ".*"')
TESTED: set[str] = set()

ACCOUNT = "arn:aws:lambda:us-east-1:123456789012:function"
NEW_FUNCTIONS = {
    "IndexImageFunctionArn": f"{ACCOUNT}:index-image",
    "InvertUrgentImageFunctionArn": f"{ACCOUNT}:invert-urgent-image",
}


def recipe(name: str, policy: str = "latest-wins") -> pytest.MarkDecorator:
    """Run a test in a copy of the project to which a recipe was applied."""
    TESTED.add(name)
    bound = pytest.param(name, marks=pytest.mark.policy(policy))
    return pytest.mark.parametrize("changed", [bound], indirect=True)


def copied(folder: Path) -> Path:
    """Copy what recipes change, and the functions that the template names."""
    for name in ("statemachine", "functions"):
        shutil.copytree(PROJECT / name, folder / name)
    shutil.copy(PROJECT / "template.yaml", folder)
    return folder


def applies(diff: str, folder: Path, *options: str) -> bool:
    """Apply a recipe, and tell whether that was possible."""
    command = ["git", "apply", *options, "-"]
    done = subprocess.run(  # noqa: S603
        command, input=diff, cwd=folder, text=True, capture_output=True, check=False
    )
    return done.returncode == 0


def asl_of(diff: str) -> str:
    [file] = re.findall(r"^\+\+\+ b/(statemachine/.+)$", diff, re.MULTILINE)
    return str(file)


def seconds_of(file: Path) -> tuple[float, ...]:
    return lease_numbers(json.loads(file.read_text())) or ()


@pytest.fixture
def changed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    assert applies(RECIPES[request.param], copied(tmp_path))
    for file in (tmp_path / "statemachine").glob("*.json"):
        text = file.read_text()
        for name, arn in NEW_FUNCTIONS.items():
            text = text.replace(f"${{{name}}}", arn)
        file.write_text(text)
    monkeypatch.setattr(in_process, "PROJECT", tmp_path)
    return tmp_path


@pytest.fixture
def aws(changed: Path, aws: InProcess) -> InProcess:  # noqa: ARG001 - the recipe comes first
    return aws


def invoked_functions() -> list[str]:
    """List the names of the functions that are invoked from now on."""
    names: list[str] = []
    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register(
        "provide-client-params.lambda.Invoke",
        lambda params, **_: names.append(params["FunctionName"].split(":")[6]),
    )
    return names


def refuse(**_: Any) -> None:
    """Refuse a call as a service does that is too busy."""
    raise ClientError({"Error": {"Code": "ThrottlingException"}}, "PutEvents")


def outcomes(aws: InProcess, *events: Any) -> list[str | None]:
    return [aws.run(event).outcome for event in events]


def test_each_recipe_is_described_and_has_a_test_of_what_it_does() -> None:
    assert set(RECIPES) == set(SECTIONS) == TESTED


@pytest.mark.parametrize("name", RECIPES)
def test_check_finds_nothing_the_seconds_are_those_of_the_text_and_each_hunk_fits_one_place(
    name: str, tmp_path: Path
) -> None:
    assert applies(RECIPES[name], copied(tmp_path))
    file = tmp_path / asl_of(RECIPES[name])
    assert check_file(file) == []
    stated, shipped = SECONDS.search(SECTIONS[name]), PROJECT / asl_of(RECIPES[name])
    expected = tuple(map(int, stated.groups())) if stated else seconds_of(shipped)
    assert seconds_of(file) == expected
    # git looks for a hunk nearby when lines have moved. It must not find another place.
    for part in re.split(r"^--- a/", RECIPES[name], flags=re.MULTILINE)[1:]:
        lines = (PROJECT / part.partition("\n")[0]).read_text().splitlines()
        for hunk in re.split(r"^@@.*\n", part, flags=re.MULTILINE)[1:]:
            old = [line[1:] for line in hunk.splitlines() if not line.startswith("+")]
            places = [lines[at : at + len(old)] for at in range(len(lines))].count(old)
            assert places == 1, hunk
            assert not any('"Comment":' in line for line in old), hunk


def test_lint_finds_nothing_in_the_templates(tmp_path: Path) -> None:
    # It takes seconds for a template, so as many recipes as fit together change the same one.
    names = [name for name in RECIPES if "+++ b/template.yaml" in RECIPES[name]]
    while names:
        folder = copied(tmp_path / names[0])
        left = [
            name for name in names if not applies(RECIPES[name], folder, "--include=template.yaml")
        ]
        assert left != names
        assert findings((folder / "template.yaml").read_text()) == []
        names = left


def test_each_recipe_applies_to_a_copy_of_a_policy_with_other_comments(tmp_path: Path) -> None:
    (copied(tmp_path) / "tests" / "policies").mkdir(parents=True)
    for number, name in enumerate(RECIPES):
        source = Path(asl_of(RECIPES[name])).name.removesuffix(".asl.json")
        new_policy.create(f"copy-{number}", source.replace("_", "-"), tmp_path)
        file = tmp_path / "statemachine" / f"copy_{number}.asl.json"
        file.write_text(COMMENT.sub('"Comment": "Reworded."', file.read_text()))
        title = source.replace("_", " ").title().replace(" ", "")
        diff = RECIPES[name].replace(source, f"copy_{number}").replace(title, f"Copy{number}")
        assert applies(diff, tmp_path, "--check"), name


@recipe("skip-instead-of-waiting", "first-wins")
def test_one_execution_waits_for_a_lock_and_the_others_skip_their_events(aws: InProcess) -> None:
    held = HeldBack(aws)
    holder = aws.start(aws.upload("x.png", picture(RED)))
    assert held.worked.wait(30)
    waiting = aws.start(aws.upload("x.png", picture(RED)))
    wait_until(lambda: "watched_lock" in aws.record("input/x.png"), 30, "a waiter")
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Skipped"
    held.release.set()
    assert aws.wait(holder).outcome == "Processed"
    waited = aws.wait(waiting)
    assert waited.outcome == "Duplicate"
    assert "Wait For Lock" in waited.path


@recipe("another-function")
def test_another_function_is_invoked_with_its_own_payload(aws: InProcess) -> None:
    aws.invoke = lambda _: {"outcome": "Processed", "expires_at": "1800000000"}
    event = aws.upload("x.png", picture(RED))
    assert aws.run(event).outcome == "Processed"
    named = {"bucket": "input", "key": "x.png", "sequencer": sequencer_of(event)}
    assert aws.invocations == [{**named, "width": 320, "fence": "newest"}]


@recipe("two-steps-under-the-lock")
def test_the_second_step_runs_under_the_lock_and_its_failure_is_retried(aws: InProcess) -> None:
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
    assert aws.run(event).outcome == "Retrying"
    broken = False
    assert outcomes(aws, event, event) == ["Processed", "Duplicate"]
    assert names == ["invert-image", "index-image"] * 2
    assert locks == [True, True]
    superseded = aws.upload("x.png", picture(RED))
    aws.upload("x.png", picture(GREEN))
    assert aws.run(superseded).outcome == "Superseded"
    assert names[4:] == ["invert-image"]  # and no second step


@recipe("urgent-keys-first")
def test_urgent_keys_have_a_function_of_their_own(aws: InProcess) -> None:
    names = invoked_functions()
    events = [aws.upload(key, picture(RED)) for key in ("urgent/x.png", "not/urgent/x.png")]
    assert outcomes(aws, *events) == ["Processed"] * 2
    assert names == ["invert-urgent-image", "invert-image"]


@recipe("quota-for-each-key")
def test_a_fourth_event_of_a_key_is_parked_until_the_count_expires(aws: InProcess) -> None:
    for _ in range(3):
        assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    fourth, other = aws.upload("x.png", picture(GREEN)), aws.upload("y.png", picture(RED))
    assert outcomes(aws, fourth, other) == ["Parked", "Processed"]
    [message] = aws.parked()
    assert (message["event"], message["reason"]["Error"]) == (fourth, "OverQuota")
    count = aws.record("quota:input/x.png")
    assert (count["uses"], "expires_at" in count) == (3, True)
    assert "lock_token" not in aws.record("input/x.png")
    aws.table.delete_item(Key={"id": "quota:input/x.png"})
    assert aws.run(fourth).outcome == "Processed"


@recipe("only-some-keys")
def test_keys_with_other_suffixes_are_ignored(changed: Path, aws: InProcess) -> None:
    events = [aws.upload(key, picture(RED)) for key in ("x.png", "x.txt")]
    assert outcomes(aws, *events) == ["Processed", "Ignored"]
    assert len(aws.invocations) == 1
    resources = yaml_parse((changed / "template.yaml").read_text())["Resources"]
    _, pattern = resources["EventsRule"]["Properties"]["EventPattern"]["Fn::If"][1:]
    condition, _, filters = pattern["detail"]["object"]["Fn::If"]
    assert condition == "FiltersKeys"
    assert filters == {"key": [{"suffix": ".jpg"}, {"suffix": ".png"}]}


@recipe("only-some-sizes")
def test_small_and_large_objects_are_ignored(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    for size, outcome in [(99, "Ignored"), (50_000_001, "Ignored"), (100, "Processed")]:
        event["detail"]["object"]["size"] = size
        assert aws.run(event).outcome == outcome
    assert aws.run(aws.delete("x.png")).outcome == "Processed"


@recipe("notification-of-each-output")
def test_only_a_processed_event_is_announced_or_retried_until_it_is(aws: InProcess) -> None:
    events, sqs = boto3.client("events"), boto3.client("sqs")
    queue = sqs.create_queue(QueueName="announced")["QueueUrl"]
    events.put_rule(Name="announced", EventPattern='{"source": ["inorder"]}')
    target = {"Id": "queue", "Arn": "arn:aws:sqs:us-east-1:123456789012:announced"}
    events.put_targets(Rule="announced", Targets=[target])
    older, newer = (aws.upload("x.png", picture(colour)) for colour in (GREEN, RED))
    assert outcomes(aws, older, newer, newer) == ["Superseded", "Processed", "Duplicate"]
    [message] = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    announced = json.loads(message["Body"])
    assert (announced["source"], announced["detail-type"]) == ("inorder", "Output Written")
    assert announced["detail"]["object_key"] == "input/x.png"
    assert announced["detail"]["result"]["output_key"] == "out-x.png"
    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register_first("before-call.eventbridge.PutEvents", refuse)
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Retrying"
    assert aws.record("input/x.png")["status"] == "FAILED"


@recipe("dry-run")
def test_a_dry_run_decides_without_invoking_the_function(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert outcomes(aws, newer, newer, older) == ["Processed", "Duplicate", "Superseded"]
    assert aws.invocations == aws.outputs() == []


@recipe("one-event-for-all-versions", "first-wins")
def test_all_versions_of_a_key_share_one_record(aws: InProcess) -> None:
    aws.keep_versions()
    first, second = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    # The first one's version is no longer current.
    assert outcomes(aws, first, second) == ["Superseded", "Processed"]
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Duplicate"
    assert len(aws.records()) == 1


@recipe("park-late-events")
def test_an_event_that_arrives_after_a_newer_one_is_parked(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert outcomes(aws, newer, older) == ["Processed", "Parked"]
    [message] = aws.parked()
    assert (message["event"], message["reason"]["Error"]) == (older, "Superseded")
    assert aws.record("input/x.png")["status"] == "DONE"
