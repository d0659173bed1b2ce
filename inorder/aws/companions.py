"""A stack and its companions, as CloudFormation describes them; stacks/ has the companions."""

from __future__ import annotations

from functools import cached_property

from botocore.exceptions import ClientError

from inorder.aws.stack import Connection

COMPANIONS = ("audit", "monitoring", "records")  # each ends the name of a stack


class Described:
    """A stack with its parameters, its outputs and, if they are asked for, its resources."""

    def __init__(self, aws: Connection, stack_name: str) -> None:
        self._cloudformation, self._name = aws.client("cloudformation"), stack_name
        [stack] = self._cloudformation.describe_stacks(StackName=stack_name)["Stacks"]
        self.parameters: dict[str, str] = {
            each["ParameterKey"]: each["ParameterValue"] for each in stack.get("Parameters", [])
        }
        self.outputs: dict[str, str] = {
            each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])
        }

    @cached_property
    def resources(self) -> dict[str, str]:
        """The physical IDs of its resources by their logical ones."""
        pages = self._cloudformation.get_paginator("list_stack_resources")
        return {
            each["LogicalResourceId"]: each.get("PhysicalResourceId", "")
            for page in pages.paginate(StackName=self._name)
            for each in page["StackResourceSummaries"]
        }


def companion(aws: Connection, name: str) -> Described | None:
    """Describe a companion; None if it is not deployed."""
    try:
        return Described(aws, f"{aws.stack.name}-{name}")
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        return None


def companions(aws: Connection) -> dict[str, Described]:
    """Describe the companions that are deployed."""
    found = {name: companion(aws, name) for name in COMPANIONS}
    return {name: each for name, each in found.items() if each}
