"""The user's own AWS, for `make test-aws STACK=name`. All other tests are kept from it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config

from inorder.aws.executions import Entry, StateMachine, substitute
from inorder.aws.stack import Stack, describe

# A stack has the resources of one policy; for AWS's check of a definition, names are enough.
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:name"
SUBSTITUTIONS = {
    "KeyTableName": "name",
    "InvertImageFunctionArn": FUNCTION,
    "CanonicalHashFunctionArn": FUNCTION,
    "ParkedEventsQueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/name",
    "UniqueEventsBusName": "name",
}


class OnAws:
    """A deployed stack.

    It is made before any test runs, as the tests take the user's credentials from the environment.
    """

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
        """Create a state machine of an ASL file, with the stack's role and log.

        Parameters
        ----------
        file : Path
            The ASL file.
        substitutions : Mapping
            The values of its ``${Names}``.
        """
        described = self.states.describe_state_machine(stateMachineArn=self.stack.state_machine_arn)
        logging = described["loggingConfiguration"]  # whose level may be any
        created = self.states.create_state_machine(
            name=f"inorder-{uuid4()}",
            definition=substitute(file, substitutions),
            roleArn=described["roleArn"],
            type="EXPRESS",
            loggingConfiguration=logging | {"level": "ALL", "includeExecutionData": True},
        )
        [destination] = logging["destinations"]
        log_group = destination["cloudWatchLogsLogGroup"]["logGroupArn"].split(":")[6]
        return AwsStateMachine(self.states, created["stateMachineArn"], self.logs, log_group)


class AwsStateMachine(StateMachine):
    """A state machine on AWS, which keeps no history of Express executions but their log.

    Parameters
    ----------
    client : SFNClient
        Of AWS.
    arn : str
        Of the state machine.
    logs : CloudWatchLogsClient
        Of AWS.
    log_group : str
        The name of its log, at level ALL with execution data.
    """

    poll_seconds = 2  # a log takes a few seconds to arrive, and reading it costs money

    def __init__(self, client: Any, arn: str, logs: Any, log_group: str) -> None:
        super().__init__(client, arn)
        self._logs, self._log_group = logs, log_group

    def entries(self, arn: str) -> list[Entry]:
        """Read what has happened in an execution from the log."""
        pages = self._logs.get_paginator("filter_log_events").paginate(
            logGroupName=self._log_group, filterPattern=f'{{ $.execution_arn = "{arn}" }}'
        )
        messages = [json.loads(event["message"]) for page in pages for event in page["events"]]
        # Entries may be stored in another order, and twice. Their IDs count from 1.
        of_execution = [each for each in messages if each["execution_arn"] == arn]
        by_id = {int(message["id"]): message for message in of_execution}
        return [Entry(by_id[at]["type"], by_id[at].get("details", {})) for at in sorted(by_id)]


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
        "UniqueEventsBusName": "UniqueEventsBus",
    }
    return {name: resources[logical] for name, logical in names.items() if logical in resources}
