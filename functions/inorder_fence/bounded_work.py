"""Does work in a process of its own, which is killed when its time is over.

Nothing less ends it in time. Python runs a signal's handler only when a call of C code has returned
(https://docs.python.org/3/library/signal.html#execution-of-python-signal-handlers), a thread cannot
be killed, and Pillow has limits of size but none of time.

In Lambda, `multiprocessing` has `Process` and `Pipe`, but no `Queue` and no `Pool`, which need
/dev/shm (https://aws.amazon.com/blogs/compute/parallel-processing-in-python-with-aws-lambda/).
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection

from inorder_fence.fenced_output import Rejection, Result


class TooSlow(Rejection):
    """The work was not done in time. Another attempt would take as long."""


class WorkCrashed(Rejection):
    """The work's process was killed by a signal. Another attempt would end in the same way.

    The same content makes the same C code fail again. SIGKILL comes from the kernel, when there is
    no memory left: nothing else runs in Lambda's environment, so the work needed too much of it.
    """


def in_time(work: Callable[[bytes], Result], content: bytes, seconds: float) -> Result:
    """Call `work`, and stop it if it takes too long.

    Parameters
    ----------
    work : callable
        Makes the output from a source's content. It cannot change anything in this process.
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
        A signal killed its process.
    NotImplementedError
        This machine cannot fork, as Windows cannot.
    Exception
        What `work` raises.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise NotImplementedError("in_time forks a process: it needs Linux, macOS or WSL.")
    # A forked process starts in milliseconds: it has the content and all modules already.
    processes = multiprocessing.get_context("fork")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=_send_result, args=(sender, work, content))
    process.start()
    sender.close()  # only the child has it now, so its death ends the pipe
    try:
        if not receiver.poll(seconds):
            raise TooSlow(f"The work was not done after {seconds:g} seconds.")
        result = receiver.recv()
    except EOFError:
        process.join()
        number = -(process.exitcode or 0)
        if number <= 0:
            raise  # it has ended by itself: a fault
        raise WorkCrashed(f"Signal {number} ({signal.strsignal(number)}) ended the work.") from None
    finally:
        process.kill()
        process.join()
        process.close()
        receiver.close()
    if isinstance(result, Exception):
        raise result
    made: Result = result
    return made


def _send_result(sender: Connection, work: Callable[[bytes], Result], content: bytes) -> None:
    try:
        sender.send(work(content))
    except Exception as error:
        sender.send(error)
