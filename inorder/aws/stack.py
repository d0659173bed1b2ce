"""A stack of template.yaml: to deploy one, and to find what is deployed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, NoRegionError
from botocore.session import get_session

from inorder import PROJECT
from inorder.asl.definition import EXPRESS_SECONDS
from inorder.audit.comparing import left_out
from inorder.errors import Failure
from inorder.model.policies import Policy, policies

if TYPE_CHECKING:
    from inorder.local_aws import LocalAws  # which needs an extra

CONNECTIONS = 32  # of a client, at a time
DEFAULT = Config(
    connect_timeout=10,
    max_pool_connections=CONNECTIONS,
    retries={"mode": "standard", "total_max_attempts": 3},
)


@dataclass(frozen=True)
class Stack:
    """The outputs of template.yaml, and its parameters' values."""

    name: str
    input_bucket: str
    output_bucket: str
    key_table: str
    state_machine_arn: str
    parked_events_queue_url: str
    retry_events_queue_url: str
    function_name: str
    function_log_group: str
    parameters: Mapping[str, str]
    undelivered_events_queue_url: str = ""
    waiting_events_queue_url: str = ""
    created: datetime | None = None

    @property
    def policy_name(self) -> str:
        """The name of its policy."""
        return self.parameters.get("Policy", "")

    @property
    def policy(self) -> Policy | None:
        """The facts about its policy; None if it is not one of this project."""
        return next((row for row in policies() if row.name == self.policy_name), None)

    @property
    def handles_deletions(self) -> bool:
        """Whether the output of a deleted object is removed, if the policy can."""
        return self.parameters.get("HandleDeletions") != "false"

    @property
    def state_machine_arns(self) -> list[str]:
        """The ARNs of all policies' state machines, the present one first."""
        arn = self.state_machine_arn
        prefix = arn.removesuffix(self.policy_name)
        others = [f"{prefix}{row.name}" for row in policies()] if prefix != arn else []
        return list(dict.fromkeys([arn, *others]))

    @property
    def is_paused(self) -> bool:
        """Whether events wait until a deployment ends the pause."""
        return self.parameters.get("Paused") == "true"

    @property
    def quiet_seconds(self) -> int:
        """For how long each event waits after it came."""
        return int(self.parameters.get("QuietSeconds", 0))

    def left_out(self, key: str) -> str:
        """Tell why the rule starts no execution for a key; "" if it does."""
        prefix, suffix = (self.parameters.get(name, "") for name in ("KeyPrefix", "KeySuffix"))
        return left_out(key, prefix, suffix)


def deploy(local: LocalAws, name: str, parameters: Mapping[str, str | float]) -> Stack:
    """Deploy template.yaml to a local AWS with ``sam deploy``; a Failure ends as SAM did."""
    sam_deploy(local, name, parameters, PROJECT / "template.yaml")
    return describe(local.client("cloudformation"), name)


def sam_deploy(
    local: LocalAws, name: str, parameters: Mapping[str, str | float], template: Path
) -> None:
    """Deploy any template to a local AWS, whose functions have their code beside it, not built."""
    overrides = [f"{key}={value}" for key, value in parameters.items()]
    command = [
        *(sys.executable, "-m", "samcli", "deploy", "--config-env", "local"),
        *("--config-file", str(PROJECT / "samconfig.toml")),
        *("--template-file", str(template), "--stack-name", name),
        *(["--parameter-overrides", *overrides] if overrides else []),
    ]
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
        output = (done.stdout + done.stderr).strip()[-3000:]
        raise Failure(f"sam deploy of stack {name} failed:\n{output}")


def read_object(s3: Any, bucket: str, key: str) -> bytes | None:
    """Read an object; None if there is none."""
    try:
        content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None
    return content


def answered_at(answer: Mapping[str, Any]) -> datetime:
    """Tell when a service of AWS answered, by its own clock, in whole seconds.

    This machine's clock may be wrong. A Failure if the answer does not say.
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
    """
    try:
        return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (LookupError, ValueError):
        raise Failure("AWS's answer does not say what time it is (its header Date).") from None


class Described:
    """Any stack, as CloudFormation describes it; its resources only if they are asked for."""

    def __init__(self, cloudformation: Any, stack_name: str) -> None:
        self._cloudformation, self._name = cloudformation, stack_name
        [stack] = cloudformation.describe_stacks(StackName=stack_name)["Stacks"]
        self.created: datetime = stack["CreationTime"]
        self.parameters = pairs(stack, "Parameter")
        self.outputs = pairs(stack, "Output")

    @cached_property
    def resources(self) -> dict[str, str]:
        """The physical IDs of its resources by their logical ones."""
        pages = self._cloudformation.get_paginator("list_stack_resources")
        return {
            resource["LogicalResourceId"]: resource.get("PhysicalResourceId", "")
            for page in pages.paginate(StackName=self._name)
            for resource in page["StackResourceSummaries"]
        }


