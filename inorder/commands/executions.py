"""The commands about one object or execution, and about the list of executions."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from inorder.asl.definition import EXPRESS_SECONDS
from inorder.audit.repairing import repaired_at
from inorder.aws import waiting
from inorder.aws.executions import StateMachine, wait_until
from inorder.aws.inspection import Gathering, machine_of
from inorder.aws.stack import Connection
from inorder.commands.group import unknown
from inorder.commands.terminal import Time, aligned, deployed, print_step, printable, say, why_of
from inorder.errors import Failure
from inorder.model import policies
from inorder.model.execution import LIFE, STATUSES, Execution, Filter, described, to_json
from inorder.model.outcomes import RETRYING
from inorder.story import tell
from inorder.wording import INORDER, clock, counted, in_one_line, span
from inorder_fence.records import s3_object

Command = Callable[..., Any]
SHORTEST_ID = 8
FOLLOW_SECONDS = 1.0
EVENT_SECONDS = 60  # by then, the event of an upload has usually started an execution
COLUMNS = ["Start (UTC)", "ID", "Key", "Sequencer", "Outcome", "Waited", "Duration", "Attempt"]


def since(default: str) -> Callable[[Command], Command]:
    """Make the option --since."""
    return click.option(
        "--since",
        type=Time(),
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
    wanted = Filter(key, prefix, frozenset(outcomes), since)
    # To interrupt is how to end it.
    with suppress(KeyboardInterrupt) if follow else nullcontext():
        aws = Connection(stack_name)
        if aws.stack.policy:  # else the outcomes are not known
            refuse_unknown(outcomes)
        machine = machine_of(aws, since)
        for text in filter(None, [waiting.pause(aws), *machine.unknown]):
            say(text)
        recent = machine.changed(datetime.now(UTC)) if follow else []
        listed = machine.select(replace(wanted, limit=limit))[::-1]
        widths = [0] * len(COLUMNS)
        length = id_length(listed)
        if as_json:
            for execution in listed:
                click.echo(to_json(described(execution)))
        elif listed or follow:
            rows = [row(execution, length) for execution in listed]
            for line in aligned([COLUMNS, *rows], widths):
                click.echo(line)
        else:
            say(f"No such execution has started since {clock(since)} (--since).")
            if key:
                say(f"{why_of(key)} looks back for a week, and names keys like it.")
        for execution in changes(machine, wanted, [*recent, *listed]) if follow else ():
            [line] = aligned([row(execution, length)], widths)
            click.echo(to_json(described(execution)) if as_json else line)


@click.command("execution")
@deployed
@since("7d")
@click.option("--json", "as_json", is_flag=True, help="All of it, as one document.")
@click.argument("execution_id", metavar="ID")
def print_execution(stack_name: str, since: datetime, as_json: bool, execution_id: str) -> None:
    """Print the states that an execution passed, with their data.

    ID is its ARN, its name, or the beginning of either, if that suffices to tell it from others.
    """
    machine = machine_of(Connection(stack_name), since)
    execution = machine.find(execution_id, since)
    if as_json:
        click.echo(to_json(described(execution), indent=2))
        return
    print_facts(execution)
    for number, step in enumerate(execution.steps, 1):
        print_step(number, step)
    for text in machine.unknown:
        say(text)
    if execution.missing:
        say(f"The log lacks at least {counted(execution.missing, 'line')} of it.")
    if execution.truncated:
        say("The log has cut some data off, so it is not shown.")


@click.command()
@deployed
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("key", required=False)
def put(stack_name: str, file: Path, key: str | None) -> None:
    """Upload a file, and print the outcome and the states of its event.

    KEY is the key of the object that is written, or else the file's name.

    Exits with 0 if the event was processed or dropped, as a newer one decides; with 1 if it is
    parked or will be retried, or if no execution of it has ended in time.
    """
    aws, key = Connection(stack_name), key or file.name
    machine, bucket = machine_of(aws), aws.stack.input_bucket
    wanted = Filter(key, since=datetime.now(UTC) - LIFE)
    before = {execution.arn for execution in machine.select(wanted)}
    content = file.read_bytes()
    etag = aws.client("s3").put_object(Bucket=bucket, Key=key, Body=content)["ETag"].strip('"')
    say(f"Uploaded to s3://{bucket}/{key}.")
    if left_out := aws.stack.left_out(key):
        raise Failure(f"No event of this object starts an execution: {left_out}.")
    if paused := waiting.pause(aws):
        raise Failure(f"{paused} So does the event of this upload.")
    started: list[Execution] = []

    def has_started() -> bool:
        news = (run for run in machine.select(wanted) if run.arn not in before)
        started[:] = [run for run in news if s3_object(run.event).get("etag") == etag]
        return bool(started)

    try:
        seconds = aws.stack.quiet_seconds + EVENT_SECONDS
        wait_until(has_started, seconds, "its execution", machine.poll_seconds)
        ended = machine.wait(started[-1].arn, EXPRESS_SECONDS)
    except TimeoutError as error:
        for text in machine.unknown:
            say(text)
        raise Failure(f"{error} {why_of(key)} and `{INORDER} doctor` say more.") from None
    print_facts(ended)
    if path := " > ".join(ended.path):
        click.echo(f"States    {printable(path)}")
    if ended.status != "SUCCEEDED" or ended.outcome == RETRYING:
        raise Failure(f"The event ended as {ended.ended_as}: {why_of(key)} says what helps.")
    say(f"`{INORDER} execution {ended.id}` prints each state with its data.")


@click.command()
@deployed
@since("7d")
@click.option("--version-id", help="Only this version of the object.")
@click.option("--json", "as_json", is_flag=True, help="All facts, as one document.")
@click.argument("key")
def why(stack_name: str, since: datetime, version_id: str | None, as_json: bool, key: str) -> None:
    """Tell whether an object's output is right, and why.

    Tells what became of each of its events, oldest first.

    KEY is the object's key in the input bucket, or its URL s3://bucket/key.
    """
    aws = Connection(stack_name)
    story = tell(Gathering(aws, machine_of(aws, since), key, version_id, since).facts())
    if as_json:
        click.echo(to_json(asdict(story) | {"sentences": story.sentences()}, indent=2))
        return
    if story.key != key:
        say(f"The key is {story.key!a}.")
    for sentence in story.sentences():
        click.echo(printable(sentence))


def refuse_unknown(outcomes: Sequence[str]) -> None:
    """Refuse an outcome that no execution of this project's policies has."""
    files = [policies.definition(name)["States"] for name in policies.names()]
    possible = frozenset(STATUSES.values()).union(*map(policies.outcomes, files))
    names = {name.lower() for name in possible}
    for outcome in outcomes:
        if outcome.lower() not in names:
            raise click.UsageError(unknown("outcome", outcome, possible))


