"""Where a story can happen: the engines, each with the resources of the template.

moto is in this process, and ministack a server of the tests. Step Functions Local and the user's
own AWS must be named in the environment: `make test-sfn-local`, `make test-aws STACK=name`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
from botocore.config import Config

from inorder import PROJECT
from inorder.aws.executions import LocalStateMachine, StateMachine
from inorder.aws.log import AwsStateMachine, log_group
from inorder.aws.stack import Stack, deploy, describe
from inorder.local_aws import HOST, LocalAws
from inorder.model.policies import asl_file
from tests.policies.mock_config import NOT_ALL_MOCKED
from tests.support.events import delete, upload
from tests.support.in_process import INPUT, OUTPUT, InProcess
from tests.support.state_machines import create_local, substitute

# A stack has the resources of one policy; for AWS's check of a definition, names are enough.
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:name"
SUBSTITUTIONS = {
    "KeyTableName": "name",
    "InvertImageFunctionArn": FUNCTION,
    "CanonicalHashFunctionArn": FUNCTION,
    "ParkedEventsQueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/name",
    "RetryEventsQueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/retries",
    "RetryEventsBusName": "retry-events",
    "UniqueEventsBusName": "name",
}


class Place:
    """Where a story happens."""

    input_bucket: str
    output_bucket: str
    s3: Any
    table: Any
    seconds = 60.0
    machine: Callable[[str], StateMachine]  # gives a policy's, created from the shipped file

    def change(self, key: str, content: bytes | None, sequencer: str) -> dict[str, Any]:
        """Put an object, or delete it if there is no content, and build its event."""
        described: Any = {"bucket": self.input_bucket, "sequencer": sequencer}
        if content is None:
            return delete(self.s3, key, **described)
        return upload(self.s3, key, content, **described)

    def outputs(self, key: str) -> list[bytes]:
        named = {"Bucket": self.output_bucket}
        found = self.s3.list_objects_v2(Prefix=f"out-{key}", **named).get("Contents", [])
        return [self.s3.get_object(Key=each["Key"], **named)["Body"].read() for each in found]


class Moto(Place):
    """moto, in this process."""

    input_bucket, output_bucket = INPUT, OUTPUT

    def __init__(self, aws: InProcess) -> None:
        aws.wait_scale = 0.01
        self.s3, self.table, self.machine = aws.s3, aws.table, cache(aws.machine)


class InStack(Place):
    """An engine with a deployed stack, whose own state machine gets no events."""

    def __init__(self, cloudformation: Any, events: Any, stack: Stack) -> None:
        found = cloudformation.describe_stack_resources(StackName=stack.name)["StackResources"]
        resources = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found}
        self._rule, self._events = resources["EventsRule"], events
        events.disable_rule(Name=self._rule)
        self.input_bucket, self.output_bucket = stack.input_bucket, stack.output_bucket
        named = {name: re.sub("(Name|Arn|Url)$", "", name) for name in SUBSTITUTIONS}
        self.substitutions = {
            name: resources[each] for name, each in named.items() if each in resources
        }
        self.machine = cache(self.create)

    def create(self, policy: str) -> StateMachine:
        raise NotImplementedError

    def definition(self, policy: str) -> str:
        return substitute(PROJECT / asl_file(policy), self.substitutions)


class Ministack(InStack):
    """ministack."""

    def __init__(self, local: LocalAws) -> None:
        stack = deploy(local, "engines", {})
        super().__init__(local.client("cloudformation"), local.client("events"), stack)
        resources = local.session.resource("dynamodb", endpoint_url=local.endpoint_url)
        self.s3, self.table = local.client("s3"), resources.Table(stack.key_table)
        self.states = local.client("stepfunctions")

    def create(self, policy: str) -> StateMachine:
        return create_local(self.states, self.definition(policy))


def running_at(address: str) -> LocalAws:
    """Give a server that was not started here."""
    url = urlsplit(address)
    assert url.hostname == HOST
    return LocalAws(url.port or 0, pid=0, started=0, folder="")


class StepFunctionsLocal(Ministack):
    """Step Functions Local, with the resources of the template on the local AWS behind it."""

    seconds = 300  # delays between attempts are not scaled there

    def __init__(self, endpoint: str, behind: str) -> None:
        super().__init__(running_at(behind))
        self.states = running_at(endpoint).client("stepfunctions")

    def create(self, policy: str) -> StateMachine:
        only_mocked, case, _ = NOT_ALL_MOCKED
        if policy != only_mocked:
            return self.named(f"{policy}-real", self.definition(policy))
        machine = self.named(policy, self.definition(policy))
        return LocalStateMachine(self.states, f"{machine.arn}#{case}")

    def named(self, name: str, definition: str) -> LocalStateMachine:
        """Create a state machine, or update that of earlier tests."""
        pages = self.states.get_paginator("list_state_machines").paginate()
        machines = {each["name"]: each for page in pages for each in page["stateMachines"]}
        if name not in machines:
            return create_local(self.states, definition, "STANDARD", name)
        arn = machines[name]["stateMachineArn"]
        self.states.update_state_machine(stateMachineArn=arn, definition=definition)
        return LocalStateMachine(self.states, arn)


class OnAws:
    """A deployed stack, known before the tests take the user's credentials from the environment."""

    def __init__(self, stack_name: str) -> None:
        session = boto3.Session()
        self.cloudformation = session.client("cloudformation")
        # Hundreds of calls of TestState are more at once than AWS allows.
        patient = Config(retries={"mode": "adaptive", "total_max_attempts": 10})
        self.states = session.client("stepfunctions", config=patient)
        self.logs = session.client("logs")
        self.events, self.s3 = session.client("events"), session.client("s3")
        self.stack: Stack = describe(self.cloudformation, stack_name)
        self.table = session.resource("dynamodb").Table(self.stack.key_table)
        arn = self.stack.state_machine_arn
        self.machine: Any = self.states.describe_state_machine(stateMachineArn=arn)
        self.role: str = self.machine["roleArn"]


class Aws(InStack):
    """AWS. The state machines are made of the shipped files, with the stack's role and log."""

    seconds = 300  # waits take the time that they take

    def __init__(self, aws: OnAws) -> None:
        super().__init__(aws.cloudformation, aws.events, aws.stack)
        self.s3, self.table, self._aws = aws.s3, aws.table, aws
        self.made: list[AwsStateMachine] = []

    def create(self, policy: str) -> StateMachine:
        logging = self._aws.machine["loggingConfiguration"]  # whose level may be any
        created = self._aws.states.create_state_machine(
            name=f"inorder-{uuid4()}",
            definition=self.definition(policy),
            roleArn=self._aws.role,
            type="EXPRESS",
            loggingConfiguration=logging | {"level": "ALL", "includeExecutionData": True},
        )
        arn, group = created["stateMachineArn"], log_group(self._aws.machine)
        self.made.append(AwsStateMachine(self._aws.states, arn, self._aws.logs, group))
        return self.made[-1]

    def clean(self) -> None:
        for machine in self.made:
            machine.delete()
        self._events.enable_rule(Name=self._rule)


def on_aws() -> OnAws | None:
    """Give the stack that STACK names, or none if the environment names none."""
    return OnAws(os.environ["STACK"]) if "STACK" in os.environ else None
