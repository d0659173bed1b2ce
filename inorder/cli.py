"""The command ``inorder``."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inorder import local_aws, policies
from inorder.check import check_file
from inorder.demo import POLICIES, run_demonstration
from inorder.engines import Step
from inorder.pictures import own_pairs, pairs_from_folder
from inorder.redrive import Redrive, aws_errors_in_one_line
from inorder.report import console_table, write_report
from inorder.run import run_event
from inorder.stack import PROJECT, deploy

OUT = PROJECT / "out"
LOCAL_AWS_FILE = "local-aws.json"
NOTHING_PARKED = "Nothing is parked."

deployed = click.option(
    "--stack-name", envvar="STACK_NAME", show_envvar=True, default="inorder", show_default=True
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Ordered, exactly-once processing of S3 events: the local tooling."""
    # A terminated command cleans up as an interrupted one does.
    signal.signal(signal.SIGTERM, _exit)


@main.command()
@click.option("--images", type=click.Path(path_type=Path), help="Folder with your own pictures.")
@click.option("--keys", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--policy", type=click.Choice(POLICIES), default=POLICIES[0], show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), help="Of the local AWS.")
def demo(images: Path | None, keys: int, policy: str, port: int | None) -> None:
    """Show what happens to disordered events without coordination and with it."""
    console = Console()
    pairs = pairs_from_folder(images, keys) if images else own_pairs(keys)
    try:
        results = run_demonstration(pairs, OUT / "demo-aws", port, policy)
    except TimeoutError as error:
        raise click.ClickException(f"{error} This machine may be too busy.") from None
    (off, outputs_off), (on, outputs_on) = results["off"], results["on"]
    page = write_report(OUT / "demo", off, on, outputs_off, outputs_on)
    console.print(console_table(off, on))
    console.print(f"Report with the pictures: {page}")
    if on.stale or on.missing:
        raise click.ClickException("With coordination, no output may be stale or missing.")


@main.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Any free one if none is given.")
@click.option("--stack-name", default="inorder", show_default=True)
def up(port: int | None, stack_name: str) -> None:
    """Start a local AWS, deploy the template to it, and keep it running."""
    local = local_aws.recall(OUT / LOCAL_AWS_FILE)
    if local and port not in {None, local.port}:
        raise click.ClickException(f"A local AWS runs on port {local.port} already: make down")
    if not local:
        local = local_aws.start(OUT / "local-aws", port)
        local_aws.remember(local, OUT / LOCAL_AWS_FILE)
    click.echo(f"Deploying template.yaml to {local.endpoint_url} ...", err=True)
    deploy(local, stack_name, {})
    for name, value in {**local.environment, "STACK_NAME": stack_name}.items():
        click.echo(f"export {name}={shlex.quote(value)}")


@main.command()
def down() -> None:
    """Stop the local AWS that `up` started."""
    local = local_aws.recall(OUT / LOCAL_AWS_FILE)
    if not local:
        click.echo("No local AWS is running.", err=True)
    else:
        local.stop()
    (OUT / LOCAL_AWS_FILE).unlink(missing_ok=True)


@main.command()
@deployed
@click.option("--json", "as_json", is_flag=True, help="All of each event, one on a line.")
def parked(stack_name: str, as_json: bool) -> None:
    """List the events that are parked, with their reasons."""
    with aws_errors_in_one_line():
        events = list(Redrive(stack_name).parked())
    if as_json:
        for event in events:
            described = {"id": event.id, "parked_at": event.parked_at.isoformat(), **event.body}
            click.echo(json.dumps(described))
    elif events:
        _print_table(
            ["ID", "Parked (UTC)", "Object key", "Sequencer", "Reason"],
            [
                (
                    event.id[:8],
                    f"{event.parked_at:%Y-%m-%d %H:%M:%S}",
                    event.object_key,
                    str(event.body.get("sequencer", "")),
                    event.reason[:200],
                )
                for event in sorted(events, key=lambda event: event.parked_at)
            ],
        )
    else:
        click.echo(NOTHING_PARKED, err=True)


@main.command()
@deployed
@click.option("--all", "everything", is_flag=True, help="All but what is no S3 event.")
@click.argument("event_id", metavar="[ID]", required=False)
def redrive(stack_name: str, everything: bool, event_id: str | None) -> None:
    """Start parked events again: the one with this ID, or the start of it, or all.

    Each is removed from the queue once it has started, and not before. If it fails again, it is
    parked again. Interrupted or run twice, this loses nothing and has nothing processed twice.
    """
    if everything == bool(event_id):
        raise click.UsageError("Say which: ID (of `inorder parked`) or --all.")
    with aws_errors_in_one_line():
        stack = Redrive(stack_name)
        found = list(stack.parked())
        if event_id:
            found = [event for event in found if event.id.startswith(event_id)]
            if len(found) != 1:
                number = "No" if not found else "More than one"
                hint = "" if found else " It may be in the hands of another command for a moment."
                raise click.ClickException(f"{number} parked event has the ID {event_id}.{hint}")
        chosen = {event.id for event in found if event.is_startable(named=not everything)}
        for event in found:
            if event.id not in chosen:
                reason = _printable(event.reason)
                click.echo(f"Left out, would fail again: {event.id[:8]} {reason}", err=True)
        for event in stack.redrive(chosen):
            click.echo(f"Started: {event.id[:8]} {_printable(event.object_key)}")
        if not found:
            click.echo(NOTHING_PARKED, err=True)


@main.command()
@deployed
@click.option("--redrive", "restart", is_flag=True, help="Start their newest events again.")
@click.option(
    "--lease",
    type=click.IntRange(1, 3600),
    help="Seconds without a change after which nobody can be at work on a key; 90, or 300 with the"
    " policy every-version.",
)
def stuck(stack_name: str, restart: bool, lease: int | None) -> None:
    """Find keys whose execution is gone, by looking at them twice.

    A key whose newest event gave up waiting, and is parked, looks the same. To start that event
    here and redrive it too does no harm: the second one is a duplicate.
    """
    with aws_errors_in_one_line():
        stack = Redrive(stack_name)
        items = stack.stuck(lease)
        if not items:
            click.echo("No key is stuck.", err=True)
            return
        columns = ["object_key", "status", "sequencer", "newest", "claimed_at"]
        _print_table(columns, [[str(item.get(column, "")) for column in columns] for item in items])
        for item in items if restart else []:
            stack.restart(item)
            click.echo(f"Started: {_printable(item['object_key'])}")


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check ASL files."""
    findings = [f"{file}: {finding}" for file in files for finding in check_file(file)]
    for finding in findings:
        click.echo(finding, err=True)
    if findings:
        sys.exit(1)


@main.group()
def policy() -> None:
    """Make policies of your own."""


@policy.command()
@click.argument("name")
@click.option("--from", "source", default="latest-wins", show_default=True, metavar="POLICY")
def new(name: str, source: str) -> None:
    """Copy a policy under a new name, to be edited.

    Writes its state machine, its part of template.yaml, and a first test.
    """
    for file in policies.create(name, source):
        click.echo(f"Written: {file.relative_to(PROJECT)}")


@main.command()
@click.argument("event", type=click.Path(path_type=Path))
@click.option("--policy", "policy_name", default="latest-wins", show_default=True)
@click.option("--image", type=click.Path(path_type=Path), help="What the event's object contains.")
@click.option("--json", "as_json", is_flag=True, help="One state on a line, with all its data.")
def run(event: Path, policy_name: str, image: Path | None, as_json: bool) -> None:
    """Run the event in a file through a policy, on a local AWS, and show the path it takes.

    The object that the event tells of is made, and the event is changed to tell of that one. Fails
    if the execution does not end in a state that the policy has for that.
    """
    try:
        parsed = json.loads(_content(event))
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{event} is not valid JSON: {error}") from None
    if policy_name not in policies.names():
        raise click.ClickException(
            f"There is no policy {policy_name!r}: {', '.join(policies.names())}."
        )
    content = _content(image) if image else own_pairs(1)[0].new
    try:
        ended = run_event(parsed, policy_name, content, OUT / "run-aws", _say)
    except TimeoutError as error:
        raise click.ClickException(f"{error} This machine may be too busy.") from None
    for number, step in enumerate(ended.steps, 1):
        if as_json:
            click.echo(json.dumps(asdict(step)))
        else:
            _print_step(number, step)
    last = ended.steps[-1]
    if ended.status == "SUCCEEDED":
        _say(f"Ended in {last.state}.")
        return
    _say(f"Ended in {last.state}: {ended.error}: {ended.cause}")
    if last.type != "Fail":
        raise click.ClickException("No state of the policy has foreseen this.")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"Cannot read {file}: {error.strerror}.") from None


def _say(text: str) -> None:
    click.echo(_printable(text), err=True)


def _print_step(number: int, step: Step) -> None:
    """Print a state with its data, but not twice the same: the next one's input is its output."""
    console = Console(soft_wrap=True)
    console.print(Text(f"{number:>2}  {_printable(step.state)}", style="bold"), f"({step.type})")
    if number == 1:
        console.print(_data("input", step.input))
    before, after = step.input, step.output
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() <= after.keys():
        added = {key: after[key] for key in after if key not in before or before[key] != after[key]}
        if added:
            console.print(_data("output: its input, and", added))
    elif after not in (None, before):
        console.print(_data("output", after))


def _data(name: str, value: object) -> Text:
    lines = json.dumps(value, indent=2, ensure_ascii=False).splitlines()
    return Text("\n".join(f"      {_printable(line)}" for line in [name, *lines]))


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print text as it is: what looks like markup is part of a key."""
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row))
    Console().print(table)


def _printable(text: str) -> str:
    """Escape what a terminal would obey instead of showing it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _exit(signum: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signum)


if __name__ == "__main__":
    main()
