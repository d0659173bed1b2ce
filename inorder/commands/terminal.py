"""What the commands share: their options, and how they print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import click
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inorder.model.execution import Step
from inorder.story.parts import span

UNLIMITED = 10_000  # characters

deployed = click.option(
    "--stack-name", envvar="STACK_NAME", show_envvar=True, default="inorder", show_default=True
)


@contextmanager
def aws_errors_in_one_line() -> Iterator[None]:
    """Report an error of AWS or boto3 in one line."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise click.ClickException(" ".join(str(error).split())) from None


def say(text: str) -> None:
    """Print a line about what is done, beside the results."""
    click.echo(printable(text), err=True)


def print_step(number: int, step: Step) -> None:
    """Print a state with its data; the input only of the first, as it is the output before."""
    console = Console(soft_wrap=True)
    took = "" if step.seconds is None else f", {span(step.seconds)}"
    console.print(
        Text(f"{number:>2}  {printable(step.state or '(not in the log)')}", style="bold"),
        Text(f"({step.type}{took})"),
    )
    if number == 1:
        console.print(_data("input", step.input))
    for attempt, each in enumerate(step.attempts, 1):
        if each.error:
            console.print(_fault(f"attempt {attempt}", each.error, each.cause))
    if step.error and not step.attempts:
        console.print(_fault("error", step.error, step.cause))
    before, after = step.input, step.output
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() <= after.keys():
        added = {key: after[key] for key in after if key not in before or before[key] != after[key]}
        if added:
            console.print(_data("output: its input, and", added))
    elif after not in (None, before):
        console.print(_data("output", after))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], is_plain: bool = False
) -> None:
    """Print text without interpreting markup, which may be part of a key.

    A plain table has no borders. If the output is not a terminal, its rows are not wrapped.
    """
    table = Table(box=None, padding=(0, 2, 0, 0)) if is_plain else Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console()
    width = UNLIMITED if is_plain and not console.is_terminal else None
    Console(width=width).print(table)


def printable(text: str) -> str:
    """Escape the characters that control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _data(name: str, value: object) -> Text:
    lines = json.dumps(value, indent=2, ensure_ascii=False).splitlines()
    return Text("\n".join(f"      {printable(line)}" for line in [name, *lines]))


def _fault(name: str, error: str, cause: str) -> Text:
    text = f"{name}: {error}" + (f": {cause}" if cause else "")
    return Text(f"      {printable(' '.join(text.split()))}")
