"""The first hour on AWS, rehearsed on the local AWS: a part of it, and with faults put in.

With NIGHT=1, all questions are asked that the local AWS can answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from inorder.local_aws import LocalAws
from tests.first_hour import __main__ as command
from tests.first_hour import deliveries, faults, tools, trial
from tests.first_hour.questions import QUESTIONS, Question, Verdict, seen
from tests.first_hour.report import Report, without_names
from tests.first_hour.tools import WATCHED
from tests.first_hour.trial import Trial

EXPECTED, FAILED, NOT_ASKED = Verdict.EXPECTED, Verdict.FAILED, Verdict.NOT_ASKED
IN_PART = ("concurrency", "conditions", "sweep", "parked", "why")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a moment only."""
    for module in (deliveries, faults, tools):
        monkeypatch.setattr(module, "PATIENCE", 20)


def asked(rehearsal: Trial, folder: Path, *only: str) -> tuple[Report, dict[str, str]]:
    report = Report(folder, "the local AWS")
    command.ask(rehearsal, report, only)
    rows = json.loads((folder / "aws-report.json").read_text())["rows"]
    return report, {name: row["verdict"] for name, row in rows.items()}


def made_by(rehearsal: Trial) -> list[str]:
    return [*rehearsal.stacks(), *(what for what, _ in rehearsal._retained())]


