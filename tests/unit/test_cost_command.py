"""The command `inorder cost`: from options, and from the metrics of a stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from inorder import cost
from inorder.aws.stack import Stack
from inorder.aws.usage import measure
from inorder.commands import cost as cost_command
from inorder.commands.main import main
from inorder.cost import BreakEven, Comparison, Contender
from inorder.model.policies import policy

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:machine"
OWN = "arn:aws:lambda:us-east-1:123456789012:function:own-work:live"
COMPARED = [
    Comparison(Contender("cheap", "lacks order"), 1, BreakEven(0.2, True), BreakEven(500, False)),
    Comparison(Contender("dear", "lacks retries"), 1e6, None, None),
]


@pytest.fixture(autouse=True)
def compare(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Compare in no time; test_cost.py has the comparison."""
    compare = Mock(return_value=COMPARED)
    monkeypatch.setattr(cost, "compare", compare)
    return compare


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(main, ["cost", *arguments])


def test_the_bill_is_printed_with_its_sum_and_the_alternatives(compare: Mock) -> None:
    latest, work = policy("latest-wins"), cost.Workload(5e6, 0.1)
    expected = cost.bill_of(latest, work)
    result = run("--events", "5e6", "--overwrites", "0.1", "--process-ms", "300")
    assert (result.exit_code, result.stderr) == (0, "")
    compare.assert_called_once_with(latest, work)
    [total] = [line for line in result.stdout.splitlines() if "A month of latest-wins" in line]
    assert total.split()[-3:] == ["5,000,000", "events", f"{expected.dollars:,.2f}"]
    for line in expected.lines:
        assert (line.name in result.stdout) == (line.dollars >= cost_command.SHOWN)
    rows = {" ".join(line.split()) for line in result.stdout.splitlines()}
    assert {"cheap 1.00 above 20% below 500", "dear 1,000,000.00 always always"} <= rows


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
    assert "AWS/DynamoDB ConsumedReadCapacityUnits of keys" in measured.silent
    assert "ExecutionsStarted" not in "".join(measured.silent)


def test_the_bill_of_a_stack_says_what_it_could_not_know(deployed: Any) -> None:
    result = run("--stack-name", "measured", "--days", "10", "--json")
    document = json.loads(result.stdout)
    known = {"events": 18_000, "process_ms": 500, "log_level": "ERROR", "heal_minutes": 30}
    assert known.items() <= document["workload"].items()
    lines = {line["name"]: line for line in document["bill"]["lines"]}
    assert lines["CloudWatch: log of executions"]["dollars"] == pytest.approx(1.5)
    for name in ("EventBridge: events of the bucket", "S3: PUT", "X-Ray: traces"):
        assert lines[name]["quantity"] == 18_000
    for said in ("S3 has no metric", "X-Ray has no metric", "so counted as 0: AWS/SQS"):
        assert any(said in each for each in document["unknown"])
    printed = run("--stack-name", "measured", "--days", "10")
    assert "A month of measured" in printed.stdout
    deployed.stack = replace(STACK, state_machine_arn=f"{MACHINE}-new")
    result = run("--stack-name", "measured")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: CloudWatch has no executions of stack measured")
