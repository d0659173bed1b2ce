"""What the tests of the functions' handlers share."""

import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from tests.support.in_process import import_anew

Lines = Callable[[], list[dict[str, Any]]]
Load = Callable[..., ModuleType]


def new_queue(name: str) -> str:
    """Create a queue, and give its address."""
    return boto3.client("sqs").create_queue(QueueName=name)["QueueUrl"]


def taken_from(queue_url: str) -> list[str]:
    """Take all messages out of a queue, and give their texts."""
    sqs, texts = boto3.client("sqs"), list[str]()
    while received := sqs.receive_message(QueueUrl=queue_url).get("Messages"):
        for message in received:
            texts.append(message["Body"])
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    return texts


def refuse(client: Any, operation: str, code: str = "ThrottlingException") -> Callable[[], None]:
    """Let an operation fail until the function that is returned is called; "" is no answer."""
    hook = f"provide-client-params.*.{operation}"

    def fail(**_: Any) -> None:
        if not code:
            raise ReadTimeoutError(endpoint_url=operation)
        raise client.exceptions.from_code(code)({"Error": {"Code": code}}, operation)

    client.meta.events.register(hook, fail)
    return lambda: client.meta.events.unregister(hook, fail)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import a function's module in moto: give its name and its settings.

    ``STATE_MACHINE_ARN`` names a state machine that does nothing.
    """

    def load_function(name: str, **settings: str) -> ModuleType:
        machine = boto3.client("stepfunctions").create_state_machine(
            name="latest-wins",
            definition='{"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}',
            roleArn="arn:aws:iam::123456789012:role/test",
            type="EXPRESS",
        )
        for setting, value in {
            "STATE_MACHINE_ARN": machine["stateMachineArn"],
            "POWERTOOLS_SERVICE_NAME": "test",
            "POWERTOOLS_METRICS_NAMESPACE": "test",
            "AWS_LAMBDA_FUNCTION_NAME": name,
            **settings,
        }.items():
            monkeypatch.setenv(setting, value)
        function = import_anew(name)
        print_lines_of(function.logger, monkeypatch)
        return function

    with mock_aws():
        yield load_function


def print_lines_of(logger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a logger of Powertools print its lines.

    It outlives a test: it would write to the output of the first one, and keep its keys.
    """
    logger.clear_state()
    handler = logger.handlers[0]
    monkeypatch.setattr(handler, "emit", lambda entry: print(handler.format(entry)))  # noqa: T201


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """Read the lines that a handler has printed since the last time, each of which is JSON."""
    return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]
