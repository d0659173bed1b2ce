"""The command ``inorder``."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import click
from rich.console import Console

from heal_keys import stuck
from inorder import PROJECT, demo, local_aws, new_policy, policies
from inorder.asl import check_file, numbers
from inorder.aws import parked, retrying
from inorder.aws.executions import s3_object
from inorder.aws.stack import Connection, deploy
from inorder.console.command import console
from inorder.cost_command import cost_command
from inorder.deployed_demo import Demonstration
from inorder.execution import to_json
from inorder.inspect_commands import execution, executions, why
from inorder.pictures import PicturePair, own_pairs, pairs_from_folder
from inorder.report import Results, console_table, write_report
from inorder.run import run_event
from inorder.terminal import (
    aws_errors_in_one_line,
    deployed,
    print_step,
    print_table,
    printable,
    say,
)

OUT = PROJECT / "out"
LOCAL_AWS_FILE = "local-aws.json"
REASON_CHARACTERS = 500  # in a table; room for an answer outside the function's contract
NOTHING_PARKED = "Nothing is parked."


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Ordered, exactly-once processing of S3 events: the local tooling."""
    # A terminated command cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, _exit)


@main.command("demo")
@click.option("--images", type=click.Path(path_type=Path), help="Folder with your own pictures.")
@click.option("--keys", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--policy", type=click.Choice(demo.choices()), help=f"[default: {demo.choices()[0]}]")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the local AWS.")
@click.option(
    "--stack-name",
    "stack_names",
    metavar="NAME",
    multiple=True,
    help="Show a deployed stack, on AWS or on the local AWS of `up`. More than one are compared.",
)
@click.option("--yes", is_flag=True, help="With --stack-name: begin without asking.")
def show_demonstration(
    images: Path | None,
    keys: int,
    policy: str | None,
    port: int | None,
    stack_names: tuple[str, ...],
    yes: bool,
) -> None:
    """Show what disordered events do without coordination and with it.

    Starts a local AWS of its own for that, with a stack for each. With --stack-name it shows a
    deployed stack instead, says before what it will do and what that costs, and removes what it
    created.
    """
    saved_page = OUT / "demo" / "console.html"
    if stack_names and (policy or port):
        raise click.UsageError("A stack that is deployed has a policy and a place already.")
    pairs = pairs_from_folder(images, keys) if images else own_pairs(keys)
    if stack_names:
        with aws_errors_in_one_line():
            results, good = _show_deployed(stack_names, pairs, yes)
        heading = "Stack"
    else:
        try:
            results = demo.run_demonstration(
                pairs, OUT / "demo-aws", port, policy or demo.choices()[0], saved_page
            )
        except TimeoutError as error:
            raise click.ClickException(f"{error} This machine may be too busy.") from None
        heading, good = "Coordination", not results["on"][0].has_faults
    page = write_report(OUT / "demo", results, heading)
    Console().print(console_table(results, heading))
    click.echo(f"Report with the pictures: {page}")
    if not stack_names:
        click.echo(f"Each execution, and why it ended as it did: {saved_page}")
    if not good:
        raise click.ClickException(
            "With coordination, no output may be stale or missing, and no event without an outcome."
        )


def _show_deployed(
    stack_names: Iterable[str], pairs: Sequence[PicturePair], yes: bool
) -> tuple[Results, bool]:
    """Show stacks one after the other; also tell whether each kept its promise."""
    demonstrations = [Demonstration(Connection(name), pairs) for name in dict.fromkeys(stack_names)]
    for each in demonstrations:
        click.echo(each.plan(), err=True)
    if not yes and not all(each.aws.is_local for each in demonstrations):
        click.confirm("Begin?", abort=True, err=True)
    try:
        results = {each.stack.name: each.show(say) for each in demonstrations}
    except TimeoutError as error:
        raise click.ClickException(f"{error} docs/operate.md says what to check.") from None
    return results, all(each.keeps_promise(results[each.stack.name][0]) for each in demonstrations)


