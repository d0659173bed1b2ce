"""Writes down what happens inside the function, in the same way for every contender."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import md5
from http import HTTPStatus
from pathlib import Path
from typing import Any

# Where the benchmark reads the records, and where `once` puts its marks. Without it, as in tests
# of a contender, nothing is recorded.
FOLDER = os.environ.get("BENCH_FOLDER", "")
MEMORY = int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "0"))  # in MB
Handler = Callable[[Any, Any], Any]


@dataclass
class Processing:
    """One processing of an object."""

    key: str
    etag: str = ""  # of the content that was processed; empty if none was
    written: float = 0  # when its result became the output, in seconds since 1970; 0 if it did not


# A worker process does one thing at a time.
_now: Processing | None = None
_began = 0.0  # when its invocation began


def write(**record: Any) -> None:
    """Append one record. Workers append at the same time; a short line is not torn apart."""
    if FOLDER:
        line = json.dumps(record) + "\n"
        descriptor = os.open(f"{FOLDER}/records", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def recorded(handler: Handler) -> Handler:
    """Record each invocation of a handler."""

    @functools.wraps(handler)
    def wrapper(event: Any, context: Any) -> Any:
        global _began  # noqa: PLW0603 - see there
        _began = time.time()
        try:
            return handler(event, context)
        finally:
            ends()

    return wrapper


def ends() -> None:
    """Record an invocation, which ends now."""
    write(what="invocation", seconds=time.time() - _began, memory=MEMORY)


def counted(client: Any) -> None:
    """Record each request of a client of boto3, and when an output was written."""

    def send(event_name: str, **_: Any) -> None:  # such as before-send.s3.GetObject
        write(what="call", operation=event_name.rpartition(".")[2])

    def put(http_response: Any, **_: Any) -> None:
        if _now and http_response.status_code == HTTPStatus.OK:  # the fence's condition held
            _now.written = time.time()

    client.meta.events.register("before-send", send)
    client.meta.events.register("after-call.s3.PutObject", put)


@contextmanager
def processing(event: Any) -> Iterator[None]:
    """Record a processing."""
    global _now  # noqa: PLW0603 - see there
    _now = this = Processing(event["detail"]["object"]["key"])
    try:
        yield
    finally:
        _now = None
        write(what="processing", **asdict(this))


def processes(content: bytes) -> str:
    """Note which content is being processed, and give its ETag."""
    etag = md5(content, usedforsecurity=False).hexdigest()
    if _now:
        _now.etag = etag
    return etag


def once(mark: str) -> bool:
    """Tell whether this is the first call with this mark, in any process."""
    try:
        Path(FOLDER, mark).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
