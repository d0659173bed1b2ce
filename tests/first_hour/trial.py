"""The stack of a trial: it has everything switched on and a random name, and is removed again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import Connection, Described, Stack, read_object, sam_deploy
from inorder.errors import Failure
from inorder.local_aws import LocalAws
from inorder_fence.fenced_output import output_key

NAME = "inorder-trial-"
PREFIX = "rule/"  # of the keys for which the rule starts executions
WORK_TEMPLATE = Path(__file__).parent / "work.yaml"
DEPLOY_SECONDS = 900
Removal = tuple[str, Callable[[], Any]]  # what it removes, and how


class Trial:
    """A stack, in the account of the environment or on a local AWS.

    All that it makes has a name that begins with the stack's, and is found by that to be removed.
    """

    def __init__(self, run: str, local: LocalAws | None = None, **given: str) -> None:
        self.name, self.local = NAME + run, local
        self.is_deployed: bool | None = None  # before that is tried
        slow = {"SlowMark": "slow", "SlowSeconds": "5"}  # for the demonstration
        self._given = {"KeyPrefix": PREFIX} | slow | given
        self.work: dict[str, str] = {}  # the outputs of WORK_TEMPLATE
        self._clients = dict[str, Any]()
        self.aws: Connection  # the stack, once it is deployed

    @property
    def stack(self) -> Stack:
        """Its outputs and parameters."""
        return self.aws.stack

    @cached_property
    def resources(self) -> dict[str, str]:
        """Physical IDs of its resources by their logical ones."""
        return Described(self.aws.client("cloudformation"), self.name).resources

    def client(self, service: str) -> Any:
        """Give a client of a service."""
        if self.local:
            return self.local.client(service)
        if service not in self._clients:
            patient = Config(retries={"mode": "adaptive", "total_max_attempts": 10})
            self._clients[service] = boto3.client(service, config=patient)  # type: ignore[call-overload]
        return self._clients[service]

    def seconds(self, on_aws: float, on_local: float) -> float:
        """Give how long something may take, or is left as it is."""
        return on_local if self.local else on_aws

    # Deploying

    def deploy(self) -> None:
        """Deploy a KMS key, the stack with everything switched on."""
        self.is_deployed = False
        self.work = self.create("work", WORK_TEMPLATE)
        key = {"KmsKeyArn": self.work["KmsKeyArn"]}
        self.deploy_main(**key)
        self.is_deployed = True

    def deploy_main(self, **parameters: str) -> None:
        """Deploy the stack, or change parameters of it."""
        self._given |= parameters
        if self.local:
            quoted = {name: value or '""' for name, value in self._given.items()}
            sam_deploy(self.local, self.name, quoted, PROJECT / "template.yaml")
        else:
            self.command("make", "build")
            sam = [sys.executable, "-m", "samcli", "deploy", "--stack-name", self.name]
            given = [f'{name}="{value}"' for name, value in self._given.items()]
            self.command(*sam, "--parameter-overrides", *given)
        self.aws = Connection(self.name, self.local)

    def create(self, name: str, template: Path) -> dict[str, str]:
        """Create a stack of a template without code, and give its outputs."""
        cloudformation, stack = self.client("cloudformation"), f"{self.name}-{name}"
        cloudformation.create_stack(
            StackName=stack, TemplateBody=template.read_text(), Capabilities=["CAPABILITY_IAM"]
        )
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=stack, WaiterConfig={"Delay": self.seconds(5, 0.5), "MaxAttempts": 100}
        )
        [described] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
        return {each["OutputKey"]: each["OutputValue"] for each in described.get("Outputs", [])}

    def command(self, *command: str, is_allowed_to_fail: bool = False) -> str:
        """Run a command for the stack, and give what it printed; a Failure if it fails."""
        environment = dict(os.environ) | (self.local.environment if self.local else {})
        done = subprocess.run(  # noqa: S603 - our own commands
            command,
            cwd=PROJECT,
            env=environment | {"STACK_NAME": self.name, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
            timeout=DEPLOY_SECONDS,
        )
        if done.returncode and not is_allowed_to_fail:
            said = (done.stdout + done.stderr).strip()[-3000:]
            raise Failure(f"{' '.join(command[:4])} ended with {done.returncode}:\n{said}")
        return done.stdout + done.stderr

    def inorder(self, *arguments: str) -> str:
        """Run a command of the product, and give what it printed."""
        program = str(Path(sys.executable).parent / "inorder")
        return self.command(program, *arguments, is_allowed_to_fail=True)

    # Objects

    def put(self, key: str, content: bytes) -> dict[str, Any]:
        """Upload an object."""
        answer: dict[str, Any] = self.client("s3").put_object(
            Bucket=self.stack.input_bucket, Key=key, Body=content
        )
        return answer

    def output(self, key: str) -> bytes | None:
        """Read the output of a key; None if there is none."""
        return read_object(self.client("s3"), self.stack.output_bucket, output_key(key))

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> float:
        """Wait for a condition, and give the seconds that it took."""
        began = time.monotonic()
        wait_until(condition, seconds, what, self.seconds(1, 0.1))
        return time.monotonic() - began

    def run(self, policy: str, event: Any) -> dict[str, Any]:
        """Run an execution of a policy's state machine, and give how it ended."""
        machine = f"{self.stack.state_machine_arn.rpartition('_')[0]}_{policy}"
        ended: dict[str, Any] = self.aws.synchronous.start_sync_execution(
            stateMachineArn=machine, input=event if isinstance(event, str) else json.dumps(event)
        )
        return ended

    # Removing

    def remove(self) -> list[str]:
        """Remove all that the trial has made, and name what could not be removed."""
        cloudformation, problems = self.client("cloudformation"), list[str]()
        wait = cloudformation.get_waiter("stack_delete_complete").wait
        patience = {"Delay": self.seconds(5, 0.5), "MaxAttempts": 200}

        def done(what: str, remove: Callable[[], Any]) -> bool:
            try:
                remove()
            except (ClientError, WaiterError, TimeoutError) as error:
                problems.append(f"{what}: {error}")
                return False
            return True

        def delete(stack: str) -> None:
            # An update that was interrupted here goes on there.
            self.wait(partial(self._is_at_rest, stack), DEPLOY_SECONDS, "the end of its update")
            cloudformation.delete_stack(StackName=stack)

        stacks = sorted(self.stacks(), key=lambda name: name != self.name)
        for name in [each for each in stacks if done(f"stack {each}", partial(delete, each))]:
            done(f"stack {name}", partial(wait, StackName=name, WaiterConfig=patience))
        for what, remove in [*self._retained()]:
            done(what, remove)
        with suppress(TimeoutError):  # SQS lists a queue for a minute, DynamoDB a table for longer
            self.wait(lambda: not [*self._retained()], self.seconds(180, 5), "the end of them")
        return problems + [f"{what}: it is still there" for what, _ in self._retained()]

    def stacks(self) -> dict[str, str]:
        """Give the status of each stack by its name."""
        pages = self.client("cloudformation").get_paginator("describe_stacks").paginate()
        found = [each for page in pages for each in page["Stacks"]]
        status = {each["StackName"]: each["StackStatus"] for each in found}
        return {name: status[name] for name in status if name.startswith(self.name)}

    def _is_at_rest(self, stack: str) -> bool:
        return not re.match("UPDATE.*IN_PROGRESS", self.stacks().get(stack, ""))

    def _retained(self) -> Iterator[Removal]:
        """Give what outlives the stack because it has data, and how to remove it."""
        s3, dynamodb, sqs, logs = map(self.client, ("s3", "dynamodb", "sqs", "logs"))
        for bucket in (each["Name"] for each in s3.list_buckets()["Buckets"]):
            if bucket.startswith(self.name):
                yield f"bucket {bucket}", partial(self._remove_bucket, bucket)
        for page in dynamodb.get_paginator("list_tables").paginate():
            for table in (each for each in page["TableNames"] if each.startswith(self.name)):
                yield f"table {table}", partial(dynamodb.delete_table, TableName=table)
        for url in sqs.list_queues(QueueNamePrefix=self.name).get("QueueUrls", []):
            yield f"queue {url}", partial(sqs.delete_queue, QueueUrl=url)
        for beginning in ("", "/aws/vendedlogs/states/", "/aws/lambda/"):
            found = logs.describe_log_groups(logGroupNamePrefix=beginning + self.name)["logGroups"]
            for name in (each["logGroupName"] for each in found):
                yield f"log {name}", partial(logs.delete_log_group, logGroupName=name)

    def _remove_bucket(self, bucket: str) -> None:
        s3 = self.client("s3")
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for each in page.get("Versions", []) + page.get("DeleteMarkers", []):
                s3.delete_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
        s3.delete_bucket(Bucket=bucket)
