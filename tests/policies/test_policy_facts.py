"""What statemachine/policies.toml says about the cost of an event is what happens."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import boto3
import pytest

from inorder.asl.roles import Role, doing
from inorder.model.policies import policies
from inorder_fence.stuck import SINCE
from tests.conftest import picture
from tests.policies.situations import RED, of
from tests.policies.tables import STATES
from tests.proof.simulation import cloud
from tests.proof.simulation.clock import Clock
from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.machine import Context, Execution, Machine
from tests.proof.simulation.table import Table
from tests.support.events import changed, shipped
from tests.support.in_process import INPUT, InProcess
from tests.support.log_size import METADATA, size_of, without_data

POLICIES = {policy.name: policy for policy in policies()}
Write = Callable[[dict[str, Any]], dict[str, Any]]


class CountingTable(Table):
    """Counts what state machines do, and the entries of the index that are written or removed."""

    used: Counter[str]

    def put(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._counting(super().put, request)

    def update(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._counting(super().update, request)

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        self.used["reads"] += 1
        return super().get(request)

    def _counting(self, write: Write, request: dict[str, Any]) -> dict[str, Any]:
        before = self._indexed()
        try:
            return write(request)
        finally:
            self.used["writes"] += 1
            # A changed entry is removed and written anew.
            self.used["index"] += len(before ^ self._indexed())

    def _indexed(self) -> set[tuple[str, str]]:
        return {(item["id"]["S"], item[SINCE]["S"]) for item in self.having(SINCE)}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_event_costs_what_the_facts_say(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, uncontended, used = POLICIES[policy], Counter[str](), Counter[str]()
    monkeypatch.setattr(CountingTable, "used", used, raising=False)
    monkeypatch.setattr(cloud, "Table", CountingTable)
    for situation, settings, uploads in (
        ("uncontended", Settings(policy), [(0, 1)]),
        ("duplicate", Settings(policy), [(0, 2)]),
        ("older", Settings(policy), [(5, 1), (0, 1)]),
        ("waiter", Settings(policy, seconds=9), [(0, 1), (1, 1)]),
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
        documented = Counter(asdict(expected))
        documented["index"] = facts.index.get(situation, 0)
        for _ in range(polls):
            documented.update(asdict(facts.each_poll))
        assert +used == +documented, situation


@of(*POLICIES)
def test_the_facts_say_how_much_an_event_logs(aws: InProcess) -> None:
    """The form is as in https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html."""
    assert boto3.DEFAULT_SESSION
    for service in ("dynamodb", "eventbridge"):  # as an optimized integration hands it on
        boto3.DEFAULT_SESSION.events.register(
            f"after-call.{service}", lambda parsed, **_: parsed.update(METADATA)
        )
    event = shipped("object-created")
    described = event["detail"]["object"]
    described["etag"] = aws.upload(described["key"], picture(RED))["detail"]["object"]["etag"]
    event["detail"]["bucket"]["name"] = INPUT
    history: Any = boto3.client("stepfunctions").get_paginator("get_execution_history")
    size = size_without_data = 0
    for entry in history.paginate(executionArn=aws.run(event).arn).search("events"):
        [details] = [value for name, value in entry.items() if name.endswith("Details")] or [{}]
        if entry["type"] == "TaskSucceeded" and details["resourceType"] == "lambda":
            details["output"] = json.dumps(json.loads(details["output"]) | METADATA)
        size += size_of(entry["type"], details)
        size_without_data += size_of(entry["type"], without_data(details))
    facts = POLICIES[aws.policy]
    assert size / 1000 == pytest.approx(facts.log.uncontended, abs=1)
    assert size_without_data / 1000 == pytest.approx(facts.log_without_data.uncontended, abs=1)


# The longest names of the generated kind, and a key of 50 characters.
BUCKET, KEY = "inorder-inputbucket-abcdefghijkl", "k" * 50
ARN = "arn:aws:states:ap-northeast-1:123456789012:express:inorder_{}:" + "x" * 110


def recording(policy: str) -> set[str]:
    return set(doing(STATES[policy], Role.RECORDS))


def item_size(record: dict[str, Any]) -> int:
    """Give the size of an item: of names, of texts, and of a number a byte for two digits and one.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
    """
    size = 0
    for name, value in record.items():
        [(kind, content)] = value.items()
        size += len(name.encode())
        size += len(content.encode()) if kind == "S" else (len(content) + 1) // 2 + 1
    return size


@pytest.mark.parametrize("policy", [name for name in STATES if recording(name)])
def test_records_of_50_character_keys_have_at_most_1_kb(policy: str) -> None:
    """It is largest while its event is in progress: finished records have no lock and no holder."""
    event = changed(shipped("object-created"), "detail.object.key", KEY)
    event["detail"]["bucket"]["name"] = BUCKET
    event["resources"] = [f"arn:aws:s3:::{BUCKET}"]
    machine = Machine({"StartAt": "", "States": STATES[policy]}, f"inorder_{policy}")
    context = Context(Execution(ARN.format(policy), event, 0), Clock(0), machine.name)
    [claim] = recording(policy).difference({"Record Newest Event"})  # which leaves out the lock
    data = machine.states["Prepare Event"].parameters({}, context)
    table = Table(Clock(0))
    request = machine.states[claim].parameters(data, context)
    (table.put if "Item" in request else table.update)(request)
    [record] = table.items.values()
    assert "account" in json.loads(record["event"]["S"])
    entered = len("2026-11-20T09:30:00.123Z")
    worst = {"hand_overs": {"N": "50"}, "in_progress_since": {"S": "x" * entered}}
    if "lock_token" in record:
        worst["lock_token"] = {"S": record["lock_token"]["S"] + "/2"}
    assert item_size(record | worst) <= 1024
