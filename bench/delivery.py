"""How an event reaches each contender, as AWS would bring it there.

EventBridge invokes a function asynchronously: Lambda keeps the event in a queue, and makes two more
attempts if it fails, after one and after two minutes. While the function is throttled, it tries
again for six hours, at intervals that grow exponentially "from 1 second after the first attempt to
a maximum of 5 minutes".
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
ministack makes such attempts within seconds, also while the function is throttled, and polls a
queue for one batch at a time. So both are here.
"""

from __future__ import annotations

import json
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

from bench.laboratory import FUNCTION, POLICY, PRODUCT, ROUTER, ROUTERS, Laboratory
from inorder.cost import express_gb_seconds
from inorder.model.policies import policy

RETRY_SECONDS = (60, 120)
THROTTLED_SECONDS = (1, 300)  # the shortest and the longest pause
ASYNCHRONOUS = 100  # invocations that Lambda tries at a time, whatever the function may have
MOST_EVENTS = 1000  # each waits in a thread of its own
TICK_SECONDS = 0.02
# For how long a queue hides a message: as long as the function may run, which covers a process
# that dies. AWS advises six times as long because of throttling, which the event source mapping's
# maximum concurrency avoids: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
HIDDEN_SECONDS = 16
FIFO = "fifo-fence"
QUEUED = ["sqs-fence", FIFO]
NAMES = [PRODUCT, "fenced-function", *QUEUED, "lock-in-function", "uncoordinated"]


class Transport(ABC):
    """Brings events to a contender."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory
        self._used: dict[str, float] = defaultdict(float)

    @abstractmethod
    def deliver(self, event: dict[str, Any]) -> None:
        """Deliver an event, without waiting for what it causes."""

    @abstractmethod
    def is_quiet(self) -> bool:
        """Tell whether nothing runs, and nothing waits to run."""

    def kill_holder(self, key: str) -> None:  # noqa: B027 - most have nothing to kill
        """Kill what holds a key, besides the function's process, which kills itself."""

    def used(self) -> dict[str, float]:
        """Tell what AWS bills besides functions, tables and buckets, by the names of a bill."""
        return self._used

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
        self._began = datetime.now(UTC)

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

    def used(self) -> dict[str, float]:
        """Bill the executions by what they took here; the server counts their calls."""
        pages = self._client.get_paginator("list_executions").paginate(
            stateMachineArn=self._stack.state_machine_arn
        )
        bytes_of_one = 1000 * policy(POLICY).log.uncontended
        for run in (run for page in pages for run in page["executions"]):
            if run["startDate"] >= self._began:
                milliseconds = (run["stopDate"] - run["startDate"]).total_seconds() * 1000
                self._used["express_requests"] += 1
                self._used["express_gb_seconds"] += express_gb_seconds(milliseconds)
                self._used["execution_log"] += bytes_of_one
        return self._used


class FunctionTransport(Transport):
    """Invokes a function for each event, through a queue like Lambda's own.

    Parameters
    ----------
    tried : int
        How many invocations are tried at a time. Lambda refuses those beyond what the function may
        have.
    """

    def __init__(
        self, laboratory: Laboratory, function: str, contender: str, tried: int = ASYNCHRONOUS
    ) -> None:
        super().__init__(laboratory)
        self._function, self._contender = function, contender
        self._client = laboratory.client("lambda")
        self._pool, self._slots = ThreadPoolExecutor(MOST_EVENTS), threading.Semaphore(tried)
        self._events: list[Future[None]] = []
        self._closed = threading.Event()

    def deliver(self, event: dict[str, Any]) -> None:
        """Put an event into the queue."""
        self._events.append(self._pool.submit(self._process, event))

    def is_quiet(self) -> bool:
        """Tell whether all events are done, or have been given up."""
        return all(future.done() for future in self._events)

    def invoke(self, event: dict[str, Any]) -> Literal["done", "failed", "refused"]:
        """Invoke the function once."""
        payload = {"contender": self._contender, "event": event}
        try:
            answer = self._client.invoke(FunctionName=self._function, Payload=json.dumps(payload))
        except self._client.exceptions.TooManyRequestsException:
            return "refused"
        answer["Payload"].read()
        return "failed" if "FunctionError" in answer else "done"

    def close(self) -> None:
        """End all threads."""
        self._closed.set()
        self._pool.shutdown(cancel_futures=True)

    def _process(self, event: dict[str, Any]) -> None:
        failures = refusals = 0
        while not self._closed.is_set():
            with self._slots:
                ended = self.invoke(event)
            if ended == "refused":
                pause, refusals = pause_of_throttled(refusals), refusals + 1
            elif ended == "failed" and failures < len(RETRY_SECONDS):
                pause, failures, refusals = RETRY_SECONDS[failures], failures + 1, 0
            else:
                return
            self._closed.wait(pause)


