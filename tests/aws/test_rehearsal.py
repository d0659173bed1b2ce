"""What `make test-aws` does, rehearsed on the local AWS: a part of it, or all with NIGHT=1."""

import errno
import json
import os
import traceback
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
    names = [
        stack["StackName"] for stack in trial.client("cloudformation").describe_stacks()["Stacks"]
    ]
    names += [bucket["Name"] for bucket in trial.client("s3").list_buckets()["Buckets"]]
    names += trial.client("dynamodb").list_tables()["TableNames"]
    names += trial.client("sqs").list_queues().get("QueueUrls", [])
    return [name for name in names if trial.name in name]


def test_a_rehearsal_says_what_is_known_and_deletes_everything(
    local: LocalAws, tmp_path: Path
) -> None:
    trial = Trial(f"{NAME}{uuid4().hex[:8]}", local)
    taken = steps.STEPS if os.environ.get("NIGHT") else IN_PART
    report = command.Report(tmp_path / "report.md", "the local AWS")
    with patch.object(local.client("dynamodb"), "delete_table", side_effect=KeyboardInterrupt):
        assert not command.run(trial, report, taken)
    answers = [UNKNOWN if step in UNKNOWN_LOCALLY else EXPECTED for step in taken]
    assert report.verdicts == [EXPECTED, *answers, OTHERWISE]
    written = report.file.read_text()
    assert f"make test-aws REMOVE={trial.name}" in written
    assert "000000000000" not in written  # the local AWS's account
    assert left_of(trial)
    Trial(trial.name, local).delete()  # as a later run
    assert left_of(trial) == []


@pytest.mark.parametrize(
    ("failing", "verdicts"),
    [
        ("", [EXPECTED] * 4),
        ("deploy", [OTHERWISE, EXPECTED]),
        ("step", [EXPECTED, OTHERWISE, EXPECTED, EXPECTED]),
    ],
)
def test_what_fails_is_an_answer_and_the_stack_is_deleted(
    tmp_path: Path, failing: str, verdicts: list[str]
) -> None:
    trial, report = Mock(), command.Report(tmp_path / "r", "here")
    error = Failure("sqs/123456789012/q: arn:aws:sts::123456789012:assumed-role/R/me@x may not")
    deploy, step = (
        Mock(side_effect=[error if name == failing else ""]) for name in ("deploy", "step")
    )
    with patch.object(command, "deploy", deploy):
        is_right = command.run(trial, report, [step, Mock(return_value="")])
    assert (is_right, report.verdicts) == (not failing, verdicts)
    trial.delete.assert_called_once()
    answer = "sqs/ACCOUNT/q: arn:aws:sts::PRINCIPAL may not"
    assert (answer in report.file.read_text()) == bool(failing)


def test_a_terminal_that_takes_no_text_leaves_no_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, report = Mock(), command.Report(tmp_path / "r", "here")
    trial.name = f"{NAME}01234567"

    def write(*_: Any) -> None:
        raise OSError(errno.EIO, "the terminal is gone")

    monkeypatch.setattr(click, "echo", write)
    monkeypatch.setattr(traceback, "print_exc", write)
    assert not command.run(trial, report, [Mock(side_effect=Failure("no"))])
    trial.delete.assert_called_once()
    assert f"REMOVE={trial.name}" in report.file.read_text()


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
        ([0.1, 2.9, 7.5], "The longest pause is not kept: 3 pauses of 0.1 to 7.5 s, of 4 allowed"),
        ([2.9, 3.1, 3.0], "JitterStrategy FULL is not kept: 3 pauses of 2.9 to 3.1"),
    ],
)
def test_pauses_are_judged_by_the_retrier(seconds: Sequence[float], error: str | None) -> None:
    at, attempts = datetime.now(UTC), list[Attempt]()
    for pause in [9, 9, *seconds, 0]:  # the first two have other limits
        attempts.append(Attempt(at, at))
        at += timedelta(seconds=pause)
    step = Step("Invert Image", "Task", {}, {}, attempts=tuple(attempts))
    executions = [Execution("arn", "SUCCEEDED", {}, steps=(step,))]
    with pytest.raises(AssertionError, match=error) if error else nullcontext():
        steps.judge_pauses(executions, steps.LATEST_WINS["Invert Image"]["Retry"][0])


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
