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
from cfnlint import ManualArgs
from cfnlint.api import lint

from inorder import PROJECT
from inorder.asl import check_file
from inorder.asl.lease import lease_numbers
from inorder.aws.executions import wait_until
from tests.conftest import picture
from tests.policies.places import Moto
from tests.policies.situations import GREEN, RED, HeldBack
from tests.policies.stories import tell
from tests.proof.simulation.cloud import sequencer_of
from tests.support import in_process
from tests.support.in_process import InProcess

FOLDER = PROJECT / "docs" / "recipes"
RECIPES = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.diff"))}
SECTIONS = {
    name: text
    for text in (FOLDER / "README.md").read_text().split("\n## ")[1:]
    for name in re.findall(r"\((.+)\.diff\)", text)
}
SECONDS = re.compile(r"holder (\d+), lease (\d+), waiter (\d+),\s+longest execution (\d+)")
ACCOUNT = "arn:aws:lambda:us-east-1:123456789012:function"
NEW_FUNCTIONS = {
    "IndexImageFunctionArn": f"{ACCOUNT}:index-image",
    "InvertUrgentImageFunctionArn": f"{ACCOUNT}:invert-urgent-image",
}


def recipe(name: str, policy: str = "latest-wins") -> pytest.MarkDecorator:
    """Run a test in a copy of the project to which a recipe was applied."""
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


@pytest.fixture
def changed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert applies(RECIPES[request.param], copied(tmp_path))
    for file in (tmp_path / "statemachine").glob("*.json"):
        text = file.read_text()
        for name, arn in NEW_FUNCTIONS.items():
            text = text.replace(f"${{{name}}}", arn)
        file.write_text(text)
    monkeypatch.setattr(in_process, "PROJECT", tmp_path)


@pytest.fixture
def aws(changed: None, aws: InProcess) -> InProcess:  # noqa: ARG001 - the recipe comes first
    return aws


def called(operation: str) -> list[Any]:
    """List the parameters of an operation's calls from now on."""
    calls: list[Any] = []
    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register(
        f"provide-client-params.{operation}", lambda params, **_: calls.append(params)
    )
    return calls


def invoked(calls: list[Any]) -> list[str]:
    return [each["FunctionName"].split(":")[6] for each in calls]


def outcomes(aws: InProcess, *events: Any) -> list[str | None]:
    return [aws.run(event).outcome for event in events]


@pytest.mark.parametrize("name", RECIPES)
def test_check_finds_nothing_the_seconds_are_those_of_the_text_and_each_hunk_fits_one_place(
    name: str, tmp_path: Path
) -> None:
    assert applies(RECIPES[name], copied(tmp_path))
    [file] = re.findall(r"^\+\+\+ b/(statemachine/.+)$", RECIPES[name], re.MULTILINE)
    assert check_file(tmp_path / file) == []
    stated = SECONDS.search(SECTIONS[name])
    expected, found = (
        lease_numbers(json.loads((folder / file).read_text())) for folder in (PROJECT, tmp_path)
    )
    assert found == (tuple(map(int, stated.groups())) if stated else expected)
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
    left = [name for name in RECIPES if "+++ b/template.yaml" in RECIPES[name]]
    while left:
        folder = copied(tmp_path / left[0])
        of_template = "--include=template.yaml"
        left = [name for name in left if not applies(RECIPES[name], folder, of_template)]
        text = (folder / "template.yaml").read_text()
        assert lint(text, config=ManualArgs(regions=["us-east-1"])) == []


@pytest.mark.parametrize(
    ("changed", "policy", "story"),
    [
        pytest.param(name, policy, story, marks=pytest.mark.policy(policy), id=name)
        for name, policy, story in [
            # Decides without invoking the function.
            ("dry-run", "latest-wins", "A1 B2 2=Processed 2=Duplicate 1=Superseded is="),
            ("park-late-events", "latest-wins", "A1 B2 2=Processed 1=Parked is=B"),
            # The first event's version is no longer current; the third one's is another one.
            (
                "one-event-for-all-versions",
                "first-wins",
                "A1 B2 1=Superseded 2=Processed C3 3=Duplicate is=B",
            ),
        ]
    ],
    indirect=["changed"],
)
def test_a_story_happens_as_it_is_told(aws: InProcess, policy: str, story: str) -> None:
    if policy == "first-wins":
        aws.keep_versions()
    tell(Moto(aws), story, policy)


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
    assert aws.wait(waiting).outcome == "Duplicate"


