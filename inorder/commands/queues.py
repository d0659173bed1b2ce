"""The commands about events that are parked or retried, and about keys that are stuck."""

import json
from collections.abc import Mapping, Sequence

import click

from inorder.aws import parked, retrying, waiting
from inorder.aws.parked import ParkedEvent
from inorder.aws.stack import Connection, answered_at
from inorder.commands.terminal import deployed, print_entry, printable, say, why_of
from inorder.wording import INORDER, clock, counted, span
from inorder_fence import stuck
from inorder_fence.records import s3_object

REASON_CHARACTERS = 500  # in a list; room for an answer outside the function's contract
NOTHING_PARKED = "Nothing is parked."
as_lines = click.option("--json", "as_json", is_flag=True, help="All of each event, one per line.")
SENT = {
    "HandedOver": "Sent to the retry queue",
    "Settled": "Already retried or parked",
    "Parked": "Parked, because its record has no event",
}


@click.command("parked")
@deployed
@as_lines
@click.option("--remove-overtaken", is_flag=True, help="Remove those that can change nothing now.")
def list_parked(stack_name: str, as_json: bool, remove_overtaken: bool) -> None:
    """List the parked events, with their reasons, and what helps.

    An event is overtaken if a newer event of its key is recorded, if it has been processed since,
    or if its object has been replaced or deleted.
    """
    aws = Connection(stack_name)
    events = list(parked.parked_events(aws))
    overtaken = parked.overtaken(aws, events)
    _show(events, as_json, NOTHING_PARKED, overtaken, remove_overtaken)
    if remove_overtaken:
        for event in parked.take(aws, {*overtaken}):
            say(f"Removed: {event.id[:8]} {event.subject}")


@click.command("undelivered")
@deployed
@as_lines
@click.option("--redrive", is_flag=True, help="Start an execution with each of them.")
def list_undelivered(stack_name: str, as_json: bool, redrive: bool) -> None:
    """List the events that EventBridge could not deliver.

    With --redrive, each is removed from the queue once an execution has started with it.
    """
    aws = Connection(stack_name)
    queue = aws.stack.undelivered_events_queue_url
    events = list(parked.parked_events(aws, queue))
    _show(events, as_json, "Every event was delivered.")
    if redrive:
        _redrive(aws, events, queue)


@click.command("retrying")
@deployed
@as_lines
def list_retrying(stack_name: str, as_json: bool) -> None:
    """List the events that wait for their next attempt.

    They are read from the log of the function that retries, so that no message is disturbed. An
    event that has just failed, or whose attempt is running, is not listed.
    """
    aws = Connection(stack_name)
    for event in retrying.retrying_events(aws):
        if as_json:
            click.echo(json.dumps(event.body))
        else:
            failed = f"failed {counted(event.attempts, 'time')} since {clock(event.since)}"
            line = f"event {event.sequencer}, {failed}, tried again at {clock(event.next)}"
            print_entry(f"{event.id[:8]}  {event.subject}", line, event.reasons[:REASON_CHARACTERS])
    due, *waits = waiting.messages(aws, aws.stack.retry_events_queue_url)
    say(f"The retry queue has about {counted(sum(waits), 'waiting message')}, and {due} due.")


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
        raise click.UsageError(f"Say which: ID (of `{INORDER} parked`) or --all.")
    aws = Connection(stack_name)
    events = list(parked.parked_events(aws))
    if event_id:
        events = [parked.only_one(events, event_id)]
    if not events:
        say(NOTHING_PARKED)
    _redrive(aws, events, aws.stack.parked_events_queue_url, named=not everything)


@click.command("stuck")
@deployed
@click.option("--redrive", is_flag=True, help="Send their newest events to the retry queue.")
def list_stuck(stack_name: str, redrive: bool) -> None:
    """List the keys whose execution has died.

    A key whose newest event gave up waiting is listed too. Sending that event here and elsewhere
    does no harm: messages of one event merge, and a second execution is a duplicate.
    """
    aws = Connection(stack_name)
    dynamodb, sqs, table = aws.client("dynamodb"), aws.client("sqs"), aws.stack.key_table
    # By a clock that is a minute ahead, a living holder would seem dead, and lose its lock.
    now = answered_at(dynamodb.scan(TableName=table, IndexName=stuck.INDEX, Limit=1))
    ids = stuck.oldest(dynamodb, table, now)
    read = (stuck.read(dynamodb, table, record_id, now) for record_id in ids)
    keys = [key for key in read if key and not key.is_retried]
    age = span(stuck.DEAD_AFTER.total_seconds())
    say(f"In progress for {age} or longer: {counted(len(keys), 'key')}.")
    for key in keys:
        sequencer = s3_object(key.event).get("sequencer", "(unknown)")
        print_entry(key.id, f"event {sequencer}, for {span(key.age.total_seconds())}")
    queue = aws.stack.retry_events_queue_url
    machine, policy = aws.stack.state_machine_arn.rpartition(":")[2], aws.stack.policy
    # This version may not know the stack's policy: one of somebody's own claims keys.
    claims_keys = policy.claims_keys if policy else True
    for key in keys if redrive else []:
        outcome = stuck.hand_over(*(sqs, queue, dynamodb, table, key, now), *(machine, claims_keys))
        click.echo(f"{SENT[outcome]}: {printable(key.id)}")


def _show(
    events: Sequence[ParkedEvent],
    as_json: bool,
    none: str,
    overtaken: Mapping[str, str] | None = None,
    removes: bool = False,
) -> None:
    """List events and, of parked ones, what helps, or what has overtaken those to be removed."""
    for event in sorted(events, key=lambda event: event.parked_at):
        why = (overtaken or {}).get(event.id, "")
        if as_json:
            fields = {"id": event.id, "parked_at": event.parked_at.isoformat(), **event.body}
            click.echo(json.dumps(fields | ({"overtaken": why} if why else {})))
        else:
            line = f"event {event.sequencer or '(unknown)'}, since {clock(event.parked_at)}"
            helps = [] if overtaken is None else [parked.remedy(event, overtaken)]
            helps = [f"{why}."] if why and removes else helps
            reason = event.reason[:REASON_CHARACTERS]
            print_entry(f"{event.id[:8]}  {event.subject}", line, reason, *helps)
    if not events and not as_json:
        say(none)


def _redrive(
    aws: Connection, events: Sequence[ParkedEvent], queue_url: str, named: bool = False
) -> None:
    startable = set()
    for event in events:
        if "event" in event.body and (named or event.subject):  # an invalid one must be named
            startable.add(event.id)
        else:
            say(f"Left out, would fail again: {event.id[:8]} {event.reason}")
    keys = set[str]()
    for event in parked.redrive(aws, startable, queue_url):
        click.echo(f"Started: {event.id[:8]} {printable(event.subject)}")
        keys.add(str(s3_object(event.body["event"]).get("key", "")))
    if keys:
        key, *others = keys
        tells = f"`{INORDER} executions`" if others or not key else why_of(key)
        say(f"{tells} tells how each event ends.")
