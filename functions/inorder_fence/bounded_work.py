"""Does work in a process of its own, which is killed when its time is over.

Nothing less ends it in time. Python runs a signal's handler only when a call of C code has returned
(https://docs.python.org/3/library/signal.html#execution-of-python-signal-handlers), a thread cannot
be killed, and Pillow has limits of size but none of time.

The process is a new one, not a fork of this one: a fork may deadlock if this one has threads
(https://docs.python.org/3/library/os.html#os.fork). It stays for the next content, because its
start takes longer than most work. In Lambda, `multiprocessing` has `Pipe`, but no `Queue` and no
`Pool`, which need /dev/shm
(https://aws.amazon.com/blogs/compute/parallel-processing-in-python-with-aws-lambda/).
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Pipe
from threading import Lock
from typing import Any

from inorder_fence import worker
from inorder_fence.fenced_output import Result
from inorder_fence.object_event import Rejection

MOST_CONTENTS = 500  # of one process; what its C code leaks goes with it


class TooSlow(Rejection):
    """The work was not done in time. Another attempt would take as long."""


class WorkCrashed(Rejection):
    """The work has ended its process. Another attempt would end in the same way.

    The same content makes the same C code fail again. SIGKILL comes from the kernel, when there is
    no memory left: nothing else runs in Lambda's environment, so the work needed too much of it.
    """


def in_time(work: Callable[[bytes], Result], content: bytes, seconds: float) -> Result:
    """Call `work` in another process, and kill that and what it has started if it takes too long.

    The process stays for later calls. It ends with this one, after an error, and after some hundred
    calls. If it dies after it has done other work, the cause may be older: the work is done once
    more, in a new process. Calls of several threads wait for each other.

    Parameters
    ----------
    work : callable
        Makes the output from a source's content. It must be possible to pickle, as a function of a
        module is, or a `partial` of one. The process imports that module, so keep it apart from
        the handler. The work sees and changes nothing of this process.
    content : bytes
        Of the source.
    seconds : float
        How long the work may take. It does not depend on what is left of the invocation: if S3 was
        slow, that is no reason to reject an object.

    Returns
    -------
    Result
        What `work` returns, which must be possible to pickle.

    Raises
    ------
    TooSlow
        The work took longer than `seconds`.
    WorkCrashed
        A signal has killed its process, or the work itself has ended it.
    ConnectionError
        The process died before it began.
    NotImplementedError
        This is Windows, which has no groups of processes.
    RuntimeError
        The work has called this, or a module that its process imports.
    BaseException
        What `work` raises: an error of the same name and text and, so far as a name leads to it,
        of the same class.
    """
    if not hasattr(os, "killpg"):
        raise NotImplementedError("in_time needs Linux, macOS or WSL.")
    if worker.IS_WORKER in os.environ:  # or each process would start another one, without end
        raise RuntimeError("in_time runs inside in_time: call it in the handler, not on import.")
    request = pickle.dumps((sys.path, pickle.dumps(work), content, seconds))
    with _one_call:
        while True:
            process = _idle.pop(os.getpid(), None) or _Process()
            try:
                answer = process.answer(request, seconds)
            except (WorkCrashed, ConnectionError):
                if process.contents:
                    continue
                raise
            result, failure = pickle.loads(answer)  # noqa: S301 - of our own process
            process.contents += 1
            if failure or process.contents == MOST_CONTENTS:
                process.end()
            else:
                _idle[os.getpid()] = process
            break
    if failure:
        raise _error(*failure)
    made: Result = result
    return made


class _Process:
    """A process that does work, in a group of its own with all that the work starts."""

    def __init__(self) -> None:
        self.contents = 0  # for how many it has done its work
        self._connection, its = Pipe()
        with its:
            arguments = [sys.executable, "-P", worker.__file__, str(its.fileno())]
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                arguments,
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        # When this is called, when nobody has the object any more, or when this process ends.
        self.end = weakref.finalize(self, _end, self._process, os.getpid())

    def answer(self, request: bytes, seconds: float) -> bytes:
        """Send a request, and wait for the answer: its modules take time that is not the work's."""
        has_begun = False
        try:
            self._connection.send_bytes(request)
            answer = self._connection.recv_bytes()
            has_begun = answer == worker.BEGUN
            if has_begun:
                if not self._connection.poll(seconds):
                    raise TooSlow(f"The work was not done after {seconds:g} seconds.")
                answer = self._connection.recv_bytes()
        except BaseException as error:
            self.end()
            if not isinstance(error, EOFError | ConnectionError):
                raise
            kind = WorkCrashed if has_begun else ConnectionError
            raise kind(_reason(self._process.returncode)) from None
        return answer


# The process that waits for the next content, by the process that has started it: a fork of that
# must not read its answers.
_idle: dict[int, _Process] = {}
_one_call = Lock()


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # a fork of it
        return
    # Another part of the program may have waited for it. macOS says that it is not permitted if all
    # of the group have died.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _reason(code: int) -> str:
    if code < 0:
        return f"Signal {-code} ({signal.strsignal(-code)}) ended the work."
    return f"The work ended its process with status {code}."


def _error(kind: bytes, name: str, text: str) -> BaseException:
    """Make an error as the work has raised it, whatever the class wants to be made of."""
    methods: dict[str, Any] = {"__init__": lambda *_: None, "__str__": lambda _: text}
    made = type(name, (pickle.loads(kind),), methods)  # noqa: S301 - of our own process
    error: BaseException = made(text)
    return error
