"""The template's resources in this process: moto's services, and the function's own handler."""

from __future__ import annotations

import importlib
import io
import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto import mock_aws
from moto.dynamodb.models import DynamoDBBackend

from inorder.executions import wait_until
from inorder.stack import PROJECT

INPUT, OUTPUT, TABLE = "input", "output", "keys"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:invert-image:live"
ENVIRONMENT = {
    "OUTPUT_BUCKET": OUTPUT,
    "RECORD_RETENTION_DAYS": "7",
    "MAXIMUM_BYTES": "100000",
    "MAXIMUM_PIXELS": "100000",
    "SLOW_PROBABILITY": "0",
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


@dataclass(frozen=True)
class Ended:
    """An execution that has ended."""

    outcome: str
    output: Any
    cause: str
    path: list[str]


class InProcess:
    """Everything the template deploys, in this process."""

    def __init__(self, app: ModuleType) -> None:
        self.app = app
        self.s3 = boto3.client("s3")
        self.invocations: list[Any] = []
        self.invoke: Callable[[Any], Any] = self.handle
        self._names = itertools.count()
        self._sequencers = itertools.count(0x006A0F5FCE2D7F28B1)
        for bucket in (INPUT, OUTPUT):
            self.s3.create_bucket(Bucket=bucket)
        self.table = boto3.resource("dynamodb").create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "object_key", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "object_key", "KeyType": "HASH"}],
        )
        self._sqs = boto3.client("sqs")
        self._queue: str = self._sqs.create_queue(QueueName="parked")["QueueUrl"]
        definition = (PROJECT / "statemachine" / "latest_wins.asl.json").read_text()
        for name, value in {
            "KeyTableName": TABLE,
            "InvertImageFunctionArn": FUNCTION,
            "ParkedEventsQueueUrl": self._queue,
        }.items():
            definition = definition.replace(f"${{{name}}}", value)
        self._states = boto3.client("stepfunctions")
        self._arn = self._states.create_state_machine(
            name="latest-wins",
            definition=definition,
            roleArn="arn:aws:iam::123456789012:role/test",
            type="EXPRESS",
        )["stateMachineArn"]
        # moto runs functions in Docker only; so its calls to Lambda are answered here.
        assert boto3.DEFAULT_SESSION
        # botocore's types know no handler that answers.
        boto3.DEFAULT_SESSION.events.register_first(
            "before-send.lambda.Invoke",
            self._serve,  # type: ignore[arg-type]
        )

    def handle(self, payload: Any) -> Any:
        """Call the function's handler."""
        return self.app.handler(payload, Context())

    def _serve(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        assert isinstance(request.body, bytes | str)
        payload = json.loads(request.body)
        self.invocations.append(payload)
        headers = {"x-amzn-RequestId": "test", "Content-Type": "application/json"}
        try:
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
        described = {
            "key": key,
            "etag": answer["ETag"].strip('"'),
            "sequencer": f"{next(self._sequencers):018X}",
        }
        if "VersionId" in answer:
            described["version-id"] = answer["VersionId"]
        return {
            "source": "aws.s3",
            "detail-type": "Object Created",
            "detail": {"bucket": {"name": INPUT}, "object": described},
        }

    def start(self, event: Any) -> str:
        arn: str = self._states.start_execution(
            stateMachineArn=self._arn, name=f"test-{next(self._names)}", input=json.dumps(event)
        )["executionArn"]
        return arn

    def wait(self, arn: str, seconds: float = 60) -> Ended:
        described: dict[str, Any] = {}

        def ended() -> bool:
            described.update(self._states.describe_execution(executionArn=arn))
            return bool(described["status"] != "RUNNING")

        wait_until(ended, seconds, arn)
        history = self._states.get_execution_history(executionArn=arn, maxResults=1000)["events"]
        path = [
            event["stateEnteredEventDetails"]["name"]
            for event in history
            if "stateEnteredEventDetails" in event
        ]
        if described["status"] == "SUCCEEDED":
            output = json.loads(described["output"])
            return Ended(output["outcome"], output, "", path)
        return Ended(described["error"], None, described["cause"], path)

    def run(self, event: Any) -> Ended:
        return self.wait(self.start(event))

    def record(self, object_key: str) -> dict[str, Any]:
        found: dict[str, Any] = self.table.get_item(Key={"object_key": object_key}).get("Item", {})
        return found

    def put_record(self, item: dict[str, Any]) -> None:
        self.table.put_item(Item=item)

    def parked(self) -> list[dict[str, Any]]:
        messages = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in messages.get("Messages", [])]

    def lose_queue(self) -> None:
        self._sqs.delete_queue(QueueUrl=self._queue)

    def lose_table(self) -> None:
        self.table.delete()


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


def _make_writes_atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a condition and write in one step, as DynamoDB does, and moto does not."""
    lock = threading.Lock()

    def atomically(write: Callable[..., Any]) -> Callable[..., Any]:
        def locked(*arguments: Any, **named: Any) -> Any:
            with lock:
                return write(*arguments, **named)

        return locked

    for name in ("put_item", "update_item"):
        monkeypatch.setattr(DynamoDBBackend, name, atomically(getattr(DynamoDBBackend, name)))


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    _make_writes_atomic(monkeypatch)
    with mock_aws(
        config={"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}
    ):
        boto3.setup_default_session()
        sys.modules.pop("app", None)  # it reads its configuration when it is imported
        yield InProcess(importlib.import_module("app"))
