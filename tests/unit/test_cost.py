"""The monthly bill: a month computed by hand, what it counts, and what documents say of it."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from inorder import PROJECT, cost
from inorder.aws.stack import Stack
from inorder.commands import cost as cost_command
from inorder.commands.main import main
from inorder.cost import Bill, Workload
from inorder.model.policies import policies, policy
from tests.conftest import picture
from tests.policies.situations import GREEN, RED
from tests.support.events import changed, shipped
from tests.support.in_process import InProcess
from tests.support.resolved_template import of_type, resources_with, template

LATEST = policy("latest-wins")
TABLE = tomllib.loads(cost.CONTENDERS.read_text())


def dollars(bill: Bill) -> dict[str, float]:
    return {line.name: line.dollars for line in bill.lines}


def test_a_month_of_a_million_uncontended_events_is_the_one_computed_by_hand() -> None:
    work = Workload(1_000_000, process_ms=300, memory=1024, log_level="ALL", object_kb=100)
    assert dollars(cost.bill_of(LATEST, work)) == pytest.approx(
        {
            "EventBridge: events of the bucket": 1.00,
            "Step Functions: Express requests": 1.00,
            # 10 + 2 calls of 10 + 20 + 300 = 350 ms, billed as 400, in 64 MB: 25,000 GB-s
            "Step Functions: Express duration": 25_000 * 0.06 / 3600,
            "DynamoDB: writes": 2 * 0.625,  # 1,016 bytes are one unit
            "DynamoDB: writes of the indexes": 2 * 0.625,
            "DynamoDB: storage": 1.016 * 7 / 30 * 0.25,  # 1.016 GB for seven days
            "DynamoDB: point-in-time recovery": 1.016 * 7 / 30 * 0.20,
            "Lambda: requests": 0.20,
            "Lambda: duration (arm64)": 300_000 * 0.0000133334,
            "S3: GET and HEAD": 3_000 * 0.0004,
            "S3: PUT": 1_000 * 0.005,
            "S3: the outputs of the month": 100 * 0.023,
            "CloudWatch: log of executions": 26 * 0.50,
            "CloudWatch: logs of functions": 1.1 * 0.50,
            "CloudWatch: storage of logs": 27.1 * 0.15 * 14 / 30 * 0.03,
            "SQS: long polls of an idle queue": 5 * 30 * 86_400 / 20 / 1e6 * 0.40,
            "Schedule: requests of Lambda": 2_880 / 1e6 * 0.20,
            "Schedule: duration of Lambda": 2_880 * 0.25 * 0.2 * 0.0000133334,
            "Schedule: reads of DynamoDB": 2_880 / 1e6 * 0.125,
            "CloudWatch: metrics": 2 * 0.30,
            "CloudWatch: alarms": 5 * 0.10,
        }
    )


def test_aws_bills_in_steps_and_tiers() -> None:
    for milliseconds, steps in ((1, 1), (100, 1), (100.1, 2)):
        used = cost.express_gb_seconds(LATEST, milliseconds)
        assert used == pytest.approx(steps * 0.1 * 64 / 1024)
    # https://aws.amazon.com/step-functions/pricing/: 17,361.11 GB-hours cost 382.97 dollars
    row = cost.prices()["express_gb_seconds"]
    assert row.dollars(17_361.11 * 3_600) == pytest.approx(382.97, abs=0.01)
    # https://www.duckbillgroup.com/?p=9080: 60 TB of a month cost 12,500 dollars, not 30,000
    row = cost.prices()["log_gb"]
    assert row.dollars(60_000) == pytest.approx(12_500)
    assert row.dollars(1) == 0.50


def test_contenders_are_sorted_and_at_a_break_even_both_cost_the_same() -> None:
    work = Workload(1_000_000, overwrites=0.5, process_ms=2_000, log_level="OFF")
    compared = cost.compare(LATEST, work)
    assert [each.dollars for each in compared] == sorted(each.dollars for each in compared)
    for each in compared:
        if each.overwrites:
            there = replace(work, overwrites=each.overwrites.at)
            assert cost.bill_of(LATEST, there).dollars == pytest.approx(
                cost.bill_of_contender(each.contender, there).dollars
            )
    [lock] = [each for each in compared if each.contender.name == "lock-in-function"]
    assert lock.overwrites
    assert lock.overwrites.is_cheaper_above


def test_what_is_switched_off_or_not_there_is_not_on_the_bill() -> None:
    for each in policies():
        lines = " ".join(dollars(cost.bill_of(each, Workload(log_level="OFF", heal_minutes=0))))
        assert not re.search("Schedule|log of executions", lines), each.name
    work = Workload(overwrites=0.5, heal_minutes=0)
    assert "DynamoDB" not in " ".join(dollars(cost.bill_of(policy("uncoordinated"), work)))


def test_what_is_assumed_of_the_template_is_in_the_template() -> None:
    resources, assumed = template()["Resources"], TABLE["assumed"]
    audit = template("stacks/audit/template.yaml")["Resources"]
    for function, name in (
        (resources["RetryEventsFunction"], "retry_mb"),
        (resources["HealKeysFunction"], "heal_mb"),
        (audit["AuditKeysFunction"], "audit_mb"),
    ):
        assert function["Properties"]["MemorySize"] == assumed[name]
    faults = resources["RetryEventsFunction"]["Properties"]["Events"]["Faults"]["Properties"]
    assert faults["ScalingConfig"]["MaximumConcurrency"] == assumed["pollers"]
    for minutes in (0, 15):
        bill = cost.bill_of(LATEST, Workload(heal_minutes=minutes))
        [counted] = [line.quantity for line in bill.lines if line.name == "CloudWatch: alarms"]
        deployed = resources_with({"HealMinutes": str(minutes)})
        assert len(of_type(deployed, "CloudWatch::Alarm")) == counted
    default = Workload()
    for name, value in {
        "RecordRetentionDays": default.retention_days,
        "LogRetentionDays": default.log_days,
        "HealMinutes": default.heal_minutes,
        "ExecutionLogLevel": default.log_level,
        "FunctionMemorySize": default.memory,
    }.items():
        assert template()["Parameters"][name]["Default"] == value, name


# What is counted


@pytest.mark.parametrize("fence", ["newest", "each", "none"])
def test_an_event_calls_s3_as_often_as_the_bill_says(aws: InProcess, fence: str) -> None:
    calls = Counter[bool]()
    aws.app.s3.meta.events.register(
        "before-call.s3", lambda model, **_: calls.update([model.name == "PutObject"])
    )

    def called(event: Any) -> list[int]:
        calls.clear()
        aws.handle({"event": event, "fence": fence})
        return [calls[False], calls[True]]

    first = aws.upload("x.png", picture(RED))
    counted = {"uncontended": called(first)}
    second = aws.upload("x.png", picture(GREEN))
    counted |= {"waiter": called(second), "duplicate": called(second)}
    # Each event has an output of its own under every-version, also an older one.
    counted["older"] = counted["uncontended"] if fence == "each" else called(first)
    assert counted == TABLE["s3"][fence]


# As AWS names an execution that EventBridge has started.
EXECUTION = (
    "arn:aws:states:ap-northeast-1:123456789012:express:"
    f"inorder_{{policy}}:{'n' * 36}_{'n' * 36}:{'u' * 36}"
)
BUCKET = "b" * 32  # as long as the bill assumes


@pytest.mark.parametrize(
    ("policy", "length", "units"),
    [
        pytest.param(*each, marks=pytest.mark.policy(each[0]))
        for each in [("latest-wins", 54, 1), ("latest-wins", 55, 2), ("every-version", 1024, 2)]
    ],
)
def test_a_write_costs_what_the_bill_and_the_page_of_policies_say(
    aws: InProcess, policy: str, length: int, units: int
) -> None:
    key = f"{'k' * (length - 4)}.png"  # a recipe processes pictures only
    sample = shipped("object-created")
    event = json.loads(json.dumps(sample).replace(sample["detail"]["bucket"]["name"], BUCKET))
    held: list[dict[str, Any]] = []
    execution = EXECUTION.format(policy=policy)

    def invoke(_: Any) -> dict[str, str]:
        """See the record as it is while the function works: never larger."""
        held.append(aws.record(f"{BUCKET}/{key}") | {"execution": execution})
        return {"outcome": "Processed", "output_key": "out", "expires_at": "1800000000"}

    aws.invoke = invoke
    aws.run(changed(event, "detail.object.key", key))
    [record] = held
    size = sum(len(f"{name}{value}".encode()) for name, value in record.items())
    assert cost.units_of_write(size) == units
    work, has_event = Workload(key_bytes=length), policy == "latest-wins"
    assert size == cost.record_bytes(work, has_event=has_event)


# The command

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:machine"
OWN = "arn:aws:lambda:us-east-1:123456789012:function:own-work:live"


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(main, ["cost", *arguments])


@pytest.mark.parametrize(
    "arguments", ["--overwrites 0.7 --older 0.7", "--events nan", "--process-ms 1e11"]
)
def test_impossible_numbers_are_refused(arguments: str) -> None:
    result = run(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


STACK = Stack(
    *("measured", "in", "out", "keys", MACHINE, "https://parked", "https://retries", OWN, "log"),
    {"Policy": "latest-wins", "ExecutionLogLevel": "ERROR", "HealMinutes": "30"},
)
RESOURCES = [
    ("AWS::SQS::Queue", "RetryEventsQueue", "https://sqs/1/retries"),
    ("AWS::Logs::LogGroup", "StateMachineLogGroup", "/executions"),
    ("AWS::Logs::LogGroup", "InvertImageLogGroup", "/function"),
    ("AWS::CloudWatch::Alarm", "ParkedEventsAlarm", "alarm"),
]
# What ten days of 6,000 executions would leave, hour by hour.
METRICS: dict[tuple[str, ...], dict[str, list[float]]] = {
    ("AWS/States", MACHINE): {
        "ExecutionsStarted": [4_000, 2_000],
        "ExpressExecutionBilledDuration": [2_400_000],
        "ExpressExecutionBilledMemory": [64, 64, 64],
    },
    ("AWS/Lambda", "own-work"): {"Invocations": [5_000], "Duration": [2.5e6]},
    ("AWS/DynamoDB", "keys"): {"ConsumedWriteCapacityUnits": [12_000]},
    ("AWS/SQS", "retries"): {"NumberOfEmptyReceives": [200_000]},
    ("AWS/Logs", "/executions"): {"IncomingBytes": [1e9]},
    ("AWS/Logs", "/function"): {"IncomingBytes": [5e8]},
}


class Deployed:
    """A stack, and AWS's services: a page for each resource, and for each value of a metric."""

    stack = STACK

    def client(self, _: str) -> Deployed:
        return self

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=getattr(self, f"_{operation}"))

    def _list_stack_resources(self, **_: Any) -> Iterator[dict[str, Any]]:
        names = ("ResourceType", "LogicalResourceId", "PhysicalResourceId")
        for each in RESOURCES:
            yield {"StackResourceSummaries": [dict(zip(names, each, strict=True))]}

    def _get_metric_data(
        self,
        MetricDataQueries: list[dict[str, Any]],  # noqa: N803
        StartTime: datetime,  # noqa: N803
        EndTime: datetime,  # noqa: N803
    ) -> Iterator[dict[str, Any]]:
        assert EndTime - StartTime in {timedelta(days=7), timedelta(days=10)}
        for asked in MetricDataQueries:
            stat = asked["MetricStat"]
            named = stat["Metric"]
            of = tuple(each["Value"] for each in named["Dimensions"])
            for value in METRICS.get((named["Namespace"], *of), {}).get(named["MetricName"], []):
                values = [value if stat["Stat"] == "Sum" else 1]
                yield {"MetricDataResults": [{"Id": asked["Id"], "Values": values}]}

    def describe_table(self, TableName: str) -> dict[str, Any]:  # noqa: N803
        assert TableName == "keys"
        return {"Table": {"GlobalSecondaryIndexes": [{"IndexName": "InProgress"}]}}

    def get_function_configuration(self, FunctionName: str) -> dict[str, int]:  # noqa: N803
        assert FunctionName == "own-work"
        return {"MemorySize": 1024}


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Deployed:
    made = Deployed()
    monkeypatch.setattr(cost_command, "Connection", lambda _: made)
    monkeypatch.setattr("inorder.aws.usage.QUERIES", 3)  # in one call
    monkeypatch.setattr(cost, "compare", lambda *_: [])  # takes long
    return made


