"""A local AWS with few processes for each function, by `local_aws.start(..., server=...)`.

ministack starts a process for each invocation that finds all others busy, which takes half a second
of a processor. Here such an invocation waits. No function of the tests invokes itself.
"""

import time
from typing import Any

from inorder import local_server
from inorder.ministack_parts import replaces

WORKERS = 3  # of a function: one may be slow while others go on


def bound_workers() -> None:
    """Let an invocation wait for a process of its function, if there are enough."""

    @replaces("services.lambda_svc.acquire_worker")
    def acquire(original: Any, *arguments: Any, **named: Any) -> Any:
        while (leased := original(*arguments, **named, max_concurrency=WORKERS))[0] is None:
            time.sleep(0.01)
        return leased


if __name__ == "__main__":
    bound_workers()
    local_server.serve()
