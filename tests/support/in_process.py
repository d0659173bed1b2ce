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
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import unquote

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto import mock_aws
from moto.dynamodb.models import DynamoDBBackend
from moto.stepfunctions.exceptions import ExecutionDoesNotExist
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.common.timeouts.timeout import TimeoutSeconds
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service,
    state_task_service_dynamodb,
)
from moto.stepfunctions.parser.asl.component.state.state import CommonStateField
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import (
    WaitFunction,
)
from moto.stepfunctions.parser.models import stepfunctions_parser_backends

from inorder import PROJECT
from inorder.aws.executions import LocalStateMachine, entry_of
from inorder.model import policies
from inorder.model.execution import Entry, Execution
from inorder.model.policies import asl_file
from inorder_fence.records import first_id
from tests.support import state_machines
from tests.support.events import SEQUENCER, created, deleted
from tests.support.resolved_template import template

INPUT, OUTPUT, TABLE = "input", "output", "keys"
FUNCTION, HASH_FUNCTION = (
    f"arn:aws:lambda:us-east-1:123456789012:function:{name}"
    for name in ("invert-image", "canonical-hash")
)
BUS, RETRY_BUS = "unique-events", "retry-events"
KEY_TABLE = template()["Resources"]["KeyTable"]["Properties"]
LONGEST_HISTORY = 800  # events; a waiter that gives up after 36 polls has about 600
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
    it. `invocations` are the payloads, also those of the function that hashes.
    """

    # A call of a Task takes as long as this machine needs, which decides no test.
    timeout_scale = 60

    def __init__(self, policy: str, app: ModuleType, canonical_hash: ModuleType) -> None:
        self.policy, self.app, self.canonical_hash = policy, app, canonical_hash
        self.wait_scale = 1.0  # of waits and of delays between attempts
        self.s3 = boto3.client("s3")
        self.invocations: list[Any] = []
        self.invoke: Callable[[Any], Any] = self.handle
        self._sequencers = itertools.count(int(SEQUENCER, 16))
        for bucket in (INPUT, OUTPUT):
            self.s3.create_bucket(Bucket=bucket)
        self.table = boto3.resource("dynamodb").create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            **{
                name: KEY_TABLE[name]
                for name in ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
            },
        )
        self._sqs = boto3.client("sqs")
        self.parked_queue, self.retry_queue = map(self._make_queue, ("parked", "retries"))
        self.function_log_group = "functions"
        boto3.client("logs").create_log_group(logGroupName=self.function_log_group)
        self._bus_queue = ""
        self._making_buses = threading.Lock()
        self.state_machine = self.machine(policy)
        # moto runs functions in Docker only; so its calls to Lambda are answered here.
        assert boto3.DEFAULT_SESSION
        # botocore's types know no handler that answers.
        boto3.DEFAULT_SESSION.events.register_first(
            "before-send.lambda.Invoke",
            self._serve,  # type: ignore[arg-type]
        )
        boto3.DEFAULT_SESSION.events.register(
            "provide-client-params.stepfunctions.StartExecution",
            _as_in_the_model,  # type: ignore[arg-type]
        )
        boto3.DEFAULT_SESSION.events.register(
            "provide-client-params.events.PutEvents",
            self._make_buses,
        )

    @property
    def like(self) -> str:
        """The shipped policy from which the policy was made, or its name."""
        return policies.policy(self.policy).like or self.policy

    def machine(self, policy: str) -> MotoStateMachine:
        substitutions = {
            "KeyTableName": TABLE,
            "InvertImageFunctionArn": FUNCTION,
            "CanonicalHashFunctionArn": HASH_FUNCTION,
            "ParkedEventsQueueUrl": self.parked_queue,
            "RetryEventsQueueUrl": self.retry_queue,
            "RetryEventsBusName": RETRY_BUS,
            "UniqueEventsBusName": BUS,
        }
        definition = state_machines.substitute(PROJECT / asl_file(policy), substitutions)
        client = boto3.client("stepfunctions")
        return MotoStateMachine(client, state_machines.create_local(client, definition).arn)

    def _make_buses(self, **_: Any) -> None:
        """Create the buses before the first event, because most tests send none."""
        with self._making_buses:
            if self._bus_queue:
                return
            events = boto3.client("events")
            for name in (BUS, RETRY_BUS):
                events.create_event_bus(Name=name)
            events.put_rule(Name="all", EventBusName=BUS, EventPattern='{"version": ["0"]}')
            target = {"Id": "queue", "Arn": "arn:aws:sqs:us-east-1:123456789012:forwarded"}
            events.put_targets(Rule="all", EventBusName=BUS, Targets=[target])
            self._bus_queue = self._make_queue("forwarded")

    def _make_queue(self, name: str) -> str:
        """Create a queue from which each message is received once, however long a test takes."""
        created = self._sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "43200"})
        return created["QueueUrl"]

    def handle(self, payload: Any) -> Any:
        return self.app.handler(payload, Context())

    def _serve(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        assert isinstance(request.body, bytes | str)
        payload = json.loads(request.body)
        self.invocations.append(payload)
        headers = {"x-amzn-RequestId": "test", "Content-Type": "application/json"}
        try:
            if HASH_FUNCTION in unquote(request.url):
                answer = self.canonical_hash.handler(payload, Context())
            else:
                answer = self.invoke(payload)
        except Throttled:
            headers["x-amzn-ErrorType"] = "TooManyRequestsException"
            return _response(request, 429, headers, {"message": "Rate Exceeded."})
        except Exception as error:
            headers["x-amz-function-error"] = "Unhandled"
            answer = {"errorType": type(error).__name__, "errorMessage": str(error)}
        return _response(request, 200, headers, answer)

    def upload(self, key: str, content: bytes) -> dict[str, Any]:
        """Put an object and give the event that S3 would send."""
        answer = self.s3.put_object(Bucket=INPUT, Key=key, Body=content)
        return created(key, etag=answer["ETag"].strip('"'), **self._event(answer))

    def delete(self, key: str, **version: Any) -> dict[str, Any]:
        answer = self.s3.delete_object(Bucket=INPUT, Key=key, **version)
        return deleted(key, **self._event(answer))

    def _event(self, answer: Any) -> dict[str, Any]:
        return {
            "bucket": INPUT,
            "sequencer": f"{next(self._sequencers):018X}",
            "version_id": answer.get("VersionId"),
        }

    def keep_versions(self) -> None:
        self.s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration={"Status": "Enabled"})

    def output(self, key: str) -> bytes:
        content: bytes = self.s3.get_object(Bucket=OUTPUT, Key=key)["Body"].read()
        return content

    def outputs(self) -> list[str]:
        return [each["Key"] for each in self.s3.list_objects_v2(Bucket=OUTPUT).get("Contents", [])]

    def start(self, event: Any) -> str:
        return self.state_machine.start(event)

    def wait(self, execution: str, seconds: float = 60) -> Execution:
        return self.state_machine.wait(execution, seconds)

    def run(self, event: Any) -> Execution:
        return self.wait(self.start(event))

    def record_id(self, object_key: str) -> str:
        """Give the ID of the record that has the lock of a key."""
        return first_id(object_key) if self.like == "first-wins" else object_key

    def record(self, object_key: str) -> dict[str, Any]:
        key = {"id": self.record_id(object_key)}
        found: dict[str, Any] = self.table.get_item(Key=key).get("Item", {})
        return found

    def records(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.scan()["Items"]
        return found

    def put_record(self, item: dict[str, Any]) -> None:
        self.table.put_item(Item=item)

    def parked(self) -> list[dict[str, Any]]:
        return self._receive(self.parked_queue)

    def forwarded(self) -> list[dict[str, Any]]:
        return self._receive(self._bus_queue) if self._bus_queue else []

    def _receive(self, queue: str) -> list[dict[str, Any]]:
        messages = self._sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in messages.get("Messages", [])]


class MotoStateMachine(LocalStateMachine):
    """A state machine on moto whose executions are read in this process.

    moto takes longer to write a history as a response than to run the execution.
    """

    poll_seconds = 0.005

    def has_ended(self, arn: str) -> bool:
        ended = self._execution(arn).exec_status != "RUNNING"
        return ended and self.describe(arn).status != "RUNNING"

    def entries(self, arn: str) -> list[Entry]:
        try:
            events = self._execution(arn).to_history_output()["events"]
        except ExecutionDoesNotExist:
            return super().entries(arn)  # raises what a client does
        return [
            entry_of({**event, "timestamp": datetime.fromisoformat(event["timestamp"])})
            for event in events
        ]

    def running(self) -> list[Any]:
        """List moto's executions that have not ended, of all state machines."""
        executions = (each for machine in self._moto.state_machines for each in machine.executions)
        return [each for each in executions if each.exec_status == "RUNNING"]

    def stop_all(self) -> None:
        """Stop what still runs: it would go on in the next test, with that test's resources."""
        for execution in self.running():
            execution.stop(datetime.now(UTC), error="Ended", cause="the test has ended")

    def _execution(self, arn: str) -> Any:
        return self._moto.describe_execution(arn)

    @property
    def _moto(self) -> Any:
        _, _, _, region, account, *_ = self.arn.split(":")
        return stepfunctions_parser_backends[account][region]