def test_the_local_aws_answers_and_everything_is_removed(
    local: LocalAws, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    only: tuple[str, ...] = ()
    if not os.environ.get("NIGHT"):
        request.getfixturevalue("quick")
        only = IN_PART
    report, verdicts = asked(rehearsal := Trial(uuid4().hex[:8], local), tmp_path, *only)
    wanted = {each.name for each in QUESTIONS if each.deploys or each.name in only or not only}
    is_asked = {each.name: not each.not_local for each in QUESTIONS}
    assert verdicts == {name: EXPECTED if is_asked[name] else NOT_ASKED for name in wanted}
    assert (report.is_good, report.left, made_by(rehearsal)) == (True, [], [])
    told = report.markdown.read_text()
    assert "Everything was removed." in told
    assert "000000000000" not in told + report.json.read_text()  # the local AWS's account


@pytest.mark.usefixtures("quick")
def test_a_rule_that_matches_nothing_and_a_missing_permission_are_told(
    local: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "PATIENCE", 3)
    rehearsal = Trial(uuid4().hex[:8], local, KeyPrefix="other/")
    denied = partial(ClientError, {"Error": {"Code": "AccessDenied", "Message": "You may not."}})
    with (
        patch.object(local.client("sqs"), "receive_message", side_effect=denied("ReceiveMessage")),
        patch.object(local.client("dynamodb"), "delete_table", side_effect=denied("DeleteTable")),
    ):
        report, verdicts = asked(rehearsal, tmp_path, "multipart", "conditions", "parked")
    assert [*verdicts.values()] == [EXPECTED, FAILED, EXPECTED, FAILED]
    told = report.markdown.read_text()
    for part in ("Waited 3 s for its output", "the ReceiveMessage operation: You may not."):
        assert part in told
    assert "the DeleteTable operation: You may not." in told.partition("**Not removed:**")[2]
    assert (report.is_good, rehearsal.remove(), made_by(rehearsal)) == (False, [], [])


@pytest.mark.usefixtures("quick")
def test_a_stack_that_fails_halfway_is_removed(local: LocalAws, tmp_path: Path) -> None:
    rehearsal = Trial(
        uuid4().hex[:8], local, PermissionsBoundaryArn="no-arn", RecordRetentionDays="many"
    )
    report, verdicts = asked(rehearsal, tmp_path, "parked")
    assert verdicts == {"deployment": FAILED, "parked": NOT_ASKED}
    assert "Failure: sam deploy of stack TRIAL failed" in report.markdown.read_text()
    assert (report.is_good, report.left, made_by(rehearsal)) == (False, [], [])


def test_a_run_that_is_resumed_asks_what_is_not_answered(tmp_path: Path) -> None:
    report = Report(tmp_path, "r")
    answered, failed, *_ = QUESTIONS
    report.add(answered, seen(True, "yes"))
    report.left = ["a bucket"]
    assert not report.is_good  # although its one answer is as expected
    report.add(failed, failed.answer(SimpleNamespace(local=None, is_deployed=False)))  # type: ignore[arg-type]
    assert list(Report(tmp_path, "r", resume=True).rows) == [answered.name]


def test_an_interrupt_removes_what_was_made_and_a_second_one_says_what_is_left(
    tmp_path: Path,
) -> None:
    def interrupted(*_: object) -> Iterator[None]:
        raise KeyboardInterrupt

    stopped = SimpleNamespace(name="inorder-trial-1", local=None, is_deployed=False)
    stopped.client = stopped.remove = interrupted
    with pytest.raises(KeyboardInterrupt):
        asked(stopped, tmp_path)  # type: ignore[arg-type]
    assert "make test-aws REMOVE=1" in (tmp_path / "aws-report.md").read_text()


WRONG = {"severity": "ERROR", "code": "SCHEMA_VALIDATION_FAILED", "message": "It has no end."}
TOLD: dict[str, Any] = {"id": "1", "previous_event_id": "0", "event_timestamp": "1", "details": {}}
TOLD |= {"type": "ExecutionSucceeded", "execution_arn": "arn:aws:states:r:0:express:m:name:run"}
ENTRY = {"message": json.dumps(TOLD), "ingestionTime": 4000, "timestamp": 1}
OF_TRIAL = [{"Name": "QueueName", "Value": f"{trial.NAME}1-Queue"}]
METRICS = [{"MetricName": name, "Dimensions": OF_TRIAL} for _, name in sorted(WATCHED)]
METRICS += [{"MetricName": "Processed"}]
ALARMS = [{"AlarmName": f"{n}Alarm"} for n in ("ParkedEvents", "EventParked")]
ANSWERS: dict[str, dict[str, Any]] = {  # of AWS, as expected
    "GetServiceQuota": {"Quota": {"Value": 1500.0}},
    "ValidateStateMachineDefinition": {"result": "OK", "diagnostics": []},
    "FilterLogEvents": {"events": [ENTRY]},
    "ListMetrics": {"Metrics": METRICS},
    "DescribeAlarms": {"MetricAlarms": ALARMS},
    "StartQuery": {"queryId": "1"},
    "GetQueryResults": {"status": "Complete", "results": []},
    "GetQueueAttributes": {"Attributes": {"ApproximateNumberOfMessages": "1"}},
}
OTHERWISE: dict[str, dict[str, Any]] = {
    "quotas": {
        "GetServiceQuota": {"Error": {"Code": "NoSuchResourceException"}},
        "GetAWSDefaultServiceQuota": {"Quota": {"Value": 5.0}},
    },
    "definitions": {"ValidateStateMachineDefinition": {"result": "FAIL", "diagnostics": [WRONG]}},
    "log": {"FilterLogEvents": {"events": [ENTRY, ENTRY]}},
    "metrics": {"ListMetrics": {"Metrics": METRICS[1:]}},
    "alarms": {"DescribeAlarms": {"MetricAlarms": ALARMS[:1]}},
    "queries": {"GetQueryResults": {"status": "Failed", "results": []}},
    "undelivered": {"GetQueueAttributes": {"Attributes": {"ApproximateNumberOfMessages": "0"}}},
}


class Modelled(Trial):
    """A trial on AWS whose calls, and the answers to them, are checked against AWS's models."""

    resources = {"EventsRole": "role"}  # noqa: RUF012
    stack: Any = SimpleNamespace(undelivered_events_queue_url="https://sqs/queue")
    put = run = output = inorder = Mock()
    answers = ANSWERS

    def client(self, service: str) -> Any:
        client = boto3.client(service, region_name="us-east-1")  # type: ignore[call-overload]
        client.meta.events.register("before-call", self.answered)
        return client

    def answered(self, model: Any, **_: Any) -> Any:
        answer = self.answers.get(model.name, {})
        if "Error" in answer:
            return Mock(status_code=400), answer
        if model.output_shape:
            found = ParamValidator().validate(answer, model.output_shape)
            assert not found.has_errors(), found.generate_report()
        return Mock(status_code=200), answer

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> float:
        if not condition():
            raise TimeoutError(what)
        return seconds


@pytest.mark.parametrize(
    "question", [e for e in QUESTIONS if e.not_local and "make test" not in e.not_local]
)
@patch("time.sleep", Mock())
def test_a_question_to_aws_alone_fits_its_models(question: Question) -> None:
    right = question.answer(aws := Modelled("1"))
    assert right.verdict == EXPECTED, right
    aws.answers = ANSWERS | OTHERWISE[question.name]
    wrong = question.answer(aws)
    assert wrong.verdict == Verdict.OTHERWISE or "TimeoutError" in wrong.observed, wrong


@pytest.mark.parametrize(
    ("told", "written"),
    [
        ("arn:aws:sqs:us-east-1:123456789012:q", "arn:aws:sqs:us-east-1:ACCOUNT:q"),
        ("arn:aws:sts::123456789012:assumed-role/a/b@c", "arn:aws:sts::ACCOUNT:PRINCIPAL"),
        ("AKIAIOSFODNN7EXAMPLE", "ACCESS_KEY"),
        (r"{\"source-ip-address\":\"203.0.113.7\"}", r"{\"source-ip-address\":\"ADDRESS\"}"),
        ("inorder-trial-0a1b2c3d-KeyTable-1ABCDEF2GHIJ", "TRIAL-KeyTable"),
        ("key/12345678-1234-1234-1234-123456789012", "key/KEY"),
        ("00E1 253402300799123", "00E1 253402300799123"),
    ],
)
def test_a_report_names_no_account(told: str, written: str) -> None:
    assert without_names(told) == written
