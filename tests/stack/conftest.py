"""Stacks that `sam deploy` deploys to a local AWS, where functions are processes of their own."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from click.testing import Result

from inorder import PROJECT, local_aws
from inorder.aws import parked
from inorder.aws.executions import LocalStateMachine, wait_until
from inorder.aws.stack import Described, Stack, deploy, read_object, sam_deploy
from inorder.local_aws import LocalAws
from inorder.model.execution import Execution
from inorder_fence.fenced_output import output_key
from inorder_fence.records import object_key, retry_id, s3_object
from inorder_fence.stuck import DEAD_AFTER
from tests.conftest import FEW_WORKERS, WAIT_SCALE, colour_of
from tests.support.commands import run
from tests.support.replacing import replaced

SECONDS = 90  # no execution of these tests takes as long, even on a busy machine
# A second message of an event waits while the first one may retry: for 300 s and a delay.
RETRY_SECONDS = SECONDS + 330

Colour = tuple[int, int, int]
RED, GREEN = (255, 0, 0), (0, 255, 0)
CYAN, MAGENTA = (0, 255, 255), (255, 0, 255)  # their inverses


def edit(file: Path, changes: Mapping[str, str]) -> None:
    """Put some texts of a file in the place of others."""
    text = file.read_text(encoding="utf-8")
    for old, new in changes.items():
        text = replaced(text, old, new)
    file.write_text(text, encoding="utf-8")


class Deployed:
    """Any stack on a local AWS, and what the tests ask of its services."""

    def __init__(
        self, local: LocalAws, name: str, template: Path | None = None, **parameters: str
    ) -> None:
        """Describe a stack; with a template, deploy it first."""
        if template:
            sam_deploy(local, name, parameters, template)
        self.local, self.client = local, local.client
        self.s3, self.sqs = local.client("s3"), local.client("sqs")
        self.described = Described(local.client("cloudformation"), name)
        self.deployed = self.described.outputs

    def resource(self, logical_id: str) -> str:
        return self.described.resources[logical_id]

    def table_of(self, name: str) -> Any:
        resources = self.local.session.resource("dynamodb", endpoint_url=self.local.endpoint_url)
        return resources.Table(name)

    def invoke(self, function: str, payload: Any, kind: str = "RequestResponse") -> Any:
        """Invoke a function; with the kind ``Event``, as a rule does."""
        answer = self.client("lambda").invoke(
            FunctionName=function, InvocationType=kind, Payload=json.dumps(payload)
        )
        return json.loads(answer["Payload"].read() or "null")

    def received(self, queue_url: str) -> list[str]:
        """Take all messages from a queue, and give their bodies."""
        bodies = []
        queue: Any = {"QueueUrl": queue_url}
        while batch := self.sqs.receive_message(**queue, MaxNumberOfMessages=10).get("Messages"):
            for message in batch:
                bodies.append(message["Body"])
                self.sqs.delete_message(**queue, ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def receive(self, queue_url: str) -> str:
        """Wait for a message in a queue, and give its body."""
        bodies: list[str] = []

        def has_come() -> bool:
            bodies.extend(self.received(queue_url))
            return bool(bodies)

        wait_until(has_come, SECONDS, f"a message in {queue_url}")
        [body] = bodies
        return body

    def capture(self, pattern: Any, bus: str = "default") -> str:
        """Let a queue have the events that match a pattern; give its URL."""
        events, name = self.client("events"), f"captured-{uuid4()}"
        queue: str = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        [arn] = self.queue_attributes(queue, "QueueArn")
        events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps(pattern))
        events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
        return queue

    def queue_attributes(self, queue_url: str, *names: str) -> list[str]:
        answer = self.sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)
        return [answer["Attributes"][name] for name in names]


class Workflow(Deployed):
    """The main stack."""

    def __init__(self, local: LocalAws, stack: Stack) -> None:
        super().__init__(local, stack.name)
        self.stack = stack
        self.executions = LocalStateMachine(local.client("stepfunctions"), stack.state_machine_arn)
        self.table = self.table_of(stack.key_table)

    def upload(self, key: str, content: bytes) -> None:
        self.s3.put_object(Bucket=self.stack.input_bucket, Key=key, Body=content)

    def delete(self, key: str) -> None:
        self.s3.delete_object(Bucket=self.stack.input_bucket, Key=key)

    def events(self, key: str, count: int) -> list[dict[str, Any]]:
        """Wait for the events of a key that S3 has sent, oldest first."""

        def arrived() -> list[dict[str, Any]]:
            return self.executions.arrived(key).get(key, [])

        wait_until(lambda: len(arrived()) >= count, SECONDS, f"{count} events of {key}")
        return arrived()

    def run(self, event: Any) -> Execution:
        return self.executions.run(event, SECONDS)

    def of_key(self, key: str, count: int, is_retried: bool = False) -> list[Execution]:
        """Wait until `count` executions for a key have ended, oldest event first.

        On a busy machine any execution may end as `Retrying`, and another one takes its event on.
        So these do not count, unless `is_retried` says that the test has caused it.
        """
        ended: list[Execution] = []

        def all_ended() -> bool:
            started = [
                execution
                for execution in self.executions.all()
                if s3_object(execution.event).get("key") == key
            ]
            if len(started) < count or any(execution.status == "RUNNING" for execution in started):
                return False
            described = (self.executions.describe(execution.arn) for execution in started)
            ended[:] = [
                execution
                for execution in described
                if is_retried or execution.outcome != "Retrying"
            ]
            return len(ended) >= count

        wait_until(all_ended, RETRY_SECONDS, f"{count} executions for {key}")
        return sorted(ended, key=lambda execution: str(s3_object(execution.event)["sequencer"]))

    def output(self, key: str) -> bytes | None:
        return read_object(self.s3, self.stack.output_bucket, output_key(key))

    def colour(self, key: str) -> Colour | None:
        content = self.output(key)
        return None if content is None else colour_of(content)

    def outputs(self) -> dict[str, Colour]:
        bucket = self.stack.output_bucket
        keys = [
            entry["Key"] for entry in self.s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        ]
        contents = {key: self.s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
        return {key: colour_of(content) for key, content in contents.items()}

    def record_id(self, key: str) -> str:
        return object_key(self.stack.input_bucket, key)

    def record(self, key: str) -> dict[str, Any]:
        record: dict[str, Any] = self.table.get_item(
            Key={"id": self.record_id(key)}, ConsistentRead=True
        ).get("Item", {})
        return record

    def wait_for_lock(self, key: str) -> None:
        wait_until(lambda: "lock_token" in self.record(key), SECONDS, f"a lock of {key}")

    def age(self, record_id: str) -> None:
        """Let a record look as if it had been claimed, and its event retried, some time earlier."""
        record = self.table.get_item(Key={"id": record_id})["Item"]
        since = datetime.now(UTC)
        with suppress(ValueError):
            since = datetime.fromisoformat(str(record["in_progress_since"]))
        earlier = DEAD_AFTER + timedelta(minutes=20)  # an execution, and the longest delay
        self.table.update_item(
            Key={"id": record_id},
            UpdateExpression="SET in_progress_since = :since",
            ConditionExpression="attribute_exists(in_progress_since)",
            ExpressionAttributeValues={":since": (since - earlier).isoformat()},
        )
        event = json.loads(str(record["event"]))
        with suppress(ClientError):  # it is not retried
            self.table.update_item(
                Key={"id": retry_id(event)},
                UpdateExpression="SET #at = #at - :earlier, #until = #until - :earlier",
                ConditionExpression="attribute_exists(id)",
                ExpressionAttributeNames={"#at": "at", "#until": "until"},
                ExpressionAttributeValues={":earlier": int(earlier.total_seconds())},
            )

    def parked(self) -> list[dict[str, Any]]:
        """Take all messages from the queue of parked events."""
        return [*map(json.loads, self.received(self.stack.parked_events_queue_url))]

    def failed_events(self) -> int:
        """Count the messages in the retry queue, those that wait included."""
        names = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
        return sum(map(int, self.queue_attributes(self.stack.retry_events_queue_url, *names)))

    def wait_for_retries(self) -> None:
        """Wait until no failed event waits any more, and nothing runs."""
        wait_until(
            lambda: not self.failed_events() and not self.executions.arns("RUNNING"),
            RETRY_SECONDS,
            "the retry queue to be empty",
            poll_seconds=0.5,
        )

    @contextmanager
    def limited(self, concurrency: int) -> Iterator[None]:
        """Let the function have so many invocations at a time. Lambda refuses further ones."""
        functions, name = self.local.client("lambda"), self.stack.function_name
        functions.put_function_concurrency(
            FunctionName=name, ReservedConcurrentExecutions=concurrency
        )
        try:
            yield
        finally:
            functions.delete_function_concurrency(FunctionName=name)

    @contextmanager
    def denied(self, action: str, resource: str) -> Iterator[None]:
        """Take one action on one resource from the role of the function that does the work."""
        iam = self.local.client("iam")
        policy = {"RoleName": self.resource("InvertImageRole"), "PolicyName": "less"}
        statement = {"Effect": "Deny", "Action": action, "Resource": resource}
        document = {"Version": "2012-10-17", "Statement": [statement]}
        iam.put_role_policy(**policy, PolicyDocument=json.dumps(document))
        try:
            yield
        finally:
            iam.delete_role_policy(**policy)

    def sweep(self) -> str:
        """Invoke the function of the schedule, and give the error if it fails."""
        answer = self.local.client("lambda").invoke(FunctionName=self.resource("HealKeysFunction"))
        printed: str = answer["Payload"].read().decode()
        return printed if "FunctionError" in answer else ""

    @contextmanager
    def without_events(self) -> Iterator[None]:
        """Lose the events of S3 meanwhile."""
        events, rule = self.local.client("events"), self.resource("EventsRule").rpartition("/")[2]
        events.disable_rule(Name=rule)
        try:
            yield
        finally:
            events.enable_rule(Name=rule)

    def allow_plain_http(self) -> None:
        """Remove the policies that want TLS, as functions call the local AWS over plain HTTP."""
        for bucket in (self.stack.input_bucket, self.stack.output_bucket):
            self.s3.delete_bucket_policy(Bucket=bucket)
        for name in ("RetryEvents", "ParkedEvents", "UndeliveredEvents", "WaitingEvents"):
            url = self.resource(f"{name}Queue")
            self.local.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})

    def unfinished(self) -> list[dict[str, Any]]:
        """List the records that are locked, or that the schedule would find."""
        names = {"lock_token", "in_progress_since"}
        return [item for item in self.table.scan()["Items"] if names & set(item)]

    def assert_quiet(self) -> None:
        """No execution runs, no key is locked, and the schedule would find nothing."""
        assert self.executions.arns("RUNNING") == []
        assert self.unfinished() == []


Inorder = Callable[..., Result]


@pytest.fixture
def inorder(workflow: Workflow, monkeypatch: pytest.MonkeyPatch) -> Inorder:
    """Give the command, in the environment that `make up` tells the user to set."""
    queue = workflow.stack.parked_events_queue_url
    workflow.local.client("sqs").purge_queue(QueueUrl=queue)  # of what other tests have parked
    for name, value in workflow.local.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STACK_NAME", workflow.stack.name)
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 0)  # the local AWS has one server, not many
    return run


def ran(
    *command: str | Path, cwd: Path = PROJECT, variables: Mapping[str, str] | None = None
) -> str:
    """Run a program of ours, with further variables, and give what it prints; it must succeed."""
    done = subprocess.run(  # noqa: S603
        command,
        cwd=cwd,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(
    command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str]
) -> Iterator[tuple[int, str]]:
    """Run the console: give its process's number, and the address that it prints."""
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.terminate()


