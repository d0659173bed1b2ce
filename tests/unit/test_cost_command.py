"""`inorder cost --stack-name`: a bill from the metrics of a stack; test_cost.py has the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from inorder.aws.stack import Stack
from inorder.aws.usage import measure
from inorder.commands import cost as cost_command
from inorder.commands.main import main

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:machine"
OWN = "arn:aws:lambda:us-east-1:123456789012:function:own-work:live"


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(main, ["cost", *arguments])


NUMBERS = [
    *("--events", "--overwrites", "--duplicates", "--older", "--retried"),
    *("--process-ms", "--memory", "--object-kb", "--key-bytes"),
]


def test_impossible_numbers_are_refused() -> None:
    for arguments in [
        ("--overwrites", "0.7", "--older", "0.7"),
        *(("--overwrites", "2"), ("--events", "0"), ("--process-ms", "1e11")),
        *((option, number) for option in NUMBERS for number in ("nan", "inf")),
        *(("--log-level", "LOUD"), ("--policy", "none")),
    ]:
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert "Error: " in result.stderr
    assert "exceed 1" in run("--overwrites", "0.6", "--older", "0.6").stderr


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
def deployed(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Deployed()
    monkeypatch.setattr(cost_command, "Connection", lambda _: made)
    monkeypatch.setattr("inorder.aws.usage.QUERIES", 3)  # in one call
    return made


def test_a_stacks_metrics_are_scaled_to_a_month(deployed: Any) -> None:
    measured = measure(deployed, 10)
    assert measured.used == pytest.approx(
        {
            **{"express_requests": 18_000, "express_gb_seconds": 3 * 2_400 * 64 / 1024},
            **{"lambda_requests": 15_000, "lambda_gb_seconds": 3 * 2_500, "writes": 36_000},
            **{"sqs_requests": 600_000, "execution_log": 3, "function_log": 1.5},
            **{"storage": 0, "recovery": 0, "alarms": 1, "dashboards": 0},
        }
    )
    assert (measured.executions, measured.process_ms, measured.memory) == (18_000, 500, 1024)
    silent = "\n".join(measured.silent)
    assert "AWS/DynamoDB ConsumedReadCapacityUnits of keys" in silent
    assert "AWS/DynamoDB ConsumedWriteCapacityUnits of keys, InProgress" in silent
    assert "ExecutionsStarted" not in silent


def test_the_bill_of_a_stack_says_what_it_could_not_know(deployed: Any) -> None:
    result = run("--stack-name", "measured", "--days", "10", "--json")
    document = json.loads(result.stdout)
    known = {"events": 18_000, "process_ms": 500, "log_level": "ERROR", "heal_minutes": 30}
    assert known.items() <= document["workload"].items()
    lines = {line["name"]: line for line in document["bill"]["lines"]}
    assert lines["CloudWatch: log of executions"]["dollars"] == pytest.approx(1.5)
    for name in ("EventBridge: events of the bucket", "S3: PUT", "X-Ray: traces"):
        assert lines[name]["quantity"] == 18_000
    assert "Step Functions: Express requests" in lines
    assert any("S3 has no metric" in each for each in document["unknown"])
    assert any("No value, so counted as 0: AWS/SQS" in each for each in document["unknown"])
    for tracing in ("true", "false"):
        deployed.stack = replace(STACK, parameters={**STACK.parameters, "Tracing": tracing})
        printed = run("--stack-name", "measured", "--days", "10")
        assert "A month of measured" in printed.stdout
        assert ("X-Ray has no metric" in printed.stderr) == (tracing == "true")
        assert ("X-Ray" in printed.output) == (tracing == "true")
    deployed.stack = replace(STACK, state_machine_arn=f"{MACHINE}-new")
    result = run("--stack-name", "measured")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: CloudWatch has no executions of stack measured within 7 days.")
