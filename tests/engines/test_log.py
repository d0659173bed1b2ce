"""An execution on AWS, read from the log, as AWS keeps no history of Express executions."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from inorder import PROJECT
from inorder.aws.executions import Step, substitute
from inorder.aws.log import AwsStateMachine
from inorder.local_aws import LocalAws

ARN = "arn:aws:states:us-east-1:123456789012:express:latest-wins:name:uuid"
REPORT = {"outcome": "Duplicate", "object_key": "b/k", "sequencer": "0A"}
# As Step Functions writes them at level ALL with execution data:
# https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
SUCCEEDED = [
    ("ExecutionStarted", {"input": '{"a": 1}', "roleArn": "arn:aws:iam::123456789012:role/r"}),
    ("ChoiceStateEntered", {"input": '{"a": 1}', "name": "S3 Object Event?"}),
    ("ChoiceStateExited", {"name": "S3 Object Event?", "output": '{"a": 1}'}),
    ("TaskStateEntered", {"input": '{"a": 1}', "name": "Claim Key"}),
    ("TaskScheduled", {"parameters": "{}", "resource": "putItem", "resourceType": "dynamodb"}),
    ("TaskStarted", {"resource": "putItem", "resourceType": "dynamodb"}),
    ("TaskFailed", {"error": "DynamoDB.ConditionalCheckFailedException", "cause": "refused"}),
    ("TaskStateExited", {"name": "Claim Key", "output": '{"a": 1, "refusal": {}}'}),
    ("PassStateEntered", {"input": '{"a": 1, "refusal": {}}', "name": "Duplicate"}),
    ("PassStateExited", {"name": "Duplicate", "output": json.dumps(REPORT)}),
    ("ExecutionSucceeded", {"output": json.dumps(REPORT)}),
]
FAILED = [
    ("ExecutionStarted", {"input": "{}", "roleArn": "arn:aws:iam::123456789012:role/r"}),
    ("FailStateEntered", {"input": "{}", "name": "Invalid Event"}),
    ("ExecutionFailed", {"error": "InvalidEvent", "cause": "no event"}),
]


class Log:
    """A log group to which executions have written."""

    name = "/aws/vendedlogs/states/test"

    def __init__(self, local: LocalAws) -> None:
        self.client = local.client("logs")
        self.client.create_log_group(logGroupName=self.name)
        self.client.create_log_stream(logGroupName=self.name, logStreamName="s")

    def write(self, arn: str, entries: list[tuple[str, dict[str, Any]]]) -> None:
        """Write entries as they arrive: in any order, some of them twice."""
        messages = [
            {
                "id": str(number),
                "previous_event_id": str(number - 1),
                "event_timestamp": str(time.time_ns() // 1_000_000),
                "type": kind,
                "execution_arn": arn,
                "details": details,
            }
            for number, (kind, details) in enumerate(entries, 1)
        ]
        messages += messages[::2]
        random.Random(1).shuffle(messages)  # noqa: S311
        self.client.put_log_events(
            logGroupName=self.name,
            logStreamName="s",
            logEvents=[
                {"timestamp": time.time_ns() // 1_000_000, "message": json.dumps(message)}
                for message in messages
            ],
        )


@pytest.fixture(scope="module")
def log(local: LocalAws) -> Log:
    written = Log(local)
    written.write(ARN, SUCCEEDED)
    written.write(ARN + "-2", FAILED)
    written.write(ARN + "-3", SUCCEEDED[:-1])
    return written


def machine(log: Log) -> AwsStateMachine:
    return AwsStateMachine(None, "arn", log.client, log.name)


def test_an_execution_that_succeeded_is_read_from_its_log(log: Log) -> None:
    found = machine(log).wait(ARN, 10)
    assert (found.status, found.outcome, found.output) == ("SUCCEEDED", "Duplicate", REPORT)
    assert (found.arn, found.event) == (ARN, {"a": 1})
    assert found.path == ["S3 Object Event?", "Claim Key", "Duplicate"]
    assert found.steps[1] == Step("Claim Key", "Task", {"a": 1}, {"a": 1, "refusal": {}})


def test_an_execution_that_failed_is_read_from_its_log(log: Log) -> None:
    found = machine(log).wait(ARN + "-2", 10)
    assert (found.status, found.outcome, found.cause) == ("FAILED", "InvalidEvent", "no event")
    assert found.steps == (Step("Invalid Event", "Fail", {}, None),)


def test_an_execution_runs_until_its_end_is_logged(log: Log) -> None:
    assert machine(log).describe(ARN + "-3").status == "RUNNING"
    with pytest.raises(TimeoutError):
        machine(log).wait(ARN + "-3", 0)


def test_a_substitution_that_is_not_given_is_an_error() -> None:
    file = PROJECT / "statemachine" / "optimistic.asl.json"
    with pytest.raises(KeyError, match="ParkedEventsQueueUrl"):
        substitute(file, {"InvertImageFunctionArn": "arn"})
