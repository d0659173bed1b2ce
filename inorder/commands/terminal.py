"""What the commands share: their options, and how they print."""

import errno
import json
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)
from rich.cells import cell_len, set_cell_size

from inorder import commands
from inorder.aws.log import CLOCK_DIFFERENCE
from inorder.model.execution import Step
from inorder.wording import INORDER, in_one_line, span

UNLIMITED = 10_000  # characters, where the output is no terminal
LOCALLY = 'For the local AWS: eval "$(make -s up)"'
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
EARLIEST = datetime(1971, 1, 1, tzinfo=UTC)  # a log begins in 1970, and clocks differ

deployed = click.option(
    "--stack-name", envvar="STACK_NAME", show_envvar=True, default="inorder", show_default=True
)


class Time(click.ParamType):
    """A time, or how long ago it was."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read ``90s``, ``30m``, ``3h``, ``7d`` or a time in the form of ISO 8601, in UTC."""
        text = str(value)
        try:
            if ago := re.fullmatch(r"(\d{1,6})([smhd])", text):
                at = datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
            else:
                at = datetime.fromisoformat(text)
        except OverflowError:
            at = datetime.min
        except ValueError:
            hint = "Give an age (90s, 30m, 3h, 7d) or a time in UTC."
            self.fail(f"Cannot read {value!r}. {hint}", param, ctx)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        if at < EARLIEST:
            self.fail(f"{value!r} is before {EARLIEST:%Y}.", param, ctx)
        if at > datetime.now(UTC) + CLOCK_DIFFERENCE:
            self.fail(f"{value!r} is in the future.", param, ctx)
        return at


def explained(error: Exception) -> str:
    """Say in one line what is wrong, and what to do; "" of an error that nobody has foreseen."""
    match error:
        case NoRegionError():
            step = f"Set AWS_DEFAULT_REGION. {LOCALLY}"
        case NoCredentialsError() | PartialCredentialsError():
            step = f"Run `aws configure`. {LOCALLY}"
        case EndpointConnectionError() if "//127.0.0.1" in str(error):
            step = "The local AWS has stopped: run `make up`, or open a new shell to use AWS."
        case ClientError(operation_name="DescribeStacks") if "does not exist" in str(error):
            step = (
                "Name the stack by --stack-name or STACK_NAME, and its region by"
                " AWS_DEFAULT_REGION; or run `make deploy` or, for a local AWS, `make up`."
            )
        case BotoCoreError() | ClientError():
            step = ""
        case OSError(errno=errno.EACCES | errno.EPERM | errno.EROFS):
            step = "The commands write to out/: use a checkout that can be written to."
        case _:
            return ""
    return f"{in_one_line(error).rstrip('.')}. {step}".strip()


def say(text: str) -> None:
    """Print a line about what is done, beside the results."""
    click.echo(printable(text), err=True)


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let one process at a time do a block that has a name, in this checkout."""
    import fcntl  # noqa: PLC0415 - Windows lacks it, where the commands for a stack work, too

    file = commands.OUT / f"{name}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:  # the end of the process releases it, too
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another such command in this checkout ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def print_step(number: int, step: Step) -> None:
    """Print a state with its data; the input only of the first, as it is the output before."""
    seconds = "" if step.seconds is None else f", {span(step.seconds)}"
    state = click.style(printable(step.state or "(not in the log)"), bold=True)
    click.echo(f"{number:>2}  {state} ({step.type}{seconds})")
    if number == 1:
        _print_data("input", step.input)
    for attempt, call in enumerate(step.attempts, 1):
        if call.error:
            _print_fault(f"attempt {attempt}", call.error, call.cause)
    if step.error and not step.attempts:
        _print_fault("error", step.error, step.cause)
    before, after = step.input, step.output
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() <= after.keys():
        added = {key: after[key] for key in after if key not in before or before[key] != after[key]}
        if added:
            _print_data("output: its input, and", added)
    elif after not in (None, before):
        _print_data("output", after)


def aligned(rows: Iterable[Sequence[str]], widths: list[int]) -> Iterator[str]:
    """Write rows in columns of these widths, which first become as wide as the rows need."""
    shown = [[printable(cell) for cell in row] for row in rows]
    for row in shown:
        widths[:] = map(max, widths, map(cell_len, row))
    for row in shown:
        yield "  ".join(map(set_cell_size, row, widths)).rstrip()


def print_entry(heading: str, *details: str) -> None:
    """Print a line, and details below it, which fit the terminal."""
    width = shutil.get_terminal_size((UNLIMITED, 0)).columns
    click.echo(printable(heading))
    for text in details:
        click.echo(textwrap.indent(textwrap.fill(printable(text), width - 4), "    "))


def printable(text: str) -> str:
    """Escape the characters that control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def why_of(key: str) -> str:
    """Name the command that tells what became of the events of a key."""
    return f"`{INORDER} why {printable(shlex.quote(key))}`"


def _print_data(name: str, value: object) -> None:
    for line in [name, *json.dumps(value, indent=2, ensure_ascii=False).splitlines()]:
        click.echo(f"      {printable(line)}")


def _print_fault(name: str, error: str, cause: str) -> None:
    text = f"{name}: {error}" + (f": {cause}" if cause else "")
    click.echo(f"      {printable(in_one_line(text))}")
