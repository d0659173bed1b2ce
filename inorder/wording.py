"""How times, durations, numbers of things and commands are written; the only place of plurals."""

import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path


def program(started: str) -> str:
    """Give what starts these commands again, if a file was started; "inorder" if that does."""
    if Path(started).name != "inorder" or started == shutil.which("inorder"):
        return "inorder"  # other files are those of tests and modules
    return shlex.quote(started)


INORDER = program(sys.argv[0])  # the first word of each command that a text tells to type


def clock(at: datetime | None) -> str:
    """Write a time for a sentence."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "a time that is not known"


def counted(number: int, noun: str) -> str:
    """Write a number of things for a sentence."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def in_one_line(text: object) -> str:
    """Write a text, or what an error says, in one line."""
    return " ".join(str(text).split())


def verb(number: int, plural: str) -> str:
    """Give the verb that fits a number of things: ``wait``, or ``waits`` for one."""
    singular = "is" if plural == "are" else f"{plural}s"
    return singular if number == 1 else plural


def span(seconds: float) -> str:
    """Write a duration for a sentence."""
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    if seconds < 180:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"  # noqa: PLR2004
