"""The commands about executions, and about what became of an object's events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from audit_keys.repairing import repaired_at
from inorder.aws.executions import StateMachine
from inorder.aws.inspection import gather, machine_of
from inorder.aws.stack import Connection
from inorder.commands.terminal import (
    aws_errors_in_one_line,
    deployed,
    print_step,
    print_table,
    printable,
    say,
)
from inorder.model.execution import LIFE, Execution, Filter, described, to_json
from inorder.story import tell
from inorder.story.parts import clock, span

Command = Callable[..., Any]
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
EARLIEST = datetime(1971, 1, 1, tzinfo=UTC)  # a log begins in 1970, and clocks differ
SHORTEST_ID = 8
FOLLOW_SECONDS = 1.0
COLUMNS = ["Start (UTC)", "ID", "Key", "Sequencer", "Outcome", "Waited", "Duration", "Attempt"]


class Since(click.ParamType):
    """A time, or how long ago it was."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read ``90s``, ``30m``, ``3h``, ``7d`` or a time in the form of ISO 8601, in UTC."""
        ago = re.fullmatch(r"(\d{1,6})([smhd])", str(value))
        try:
            if ago:
                at = datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
            else:
                at = datetime.fromisoformat(str(value))
        except OverflowError:
            at = datetime.min
        except ValueError:
            self.fail(f"{value!r} is neither a time nor such as 90s, 30m, 3h or 7d.", param, ctx)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        if at < EARLIEST:
            self.fail(f"{value!r} is before {EARLIEST:%Y}.", param, ctx)
        return at


def since(default: str) -> Callable[[Command], Command]:
    """Make the option --since."""
    return click.option(
        "--since",
        type=Since(),
        default=default,
        show_default=True,
        help="Only executions that started since then: 90s, 30m, 3h, 7d, or a time in UTC.",
    )


@click.command()
@deployed
@click.option("--key", help="Only of this S3 key.")
@click.option("--prefix", default="", help="Only of S3 keys that begin with this.")
@click.option(
    "--outcome",
    "outcomes",
    multiple=True,
    help="Only with this outcome, such as Parked or Running. May be given more than once.",
)
@since("3h")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The newest.")
@click.option("--follow", is_flag=True, help="Go on with those that start or end from now on.")
@click.option("--json", "as_json", is_flag=True, help="One execution per line.")
def executions(
    stack_name: str,
    key: str | None,
    prefix: str,
    outcomes: tuple[str, ...],
    since: datetime,
    limit: int,
    follow: bool,
    as_json: bool,
) -> None:
    """List executions, the newest last."""
    wanted = Filter(key, prefix, frozenset(outcomes), since, limit=limit)
    # To interrupt is how to end it.
    ended = suppress(KeyboardInterrupt) if follow else nullcontext()
    with aws_errors_in_one_line(), ended:
        machine = machine_of(Connection(stack_name), since)
        for each in machine.unknown:
            say(each)
        found = machine.select(wanted)[::-1]
        if as_json:
            for execution in found:
                click.echo(to_json(described(execution)))
        elif found:
            ids = short_ids(found)
            print_table(COLUMNS, [row(each, ids[each.arn]) for each in found], is_plain=True)
        elif not follow:
            say("There are no such executions.")
        if follow:
            for execution in changes(machine, wanted, found):
                line = to_json(described(execution)) if as_json else "  ".join(row(execution))
                click.echo(printable(line))


@click.command()
@deployed
@since("7d")
@click.option("--json", "as_json", is_flag=True, help="All of it, as one document.")
@click.argument("execution_id", metavar="ID")
def execution(stack_name: str, since: datetime, as_json: bool, execution_id: str) -> None:
    """Print the path of an execution, with the data, time, errors and attempts of each state.

    ID is its ARN, its name, or the beginning of either, if that suffices to tell it from others.
    """
    with aws_errors_in_one_line():
        machine = machine_of(Connection(stack_name), since)
        found = machine.find(execution_id, since)
    if as_json:
        click.echo(to_json(described(found), indent=2))
        return
    console = Console(soft_wrap=True)
    for name, value in facts(found):
        console.print(Text(f"{name:<10}{printable(value)}"))
    for number, step in enumerate(found.steps, 1):
        print_step(number, step)
    for each in machine.unknown:
        say(each)
    if found.missing:
        say(f"At least {found.missing} entries of this execution are missing from the log.")
    if found.truncated:
        say("The log has cut some data off, so it is not shown.")


@click.command()
@deployed
@since("7d")
@click.option("--version-id", help="Only this version of the object.")
@click.option("--json", "as_json", is_flag=True, help="All facts, as one document.")
@click.argument("key")
def why(stack_name: str, since: datetime, version_id: str | None, as_json: bool, key: str) -> None:
    """Tell what became of an object's events, and why its output is as it is.

    KEY is the object's key in the input bucket.
    """
    with aws_errors_in_one_line():
        aws = Connection(stack_name)
        story = tell(gather(aws, machine_of(aws, since), key, version_id, since))
    if as_json:
        click.echo(to_json(asdict(story) | {"sentences": story.sentences()}, indent=2))
        return
    for sentence in story.sentences():
        click.echo(printable(sentence))


def changes(
    machine: StateMachine, wanted: Filter, known: Sequence[Execution]
) -> Iterator[Execution]:
    """Give executions as they start and as they end, without an end."""
    seen = {each.arn: each.status for each in known}
    # One that started earlier has ended.
    wanted = replace(wanted, limit=None, since=datetime.now(UTC) - LIFE)
    while True:
        for each in reversed(machine.select(wanted)):
            if seen.get(each.arn) != each.status:
                seen[each.arn] = each.status
                yield each
        time.sleep(max(FOLLOW_SECONDS, machine.poll_seconds))


def row(execution: Execution, name: str | None = None) -> list[str]:
    """Give the cells of an execution; what is not known is a question mark."""
    at = repaired_at(execution.sequencer)
    return [
        f"{execution.started.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if execution.started else "?",
        name or execution.id,
        execution.key or execution.record_id or "?",
        f"repair {at:%Y-%m-%dT%H:%M:%SZ}" if at else execution.sequencer or "?",
        execution.ended_as,
        *("" if each is None else span(each) for each in (execution.waited, execution.seconds)),
        str(execution.attempt),
    ]


def short_ids(found: Sequence[Execution]) -> dict[str, str]:
    """Give the beginnings of all IDs by ARN, as short as they still differ from each other."""
    ids = {each.id for each in found}
    length = SHORTEST_ID
    while len({each[:length] for each in ids}) < len(ids):
        length += 1
    return {each.arn: each.id[:length] for each in found}


def facts(execution: Execution) -> Iterator[tuple[str, str]]:
    """Give what there is to say about an execution beside its states."""
    yield "ARN", execution.arn
    yield "Key", execution.key or execution.record_id or "?"
    yield "Sequencer", execution.sequencer or "?"
    reason = f": {' '.join(execution.cause.split())}" if execution.cause else ""
    yield "Outcome", f"{execution.ended_as}{reason}"
    yield "Started", clock(execution.started)
    if execution.seconds is not None:
        waited = f", of which it waited {span(execution.waited)}" if execution.waited else ""
        yield "Took", f"{span(execution.seconds)}{waited}"
    yield "Attempt", str(execution.attempt)
