"""The first hour on AWS, rehearsed on the local AWS: a part of it, and with faults put in.

With NIGHT=1, all questions are asked that the local AWS can answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from inorder.local_aws import LocalAws
from tests.first_hour import __main__ as command
from tests.first_hour import before, deliveries, faults, tools, trial
from tests.first_hour.questions import QUESTIONS, Verdict, seen
from tests.first_hour.report import Report, without_names
from tests.first_hour.trial import Trial

EXPECTED, FAILED, NOT_ASKED = Verdict.EXPECTED, Verdict.FAILED, Verdict.NOT_ASKED
IN_PART = ("concurrency", "name-is-free", "disorder", "dead-holder", "parked", "why")


class Rehearsal(Trial):
    """A trial into which faults can be put."""

    def __init__(self, local: LocalAws, **given: str) -> None:
        super().__init__(uuid4().hex[:8], local)
        self._given |= given
        self.has_rule = True

    def deploy(self) -> None:
        super().deploy()
        if not self.has_rule:
            rule = self.resources["EventsRule"].rpartition("/")[2]
            self.client("events").disable_rule(Name=rule)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the companions out, and wait for a moment only."""
    for module in (trial, before):
        monkeypatch.setattr(module, "COMPANIONS", ())
    for module in (deliveries, faults, tools):
        monkeypatch.setattr(module, "PATIENCE", 20)


def asked(rehearsal: Trial, folder: Path, *only: str) -> tuple[Report, dict[str, str]]:
    report = Report(folder, "the local AWS")
    command.ask(rehearsal, report, only)
    rows = json.loads((folder / "aws-report.json").read_text())["rows"]
    return report, {name: row["verdict"] for name, row in rows.items()}


def made_by(rehearsal: Trial) -> list[str]:
    """List what is left of a trial."""
    return [*rehearsal._stacks(), *(what for what, _ in rehearsal._retained())]


def test_the_local_aws_answers_and_everything_is_removed(
    local: LocalAws, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    only: tuple[str, ...] = ()
    if not os.environ.get("NIGHT"):
        request.getfixturevalue("quick")
        only = IN_PART
    report, verdicts = asked(rehearsal := Rehearsal(local), tmp_path, *only)
    wanted = {each.name for each in QUESTIONS if each.deploys or each.name in only or not only}
    is_asked = {each.name: not each.not_local for each in QUESTIONS}
    assert verdicts == {name: EXPECTED if is_asked[name] else NOT_ASKED for name in wanted}
    assert (report.is_good, report.left, made_by(rehearsal)) == (True, [], [])
    told = report.markdown.read_text()
    assert "Everything was removed." in told
    assert "000000000000" not in told + report.json.read_text()  # the local AWS's account


@pytest.mark.usefixtures("quick")
def test_a_rule_that_matches_nothing_is_told(local: LocalAws, tmp_path: Path) -> None:
    rehearsal = Rehearsal(local)
    rehearsal.has_rule = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliveries, "PATIENCE", 3)
        report, verdicts = asked(rehearsal, tmp_path, "multipart", "parked")
    assert verdicts == {"deployment": EXPECTED, "multipart": FAILED, "parked": EXPECTED}
    assert "Waited 3 s for its output" in report.markdown.read_text()
    assert (report.is_good, made_by(rehearsal)) == (False, [])


@pytest.mark.usefixtures("quick")
def test_a_stack_that_fails_halfway_is_removed(local: LocalAws, tmp_path: Path) -> None:
    rehearsal = Rehearsal(local, PermissionsBoundaryArn="no-arn", RecordRetentionDays="many")
    report, verdicts = asked(rehearsal, tmp_path, "parked")
    assert verdicts == {"deployment": FAILED, "parked": NOT_ASKED}
    assert (report.is_good, report.left, made_by(rehearsal)) == (False, [], [])


@pytest.mark.usefixtures("quick")
def test_a_missing_permission_is_told(local: LocalAws, tmp_path: Path) -> None:
    def deny(**_: Any) -> AWSResponse:
        body = {"__type": "AccessDeniedException", "message": "You may not."}
        raw = SimpleNamespace(stream=lambda: iter([json.dumps(body).encode()]))
        return AWSResponse("", 400, HTTPHeaders(), raw)

    events = local.client("sqs").meta.events
    events.register("before-send.sqs.ReceiveMessage", deny)
    try:
        report, verdicts = asked(Rehearsal(local), tmp_path, "parked")
    finally:
        events.unregister("before-send.sqs.ReceiveMessage", deny)
    assert verdicts == {"deployment": EXPECTED, "parked": FAILED}
    assert "AccessDenied" in report.markdown.read_text()


def test_a_run_that_is_resumed_asks_what_is_not_answered(tmp_path: Path) -> None:
    report = Report(tmp_path, "r")
    answered, failed, *_ = QUESTIONS
    report.add(answered, seen(True, "yes"))
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


def test_the_log_of_an_execution_is_evidence() -> None:
    entries = [
        {"id": str(number), "previous_event_id": "0", "event_timestamp": "1", "details": {}}
        | {"type": "ExecutionSucceeded", "execution_arn": "arn:x:y"}
        for number in (2, 1)
    ]
    found = [{"message": json.dumps(e), "ingestionTime": 4000, "timestamp": 1} for e in entries]
    logs = SimpleNamespace(filter_log_events=lambda **_: {"events": found})
    pages = SimpleNamespace(paginate=lambda **_: [{"events": found}])
    logs.get_paginator = lambda _: pages
    aws: Any = SimpleNamespace(name="inorder-trial-1", client=lambda _: logs)
    answer = tools.log(aws)
    assert (answer.verdict, "at most 4.0 s late" in answer.observed) == (EXPECTED, True)


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