@recipe("another-function")
def test_another_function_is_invoked_with_its_own_payload(aws: InProcess) -> None:
    aws.invoke = lambda _: {"outcome": "Processed", "expires_at": "1800000000"}
    event = aws.upload("x.png", picture(RED))
    assert aws.run(event).outcome == "Processed"
    named = {"bucket": "input", "key": "x.png", "sequencer": sequencer_of(event)}
    assert aws.invocations == [{**named, "width": 320, "fence": "newest"}]


@recipe("two-steps-under-the-lock")
def test_the_second_step_runs_under_the_lock_and_its_failure_is_retried(aws: InProcess) -> None:
    calls, locks = called("lambda.Invoke"), []
    broken = True

    def step(payload: Any) -> Any:
        if "result" not in payload:
            return aws.handle(payload)
        locks.append("lock_token" in aws.record("input/x.png"))
        if broken:
            raise RuntimeError("no index")
        return {}

    aws.invoke = step
    superseded, event = (aws.upload("x.png", picture(colour)) for colour in (GREEN, RED))
    assert outcomes(aws, superseded, event) == ["Superseded", "Retrying"]
    broken = False
    assert outcomes(aws, event, event) == ["Processed", "Duplicate"]
    assert invoked(calls) == ["invert-image", *["invert-image", "index-image"] * 2]
    assert locks == [True, True]


@recipe("urgent-keys-first")
def test_urgent_keys_have_a_function_of_their_own(aws: InProcess) -> None:
    calls = called("lambda.Invoke")
    events = [aws.upload(key, picture(RED)) for key in ("urgent/x.png", "not/urgent/x.png")]
    assert outcomes(aws, *events) == ["Processed"] * 2
    assert invoked(calls) == ["invert-urgent-image", "invert-image"]


@recipe("quota-for-each-key")
def test_a_fourth_event_of_a_key_is_parked_until_the_count_expires(aws: InProcess) -> None:
    for _ in range(3):
        assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    fourth, other = aws.upload("x.png", picture(GREEN)), aws.upload("y.png", picture(RED))
    assert outcomes(aws, fourth, other) == ["Parked", "Processed"]
    assert [each["reason"]["Error"] for each in aws.parked()] == ["OverQuota"]
    assert "expires_at" in aws.record("quota:input/x.png")
    aws.table.delete_item(Key={"id": "quota:input/x.png"})
    assert aws.run(fourth).outcome == "Processed"


@recipe("only-some-keys")
def test_keys_with_other_suffixes_are_ignored(aws: InProcess) -> None:
    events = [aws.upload(key, picture(RED)) for key in ("x.png", "x.txt")]
    assert outcomes(aws, *events) == ["Processed", "Ignored"]


@recipe("only-some-sizes")
def test_small_and_large_objects_are_ignored(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    for size, outcome in [(99, "Ignored"), (50_000_001, "Ignored"), (100, "Processed")]:
        event["detail"]["object"]["size"] = size
        assert aws.run(event).outcome == outcome
    assert aws.run(aws.delete("x.png")).outcome == "Processed"


@recipe("notification-of-each-output")
def test_only_a_processed_event_is_announced_or_retried_until_it_is(aws: InProcess) -> None:
    calls = called("events.PutEvents")
    older, newer = (aws.upload("x.png", picture(colour)) for colour in (GREEN, RED))
    assert outcomes(aws, older, newer, newer) == ["Superseded", "Processed", "Duplicate"]
    [[announced]] = (each["Entries"] for each in calls)
    assert (announced["Source"], announced["DetailType"]) == ("inorder", "Output Written")
    assert "out-x.png" in str(announced["Detail"])

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, "PutEvents")

    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register_first("before-call.eventbridge.PutEvents", refuse)
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Retrying"
