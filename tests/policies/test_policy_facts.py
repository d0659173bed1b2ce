"""What statemachine/policies.toml and docs/policies.md say about events is what happens."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest

from bench.log_size import METADATA, size_of
from bench.simulation import cloud
from bench.simulation.clock import Outage
from bench.simulation.cloud import Cloud, Settings
from bench.simulation.table import Table
from heal_keys.stuck import SINCE
from inorder import PROJECT
from inorder.events import shipped
from inorder.model.policies import definition, policies
from inorder.run import with_object
from tests.conftest import picture
from tests.policies.situations import RED, SHORT, of
from tests.support.in_process import INPUT, InProcess

POLICIES = {policy.name: policy for policy in policies()}


class CountingTable(Table):
    """Counts what state machines do, and the entries of the index that are written or removed."""

    used: Counter[str]

    def put(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._counting(request["Item"]["id"]["S"]):
            return super().put(request)

    def update(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._counting(request["Key"]["id"]["S"]):
            return super().update(request)

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        self.used["reads"] += 1
        return super().get(request)

    @contextmanager
    def _counting(self, key: str) -> Iterator[None]:
        before = self._indexed()
        try:
            yield
        finally:
            self.used["writes"] += 1
            self.used["plain writes"] += "event" not in self.items[key].attrs
            # A changed entry is removed and written anew.
            self.used["index"] += len(before ^ self._indexed())

    def _indexed(self) -> set[tuple[str, str]]:
        return {
            (key, item.attrs[SINCE].value)
            for key, item in self.items.items()
            if SINCE in item.attrs
        }


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted = Counter[str]()
    monkeypatch.setattr(CountingTable, "used", counted, raising=False)
    monkeypatch.setattr(cloud, "Table", CountingTable)
    return counted


@pytest.mark.parametrize("policy", POLICIES)
def test_an_event_costs_what_the_facts_say(policy: str, used: Counter[str]) -> None:
    facts, uncontended = POLICIES[policy], Counter[str]()
    waits, waiting = Settings(policy, seconds=14), [(0, 1), (1, 1)]
    if facts.fence is None:  # what takes long is to forward an event
        waits, waiting = Settings(policy, outages=[Outage("events", 0, 9, "silence")]), [(0, 2)]
    for situation, settings, uploads in (
        ("uncontended", Settings(policy), [(0, 1)]),
        ("duplicate", Settings(policy), [(0, 2)]),
        ("older", Settings(policy), [(5, 1), (0, 1)]),
        ("waiter", waits, waiting),
    ):
        expected = getattr(facts.cost, situation)
        if expected is None:
            continue
        used.clear()
        simulated = Cloud(settings)
        for after, deliveries in uploads:
            simulated.upload("x.png", after, "same", deliveries)
        simulated.run_until_quiet(86_400)
        used["invocations"] = simulated.clock.total("invocations")
        used.subtract(uncontended)
        if situation == "uncontended":
            uncontended = used.copy()
        polls = used["reads"] - expected.reads if situation == "waiter" else 0
        assert (polls > 0) == (situation == "waiter")
        told = Counter(asdict(expected))
        told["index"] = facts.index.get(situation, 0)
        told["plain writes"] = facts.plain_writes.get(situation, 0)
        for _ in range(polls):
            told.update(asdict(facts.each_poll))
            told["plain writes"] += facts.plain_writes.get("each_poll", 0)
        assert +used == +told, situation
    types = {state["Type"] for state in definition(policy)["States"].values()}
    assert ("Wait" in types) == (facts.cost.waiter is not None)


def entries(execution: str) -> list[tuple[str, int]]:
    """Give the name of the state, if it is entered, and the size of each entry of the log.

    The form is that of https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html.
    """
    history = boto3.client("stepfunctions").get_paginator("get_execution_history")
    events: list[Any] = [*history.paginate(executionArn=execution).search("events")]
    written = []
    for event in events:
        [details] = [value for name, value in event.items() if name.endswith("Details")] or [{}]
        if event["type"] == "TaskSucceeded" and details["resourceType"] == "lambda":
            details["output"] = json.dumps(json.loads(details["output"]) | METADATA)
        entered = details["name"] if event["type"].endswith("StateEntered") else ""
        written.append((entered, size_of(event["type"], details)))
    return written


@of(*POLICIES)
def test_an_event_and_a_poll_write_as_much_to_the_log_as_the_facts_say(aws: InProcess) -> None:
    assert boto3.DEFAULT_SESSION
    for service in ("dynamodb", "eventbridge"):  # as an optimized integration hands it on
        boto3.DEFAULT_SESSION.events.register(
            f"after-call.{service}", lambda parsed, **_: parsed.update(METADATA)
        )
    aws.wait_scale, facts = SHORT, POLICIES[aws.policy].log
    event = with_object(
        shipped("object-created"), picture(RED), aws.s3, INPUT, aws.run, lambda _: None
    )
    kilobytes = sum(size for _, size in entries(aws.run(event).arn)) / 1000
    assert kilobytes == pytest.approx(facts.uncontended, abs=1)
    if not facts.poll:
        return
    record = next(each for each in aws.records() if not each["id"].startswith("event:"))
    held = {"status": "IN_PROGRESS", "lock_token": "6f1c8a0e-93ba-4d3e-8a57-2f9b1b0c7d11"}
    aws.put_record(record | held)
    if aws.like != "content-hash":
        event["detail"]["object"]["sequencer"] += "0"  # a later event
    written = entries(aws.run(event).arn)
    waits = [at for at, (name, _) in enumerate(written) if name.startswith("Wait ")]
    for start, end in pairwise(waits[1:5]):
        kilobytes = sum(size for _, size in written[start:end]) / 1000
        assert kilobytes == pytest.approx(facts.poll, abs=1)


@of(*POLICIES)
def test_an_event_file_ends_as_the_table_says(aws: InProcess) -> None:
    text = (PROJECT / "docs" / "policies.md").read_text(encoding="utf-8")
    [table] = re.findall(r"^\| event \|.*\n(?:\|.*\n)+", text, re.MULTILINE)
    headings, _, *rows = (
        [cell.strip(" `") for cell in row.split("|")] for row in table.split("\n")
    )
    for row in rows:
        told = dict(zip(headings, row, strict=False))
        if not (outcome := told.get(aws.policy)):
            continue
        event = shipped(Path(told["event"]).stem)
        if "version-id" in event["detail"].get("object", {}):
            aws.keep_versions()
        if event["detail-type"] in {"Object Created", "Object Deleted"}:
            event = with_object(event, picture(RED), aws.s3, INPUT, aws.run, lambda _: None)
        assert aws.run(event).outcome == outcome, told
