"""A deployed stack of template.yaml: deploying it, and what it consists of."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from inorder.local_aws import LocalAws

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Stack:
    """The outputs of template.yaml."""

    name: str
    input_bucket: str
    output_bucket: str
    key_table: str
    state_machine_arn: str
    parked_events_queue_url: str
    function_name: str


def deploy(local: LocalAws, name: str, parameters: Mapping[str, str | float]) -> Stack:
    """Deploy template.yaml to a local AWS with ``sam deploy``.

    Parameters
    ----------
    local : LocalAws
        Where to.
    name : str
        The stack's name.
    parameters : Mapping
        Parameters of the template that shall not have their defaults.

    Raises
    ------
    click.ClickException
        SAM fails. The message ends with what it said.
    """
    command = [sys.executable, "-m", "samcli", "deploy", "--config-env", "local"]
    command += ["--stack-name", name]
    if parameters:
        overrides = [f"{key}={value}" for key, value in parameters.items()]
        command += ["--parameter-overrides", *overrides]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environment |= local.environment | {
        # The user's own profiles must not reach a local deployment.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "SAM_CLI_TELEMETRY": "0",
        "SAM_CLI_POLL_DELAY": "0.5",
    }
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-3000:]
        raise click.ClickException(f"sam deploy of stack {name} failed:\n{said}")
    return describe(local.client("cloudformation"), name)


def describe(cloudformation: Any, name: str) -> Stack:
    """Read a stack's outputs.

    Parameters
    ----------
    cloudformation : botocore.client.BaseClient
        Client of the AWS, real or local, that has the stack.
    name : str
        The stack's name.

    Raises
    ------
    botocore.exceptions.ClientError
        There is no such stack.
    click.ClickException
        It is not one of template.yaml, or not there yet.
    """
    [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    try:
        return Stack(
            name=name,
            input_bucket=outputs["InputBucketName"],
            output_bucket=outputs["OutputBucketName"],
            key_table=outputs["KeyTableName"],
            state_machine_arn=outputs["StateMachineArn"],
            parked_events_queue_url=outputs["ParkedEventsQueueUrl"],
            function_name=outputs["InvertImageFunctionName"],
        )
    except KeyError as error:
        raise click.ClickException(f"Stack {name} has no output {error.args[0]}.") from None