class Throttled(Exception):
    """Lambda refuses the invocation."""


class _Body(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def _response(
    request: AWSPreparedRequest, status: int, headers: dict[str, str], answer: Any
) -> AWSResponse:
    body = _Body(json.dumps(answer).encode())
    return AWSResponse(request.url, status, headers, body)  # type: ignore[arg-type]


def _as_in_the_model(params: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Name the parameters of states:startExecution as StartExecution does, which moto forgets."""
    return {name[0].lower() + name[1:]: value for name, value in params.items()}


def make_writes_atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a condition and write in one step, as DynamoDB does, and moto does not."""
    lock = threading.Lock()

    def atomically(write: Callable[..., Any]) -> Callable[..., Any]:
        def locked(*arguments: Any, **named: Any) -> Any:
            with lock:
                return write(*arguments, **named)

        return locked

    for name in ("put_item", "update_item"):
        monkeypatch.setattr(DynamoDBBackend, name, atomically(getattr(DynamoDBBackend, name)))


# Done anew for each definition that moto creates or starts, for each path that it evaluates, for
# each call, for each session, which reads the models of all services, and for each client, these
# take longer than all else.
PARSE = "moto.stepfunctions.parser.asl.parse.asl_parser.AmazonStateLanguageParser.parse"
ONCE = {
    name: functools.cache(pkgutil.resolve_name(name))
    for name in (
        PARSE,
        "moto.stepfunctions.parser.asl.utils.json_path.parse",
        "moto.core.responses.method_names_from_class",
        "botocore.session.create_loader",
        "botocore.httpsession.create_urllib3_context",
    )
}


def _scale_seconds(monkeypatch: pytest.MonkeyPatch, aws: InProcess) -> None:
    def sleep(seconds: float) -> None:
        time.sleep(seconds * aws.wait_scale)

    def wait(_: object, env: object, wait_seconds: float) -> None:  # noqa: ARG001
        sleep(wait_seconds)

    def timeout(seconds: TimeoutSeconds, env: object) -> int:  # noqa: ARG001
        return seconds.timeout_seconds * aws.timeout_scale

    monkeypatch.setattr(TimeoutSeconds, "_eval_seconds", timeout)
    monkeypatch.setattr(WaitFunction, "_wait_interval", wait)
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=sleep))