@main.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Any free one if none is given.")
@click.option("--stack-name", default="inorder", show_default=True)
def up(port: int | None, stack_name: str) -> None:
    """Start a local AWS with the stack on it, and keep it running."""
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


@main.command("parked")
@deployed
@click.option("--json", "as_json", is_flag=True, help="The whole of each event, one per line.")
def list_parked(stack_name: str, as_json: bool) -> None:
    """List the parked events, with their reasons."""
    with aws_errors_in_one_line():
        events = list(parked.parked_events(Connection(stack_name)))
    if as_json:
        for event in events:
            described = {"id": event.id, "parked_at": event.parked_at.isoformat(), **event.body}
            click.echo(json.dumps(described))
    elif events:
        print_table(
            ["ID", "Parked (UTC)", "Key", "Sequencer", "Reason"],
            [
                (
                    event.id[:8],
                    f"{event.parked_at:%Y-%m-%d %H:%M:%S}",
                    event.subject,
                    event.sequencer,
                    event.reason[:REASON_CHARACTERS],
                )
                for event in sorted(events, key=lambda event: event.parked_at)
            ],
        )
    else:
        click.echo(NOTHING_PARKED, err=True)


@main.command("retrying")
@deployed
@click.option("--json", "as_json", is_flag=True, help="One event per line.")
def list_retrying(stack_name: str, as_json: bool) -> None:
    """List the events that wait for their next attempt.

    They are read from the log of the function that retries, so that no message is disturbed. An
    event that has just failed, or whose attempt is running, is not listed.
    """
    with aws_errors_in_one_line():
        aws = Connection(stack_name)
        events, backlog = retrying.retrying_events(aws), retrying.backlog(aws)
    if as_json:
        for event in events:
            click.echo(json.dumps(event.body))
    elif events:
        print_table(
            ["Key", "Sequencer", "Attempts", "Since (UTC)", "Next attempt (UTC)", "Reasons"],
            [
                (
                    event.subject,
                    str(event.body.get("sequencer", "")),
                    str(event.body["attempts"]),
                    f"{event.since:%Y-%m-%d %H:%M:%S}",
                    f"{event.next:%Y-%m-%d %H:%M:%S}",
                    event.reasons[:REASON_CHARACTERS],
                )
                for event in events
            ],
        )
    click.echo(
        f"The queue has about {backlog.waiting} messages that wait and {backlog.unread} that the"
        " function can read.",
        err=True,
    )


@main.command()
@deployed
@click.option("--all", "everything", is_flag=True, help="All but invalid events.")
@click.argument("event_id", metavar="[ID]", required=False)
def redrive(stack_name: str, everything: bool, event_id: str | None) -> None:
    """Start parked events again.

    Starts the event with this ID (the beginning of it suffices), or all. Each is removed from
    the queue once it has started. If it fails again, it is parked again. An interrupted redrive
    can be repeated: no event is lost, and none is processed twice.
    """
    if everything == bool(event_id):
        raise click.UsageError("Say which: ID (of `inorder parked`) or --all.")
    with aws_errors_in_one_line():
        aws = Connection(stack_name)
        events = list(parked.parked_events(aws))
        if event_id:
            events = [parked.only_one(events, event_id)]
        startable = [event for event in events if event.is_startable(named=not everything)]
        for event in events:
            if event not in startable:
                reason = printable(event.reason)
                click.echo(f"Left out, would fail again: {event.id[:8]} {reason}", err=True)
        for event in parked.redrive(aws, {event.id for event in startable}):
            click.echo(f"Started: {event.id[:8]} {printable(event.subject)}")
        if not events:
            click.echo(NOTHING_PARKED, err=True)


