"""The stack of a run: how it is deployed, used, and deleted with its data."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import boto3

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import Connection, read_object, sam_deploy
from inorder.errors import Failure
from inorder.local_aws import LocalAws
from inorder_fence.fenced_output import output_key
from tests.policies.places import Place

NAME = "inorder-test-"
PREFIX = "rule/"  # of the keys for which the rule starts executions
# S3 needs about five minutes until it sends a new bucket's events; a retried event takes as long.
PATIENCE_SECONDS = 900
PARAMETERS = {
    **{"KeyPrefix": PREFIX, "MaximumPixels": "50000", "SlowMark": "slow", "SlowSeconds": "5"},
    "Paused": "false",
}


class Trial(Place):
    """A stack in the account of the environment, or on a local AWS; the stories can happen there.

    The names of all its resources begin with its name: what outlives it is found by that.
    """

    aws: Connection  # once it is deployed

    def __init__(self, name: str, local: LocalAws | None = None) -> None:
        self.name, self.local = name, local

    def client(self, service: str) -> Any:
        """Give a client of a service, also if there is no stack."""
        return self.local.client(service) if self.local else boto3.client(service)  # type: ignore[call-overload]

    def either(self, on_aws: float, on_local: float) -> float:
        """Give a number of seconds, or of anything else, that is smaller on the local AWS."""
        return on_local if self.local else on_aws

    def deploy(self, **changed: str) -> None:
        """Deploy what `make build` has built, with some parameters changed; fail as SAM does."""
        parameters = PARAMETERS | changed
        if self.local:
            sam_deploy(self.local, self.name, parameters, PROJECT / "template.yaml")
        else:
            command = [sys.executable, "-m", "samcli", "deploy", "--stack-name", self.name]
            command += ["--parameter-overrides", *map("=".join, parameters.items())]
            done = subprocess.run(  # noqa: S603 - our own interpreter
                command, cwd=PROJECT, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise Failure(f"sam deploy failed: {(done.stdout + done.stderr)[-3000:]}")
        self.aws = Connection(self.name, self.local)
        self.s3, self.table, self.stack = self.aws.client("s3"), self.aws.table, self.aws.stack
        self.input_bucket, self.output_bucket = self.stack.input_bucket, self.stack.output_bucket

    def outcome(self, policy: str, event: Any) -> str | None:
        """Run an execution of a policy's state machine, and give its outcome, error or status."""
        ended = self.aws.synchronous.start_sync_execution(
            stateMachineArn=f"{self.stack.state_machine_arn.rpartition('_')[0]}_{policy}",
            input=json.dumps(event),
        )
        outcome = json.loads(ended.get("output") or "{}").get("outcome")
        return str(outcome or ended.get("error") or ended["status"])

    def output(self, key: str) -> bytes | None:
        """Read the output of a key; None if there is none."""
        return read_object(self.s3, self.output_bucket, output_key(key))

    def wait(self, condition: Callable[[], bool], awaited: str) -> float:
        """Wait for a condition, and give the seconds that it took."""
        began = time.monotonic()
        wait_until(condition, PATIENCE_SECONDS, awaited, self.either(2, 0.2))
        return time.monotonic() - began

    def wait_for_outputs(self, *keys: str) -> float:
        """Wait until all keys have outputs, and give the seconds that it took."""
        return self.wait(lambda: all(map(self.output, keys)), f"outputs of {', '.join(keys)}")

    def delete(self) -> None:
        """Delete the stack, and what it leaves because it has data.

        A later run that knows the name may do this, too, or do it again.
        """
        cloudformation, s3, dynamodb, sqs = map(
            self.client, ("cloudformation", "s3", "dynamodb", "sqs")
        )
        cloudformation.delete_stack(StackName=self.name)
        cloudformation.get_waiter("stack_delete_complete").wait(
            StackName=self.name, WaiterConfig={"Delay": self.either(5, 0.5), "MaxAttempts": 200}
        )
        buckets = (bucket["Name"] for bucket in s3.list_buckets()["Buckets"])
        for bucket in (name for name in buckets if name.startswith(self.name)):
            pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            for key in filter(None, pages.search("Contents[].Key")):
                s3.delete_object(Bucket=bucket, Key=key)
            s3.delete_bucket(Bucket=bucket)
        tables = dynamodb.get_paginator("list_tables").paginate().search("TableNames[]")
        for table in (name for name in tables if name.startswith(self.name)):
            dynamodb.update_continuous_backups(  # else DynamoDB keeps a backup of the table
                TableName=table,
                PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": False},
            )
            dynamodb.delete_table(TableName=table)
        for url in sqs.list_queues(QueueNamePrefix=self.name).get("QueueUrls", []):
            with suppress(sqs.exceptions.QueueDoesNotExist):  # it is listed for a minute more
                sqs.delete_queue(QueueUrl=url)
