"""The commands about events that are parked or retried, and about keys that are stuck."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

import click

from inorder.aws import parked, retrying
from inorder.aws.stack import Connection
from inorder.commands.terminal import aws_errors_in_one_line, deployed, print_table, printable, say
from inorder_fence import stuck
from inorder_fence.records import s3_object

TIME = "%Y-%m-%d %H:%M:%S"
REASON_CHARACTERS = 500  # in a table; room for an answer outside the function's contract
NOTHING_PARKED = "Nothing is parked."
SENT = {
    "HandedOver": "Sent to the retry queue",
    "Settled": "Already retried or parked",
    "Parked": "Parked, because its record has no event",
}


@click.command("parked")
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
        rows = [
            (
                event.id[:8],
                f"{event.parked_at:{TIME}}",
                event.subject,
                event.sequencer,
                event.reason[:REASON_CHARACTERS],
            )
            for event in sorted(events, key=lambda event: event.parked_at)
        ]
        print_table(["ID", "Parked (UTC)", "Key", "Sequencer", "Reason"], rows)
    else:
        say(NOTHING_PARKED)


@click.command("retrying")
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
        columns = ["Key", "Sequencer", "Attempts", "Since (UTC)", "Next attempt (UTC)", "Reasons"]
        rows = [
            (
                event.subject,
                str(event.body.get("sequencer", "")),
                str(event.body["attempts"]),
                f"{event.since:{TIME}}",
                f"{event.next:{TIME}}",
                event.reasons[:REASON_CHARACTERS],
            )
            for event in events
        ]
        print_table(columns, rows)
    unread = f"{backlog.unread} that the function can read"
    say(f"The queue has about {backlog.waiting} messages that wait and {unread}.")


@click.command()
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
        for event in (each for each in events if each not in startable):
            say(f"Left out, would fail again: {event.id[:8]} {event.reason}")
        for event in parked.redrive(aws, {event.id for event in startable}):
            click.echo(f"Started: {event.id[:8]} {printable(event.subject)}")
        if not events:
            say(NOTHING_PARKED)


@click.command("stuck")
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
        ids = stuck.oldest(dynamodb, table, now, sys.maxsize, dead_after)
        read = [stuck.read(dynamodb, table, each, now, dead_after) for each in ids]
        keys = [key for key in read if key]
        if not keys:
            say("No key is stuck.")
            return
        rows = [
            (
                key.id,
                str(s3_object(key.event).get("sequencer", "")),
                str(timedelta(seconds=int(key.age.total_seconds()))),
            )
            for key in keys
        ]
        print_table(["ID", "Sequencer", "In progress for"], rows)
        queues = aws.stack.retry_events_queue_url, aws.stack.parked_events_queue_url
        machine = aws.stack.state_machine_arn.rpartition(":")[2]
        for key in keys if redrive else []:
            outcome = stuck.hand_over(sqs, *queues, dynamodb, table, key, now, machine)
            click.echo(f"{SENT[outcome]}: {printable(key.id)}")