def pause_of_throttled(refusals: int) -> float:
    """Choose for how long an event waits that was refused before, so often.

    AWS documents the shortest and the longest pause, not how those are spread that are refused
    together. Without any spread they would come together, and be refused, again and again.
    """
    shortest, longest = THROTTLED_SECONDS
    return random.uniform(shortest, min(shortest * 2 ** (refusals + 1), longest))  # noqa: S311


class QueueTransport(Transport):
    """Puts each event into a queue, and invokes the function for each message.

    A rule sends to a standard queue, a function (the router) to a FIFO queue. Lambda runs as many
    batches at a time as the event source mapping allows, so that nothing is refused, and one for
    each message group of a FIFO queue. Batches of one message are the quickest for a key.
    """

    def __init__(self, laboratory: Laboratory, contender: str, concurrency: int) -> None:
        super().__init__(laboratory)
        self._router: FunctionTransport | None = None
        self._sqs, self._queue = laboratory.client("sqs"), laboratory.standard_queue
        self._requests = "sqs_requests"
        if contender == FIFO:
            self._router = FunctionTransport(laboratory, ROUTER, "router", ROUTERS)
            self._queue, self._requests = laboratory.fifo_queue, "sqs_fifo_requests"
        self._function = FunctionTransport(laboratory, FUNCTION, contender)
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._pollers = ThreadPoolExecutor(concurrency)
        for _ in range(concurrency):
            self._pollers.submit(self._poll)

    def deliver(self, event: dict[str, Any]) -> None:
        """Send a message, or let the router do it, whose request the recorder counts."""
        if self._router:
            self._router.deliver(event)
        else:
            self._sqs.send_message(QueueUrl=self._queue, MessageBody=json.dumps(event))
            self._count_requests(1)

    def is_quiet(self) -> bool:
        """Tell whether the queue is empty."""
        is_routed = not self._router or self._router.is_quiet()
        return is_routed and not _messages(self._sqs, self._queue)

    def close(self) -> None:
        """End all threads."""
        self._ended.set()
        self._pollers.shutdown()
        for transport in (self._router, self._function):
            if transport:
                transport.close()

    def _poll(self) -> None:
        while not self._ended.is_set():
            answer = self._sqs.receive_message(
                QueueUrl=self._queue,
                MaxNumberOfMessages=1,
                VisibilityTimeout=HIDDEN_SECONDS,
                WaitTimeSeconds=1,
            )
            for message in answer.get("Messages", []):
                self._process(message["Body"], message["ReceiptHandle"])

    def _process(self, body: str, handle: str) -> None:
        batch = {"Records": [{"body": body}]}
        while (ended := self._function.invoke(batch)) == "refused":  # its predecessor just ends
            time.sleep(TICK_SECONDS)
        if ended == "done":
            self._sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=handle)
        self._count_requests(1 + (ended == "done"))  # received, and deleted

    def _count_requests(self, number: int) -> None:
        with self._lock:
            self._used[self._requests] += number


def transport(contender: str, laboratory: Laboratory, concurrency: int) -> Transport:
    """Make what brings events to a contender."""
    if contender == PRODUCT:
        return StateMachineTransport(laboratory)
    if contender in QUEUED:
        return QueueTransport(laboratory, contender, concurrency)
    return FunctionTransport(laboratory, FUNCTION, contender)


def _messages(sqs: Any, queue: str) -> int:
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return sum(int(answer[name]) for name in names)
