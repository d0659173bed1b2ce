"""The user's own AWS, for `make test-aws STACK=name`. All other tests are kept from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config

from inorder.aws.log import AwsStateMachine, log_group
from inorder.aws.stack import Stack, describe
from tests.state_machines import substitute

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

    @cached_property
    def role(self) -> str:
        """ARN of the role of the stack's state machine."""
        arn = self.stack.state_machine_arn
        role: str = self.states.describe_state_machine(stateMachineArn=arn)["roleArn"]
        return role

    def create(self, file: Path, substitutions: Mapping[str, str]) -> AwsStateMachine:
        """Create a state machine of an ASL file, with the stack's role and log."""
        described = self.states.describe_state_machine(stateMachineArn=self.stack.state_machine_arn)
        logging = described["loggingConfiguration"]  # whose level may be any
        created = self.states.create_state_machine(
            name=f"inorder-{uuid4()}",
            definition=substitute(file, substitutions),
            roleArn=described["roleArn"],
            type="EXPRESS",
            loggingConfiguration=logging | {"level": "ALL", "includeExecutionData": True},
        )
        arn = created["stateMachineArn"]
        return AwsStateMachine(self.states, arn, self.logs, log_group(described))


def on_aws() -> OnAws | None:
    """Give the stack that STACK names, or none if the environment names none."""
    return OnAws(os.environ["STACK"]) if "STACK" in os.environ else None


def resources_of(cloudformation: Any, stack: str) -> dict[str, str]:
    """Give the physical names of a stack's resources by their logical ones."""
    described = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
    return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in described}


def substitutions_of(resources: dict[str, str]) -> dict[str, str]:
    """Give the values of the ``${Names}`` of the ASL files; lambda:invoke takes a name, too."""
    names = {
        "KeyTableName": "KeyTable",
        "InvertImageFunctionArn": "InvertImageFunction",
        "CanonicalHashFunctionArn": "CanonicalHashFunction",
        "ParkedEventsQueueUrl": "ParkedEventsQueue",
        "RetryEventsQueueUrl": "RetryEventsQueue",
        "RetryEventsBusName": "RetryEventsBus",
        "UniqueEventsBusName": "UniqueEventsBus",
    }
    return {name: resources[logical] for name, logical in names.items() if logical in resources}