def make(*arguments: str) -> None:
    """Leave the environment of the tests as it is, also if another one should be installed."""
    ran("make", "--old-file", ".venv/installed", *arguments)


@pytest.fixture(scope="session")
def fence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the fence's wheel and layer."""
    folder = tmp_path_factory.mktemp("fence")
    make("fence", f"FENCE={folder}")
    return folder


def as_if_over_tls(request: Any, **_: Any) -> None:
    request.headers["X-Forwarded-Proto"] = "https"  # as a proxy that ends TLS does


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """Start a local AWS that enforces functions' roles; our key ``test`` is its root user.

    It tries asynchronous calls again soon, and there is no host sync-127.0.0.1.
    """
    settings = {
        "AUTH": "true",
        "AWS_DISABLE_HOST_PREFIX_INJECTION": "true",
        "LAMBDA_ASYNC_RETRY_BASE_SECONDS": "0.1",
    }
    folder = tmp_path_factory.mktemp("strict-aws")
    with local_aws.start(folder, None, WAIT_SCALE, settings, FEW_WORKERS) as server:
        server.session.events.register("before-send", as_if_over_tls)
        yield server


@pytest.fixture(scope="session")
def workflow(local: LocalAws) -> Workflow:
    return Workflow(local, deploy(local, "quick", {}))
