"""Counts the calls in the local AWS, and mends what would distort the comparison.

Python imports a module of this name when it starts. State machines call the other services within
ministack's process, where no proxy sees them, so the calls are counted here. What is mended:

- ministack sleeps 0.15 s before the first state of each execution.
- It ignores MaxDelaySeconds and JitterStrategy, so that what was throttled together comes again
  together.
- It reports a throttled function as Lambda.Unknown, so that no Retry for throttling applies.
- It goes on with the attempts of a state after its execution was aborted.
- It resumes durable executions one after the other, and forgets one whose invocation is throttled
  or fails. AWS invokes the function again, after a time that it does not tell:
  https://docs.aws.amazon.com/lambda/latest/dg/durable-execution-sdk-retries.html
- It keeps all histories, and Python stops it to look for garbage in them, for more than half a
  second at a time after some thousand executions.
"""

from __future__ import annotations

import contextvars
import gc
import importlib
import os
import random
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

FOLDER = os.environ.get("BENCH_FOLDER", "")
READS = ("_get_item", "_query", "_scan", "_batch_get_item", "_transact_get_items")
WRITES = ("_put_item", "_update_item", "_delete_item", "_batch_write_item", "_transact_write_items")
START_SECONDS = 0.15
THROTTLED_SECONDS, FAILED_SECONDS = 0.05, 1
NEVER = 1_000_000_000


def count(what: str, name: str, number: float = 1) -> None:
    """Write down a call."""
    os.write(calls, f"{time.time()} {what} {name} {number}\n".encode())


def counted(module: Any, function: str, what: str) -> None:
    """Count the calls of a function of ministack that gets a table's request."""
    original = getattr(module, function)

    def replacement(data: Any, *arguments: Any, **more: Any) -> Any:
        count(what, str(data.get("TableName", "-")))
        return original(data, *arguments, **more)

    setattr(module, function, replacement)


def install_counters() -> None:
    """Count the calls of DynamoDB, and the seconds of all functions."""
    dynamodb = importlib.import_module("ministack.services.dynamodb")
    for what, requests in (("read", READS), ("write", WRITES)):
        for function in requests:
            counted(dynamodb, function, what)
    functions: Any = importlib.import_module("ministack.services.lambda_svc")
    emit = functions._emit_lambda_logs

    def emit_logs(
        func: Any, request_id: str, text: str, error: bool, milliseconds: int, **more: Any
    ) -> None:
        name = (func.get("config") or func)["FunctionName"]
        count("invocation", name, milliseconds / 1000)
        emit(func, request_id, text, error, milliseconds, **more)

    functions._emit_lambda_logs = emit_logs


def mend_step_functions() -> None:
    """Let executions start at once, and behave as on AWS."""
    machine: Any = importlib.import_module("ministack.services.stepfunctions")
    execute, invoke = machine._execute_task, machine._invoke_resource
    find = machine._find_matching_retrier
    execution_of_task: contextvars.ContextVar[Any] = contextvars.ContextVar("execution")

    def sleep(seconds: float) -> None:
        if seconds != START_SECONDS:
            time.sleep(seconds)

    machine.time = SimpleNamespace(**{**vars(time), "sleep": sleep})

    def execute_task(definition: Any, data: Any, execution: Any, context: Any) -> Any:
        execution_of_task.set(execution)
        return execute(definition, data, execution, context)

    def invoke_resource(resource: str, parameters: Any) -> Any:
        execution = execution_of_task.get()
        if execution["status"] != "RUNNING":
            raise machine._ExecutionError("Aborted", "")
        try:
            return invoke(resource, parameters)
        except machine._ExecutionError as error:
            if "TooManyRequestsException" in error.cause:
                error.error = "Lambda.TooManyRequestsException"
            raise

    def find_matching_retrier(retriers: Any, error: str, counts: Any) -> Any:
        retrier, number = find(retriers, error, counts)
        if retrier is None:
            return retrier, number
        delay = retrier["IntervalSeconds"] * retrier["BackoffRate"] ** counts.get(number, 0)
        delay = min(delay, retrier["MaxDelaySeconds"])
        if retrier["JitterStrategy"] == "FULL":
            delay = random.uniform(0, delay)  # noqa: S311 - not for a secret
        return {**retrier, "IntervalSeconds": delay, "BackoffRate": 1}, number

    machine._execute_task, machine._invoke_resource = execute_task, invoke_resource
    machine._find_matching_retrier = find_matching_retrier


def mend_durable_functions() -> None:
    """Resume durable executions side by side, and again if that fails."""
    functions: Any = importlib.import_module("ministack.services.lambda_svc")
    execute, resume = functions._execute_function, functions.invoke_durable_resume

    def execute_function(func: Any, event: Any) -> Any:
        result = execute(func, event)
        arn = event.get("DurableExecutionArn") if isinstance(event, dict) else None
        while arn and result.get("throttle"):
            time.sleep(THROTTLED_SECONDS)
            result = execute(func, event)
        if arn and result.get("error"):
            name, context = (func.get("config") or func)["FunctionName"], contextvars.copy_context()
            again = threading.Timer(FAILED_SECONDS, context.run, (resume, name, arn, {}))
            again.daemon = True
            again.start()
        return result

    def resume_aside(*arguments: Any) -> None:
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(resume, *arguments), daemon=True).start()

    functions._execute_function = execute_function
    functions.invoke_durable_resume = resume_aside


if FOLDER and sys.orig_argv[-1] == "inorder.local_server":  # not in the functions' processes
    calls = os.open(f"{FOLDER}/calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    install_counters()
    mend_step_functions()
    mend_durable_functions()
    gc.set_threshold(700, 10, NEVER)  # what has stayed for long is not garbage
