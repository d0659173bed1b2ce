"""Lets calls fail that a state machine makes in the local AWS.

ministack makes these calls within its process, where no proxy sees them. Python imports a module of
this name when it starts, so here each call first asks the proxy what happens to it. An invocation
that is refused gets the name that the error has on AWS.
"""

from __future__ import annotations

import http.client
import importlib
import os
import sys
import time
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

NAMES = {
    "dynamodb": "DynamoDB",
    "events": "EventBridge",
    "lambda": "Lambda",
    "sqs": "SQS",
    "states": "StepFunctions",
}
HOST, _, PORT = os.environ.get("FAULT_PROXY", "").partition(":")


def ask(service: str, name: str) -> str:
    """Ask what happens to a call. The answer comes late if the call is to hang."""
    connection = http.client.HTTPConnection(HOST, int(PORT))
    try:
        connection.request("GET", f"/_fault/{service}/{quote(name)}")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def install() -> None:
    """Replace the functions of ministack that every Task passes."""
    machine: Any = importlib.import_module("ministack.services.stepfunctions")
    execute, invoke = machine._execute_task, machine._invoke_resource
    task: ContextVar[tuple[str, Any]] = ContextVar("task")

    def execute_task(definition: Any, data: Any, execution: Any, context: Any) -> Any:
        task.set((context["State"]["Name"], execution))
        return execute(definition, data, execution, context)

    def invoke_resource(resource: str, parameters: Any) -> Any:
        service = resource.split(":")[5]
        state, execution = task.get()
        kind = ask(service, state)
        # ministack would go on with the attempts of the state. A late call has been made before.
        if kind != "be late" and execution["status"] != "RUNNING":
            raise machine._ExecutionError("Aborted", "")
        if kind == "refuse":
            raise machine._ExecutionError(f"{NAMES[service]}.ServiceUnavailable", "")
        if kind == "slow":
            time.sleep(1)
        try:
            result = invoke(resource, parameters)
        except machine._ExecutionError as error:
            if service == "lambda" and "TooManyRequestsException" in error.cause:
                error.error = "Lambda.TooManyRequestsException"
            raise
        if kind == "lose the answer":
            raise machine._ExecutionError(f"{NAMES[service]}.SdkClientException", "")
        if kind == "hold the answer":
            ask(service, "held")
        return result

    machine._execute_task, machine._invoke_resource = execute_task, invoke_resource


if PORT and sys.orig_argv[-1] == "inorder.local_server":  # not in the functions' processes
    install()
