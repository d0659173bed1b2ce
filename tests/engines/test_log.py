"""An execution on AWS, read from the log that Express executions have for a history."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from inorder.engines import AwsStateMachine, Step, substitute
from inorder.local_aws import LocalAws
from inorder.stack import PROJECT

ARN = "arn:aws:states:us-east-1:123456789012:express:latest-wins:name:uuid"
REPORT = {"outcome": "Duplicate", "object_key": "b/k", "sequencer": "0A"}
# As Step Functions writes them at level ALL with execution data:
# https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
SUCCEEDED = [
    ("ExecutionStarted", {"input": '{"a": 1}', "roleArn": "arn:aws:iam::123456789012:role/r"}),
    ("ChoiceStateEntered", {"input": '{"a": 1}', "name": "Whole?"}),
    ("ChoiceStateExited", {"name": "Whole?", "output": '{"a": 1}'}),
    ("TaskStateEntered", {"input": '{"a": 1}', "name": "Claim Key"}),
    ("TaskScheduled", {"parameters": "{}", "resource": "putItem", "resourceType": "dynamodb"}),
    ("TaskStarted", {"resource": "putItem", "resourceType": "dynamodb"}),
    ("TaskFailed", {"error": "DynamoDB.ConditionalCheckFailedException", "cause": "refused"}),
    ("TaskStateExited", {"name": "Claim Key", "output": '{"a": 1, "refusal": {}}'}),
    ("PassStateEntered", {"input": '{"a": 1, "refusal": {}}', "name": "Duplicate"}),
    ("PassStateExited", {"name": "Duplicate", "output": json.dumps(REPORT)}),
    ("SucceedStateEntered", {"input": json.dumps(REPORT), "name": "Duplicate"}),
    ("SucceedStateExited", {"name": "Duplicate", "output": json.dumps(REPORT)}),
    ("ExecutionSucceeded", {"output": json.dumps(REPORT)}),
]
FAILED = [
    ("ExecutionStarted", {"input": "{}", "roleArn": "arn:aws:iam::123456789012:role/r"}),
    ("FailStateEntered", {"input": "{}", "name": "Invalid Event"}),
    ("ExecutionFailed", {"error": "InvalidEvent", "cause": "no event"}),
]


class Log:
    """A log group with what executions have written."""

    name = "/aws/vendedlogs/states/test"

    def __init__(self, local: LocalAws) -> None:
        self.client = local.client("logs")
        self.client.create_log_group(logGroupName=self.name)
        self.client.create_log_stream(logGroupName=self.name, logStreamName="s")

    def write(self, arn: str, entries: list[tuple[str, dict[str, Any]]]) -> None:
        """Write entries as they come: in any order, some of them twice."""
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


def test_an_execution_that_succeeded(log: Log) -> None:
    ended = machine(log).wait(ARN, 10)
    assert (ended.status, ended.outcome, ended.output) == ("SUCCEEDED", "Duplicate", REPORT)
    assert ended.path == ["Whole?", "Claim Key", "Duplicate", "Duplicate"]
    assert ended.steps[1] == Step("Claim Key", "Task", {"a": 1}, {"a": 1, "refusal": {}})


def test_an_execution_that_failed(log: Log) -> None:
    ended = machine(log).wait(ARN + "-2", 10)
    assert (ended.status, ended.outcome, ended.cause) == ("FAILED", "InvalidEvent", "no event")
    assert ended.steps == (Step("Invalid Event", "Fail", {}, None),)


def test_an_execution_whose_end_has_not_been_logged_yet(log: Log) -> None:
    with pytest.raises(TimeoutError):
        machine(log).wait(ARN + "-3", 0)


def test_a_substitution_that_is_not_given() -> None:
    file = PROJECT / "statemachine" / "optimistic.asl.json"
    with pytest.raises(KeyError, match="ParkedEventsQueueUrl"):
        substitute(file, {"InvertImageFunctionArn": "arn"})