def test_the_bill_of_a_stack_is_its_metrics_scaled_to_a_month(deployed: Deployed) -> None:
    document = json.loads(run("--stack-name", "measured", "--days", "10", "--json").stdout)
    known = {"events": 18_000, "process_ms": 500, "memory": 1024, "log_level": "ERROR"}
    assert known.items() <= document["workload"].items()
    quantities = {line["name"]: line["quantity"] for line in document["bill"]["lines"]}
    assert quantities == pytest.approx(
        {
            "Step Functions: Express requests": 18_000,
            "Step Functions: Express duration": 3 * 2_400 * 64 / 1024,
            "DynamoDB: writes": 36_000,
            "Lambda: requests": 15_000,
            "Lambda: duration (arm64)": 3 * 2_500,
            "SQS: requests": 600_000,
            "CloudWatch: log of executions": 3,
            "CloudWatch: logs of functions": 1.5,
            "CloudWatch: alarms": 1,
            # What no metric has is estimated.
            "EventBridge: events of the bucket": 18_000,
            "S3: GET and HEAD": 3 * 18_000,
            "S3: PUT": 18_000,
            "CloudWatch: metrics": 2,
        }
    )
    silent = "No value, so counted as 0: AWS/DynamoDB ConsumedReadCapacityUnits of keys"
    assert silent in document["unknown"]
    deployed.stack = replace(STACK, state_machine_arn=f"{MACHINE}-new")
    result = run("--stack-name", "measured")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: CloudWatch has no executions of stack measured")


# What the documents say

EXAMPLE = r"```sh\n\.venv/bin/inorder (cost .*)\n```\n\n```\n((?:.*\n)*?)```\n"


def example(found: re.Match[str]) -> str:
    """Give an example with the output that its command prints now."""
    printed = CliRunner().invoke(main, shlex.split(found[1])).stdout
    lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return found[0].replace(found[2], lines)


def test_the_examples_are_what_the_command_prints() -> None:
    """Run `python -m tests.unit.test_cost` to write them."""
    text = (PROJECT / "docs" / "cost.md").read_text()
    assert len(re.findall(EXAMPLE, text)) == 1
    assert re.sub(EXAMPLE, example, text) == text


if __name__ == "__main__":
    page = PROJECT / "docs" / "cost.md"
    page.write_text(re.sub(EXAMPLE, example, page.read_text()))
