"""A stack on the local AWS that answers as AWS does: its executions are in a log only."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from inorder.aws.executions import Entry, history
from inorder.aws.stack import Connection
from tests.stack.conftest import Workflow

Change = Callable[[str, list[Entry]], list[Entry]]  # of an execution's entries, by its key


class LikeAws:
    """The local AWS, but Express executions are neither listed nor described; they write a log.

    https://docs.aws.amazon.com/step-functions/latest/apireference/API_ListExecutions.html
    """

    def __init__(self, workflow: Workflow) -> None:
        self._engine = workflow.local.client("stepfunctions")
        self._machine = workflow.executions
        self._earlier = set(self._machine.arns())  # of other tests
        self._written: dict[str, int] = {}  # entries of each execution
        self._logs, self._group = workflow.local.client("logs"), f"/aws/vendedlogs/{uuid4()}"
        self._logs.create_log_group(logGroupName=self._group)
        self._logs.create_log_stream(logGroupName=self._group, logStreamName="s")

    def replace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the commands see this in place of the local AWS."""
        connect = Connection.client

        def connected(connection: Connection, service: str) -> Any:
            client = connect(connection, service)
            if service == "stepfunctions":
                for call in ("ListExecutions", "DescribeExecution", "GetExecutionHistory"):
                    client.meta.events.register(f"before-call.sfn.{call}", self._refuse)
                client.meta.events.register("after-call.sfn.DescribeStateMachine", self._describe)
            return client

        monkeypatch.setattr(Connection, "client", connected)
        monkeypatch.setattr(Connection, "is_local", False)

    @staticmethod
    def _refuse(**_: Any) -> tuple[Any, dict[str, Any]]:
        error = {"Code": "StateMachineTypeNotSupported", "Message": "EXPRESS"}
        return SimpleNamespace(status_code=400), {"Error": error, "ResponseMetadata": {}}

    def _describe(self, parsed: dict[str, Any], **_: Any) -> None:
        arn = f"arn:aws:logs:us-east-1:000000000000:log-group:{self._group}:*"
        parsed["loggingConfiguration"] = {
            "level": "ALL",
            "includeExecutionData": True,
            "destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": arn}}],
        }

    @contextmanager
    def writing(self, change: Change) -> Iterator[None]:
        """Write the entries of all executions to the log, as they come."""
        stopped = threading.Event()

        def write() -> None:
            while not stopped.wait(0.1):
                for execution in self._machine.all():
                    happened = history(self._engine, execution.arn)
                    if execution.arn in self._earlier or not happened:
                        continue
                    entries = change(execution.event["detail"]["object"]["key"], happened)
                    done = self._written.get(execution.arn, 0)
                    if len(entries) > done:
                        self._write(execution.arn, entries, done)
                        self._written[execution.arn] = len(entries)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            stopped.set()
            writer.join()

    def _write(self, arn: str, entries: Sequence[Entry], first: int) -> None:
        """Write entries but the `first` ones, as they arrive: in any order, some of them twice."""
        messages: list[dict[str, Any]] = [
            {
                "id": str(number),
                "previous_event_id": str(number - 1),
                "event_timestamp": str(int((each.time or datetime.now(UTC)).timestamp() * 1000)),
                "type": each.type,
                "execution_arn": arn,
                "details": each.details,
            }
            for number, each in enumerate(entries, 1)
            if number > first
        ]
        messages += messages[::2]
        random.Random(1).shuffle(messages)  # noqa: S311
        events = [
            {"timestamp": int(message["event_timestamp"]), "message": json.dumps(message)}
            for message in messages
        ]
        self._logs.put_log_events(logGroupName=self._group, logStreamName="s", logEvents=events)
