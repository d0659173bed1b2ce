"""The command `inorder cost`: from options, and from the metrics of a stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result
from moto import mock_aws

from inorder import cli, cost, cost_command
from inorder.aws.stack import Connection
from inorder.aws.usage import Metric, measure
from inorder.policies import policy

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:machine"
OWN = "arn:aws:lambda:us-east-1:123456789012:function:own-work:live"


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(cli.main, ["cost", *arguments])


def test_the_bill_is_printed_with_its_sum_and_the_alternatives() -> None:
    result = run("--events", "5e6", "--overwrites", "0.1", "--process-ms", "300")
    assert (result.exit_code, result.stderr) == (0, "")
    expected = cost.bill_of(policy("latest-wins"), cost.Workload(5e6, 0.1))
    [total] = [line for line in result.stdout.splitlines() if "A month of latest-wins" in line]
    assert total.split()[-3:] == ["5,000,000", "events", f"{expected.dollars:,.2f}"]
    for line in expected.lines:
        assert (line.name in result.stdout) == (line.dollars >= cost_command.SHOWN)
    for each in cost.compare(policy("latest-wins"), cost.Workload(5e6, 0.1)):
        says = f"{each.contender.name} costs {expected.dollars - each.dollars:,.2f} less: "
        assert (says in result.stdout) == (each.dollars < expected.dollars)


def test_the_cheapest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    dear = [
        replace(each, dollars=1e6) for each in cost.compare(policy("latest-wins"), cost.Workload())
    ]
    monkeypatch.setattr(cost, "compare", lambda *_: dear)
    *_, last = run().stdout.splitlines()
    assert last == "latest-wins is the cheapest of these."


def test_json_has_all_of_it() -> None:
    given = ("--policy", "every-version", "--heal-minutes", "0", "--dashboard", "--tracing")
    result = run("--json", *given)
    document = json.loads(result.stdout)
    assert document["workload"]["heal_minutes"] == 0
    assert document["workload"]["dashboard"] is True
    assert document["workload"]["tracing"] is True
    assert document["bill"]["name"] == "every-version"
    total = sum(line["dollars"] for line in document["bill"]["lines"])
    assert document["bill"]["dollars"] == pytest.approx(total)
    assert {each["name"] for each in document["contenders"]} >= {"sqs-fifo", "optimistic"}
    assert document["unknown"] == []


NUMBERS = [
    *("--events", "--overwrites", "--duplicates", "--older", "--retried"),
    *("--process-ms", "--memory", "--object-kb", "--key-bytes"),
]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--overwrites", "0.7", "--older", "0.7"),
        ("--overwrites", "2"),
        ("--events", "0"),
        ("--process-ms", "1e11"),
        *((option, "nan") for option in NUMBERS),
        *((option, "inf") for option in NUMBERS),
        ("--log-level", "LOUD"),
        ("--policy", "none"),
    ],
)
def test_impossible_numbers_are_refused(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


PARAMETERS = {
    "Policy": "latest-wins",
    "ExecutionLogLevel": "ERROR",
    "HealMinutes": "30",
    "Alarms": "none",
    "Dashboard": "false",
    "Tracing": "true",
}
OUTPUTS = {
    "InputBucketName": "in",
    "OutputBucketName": "out",
    "KeyTableName": "keys",
    "StateMachineArn": MACHINE,
    "ParkedEventsQueueUrl": "https://parked",
    "InvertImageFunctionName": OWN,
}
RESOURCES = [
    ("AWS::SQS::Queue", "RetryEventsQueue", "https://sqs/1/retries"),
    ("AWS::Logs::LogGroup", "StateMachineLogGroup", "/executions"),
    ("AWS::Logs::LogGroup", "InvertImageLogGroup", "/function"),
    ("AWS::CloudWatch::Alarm", "ParkedEventsAlarm", "alarm"),
]


class Deployed:
    """Answers for the services that moto does not have, or only with more than a test needs."""

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        if StackName != "measured":
            raise ClientError({"Error": {"Code": "ValidationError", "Message": "none"}}, "Describe")
        outputs = [{"OutputKey": name, "OutputValue": value} for name, value in OUTPUTS.items()]
        parameters = [
            {"ParameterKey": name, "ParameterValue": value} for name, value in PARAMETERS.items()
        ]
        return {"Stacks": [{"Outputs": outputs, "Parameters": parameters}]}

    def get_paginator(self, name: str) -> Any:
        assert name == "list_stack_resources"
        summaries = [
            {"ResourceType": kind, "LogicalResourceId": logical, "PhysicalResourceId": physical}
            for kind, logical, physical in RESOURCES
        ]
        pages = [{"StackResourceSummaries": [each]} for each in summaries]
        return SimpleNamespace(paginate=lambda StackName: pages)  # noqa: ARG005, N803

    def get_function_configuration(self, FunctionName: str) -> dict[str, int]:  # noqa: N803
        assert FunctionName == "own-work"
        return {"MemorySize": 1024}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    client = Connection.client
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="keys",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name in ("id", "since")
            ],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "InProgress",
                    "KeySchema": [{"AttributeName": "since", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        )
        monkeypatch.setattr(
            Connection,
            "client",
            lambda self, service: (
                Deployed() if service in {"cloudformation", "lambda"} else client(self, service)
            ),
        )
        yield Connection("measured")


def put(namespace: str, dimension: tuple[str, str], values: dict[str, list[float]]) -> None:
    client = boto3.client("cloudwatch")
    for name, each in values.items():
        for hours, value in enumerate(each, 2):
            client.put_metric_data(
                Namespace=namespace,
                MetricData=[
                    {
                        "MetricName": name,
                        "Dimensions": [{"Name": dimension[0], "Value": dimension[1]}],
                        "Timestamp": NOW - timedelta(hours=hours),
                        "Value": value,
                    }
                ],
            )


def put_all() -> None:
    """Write what ten days of 6,000 executions would leave."""
    put(
        "AWS/States",
        ("StateMachineArn", MACHINE),
        {
            "ExecutionsStarted": [4_000, 2_000],
            "ExpressExecutionBilledDuration": [2_400_000],
            "ExpressExecutionBilledMemory": [64, 64, 64],
        },
    )
    put("AWS/Lambda", ("FunctionName", "own-work"), {"Invocations": [5_000], "Duration": [2.5e6]})
    put("AWS/DynamoDB", ("TableName", "keys"), {"ConsumedWriteCapacityUnits": [12_000]})
    put("AWS/SQS", ("QueueName", "retries"), {"NumberOfEmptyReceives": [200_000]})
    put("AWS/Logs", ("LogGroupName", "/executions"), {"IncomingBytes": [1e9]})
    put("AWS/Logs", ("LogGroupName", "/function"), {"IncomingBytes": [5e8]})


def test_a_stacks_metrics_are_scaled_to_a_month(stack: Connection) -> None:
    put_all()
    measured = measure(stack, 10, NOW)
    assert measured.used == pytest.approx(
        {
            "express_requests": 18_000,
            "express_gb_seconds": 3 * 2_400 * 64 / 1024,
            "lambda_requests": 15_000,
            "lambda_gb_seconds": 3 * 2_500,
            "writes": 36_000,
            "sqs_requests": 600_000,
            "execution_log": 3,
            "function_log": 1.5,
            "storage": 0,
            "recovery": 0,
            "alarms": 1,
            "dashboards": 0,
        }
    )
    assert (measured.executions, measured.process_ms, measured.memory) == (18_000, 500, 1024)
    silent = "\n".join(measured.silent)
    assert "AWS/DynamoDB ConsumedReadCapacityUnits of keys" in silent
    assert "AWS/DynamoDB ConsumedWriteCapacityUnits of keys, InProgress" in silent
    assert "ExecutionsStarted" not in silent


@pytest.mark.usefixtures("stack")
def test_the_bill_of_a_stack_says_what_it_could_not_know() -> None:
    put_all()
    result = run("--stack-name", "measured", "--days", "10", "--json")
    document = json.loads(result.stdout)
    assert document["workload"]["events"] == 18_000
    assert document["workload"]["process_ms"] == 500
    assert document["workload"]["log_level"] == "ERROR"
    assert document["workload"]["heal_minutes"] == 30
    lines = {line["name"]: line for line in document["bill"]["lines"]}
    assert lines["CloudWatch: log of executions"]["dollars"] == pytest.approx(1.5)
    assert lines["EventBridge: events of the bucket"]["quantity"] == 18_000
    assert lines["S3: PUT"]["quantity"] == 18_000
    assert lines["X-Ray: traces"]["quantity"] == 18_000
    assert "Step Functions: Express requests" in lines
    assert any("S3 has no metric" in each for each in document["unknown"])
    assert any("No value, so counted as 0: AWS/SQS" in each for each in document["unknown"])
    printed = run("--stack-name", "measured", "--days", "10")
    assert "A month of measured" in printed.stdout
    assert "X-Ray has no metric" in printed.stderr


@pytest.mark.usefixtures("stack")
def test_the_bill_of_a_stack_that_does_not_trace_has_no_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PARAMETERS, "Tracing", "false")
    put_all()
    printed = run("--stack-name", "measured", "--days", "10")
    assert printed.exit_code == 0
    assert "X-Ray" not in printed.stdout + printed.stderr


@pytest.mark.usefixtures("stack")
def test_a_stack_without_executions_has_no_bill() -> None:
    result = run("--stack-name", "measured")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: CloudWatch has no executions of stack measured within 7 days.")


def test_many_metrics_are_asked_for_in_several_calls(
    stack: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all()
    monkeypatch.setattr("inorder.aws.usage.QUERIES", 3)
    assert measure(stack, 10, NOW).executions == 18_000


def test_answers_of_several_pages_are_added_up(
    stack: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pages(MetricDataQueries: list[dict[str, Any]], **_: Any) -> Iterator[dict[str, Any]]:  # noqa: N803
        for values in ([1_000.0, 500.0], [], [300.0]):
            results = [{"Id": each["Id"], "Values": values} for each in MetricDataQueries]
            yield {"MetricDataResults": results}

    stubbed = SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=pages))
    client = stack.client
    monkeypatch.setattr(
        stack, "client", lambda service: stubbed if service == "cloudwatch" else client(service)
    )
    measured = measure(stack, 30, NOW)
    assert measured.executions == 1_800
    assert measured.used["express_gb_seconds"] == pytest.approx(1.8 * 1 / 1024)
    assert measured.silent == []


def test_a_metric_names_what_it_is_of() -> None:
    metric = Metric("x", "AWS/SQS", "NumberOfMessagesSent", (("QueueName", "q"),))
    assert str(metric) == "AWS/SQS NumberOfMessagesSent of q"


@pytest.mark.usefixtures("stack")
def test_an_error_of_aws_is_said_in_one_line() -> None:
    result = run("--stack-name", "nothing")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
