"""A local AWS in which a test stops the calls of a state: `local_aws.start(..., server=SERVER)`.

ministack makes the calls of state machines within its process. So test and server share a folder,
in which a file names the state, and another one says that a call has been stopped.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psutil

from inorder import local_aws, local_server
from inorder.local_aws import LocalAws
from tests.support.few_workers import bound_workers
from tests.support.local_calls import Call, take_over

FOLDER = "HELD_CALLS_FOLDER"


class HeldCalls:
    """What a test stops."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    @contextmanager
    def holding(self, state: str, when: Literal["before", "after"]) -> Iterator[Path]:
        """Stop a state's calls before or after their effect; the file is there once one has."""
        mark, reached = self._folder / f"{state} {when}", self._folder / f"{state} reached"
        mark.touch()
        try:
            yield reached
        finally:
            mark.unlink()
            reached.unlink(missing_ok=True)


@contextmanager
def running(folder: Path, wait_scale: float) -> Iterator[tuple[LocalAws, HeldCalls]]:
    """Run such a local AWS; the scale is that of `local_aws.start`."""
    held = folder / "held"
    settings = {FOLDER: str(held)}
    server = "tests.support.held_calls"
    with local_aws.start(folder / "aws", None, wait_scale, settings, server) as local:
        yield local, HeldCalls(held)
    assert not psutil.pid_exists(local.pid)


def make(call: Call) -> Any:
    """Make a call, and stop it where a test says so."""
    stop(call.state, "before")
    call.must_not_be_aborted()
    result = call.make()
    stop(call.state, "after")
    return result


def stop(state: str, when: str) -> None:
    """Wait while a test holds the calls of a state."""
    mark = Path(os.environ[FOLDER], f"{state} {when}")
    while mark.exists():
        mark.with_name(f"{state} reached").touch()
        time.sleep(0.05)


if __name__ == "__main__":
    take_over(make)
    bound_workers()
    local_server.serve()
