"""How an event reaches each contender, as AWS would bring it there.

EventBridge invokes a function asynchronously: Lambda keeps the event in a queue, tries again while
the function is throttled, and makes two more attempts if it fails, after one and after two minutes.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
ministack makes such attempts within seconds, also while the function is throttled, and polls a FIFO
queue for one batch at a time. So both are here.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from bench.laboratory import FUNCTION, PRODUCT, ROUTER, ROUTERS, Laboratory

RETRY_SECONDS = (60, 120)
THROTTLED_SECONDS = 0.05  # AWS waits for longer; so this favours the functions
NAMES = [PRODUCT, "lock-in-function", "sqs-fifo", "uncoordinated"]


class Transport(ABC):
    """Brings events to a contender."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory

    @abstractmethod
    def deliver(self, event: dict[str, Any]) -> None:
        """Deliver an event, without waiting for what it causes."""

    @abstractmethod
    def is_quiet(self) -> bool:
        """Tell whether nothing runs, and nothing waits to run."""

    def kill_holder(self, key: str) -> None:  # noqa: B027 - most have nothing to kill
        """Kill what holds a key, besides the function's process, which kills itself."""

    def close(self) -> None:  # noqa: B027
        """End all threads."""


class StateMachineTransport(Transport):
    """Starts an execution for each event, as a rule does."""

    def __init__(self, laboratory: Laboratory) -> None:
        super().__init__(laboratory)
        self._stack = laboratory.stack
        self._client = laboratory.client("stepfunctions")
        self._sqs = laboratory.client("sqs")
        self._started: dict[str, str] = {}

    def deliver(self, event: dict[str, Any]) -> None:
        """Start an execution."""
        arn = self._client.start_execution(
            stateMachineArn=self._stack.state_machine_arn,
            name=str(uuid4()),
            input=json.dumps(event),
        )["executionArn"]
        self._started[event["detail"]["object"]["key"]] = arn

    def is_quiet(self) -> bool:
        """Tell whether no execution runs, and no event waits in the retry queue."""
        running = self._client.list_executions(
            stateMachineArn=self._stack.state_machine_arn, statusFilter="RUNNING", maxResults=1
        )["executions"]
        return not running and not _messages(self._sqs, self._stack.retry_events_queue_url)

    def kill_holder(self, key: str) -> None:
        """Abort the execution that was started last for a key."""
        self._client.stop_execution(executionArn=self._started[key])


class FunctionTransport(Transport):
    """Invokes a function for each event, through a queue like Lambda's own."""

    def __init__(
        self, laboratory: Laboratory, function: str, contender: str, concurrency: int
    ) -> None:
        super().__init__(laboratory)
        self._function, self._contender = function, contender
        self._client = laboratory.client("lambda")
        self._pool = ThreadPoolExecutor(concurrency)
        self._pending, self._lock = 0, threading.Lock()
        self._timers: list[threading.Timer] = []

    def deliver(self, event: dict[str, Any]) -> None:
        """Put an event into the queue."""
        self._count(1)
        self._pool.submit(self._attempt, event, 0)

    def is_quiet(self) -> bool:
        """Tell whether all events are done, or have been given up."""
        return self._pending == 0

    def invoke(self, event: dict[str, Any]) -> bool:
        """Invoke the function as soon as it is not throttled, and tell whether it succeeds."""
        payload = {"contender": self._contender, "event": event}
        while True:
            try:
                answer = self._client.invoke(
                    FunctionName=self._function, Payload=json.dumps(payload)
                )
            except self._client.exceptions.TooManyRequestsException:
                time.sleep(THROTTLED_SECONDS)
            else:
                answer["Payload"].read()
                return "FunctionError" not in answer

    def close(self) -> None:
        """End all threads."""
        for timer in self._timers:
            timer.cancel()
        self._pool.shutdown(cancel_futures=True)

    def _attempt(self, event: dict[str, Any], attempt: int) -> None:
        if not self.invoke(event) and attempt < len(RETRY_SECONDS):
            pause, again = RETRY_SECONDS[attempt], (self._attempt, event, attempt + 1)
            timer = threading.Timer(pause, self._pool.submit, again)
            timer.daemon = True
            timer.start()
            self._timers.append(timer)
        else:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._pending += change


class FifoTransport(Transport):
    """Invokes the router for each event, and the function for each message of the FIFO queue.

    Lambda polls such a queue and runs one batch for each active message group at a time, up to the
    concurrency. Batches of one message are the quickest for a key.
    """

    def __init__(self, laboratory: Laboratory, concurrency: int) -> None:
        super().__init__(laboratory)
        self._router = FunctionTransport(laboratory, ROUTER, "sqs-fifo router", ROUTERS)
        self._function = FunctionTransport(laboratory, FUNCTION, "sqs-fifo", concurrency)
        self._sqs, self._queue = laboratory.client("sqs"), laboratory.queue
        self._ended = threading.Event()
        self._pollers = ThreadPoolExecutor(concurrency)
        for _ in range(concurrency):
            self._pollers.submit(self._poll)

    def deliver(self, event: dict[str, Any]) -> None:
        """Invoke the router."""
        self._router.deliver(event)

    def is_quiet(self) -> bool:
        """Tell whether the queue is empty."""
        return self._router.is_quiet() and not _messages(self._sqs, self._queue)

    def close(self) -> None:
        """End all threads."""
        self._ended.set()
        self._pollers.shutdown()
        self._router.close()
        self._function.close()

    def _poll(self) -> None:
        while not self._ended.is_set():
            answer = self._sqs.receive_message(
                QueueUrl=self._queue, MaxNumberOfMessages=1, WaitTimeSeconds=1
            )
            for message in answer.get("Messages", []):
                if self._function.invoke({"Records": [{"body": message["Body"]}]}):
                    self._sqs.delete_message(
                        QueueUrl=self._queue, ReceiptHandle=message["ReceiptHandle"]
                    )


def transport(contender: str, laboratory: Laboratory, concurrency: int) -> Transport:
    """Make what brings events to a contender."""
    if contender == PRODUCT:
        return StateMachineTransport(laboratory)
    if contender == "sqs-fifo":
        return FifoTransport(laboratory, concurrency)
    return FunctionTransport(laboratory, FUNCTION, contender, concurrency)


def _messages(sqs: Any, queue: str) -> int:
    names = [f"ApproximateNumberOfMessages{each}" for each in ("", "NotVisible", "Delayed")]
    answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return sum(int(answer[name]) for name in names)
