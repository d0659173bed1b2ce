"""The command `inorder cost`: from options, and from the metrics of a stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from inorder import cost
from inorder.aws.stack import Stack
from inorder.commands import cost as cost_command
from inorder.commands.main import main
from inorder.cost import BreakEven, Comparison, Contender

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:machine"
OWN = "arn:aws:lambda:us-east-1:123456789012:function:own-work:live"
COMPARED = [
    Comparison(Contender("cheap", "lacks order"), 1, BreakEven(0.2, True), BreakEven(500, False)),
    Comparison(Contender("dear", "lacks retries"), 1e6, None, None),
]


@pytest.fixture(autouse=True)
def compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare in no time; test_cost.py has the comparison, and what is printed."""
    monkeypatch.setattr(cost, "compare", lambda *_: COMPARED)


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(main, ["cost", *arguments])


def test_json_has_all_of_it() -> None:
    given = ("--policy", "every-version", "--heal-minutes", "0", "--dashboard", "--tracing")
    document = json.loads(run("--json", *given).stdout)
    chosen = {"heal_minutes": 0, "dashboard": True, "tracing": True}
    assert chosen.items() <= document["workload"].items()
    total = sum(line["dollars"] for line in document["bill"]["lines"])
    assert document["bill"]["dollars"] == pytest.approx(total)
    cheap, dear = document["contenders"]
    assert (cheap["lacks"], dear["dollars"]) == ("lacks order", 1e6)
    assert cheap["break_even_overwrites"] == {"at": 0.2, "is_cheaper_above": True}


@pytest.mark.parametrize(
    "arguments",
    [
        *("--overwrites 2", "--overwrites 0.7 --older 0.7", "--events 0", "--process-ms 1e11"),
        *("--events nan", "--events inf", "--memory nan", "--log-level LOUD", "--policy none"),
    ],
)
def test_impossible_numbers_are_refused(arguments: str) -> None:
    result = run(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


STACK = Stack(
    *("measured", "in", "out", "keys", MACHINE, "https://parked", OWN),
    {
        **{"Policy": "latest-wins", "ExecutionLogLevel": "ERROR", "HealMinutes": "30"},
        **{"Alarms": "none", "Dashboard": "false", "Tracing": "true"},
    },
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
            "X-Ray: traces": 18_000,
            "CloudWatch: metrics": 2,
        }
    )
    silent = "No value, so counted as 0: AWS/DynamoDB"
    assert f"{silent} ConsumedReadCapacityUnits of keys" in document["unknown"]
    assert f"{silent} ConsumedWriteCapacityUnits of keys, InProgress" in document["unknown"]
    assert "ExecutionsStarted" not in "".join(document["unknown"])
    deployed.stack = replace(STACK, state_machine_arn=f"{MACHINE}-new")
    result = run("--stack-name", "measured")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: CloudWatch has no executions of stack measured")
