"""What Lambda invokes for all contenders.

One function for all means the same warm workers for all. The payload says whose turn it is. The
function's timeout is long, for the one that waits within the function; the others are told that
they have as much time as the product's own function.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from bench.contenders import (
    fenced_function,
    fifo_fence,
    inorder,
    lock_in_function,
    sqs_fence,
    uncoordinated,
)
from bench.contenders.recorder import FOLDER, Handler, recorded

HANDLERS: dict[str, Handler] = {
    "fenced-function": fenced_function.handler,
    "sqs-fence": sqs_fence.handler,
    "fifo-fence": sqs_fence.handler,
    "router": fifo_fence.route,
    "lock-in-function": lock_in_function.handler,
    "uncoordinated": uncoordinated.handler,
}
WAITS = "lock-in-function"
SECONDS = 15
WARMING_SECONDS = 180


def handler(payload: dict[str, Any], context: Any) -> Any:
    """Hand an invocation to a contender, or keep a worker busy until all are warm."""
    if "warm" in payload:
        return warm(**payload["warm"])
    if "fence" in payload:  # the state machine's payload, which is the product's own
        return recorded(inorder.handler)(payload, context)
    if payload["contender"] != WAITS:
        context.get_remaining_time_in_millis = lambda: SECONDS * 1000
    return recorded(HANDLERS[payload["contender"]])(payload["event"], context)


def warm(mark: str, workers: int) -> None:
    """Wait until a number of workers are here at the same time, before anything is measured."""
    Path(FOLDER, f"{mark}-{os.getpid()}").touch()
    deadline = time.monotonic() + WARMING_SECONDS
    while len(list(Path(FOLDER).glob(f"{mark}-*"))) < workers and time.monotonic() < deadline:
        time.sleep(0.2)