@main.command("stuck")
@deployed
@click.option("--redrive", is_flag=True, help="Send their newest events to the retry queue.")
@click.option(
    "--seconds",
    type=click.IntRange(0),
    default=int(stuck.DEAD_AFTER.total_seconds()),
    show_default=True,
    help="How long a key must have been in progress. No execution lives for longer than 300.",
)
def list_stuck(stack_name: str, redrive: bool, seconds: int) -> None:
    """List the keys whose execution has died.

    A key whose newest event gave up waiting is listed too. Sending that event here and elsewhere
    does no harm: messages of one event merge, and a second execution is a duplicate.
    """
    with aws_errors_in_one_line():
        aws, now, dead_after = Connection(stack_name), datetime.now(UTC), timedelta(seconds=seconds)
        dynamodb, sqs, table = aws.client("dynamodb"), aws.client("sqs"), aws.stack.key_table
        entries = stuck.oldest(dynamodb, table, now, sys.maxsize, dead_after)
        read = [stuck.read(dynamodb, table, entry.id, now, dead_after) for entry in entries]
        keys = [key for key in read if key]
        if not keys:
            click.echo("No key is stuck.", err=True)
            return
        print_table(
            ["ID", "Sequencer", "In progress for"],
            [
                (
                    key.id,
                    str(s3_object(key.event).get("sequencer", "")),
                    str(timedelta(seconds=int(key.age.total_seconds()))),
                )
                for key in keys
            ],
        )
        queues = aws.stack.retry_events_queue_url, aws.stack.parked_events_queue_url
        for key in keys if redrive else []:
            stuck.hand_over(sqs, *queues, dynamodb, table, key)
            click.echo(f"Sent to the retry queue: {printable(key.id)}")


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check ASL files, and print what their numbers add up to."""
    wrong = 0
    for file in files:
        findings = check_file(file)
        for finding in findings:
            click.echo(f"{file}: {finding}", err=True)
        if not findings:
            click.echo(f"{file}: {numbers(file)}")
        wrong += len(findings)
    sys.exit(wrong > 0)


@main.group("policy")
def policy_group() -> None:
    """Make policies of your own."""


@policy_group.command()
@click.argument("name")
@click.option("--from", "source", default="latest-wins", show_default=True, metavar="POLICY")
def new(name: str, source: str) -> None:
    """Copy a policy under a new name, to be edited.

    Writes its ASL, its facts, its tests, its rows of the documentation's tables, and its part of
    template.yaml.
    """
    for file in new_policy.create(name, source):
        click.echo(f"Written: {file.relative_to(PROJECT)}")


@main.command()
@click.argument("event", type=click.Path(path_type=Path))
@click.option("--policy", "policy_name", default="latest-wins", show_default=True)
@click.option(
    "--image", type=click.Path(path_type=Path), help="File with the content of the event's object."
)
@click.option("--json", "as_json", is_flag=True, help="One state per line, with all its data.")
def run(event: Path, policy_name: str, image: Path | None, as_json: bool) -> None:
    """Show the states that an event passes.

    Processes the event in a file with a policy, on a local AWS of its own. The object of the
    event is made, and the event is changed to name that one. Fails if the execution ends with
    an error in a state that is not a Fail.
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
        execution = run_event(parsed, policy_name, content, OUT / "run-aws", say)
    except TimeoutError as error:
        raise click.ClickException(f"{error} This machine may be too busy.") from None
    for number, step in enumerate(execution.steps, 1):
        if as_json:
            click.echo(to_json(asdict(step)))
        else:
            print_step(number, step)
    last = execution.steps[-1]
    if execution.status == "SUCCEEDED":
        say(f"Ended in {last.state}.")
        return
    say(f"Ended in {last.state}: {execution.error}: {execution.cause}")
    if last.type != "Fail":
        raise click.ClickException("No state of the policy has foreseen this.")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"Cannot read {file}: {error.strerror}.") from None


def _exit(signum: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signum)


for command in (executions, execution, why, console, cost_command):
    main.add_command(command)

if __name__ == "__main__":
    main()
