"""The local AWS in which calls of state machines fail: each call first asks the proxy."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from inorder import local_server
from tests.support.local_calls import Call, CallFailedError, take_over

NAMES = {
    "dynamodb": "DynamoDB",
    "events": "EventBridge",
    "lambda": "Lambda",
    "sqs": "SQS",
    "states": "StepFunctions",
}


def ask(call: Call, *done: str) -> str:
    """Ask what happens to a call, or say that it is done; the answer comes when it happens."""
    path = "/".join(("_fault", call.service, quote(call.state), *done))
    kind: bytes = urlopen(f"http://{os.environ['FAULT_PROXY']}/{path}").read()
    return kind.decode()


def make(call: Call) -> Any:
    """Make a call unless it fails."""
    kind = ask(call)
    if kind != "be late":  # a late call has been made before
        call.must_not_be_aborted()
    if kind == "refuse":
        raise CallFailedError(f"{NAMES[call.service]}.ServiceUnavailable")
    result = call.make()
    if kind == "lose the answer":
        raise CallFailedError(f"{NAMES[call.service]}.SdkClientException")
    if kind == "hold the answer":
        ask(call, "done")
    return result


if __name__ == "__main__":
    take_over(make)
    local_server.serve()
