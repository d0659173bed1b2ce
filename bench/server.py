"""The local AWS that counts the calls of a turn, and lacks what would distort the comparison.

State machines call the other services within ministack's process, where no proxy sees them, so the
calls are counted here. What is mended:

- ministack sleeps 0.15 s before the first state of each execution.
- It ignores MaxDelaySeconds and JitterStrategy, so that what was throttled together comes again
  together.
- It reports a throttled function as Lambda.Unknown, so that no Retry for throttling applies.
- It goes on with the attempts of a state after its execution was aborted.
- It keeps all histories, and Python stops it to look for garbage in them, for more than half a
  second at a time after some thousand executions.
"""

import gc
import json
import os
import time
from types import SimpleNamespace
from typing import Any

from bench.laboratory import POLICY
from inorder import local_server
from inorder.ministack_parts import put, replaces
from inorder.model.policies import policy
from inorder_fence.stuck import SINCE
from tests.support.local_calls import Call, take_over
from tests.support.log_size import size_of

READS = {"GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems"}
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}
START_SECONDS = 0.15
NEVER = 1_000_000_000
# A message is sent, received and deleted.
REQUESTS_OF_MESSAGE = 3
INDEX_WRITES = 2  # each entry that is set is removed once, by the next one or by the release
BYTES_OF_POLL = 1000 * (policy(POLICY).log.poll or 0)
BYTES_OF_INVOCATION = 350  # START, END and REPORT, and the time before each line


def count(what: str, name: str, number: float = 1, *more: float) -> None:
    """Write down a call."""
    words = (what, name, number, *more)
    os.write(calls, f"{' '.join(map(str, words))}\n".encode())


def count_of_table(operation: str) -> None:
    """Count a call of DynamoDB."""
    if operation in READS | WRITES:
        count("reads" if operation in READS else "writes", operation)


def install_counters() -> None:
    """Count the calls of DynamoDB, and the seconds of all functions."""

    @replaces("services.dynamodb.handle_request")
    def handle(
        original: Any, method: str, path: str, headers: Any, *arguments: Any, **more: Any
    ) -> Any:
        count_of_table(headers.get("x-amz-target", "").rpartition(".")[2])
        return original(method, path, headers, *arguments, **more)

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
        config = func.get("config") or func
        name = config["FunctionName"]
        count("invocation", name, milliseconds / 1000, config["MemorySize"])
        count("function_log", name, len(text) + BYTES_OF_INVOCATION)
        original(func, request_id, text, error, milliseconds, **more)


def make(call: Call) -> Any:
    """Make a call of a state, and count it."""
    call.must_not_be_aborted()
    if call.service == "dynamodb":
        count_of_table(call.operation[0].upper() + call.operation[1:])
        if call.operation == "getItem":
            count("execution_log", call.operation, BYTES_OF_POLL)
    elif call.service == "sqs":
        count("sqs_requests", call.operation, REQUESTS_OF_MESSAGE)
    try:
        answer = call.make()
    except Exception as error:
        if call.service == "lambda":  # the log of an execution without faults is a fact
            count("execution_log", call.operation, bytes_of_failure(call, error))
        raise
    if f"{SINCE} = :" in call.parameters.get("UpdateExpression", ""):
        count("index_writes", call.operation, INDEX_WRITES)
    return answer


def bytes_of_failure(call: Call, error: Exception) -> int:
    """Give the size of the entries that AWS writes to the log for an attempt that failed."""
    named = {"resourceType": call.service, "resource": call.operation}
    parameters = {"region": "us-east-1", "parameters": json.dumps(call.parameters)}
    return (
        size_of("TaskScheduled", named | parameters | {"timeoutInSeconds": 62})
        + size_of("TaskStarted", named)
        + size_of("TaskFailed", named | vars(error))
    )


def mend_executions() -> None:
    """Let executions start at once."""

    def sleep(seconds: float) -> None:
        if seconds != START_SECONDS:
            time.sleep(seconds)

    put("services.stepfunctions.time", SimpleNamespace(**{**vars(time), "sleep": sleep}))


if __name__ == "__main__":
    calls = os.open(f"{os.environ['BENCH_FOLDER']}/calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    install_counters()
    take_over(make)
    mend_executions()
    gc.set_threshold(700, 10, NEVER)  # what has stayed for long is not garbage
    local_server.serve()
