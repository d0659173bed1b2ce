"""The template's resources in this process: moto's services, and the functions' own handlers."""

from __future__ import annotations

import functools
import importlib
import io
import itertools
import json
import logging
import pkgutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from moto import mock_aws

from inorder.aws.executions import LocalStateMachine
from inorder.model import policies
from inorder.model.execution import Execution
from retry_events.retries import Fault, Message, Park
from tests.support import events, moto_parts, state_machines
from tests.support.resolved_template import template

INPUT, OUTPUT, TABLE = "input", "output", "keys"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:invert-image"
RETRY_BUS = "retry-events"
# What CreateTable takes of the key table.
KEY_TABLE = {
    name: template()["Resources"]["KeyTable"]["Properties"][name]
    for name in ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
}
MOST_STATES = 300  # of an execution; a waiter that gives up enters half as many
# moto logs every state that fails, and so hides what a test has found.
logging.getLogger("moto").setLevel(logging.CRITICAL)
ENVIRONMENT = {
    "OUTPUT_BUCKET": OUTPUT,
    "RECORD_RETENTION_DAYS": "7",
    "HANDLES_DELETIONS": "true",
    "MAXIMUM_BYTES": "100000",
    "MAXIMUM_PIXELS": "100000",
    "SLOW_MARK": "",
    "SLOW_SECONDS": "0",
    "POWERTOOLS_SERVICE_NAME": "test",
    "POWERTOOLS_METRICS_NAMESPACE": "test",
    "AWS_LAMBDA_FUNCTION_NAME": "invert-image",
}


class Context:
    """What Powertools reads of a Lambda context."""

    function_name = "invert-image"
    memory_limit_in_mb = 1769
    invoked_function_arn = FUNCTION
    aws_request_id = "test"