def _limit_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a Task's parameters above 256 KiB, as AWS does, where moto looks at results only."""
    service = state_task_service.StateTaskService
    dynamodb = state_task_service_dynamodb.StateTaskServiceDynamoDB
    evaluate, name_error = service._eval_parameters, dynamodb._from_error

    def evaluate_and_measure(state: Any, env: Any) -> Any:
        parameters = evaluate(state, env)
        state._verify_size_quota(env, parameters)
        return parameters

    def keep_name(state: Any, env: Any, ex: Exception) -> Any:
        if isinstance(ex, FailureEventException):
            return ex.failure_event
        return name_error(state, env=env, ex=ex)

    monkeypatch.setattr(service, "_eval_parameters", evaluate_and_measure)
    monkeypatch.setattr(dynamodb, "_from_error", keep_name)


def _stop_endless_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop an execution that never ends, as a broken file may have, before a test waits for it."""
    evaluate = CommonStateField._eval_body

    def evaluate_or_stop(state: CommonStateField, env: Any) -> None:
        evaluate(state, env)
        if len(env.event_manager._history_event_list) > LONGEST_HISTORY:
            cause = f"its history has more than {LONGEST_HISTORY} events"
            env.set_stop(stop_date=datetime.now(UTC), error="Endless", cause=cause)

    monkeypatch.setattr(CommonStateField, "_eval_body", evaluate_or_stop)


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
    make_writes_atomic(monkeypatch)
    _stop_endless_executions(monkeypatch)
    _limit_parameters(monkeypatch)
    for name, once in ONCE.items():
        monkeypatch.setattr(name, once)
    with mock_aws(
        config={"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}
    ):
        boto3.setup_default_session()
        running = InProcess(
            policy, import_anew("invert_image.app"), import_anew("canonical_hash.app")
        )
        _scale_seconds(monkeypatch, running)
        yield running
        running.state_machine.stop_all()
