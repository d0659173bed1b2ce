"""The process in which `in_time` does work: it does it for one content after the other.

It is started by its path, because an import of the package would import boto3, which takes longer
than all that most work needs.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

BEGUN = b""  # is sent when the work and its modules are there
IS_WORKER = "INORDER_FENCE_IS_WORKER"  # a variable of this process and of all that it starts


def serve(parent: Connection) -> None:
    """Answer each request of the parent, until it has gone."""
    with suppress(EOFError, ConnectionError):
        while True:
            parent.send_bytes(_answer(parent, parent.recv_bytes()))


def _answer(parent: Connection, request: bytes) -> bytes:
    try:
        sys.path[:], pickled, content, seconds = pickle.loads(request)  # noqa: S301 - of the parent
        work = pickle.loads(pickled)  # noqa: S301
        parent.send_bytes(BEGUN)
        # The parent stops work that takes too long. This does, once the parent itself has died.
        signal.setitimer(signal.ITIMER_REAL, 2 * seconds)
        return pickle.dumps((work(content), None))
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else error.code is not None)
    except BaseException as error:
        return pickle.dumps((None, (_kind(error), type(error).__name__, str(error))))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _kind(error: BaseException) -> bytes:
    """Name the class of an error or, if no name leads to it, the nearest one that it inherits."""
    for kind in type(error).__mro__:
        with suppress(Exception):
            return pickle.dumps(kind)
    raise AssertionError(error)


if __name__ == "__main__":
    os.environ[IS_WORKER] = "1"
    serve(Connection(int(sys.argv[1])))
