"""Work that `in_time` does in tests. It imports little, so that its process starts quickly."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

calls = 0  # in this process


@dataclass(frozen=True)
class Made:
    """An output."""

    content: bytes
    content_type: str = "text/plain"


class BadRow(ValueError):
    """An error that is not made of its text."""

    def __init__(self, row: int, column: int) -> None:
        super().__init__(f"row {row}, column {column}")
        self.column = column

    def __str__(self) -> str:
        return f"column {self.column}"


def same(content: bytes) -> Made:
    """Give the content."""
    return Made(content)


def process_id(_content: bytes) -> Made:
    """Name the process of the work."""
    return Made(str(os.getpid()).encode())


def bad_row(_content: bytes) -> NoReturn:
    """Raise an error that cannot be pickled."""
    raise BadRow(7, 3)


def bad_row_of_a_function(_content: bytes) -> NoReturn:
    """Raise an error that cannot be pickled, of a class that has no name."""

    class WorseRow(BadRow):
        handle = staticmethod(lambda: 0)

    raise WorseRow(7, 3)


def not_utf8(content: bytes) -> Made:
    """Raise an error that is made of five parts."""
    return Made(content.decode().encode())


def exits(content: bytes) -> NoReturn:
    """End the process, as a library may."""
    sys.exit(int(content) if content.isdigit() else content.decode() or None)


def ends_at_once(content: bytes) -> NoReturn:
    """End the process without a word."""
    os._exit(int(content))


def not_pickled(_content: bytes) -> Made:
    """Make what cannot be sent."""
    return Made(b"", lambda: "")  # type: ignore[arg-type]


def is_killed(content: bytes) -> NoReturn:
    """Let a signal kill the process."""
    number = int(content)
    faulthandler.disable()  # it would print all frames
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP
    os.kill(os.getpid(), number)
    never_ends(content)


def fails_the_second_time(content: bytes) -> Made:
    """End the process if it has done this work before, as if that had damaged it."""
    global calls  # noqa: PLW0603
    calls += 1
    if calls > 1:
        os._exit(9)
    return Made(content)


def never_ends(_content: bytes) -> NoReturn:
    """Work for ever."""
    while True:
        time.sleep(60)


def starts_another(folder: bytes) -> Made:
    """Start a program, write the numbers of both processes to a file, and never end."""
    program = subprocess.Popen([sys.executable, "-c", "import time\nwhile 1: time.sleep(60)"])
    written = Path(folder.decode(), "written")
    written.write_text(f"{os.getpid()} {program.pid}")
    written.rename(written.with_name("started"))
    never_ends(folder)
