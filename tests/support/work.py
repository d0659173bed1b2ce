"""Work that `in_time` does in tests. It imports little, so that its process starts quickly."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

calls = 0  # in this process


class BadRow(ValueError):
    """An error that cannot be pickled, because it is not made of its text."""

    def __init__(self, row: int, column: int) -> None:
        super().__init__(f"row {row}, column {column}")


def bad_row(_content: bytes) -> NoReturn:
    """Raise such an error."""
    raise BadRow(7, 3)


def worse_row(_content: bytes) -> NoReturn:
    """Raise such an error of a class that has no name outside."""

    class WorseRow(BadRow):
        pass

    raise WorseRow(7, 3)


def process_id(_content: bytes) -> int:
    """Name the process of the work."""
    return os.getpid()


def fails_the_second_time(content: bytes) -> bytes:
    """End the process if it has done this work before, as if that had damaged it."""
    global calls  # noqa: PLW0603
    calls += 1
    if calls > 1:
        os._exit(9)
    return content


def starts_another(folder: str) -> None:
    """Start a program, write the numbers of both processes to a file, and take very long."""
    program = subprocess.Popen([sys.executable, "-c", "import time\ntime.sleep(3600)"])
    written = Path(folder, "written")
    written.write_text(f"{os.getpid()} {program.pid}")
    written.rename(written.with_name("started"))
    time.sleep(3600)


def hang_up(_: bytes) -> None:
    """End this process by a signal that nohup lets its processes ignore."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.raise_signal(signal.SIGHUP)