class InProcess:
    """Everything the template deploys for a policy, in this process.

    `invoke` answers what the state machine invokes: the function's handler, until a test replaces
    it. `invocations` are the payloads.
    """

    # A call of a Task takes as long as this machine needs, which decides no test.
    timeout_scale = 60
    wait_scale = 1.0  # of waits and of delays between attempts

    def __init__(self, policy: str, app: ModuleType) -> None:
        self.policy, self.app, self.name = policy, app, f"inorder-{uuid4()}"
        self.sleep: Callable[[float], None] = time.sleep
        # moto runs functions in Docker only; so its calls to Lambda are answered here.
        assert boto3.DEFAULT_SESSION
        # Their types know no handler that answers.
        events_of_session: Any = boto3.DEFAULT_SESSION.events
        self.events = events_of_session
        self.events.register_first("before-call.lambda.Invoke", self._serve)
        self.events.register("provide-client-params.stepfunctions.StartExecution", _as_in_the_model)
        make_writes_atomic(self.events)
        self.s3 = boto3.client("s3")
        self.invocations: list[Any] = []
        self.invoke: Callable[[Any], Any] = self.handle
        self._sequencers = itertools.count(int(events.SEQUENCER, 16))
        for bucket in (INPUT, OUTPUT):
            self.s3.create_bucket(Bucket=bucket)
        self.table = boto3.resource("dynamodb").create_table(TableName=TABLE, **KEY_TABLE)
        self._sqs = boto3.client("sqs")
        self.parked_queue, self.retry_queue, self.waiting_queue = map(
            self._make_queue, ("parked", "retries", "waiting")
        )
        boto3.client("events").create_event_bus(Name=RETRY_BUS)
        self.function_log_group = "functions"
        boto3.client("logs").create_log_group(logGroupName=self.function_log_group)
        self.state_machine = self.machine(policy)

    def pause(self, seconds: float) -> None:
        """Let an execution wait."""
        self.sleep(seconds * self.wait_scale)

    def machine(self, policy: str) -> MotoStateMachine:
        substitutions = {
            "KeyTableName": TABLE,
            "InvertImageFunctionArn": FUNCTION,
            "ParkedEventsQueueUrl": self.parked_queue,
            "RetryEventsQueueUrl": self.retry_queue,
            "RetryEventsBusName": RETRY_BUS,
        }
        definition = json.loads(state_machines.substitute(policies.asl(policy), substitutions))
        for state in definition["States"].values():
            if isinstance(state.get("TimeoutSeconds"), int):
                state["TimeoutSeconds"] *= self.timeout_scale
        client = boto3.client("stepfunctions")
        name = f"{self.name}_{policy}"  # as in template.yaml
        created = state_machines.create_local(client, json.dumps(definition), name=name)
        return MotoStateMachine(client, created.arn)

    def _make_queue(self, name: str) -> str:
        """Create a queue from which each message is received once, however long a test takes."""
        created = self._sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "43200"})
        return created["QueueUrl"]

    def handle(self, payload: Any) -> Any:
        return self.app.handler(payload, Context())

    def _serve(self, params: dict[str, Any], **_: Any) -> Any:
        payload = json.loads(params["body"])
        self.invocations.append(payload)
        answer: dict[str, Any] = {"StatusCode": 200}
        try:
            result = self.invoke(payload)
        except Throttled:
            refusal = {"Code": "TooManyRequestsException", "Message": "Rate Exceeded."}
            return answered(429, {"Error": refusal})
        except Exception as error:
            answer["FunctionError"] = "Unhandled"
            result = {"errorType": type(error).__name__, "errorMessage": str(error)}
        return answered(200, answer | {"Payload": io.BytesIO(json.dumps(result).encode())})

    def upload(self, key: str, content: bytes) -> dict[str, Any]:
        """Put an object and give the event that S3 would send."""
        return events.upload(self.s3, key, content, sequencer=self._next())

    def delete(self, key: str, version_id: str | None = None) -> dict[str, Any]:
        return events.delete(self.s3, key, version_id, sequencer=self._next())

    def _next(self) -> str:
        return f"{next(self._sequencers):018X}"

    def keep_versions(self) -> None:
        self.s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration={"Status": "Enabled"})

    def output(self, key: str) -> bytes:
        content: bytes = self.s3.get_object(Bucket=OUTPUT, Key=key)["Body"].read()
        return content

    def outputs(self) -> list[str]:
        return [
            object_["Key"] for object_ in self.s3.list_objects_v2(Bucket=OUTPUT).get("Contents", [])
        ]

    def start(self, event: Any) -> str:
        return self.state_machine.start(event)

    def wait(self, execution: str, seconds: float = 60) -> Execution:
        return self.state_machine.wait(execution, seconds)

    def run(self, event: Any) -> Execution:
        return self.wait(self.start(event))

    def record(self, object_key: str) -> dict[str, Any]:
        """Give the record that has the lock of a key, before whose ID there may be a prefix."""
        ids = object_key, f":{object_key}"
        return next((record for record in self.records() if record["id"].endswith(ids)), {})

    def records(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.table.scan()["Items"]
        return items

    def park(self) -> None:
        """Let the retry queue's function park what it does not retry."""
        received = self._sqs.receive_message(QueueUrl=self.retry_queue, MaxNumberOfMessages=10)
        for message in received.get("Messages", []):
            now = time.time()
            fault = Fault.read(Message(message["MessageId"], message["Body"], now))
            decision = fault.decide(now, patience=86_400) if fault else None
            if isinstance(decision, Park):
                self._sqs.send_message(QueueUrl=self.parked_queue, MessageBody=decision.body)

    def parked(self) -> list[dict[str, Any]]:
        messages = self._sqs.receive_message(QueueUrl=self.parked_queue, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in messages.get("Messages", [])]


class MotoStateMachine(LocalStateMachine):
    """A state machine on moto."""

    poll_seconds = 0.005

    def running(self) -> list[str]:
        """List the executions that have not ended, of all state machines."""
        pages = self.client.get_paginator("list_executions").paginate
        machines = self.client.list_state_machines()["stateMachines"]
        return [
            execution["executionArn"]
            for machine in machines
            for page in pages(stateMachineArn=machine["stateMachineArn"], statusFilter="RUNNING")
            for execution in page["executions"]
        ]

    def stop_all(self) -> None:
        """Stop what still runs: it would go on in the next test, with that test's resources."""
        for execution in self.running():
            self.client.stop_execution(executionArn=execution, error="Ended")


class Throttled(Exception):
    """Lambda refuses the invocation."""


def answered(status: int, parsed: dict[str, Any]) -> Any:
    """Give what a handler of botocore's event ``before-call`` gives in place of a service."""
    described = {"RequestId": "test", "HTTPStatusCode": status, "HTTPHeaders": {}}
    return AWSResponse("", status, HTTPHeaders(), None), parsed | {"ResponseMetadata": described}


def _as_in_the_model(params: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Name the parameters of states:startExecution as StartExecution does, which moto forgets."""
    return {name[0].lower() + name[1:]: value for name, value in params.items()}


def make_writes_atomic(events: Any) -> None:
    """Check a condition and write in one step, as DynamoDB does, and moto does not.

    The events belong to a client, or to the session that will make clients.
    """
    lock, mine = threading.Lock(), threading.local()

    def begin(**_: Any) -> None:
        lock.acquire()
        mine.held = True

    def end(**_: Any) -> None:
        if getattr(mine, "held", False):
            mine.held = False
            lock.release()

    for operation in ("PutItem", "UpdateItem"):
        events.register_first(f"before-send.dynamodb.{operation}", begin)
        events.register_first(f"response-received.dynamodb.{operation}", end)


def remember(name: str) -> None:
    """Let a function give its first result again."""
    module, _, function = name.rpartition(".")
    place = pkgutil.resolve_name(module)
    setattr(place, function, functools.cache(getattr(place, function)))


# Done anew for each session, which reads the models of all services, for each client, for each
# definition that moto creates or starts, and for each path that it evaluates, these take longer
# than all else. moto itself makes sessions when its parser is imported.
for slow_function in (
    "botocore.session.create_loader",
    "botocore.httpsession.create_urllib3_context",
    f"moto.{moto_parts.PARSE}",
    f"moto.{moto_parts.PARSE_PATH}",
):
    remember(slow_function)


def import_anew(name: str) -> ModuleType:
    """Import a function's module, which reads its configuration when it is imported."""
    sys.modules.pop(name, None)
    return importlib.import_module(name)


@pytest.fixture
def aws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    """Run the state machine of the policy that the test is marked with, or of latest-wins."""
    mark = request.node.get_closest_marker("policy")
    policy = mark.args[0] if mark else "latest-wins"
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with mock_aws(
        config={"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}
    ):
        boto3.setup_default_session()
        running = InProcess(policy, import_anew("invert_image.app"))
        moto_parts.sleep_with(monkeypatch, running.pause)
        moto_parts.stop_endless_executions(monkeypatch, MOST_STATES)
        yield running
        running.state_machine.stop_all()
