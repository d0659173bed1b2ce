"""What `make test-aws` does, rehearsed on the local AWS: a part of it, or all with NIGHT=1."""

import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch
from uuid import uuid4

import boto3
import click
import pytest
from botocore.credentials import RefreshableCredentials
from click.testing import CliRunner

from inorder.errors import Failure
from inorder.local_aws import LocalAws
from inorder.model.execution import Attempt, Execution, Step
from tests.aws import __main__ as command
from tests.aws import steps
from tests.aws.steps import Unknown
from tests.aws.trial import NAME, Trial
from tests.support.resolved_template import resources_with

EXPECTED, OTHERWISE, UNKNOWN = command.EXPECTED, command.OTHERWISE, command.UNKNOWN
IN_PART = steps.STEPS[3:]  # without the stories, the demonstration and the refused calls
UNKNOWN_LOCALLY = {steps.read_pauses, steps.throttle_table}


def left_of(trial: Trial) -> list[str]:
    cloudformation, s3, dynamodb, sqs = map(
        trial.client, ("cloudformation", "s3", "dynamodb", "sqs")
    )
    names = [stack["StackName"] for stack in cloudformation.describe_stacks()["Stacks"]]
    names += [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    names += dynamodb.list_tables()["TableNames"] + sqs.list_queues().get("QueueUrls", [])
    return [name for name in names if trial.name in name]


def test_a_rehearsal_says_what_is_known_and_deletes_everything(
    local: LocalAws, tmp_path: Path
) -> None:
    trial = Trial(f"{NAME}{uuid4().hex[:8]}", local)
    taken = steps.STEPS if os.environ.get("NIGHT") else IN_PART
    report = command.Report(tmp_path / "report.md", "the local AWS")
    assert command.run(trial, report, taken)
    answers = [UNKNOWN if step in UNKNOWN_LOCALLY else EXPECTED for step in taken]
    assert report.verdicts == [EXPECTED, *answers, EXPECTED]
    assert left_of(trial) == []
    assert "000000000000" not in report.file.read_text()  # the local AWS's account


def test_a_later_run_deletes_what_a_failed_deletion_has_left(
    local: LocalAws, tmp_path: Path
) -> None:
    trial, report = Trial(f"{NAME}{uuid4().hex[:8]}", local), command.Report(tmp_path / "r", "here")
    with patch.object(local.client("dynamodb"), "delete_table", side_effect=KeyboardInterrupt):
        assert not command.run(trial, report, [])
    assert f"make test-aws REMOVE={trial.name}" in report.file.read_text()
    assert left_of(trial)
    Trial(trial.name, local).delete()
    assert left_of(trial) == []


@pytest.mark.parametrize(("failing", "number"), [("deploy", 2), ("step", 4)])
def test_what_fails_is_an_answer_and_the_stack_is_deleted(
    tmp_path: Path, failing: str, number: int
) -> None:
    trial, report = Mock(), command.Report(tmp_path / "r", "here")
    message = "sqs/123456789012/q: arn:aws:sts::123456789012:assumed-role/R/me@x may not"
    fail = Mock(side_effect=Failure(message))
    ok = Mock(return_value="")
    with patch.object(command, "deploy", fail if failing == "deploy" else ok):
        assert not command.run(trial, report, [fail, ok])
    assert (report.verdicts.count(OTHERWISE), len(report.verdicts)) == (1, number)
    trial.delete.assert_called_once()
    assert "sqs/ACCOUNT/q: arn:aws:sts::PRINCIPAL may not" in report.file.read_text()


def test_no_local_aws_is_taken_for_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for options in ([], ["--remove", f"{NAME}01234567"]):
        done = CliRunner().invoke(command.main, options)
        assert done.exit_code == 1
        assert "AWS_ENDPOINT_URL names a local AWS" in done.output


def test_an_interrupt_deletes_the_stack(tmp_path: Path) -> None:
    trial = Mock(deploy=Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        command.run(trial, command.Report(tmp_path / "r", "here"))
    trial.delete.assert_called_once()


@pytest.mark.parametrize(
    ("token", "hours", "is_refused"),
    [
        (None, None, False),
        ("token", None, True),
        ("token", -1, True),
        ("token", 1.9, True),
        ("token", 2.1, False),
    ],
)
def test_credentials_that_end_within_two_hours_are_refused(
    monkeypatch: pytest.MonkeyPatch, token: str | None, hours: float | None, is_refused: bool
) -> None:
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    if hours:
        ends = datetime.now(UTC) + timedelta(hours=hours)
        monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", ends.isoformat())
    refused = pytest.raises(click.ClickException, match="within two hours")
    with refused if is_refused else nullcontext():
        command.check_credentials(boto3.Session())


def test_credentials_of_a_machine_are_renewed() -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    credentials: Any = RefreshableCredentials("a", "b", "token", soon, Mock(), "iam-role")
    command.check_credentials(SimpleNamespace(get_credentials=lambda: credentials))  # type: ignore[arg-type]


def test_only_the_name_of_a_run_can_be_removed() -> None:
    refused = CliRunner().invoke(command.main, ["--remove", NAME])
    assert (refused.exit_code, "eight hexadecimal digits" in refused.output) == (2, True)


@pytest.mark.parametrize("concurrency", [6, 10, 100, 1000])
def test_the_demonstration_never_needs_more_than_the_account_has(concurrency: int) -> None:
    keys = steps.keys_at_once(concurrency)
    needed = steps.INVOCATIONS_OF_A_KEY * keys + steps.OF_OTHERS
    assert concurrency - steps.INVOCATIONS_OF_A_KEY < needed <= concurrency


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        ([0.1, 2.9, 1.4], None),
        ([0.1, 2.9, 7.5], "MaxDelaySeconds"),
        ([2.9, 3.1, 3.0], "JitterStrategy"),
    ],
)
def test_pauses_are_judged_by_the_retrier(seconds: Sequence[float], error: str | None) -> None:
    at, attempts = datetime.now(UTC), list[Attempt]()
    for pause in [9, 9, *seconds, 0]:  # the first two have other limits
        attempts.append(Attempt(at, at))
        at += timedelta(seconds=pause)
    step = Step("Invert Image", "Task", {}, {}, attempts=tuple(attempts))
    pauses = steps.pauses([Execution("arn", "SUCCEEDED", {}, steps=(step,))])
    assert pauses == pytest.approx(seconds)
    wrong = pytest.raises(AssertionError, match=f"{error}.* is not kept")
    with wrong if error else nullcontext():
        steps.judge_pauses(pauses, {"MaxDelaySeconds": 3})


def line(error: str) -> str:
    return json.dumps({"type": "TaskFailed", "details": {"error": f"DynamoDB.{error}"}})


def test_errors_of_dynamodb_are_compared_with_those_that_are_retried() -> None:
    refused, throttled = line("ConditionalCheckFailedException"), line("ThrottlingException")
    assert "ThrottlingException': 2" in steps.judge_errors([refused, throttled, throttled])
    with pytest.raises(Unknown):
        steps.judge_errors([refused])
    with pytest.raises(AssertionError, match=r"not retried: \{'DynamoDB\.Amazon"):
        steps.judge_errors([throttled, line("AmazonDynamoDBException")])


def test_the_permissions_have_every_service_of_the_template() -> None:
    statements = json.loads(Path(__file__).with_name("permissions.json").read_text())["Statement"]
    allowed = {action.split(":")[0] for statement in statements for action in statement["Action"]}
    kinds = {resource["Type"] for resource in resources_with({}).values()}
    services = {kind.split("::")[1].lower() for kind in kinds}
    assert "stepfunctions" in services
    assert services - {"stepfunctions"} | {"states"} <= allowed
