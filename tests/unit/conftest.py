"""What the tests of the functions' handlers share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.support.in_process import import_anew

Lines = Callable[[], list[dict[str, Any]]]
Load = Callable[..., ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import a function's module in moto: give its name and its settings.

    Its ``STATE_MACHINE_ARN`` is that of a state machine that does nothing.
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
        return import_anew(name)

    with mock_aws():
        yield load_function


@pytest.fixture
def printed_by(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Any], Lines]:
    """Read the lines that a handler has printed, each of which is JSON: give it the logger."""

    def start(logger: Any) -> Lines:
        # Powertools' logger outlives a test: it would write to the output of the first one, and
        # keep what each has told.
        logger.clear_state()
        handler = logger.handlers[0]
        monkeypatch.setattr(handler, "emit", lambda entry: print(handler.format(entry)))  # noqa: T201
        return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return start