def changes(
    machine: StateMachine, wanted: Filter, listed: Sequence[Execution]
) -> Iterator[Execution]:
    """Give executions as they start and as they end, without an end."""
    statuses, since = {run.arn: run.status for run in listed}, datetime.now(UTC)
    while True:
        now = datetime.now(UTC)
        for execution in reversed(machine.changed(since)):
            if wanted.accepts(execution) and statuses.get(execution.arn) != execution.status:
                statuses[execution.arn] = execution.status
                yield execution
        since = now
        time.sleep(max(FOLLOW_SECONDS, machine.poll_seconds))


def row(execution: Execution, length: int) -> list[str]:
    """Give the cells of an execution; what is not known is a question mark."""
    at = repaired_at(execution.sequencer)
    return [
        f"{execution.started.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if execution.started else "?",
        execution.id[:length],
        execution.key or execution.record_id or "?",
        f"repair {at:%Y-%m-%dT%H:%M:%SZ}" if at else execution.sequencer or "?",
        execution.ended_as,
        *("" if time is None else span(time) for time in (execution.waited, execution.seconds)),
        str(execution.attempt),
    ]


def id_length(executions: Sequence[Execution]) -> int:
    """Tell how much of their IDs suffices to tell executions from each other."""
    ids, length = {execution.id for execution in executions}, SHORTEST_ID
    while len({name[:length] for name in ids}) < len(ids):
        length += 1
    return length


def print_facts(execution: Execution) -> None:
    """Print what there is to say about an execution beside its states."""
    reason = f": {in_one_line(execution.cause)}" if execution.cause else ""
    waited = f", of which it waited {span(execution.waited)}" if execution.waited else ""
    facts = {
        "ARN": execution.arn,
        "Key": execution.key or execution.record_id or "?",
        "Sequencer": execution.sequencer or "?",
        "Outcome": f"{execution.ended_as}{reason}",
        "Started": clock(execution.started),
        "Took": "" if execution.seconds is None else f"{span(execution.seconds)}{waited}",
        "Attempt": str(execution.attempt),
    }
    for name, value in facts.items():
        if value:
            click.echo(f"{name:<10}{printable(value)}")
