"""The local AWS that counts the calls of a turn, and lacks what would distort the comparison.

State machines call the other services within ministack's process, where no proxy sees them, so the
calls are counted here. What is mended:

- ministack sleeps 0.15 s before the first state of each execution.
- It ignores MaxDelaySeconds and JitterStrategy, so that what was throttled together comes again
  together.
- It reports a throttled function as Lambda.Unknown, so that no Retry for throttling applies.
- It goes on with the attempts of a state after its execution was aborted.
- Its optimized integrations lack the HTTP metadata, and its history the parameters of a task, which
  AWS writes to the log.
- It resumes durable executions one after the other, and forgets one whose invocation is throttled
  or fails. AWS invokes the function again, after a time that it does not tell:
  https://docs.aws.amazon.com/lambda/latest/dg/durable-execution-sdk-retries.html
- It keeps all histories, and Python stops it to look for garbage in them, for more than half a
  second at a time after some thousand executions.
"""

from __future__ import annotations

import contextvars
import gc
import json
import os
import random
import re
import threading
import time
from types import SimpleNamespace
from typing import Any

from inorder import local_server
from inorder.ministack_parts import part, put, replaces
from tests.support.local_calls import Call, take_over
from tests.support.log_size import METADATA

READS = {"GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems"}
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}
START_SECONDS = 0.15
THROTTLED_SECONDS, FAILED_SECONDS = 0.05, 1
NEVER = 1_000_000_000


def count(what: str, name: str, number: float = 1) -> None:
    """Write down a call."""
    os.write(calls, f"{time.time()} {what} {name} {number}\n".encode())


def count_call(service: str, operation: str) -> None:
    """Count a call of DynamoDB as a read or a write, one of another service by its name."""
    if service != "dynamodb":
        count(service, operation)
    elif operation in READS | WRITES:
        count("read" if operation in READS else "write", operation)


def count_requests() -> None:
    """Count the requests of functions to DynamoDB, S3 and SQS, their checkpoints and their logs."""

    @replaces("app.app")
    async def app(original: Any, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.lower(): value.decode() for name, value in scope.get("headers", ())}
        signed = re.search(r"/(\w+)/aws4_request", headers.get(b"authorization", ""))
        if signed and "inorder-bench" not in headers.get(b"user-agent", ""):
            service, target = signed[1], headers.get(b"x-amz-target", scope["method"])
            if service in {"dynamodb", "s3", "sqs"}:
                count_call(service, target.rpartition(".")[2])
            elif scope["path"].endswith("/checkpoint"):
                count("checkpoint", "durable-function")
        await original(scope, receive, send)

    @replaces("services.lambda_svc._emit_lambda_logs")
    def emit_logs(
        original: Any,
        func: Any,
        request_id: str,
        text: str,
        error: bool,
        milliseconds: int,
        **more: Any,
    ) -> None:
        name = (func.get("config") or func)["FunctionName"]
        platform = 3 * len(f"START RequestId: {request_id} Version: $LATEST") + 100
        count("log", name, platform + len((text or "").encode()))
        count("invocation", name, milliseconds / 1000)
        original(func, request_id, text, error, milliseconds, **more)


def make(call: Call) -> Any:
    """Make a call of a state, count it, and log it as AWS does."""
    call.must_not_be_aborted()
    scheduled = call.execution["events"][-1].get("taskScheduledEventDetails", {})
    scheduled["parameters"] = json.dumps(call.parameters)
    if call.service in {"dynamodb", "sqs"}:
        count_call(call.service, call.operation[0].upper() + call.operation[1:])
    result = call.make()
    return result | METADATA if isinstance(result, dict) else result


def mend_executions() -> None:
    """Let executions start at once, and retry as on AWS."""

    def sleep(seconds: float) -> None:
        if seconds != START_SECONDS:
            time.sleep(seconds)

    put("services.stepfunctions.time", SimpleNamespace(**{**vars(time), "sleep": sleep}))

    @replaces("services.stepfunctions._find_matching_retrier")
    def find(original: Any, retriers: Any, error: str, counts: Any) -> Any:
        retrier, number = original(retriers, error, counts)
        if retrier is None:
            return retrier, number
        delay = retrier["IntervalSeconds"] * retrier["BackoffRate"] ** counts.get(number, 0)
        delay = min(delay, retrier["MaxDelaySeconds"])
        if retrier["JitterStrategy"] == "FULL":
            delay = random.uniform(0, delay)  # noqa: S311 - not for a secret
        return {**retrier, "IntervalSeconds": delay, "BackoffRate": 1}, number


def mend_durable_functions() -> None:
    """Resume durable executions side by side, and again if that fails."""

    @replaces("services.lambda_svc.invoke_durable_resume")
    def resume(original: Any, *arguments: Any) -> None:
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(original, *arguments), daemon=True).start()

    @replaces("services.lambda_svc._execute_function")
    def execute(original: Any, func: Any, event: Any) -> Any:
        result = original(func, event)
        arn = event.get("DurableExecutionArn") if isinstance(event, dict) else None
        while arn and result.get("throttle"):
            time.sleep(THROTTLED_SECONDS)
            result = original(func, event)
        if arn and result.get("error"):
            name, context = (func.get("config") or func)["FunctionName"], contextvars.copy_context()
            resume_again = part("services.lambda_svc.invoke_durable_resume")
            again = threading.Timer(FAILED_SECONDS, context.run, (resume_again, name, arn, {}))
            again.daemon = True
            again.start()
        return result


if __name__ == "__main__":
    calls = os.open(f"{os.environ['BENCH_FOLDER']}/calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    count_requests()
    take_over(make)
    mend_executions()
    mend_durable_functions()
    gc.set_threshold(700, 10, NEVER)  # what has stayed for long is not garbage
    local_server.serve()
