"""Executions are read from a log group of a local AWS, as on AWS, which keeps no history of them.

tests/unit/test_log.py has what a log may lack, and how it is read.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from typing import Any

from inorder.aws.executions import Entry
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


class Log:
    """A log group to which executions have written.

    Parameters
    ----------
    local : LocalAws
        Where it is made.
    name : str
        Its name.
    """

    def __init__(self, local: LocalAws, name: str = "/aws/vendedlogs/states/test") -> None:
        self.name = name
        self.client = local.client("logs")
        self.client.create_log_group(logGroupName=name)
        self.client.create_log_stream(logGroupName=name, logStreamName="s")

    def write(
        self,
        arn: str,
        entries: Sequence[tuple[str, dict[str, Any]] | Entry],
        at: float | None = None,
        first: int = 0,
    ) -> None:
        """Write entries as they arrive: in any order, some of them twice.

        `at` is when, in seconds since 1970, if it was not just now, and `first` the number of
        entries that have been written before.
        """
        now = at or time.time()
        messages: list[dict[str, Any]] = [
            {
                "id": str(number),
                "previous_event_id": str(number - 1),
                "event_timestamp": str(int(_seconds(times, now) * 1000)),
                "type": kind,
                "execution_arn": arn,
                "details": details,
            }
            for number, (kind, details, *times) in enumerate(entries, 1)
            if number > first
        ]
        messages += messages[::2]
        random.Random(1).shuffle(messages)  # noqa: S311
        self.client.put_log_events(
            logGroupName=self.name,
            logStreamName="s",
            logEvents=[
                {"timestamp": int(message["event_timestamp"]), "message": json.dumps(message)}
                for message in messages
            ],
        )


def _seconds(times: Sequence[Any], now: float) -> float:
    """Give the time of an entry; those that tests write have none."""
    return times[0].timestamp() if times and times[0] else now


def test_an_execution_is_read_whose_entries_came_in_any_order_and_twice(local: LocalAws) -> None:
    log = Log(local)
    log.write(ARN, SUCCEEDED)
    log.write(f"{ARN}-other", SUCCEEDED[:-1])
    machine = AwsStateMachine(None, "arn", log.client, log.name)
    found = machine.wait(ARN, 10)
    assert (found.status, found.outcome, found.output) == ("SUCCEEDED", "Duplicate", REPORT)
    assert (found.arn, found.event) == (ARN, {"a": 1})
    assert found.path == ["S3 Object Event?", "Claim Key", "Duplicate"]
    refused = found.steps[1]
    assert (refused.state, refused.type) == ("Claim Key", "Task")
    assert (refused.input, refused.output) == ({"a": 1}, {"a": 1, "refusal": {}})
    assert {each.arn: each.status for each in machine.select()} == {
        ARN: "SUCCEEDED",
        f"{ARN}-other": "RUNNING",
    }
