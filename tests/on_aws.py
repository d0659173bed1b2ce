"""The user's own AWS, for `make test-aws STACK=name`. All other tests are kept from it."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import boto3

from inorder.stack import Stack, describe


class OnAws:
    """A deployed stack.

    It is made before any test runs, as the tests take the user's credentials from the environment.
    """

    def __init__(self, stack_name: str) -> None:
        session = boto3.Session()
        self.cloudformation = session.client("cloudformation")
        self.states, self.logs = session.client("stepfunctions"), session.client("logs")
        self.events, self.s3 = session.client("events"), session.client("s3")
        self.stack: Stack = describe(self.cloudformation, stack_name)
        self.table = session.resource("dynamodb").Table(self.stack.key_table)

    @cached_property
    def role(self) -> str:
        """ARN of the role of the stack's state machine."""
        arn = self.stack.state_machine_arn
        role: str = self.states.describe_state_machine(stateMachineArn=arn)["roleArn"]
        return role


def on_aws() -> OnAws | None:
    """Give the stack that STACK names, or none if the environment names none."""
    return OnAws(os.environ["STACK"]) if "STACK" in os.environ else None


def resources_of(cloudformation: Any, stack: str) -> dict[str, str]:
    """Give the physical names of a stack's resources by their logical ones."""
    described = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
    return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in described}


def substitutions_of(resources: dict[str, str]) -> dict[str, str]:
    """Give what stands for the ``${Names}`` of the ASL files."""
    names = {
        "KeyTableName": "KeyTable",
        "InvertImageFunctionArn": "InvertImageFunctionAliaslive",
        "CanonicalHashFunctionArn": "CanonicalHashFunctionAliaslive",
        "ParkedEventsQueueUrl": "ParkedEventsQueue",
        "UniqueEventsBusName": "UniqueEventsBus",
    }
    return {name: resources[logical] for name, logical in names.items() if logical in resources}
