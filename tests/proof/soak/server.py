"""The local AWS in which calls of state machines fail.

Each call first asks the proxy what happens to it.
"""

from __future__ import annotations

import http.client
import os
import time
from typing import Any
from urllib.parse import quote

from inorder import local_server
from tests.support.local_calls import Call, CallFailedError, take_over

NAMES = {
    "dynamodb": "DynamoDB",
    "events": "EventBridge",
    "lambda": "Lambda",
    "sqs": "SQS",
    "states": "StepFunctions",
}


def ask(service: str, name: str) -> str:
    """Ask what happens to a call. The answer comes late if the call is to hang."""
    host, _, port = os.environ["FAULT_PROXY"].partition(":")
    connection = http.client.HTTPConnection(host, int(port))
    try:
        connection.request("GET", f"/_fault/{service}/{quote(name)}")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def make(call: Call) -> Any:
    """Make a call unless it fails."""
    kind = ask(call.service, call.state)
    if kind != "be late":  # a late call has been made before
        call.must_not_be_aborted()
    if kind == "refuse":
        raise CallFailedError(f"{NAMES[call.service]}.ServiceUnavailable")
    if kind == "slow":
        time.sleep(1)
    result = call.make()
    if kind == "lose the answer":
        raise CallFailedError(f"{NAMES[call.service]}.SdkClientException")
    if kind == "hold the answer":
        ask(call.service, "held")
    return result


if __name__ == "__main__":
    take_over(make)
    local_server.serve()