def pairs(stack: Mapping[str, Any], kind: Literal["Parameter", "Output"]) -> dict[str, str]:
    """Give the values of parameters or outputs by their keys, as DescribeStacks lists them."""
    return {item[f"{kind}Key"]: item[f"{kind}Value"] for item in stack.get(f"{kind}s", [])}


def describe(cloudformation: Any, name: str) -> Stack:
    """Read a stack's outputs and parameters.

    A ClientError says that there is no such stack, a Failure that it is not one of template.yaml,
    or not there yet.
    """
    stack = Described(cloudformation, name)
    outputs = stack.outputs
    try:
        return Stack(
            name=name,
            input_bucket=outputs["InputBucketName"],
            output_bucket=outputs["OutputBucketName"],
            key_table=outputs["KeyTableName"],
            state_machine_arn=outputs["StateMachineArn"],
            parked_events_queue_url=outputs["ParkedEventsQueueUrl"],
            retry_events_queue_url=outputs["RetryEventsQueueUrl"],
            function_name=outputs["InvertImageFunctionName"],
            function_log_group=outputs["FunctionLogGroupName"],
            undelivered_events_queue_url=outputs["UndeliveredEventsQueueUrl"],
            waiting_events_queue_url=outputs["WaitingEventsQueueUrl"],
            created=stack.created,
            parameters=stack.parameters,
        )
    except KeyError as error:
        raise Failure(f"Stack {name} has no output {error.args[0]}.") from None


def session_with_times_as_text(**named: Any) -> boto3.Session:
    """Make a session whose clients read a listing of S3 three times as quickly.

    Most of what botocore does with a listing is making each time an object.
    """
    core = get_session()
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    return boto3.Session(botocore_session=core, **named)


def is_local(client: Any) -> bool:
    """Tell whether a client of boto3 calls this machine."""
    return urlsplit(client.meta.endpoint_url).hostname in {"127.0.0.1", "::1", "localhost"}


class Connection:
    """A deployed stack on a local AWS, or on whichever AWS the environment points boto3 at.

    Several threads may use it.
    """

    def __init__(self, stack_name: str, local: LocalAws | None = None) -> None:
        self._session = local.session if local else boto3.Session()
        self._with_times_as_text = session_with_times_as_text(**(local.named if local else {}))
        if not self._session.region_name:  # boto3 takes an empty one
            raise NoRegionError
        self._endpoint_url = local.endpoint_url if local else None
        # A session makes clients for one thread at a time; each is then for all threads:
        # https://docs.aws.amazon.com/boto3/latest/guide/session.html
        self._clients: dict[Any, Any] = {}
        self._making = threading.Lock()
        self.stack = describe(self.client("cloudformation"), stack_name)
        dynamodb = self._session.resource("dynamodb", endpoint_url=self._endpoint_url)
        self.table = dynamodb.Table(self.stack.key_table)

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where it costs nothing."""
        return is_local(self.client("cloudformation"))

    def client(self, service: str) -> Any:
        """Give a boto3 client, the same one each time; a Failure if the endpoint is not a URL."""
        return self._client(service, self._session)

    def head(self, bucket: str, key: str) -> Any:
        """Read what S3 says about an object; None if there is none."""
        s3 = self.client("s3")
        try:
            return s3.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.NOT_FOUND:
                raise
        return None

    @property
    def lists(self) -> Any:
        """A client of S3 that gives times as text; see `session_with_times_as_text`."""
        return self._client("s3", self._with_times_as_text)

    @property
    def synchronous(self) -> Any:
        """A client of Step Functions that waits until the execution that it starts has ended."""
        waits = Config(
            read_timeout=EXPRESS_SECONDS + 10,
            retries={"total_max_attempts": 1},
            inject_host_prefix=not self.is_local,  # there is no sync-127.0.0.1
        )
        return self._client("stepfunctions", self._session, waits)

    def _client(self, service: str, session: boto3.Session, config: Config | None = None) -> Any:
        key = service, session, config is None
        with self._making:
            try:
                if key not in self._clients:
                    # boto3's overloads know literal service names only.
                    self._clients[key] = session.client(  # type: ignore[call-overload]
                        service,
                        endpoint_url=self._endpoint_url,
                        config=DEFAULT.merge(config or Config()),
                    )
            except ValueError as error:
                raise Failure(str(error)) from None
            return self._clients[key]
