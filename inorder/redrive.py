"""Events that need a hand: to list those that are parked or stuck, and to start them again.

Works on AWS and on the local AWS alike, with the credentials, region and endpoint that boto3 finds
in the environment. Nothing here writes to the key table: an event is started as the rule would
start it, and the state machine sees to it that it is processed once. So whatever is interrupted may
be run again, and two may run at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import boto3
import click
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from inorder.stack import describe

# Longer than the lease of the ASL, 84 s, and than a waiter waits, 87 s: whoever is alive has broken
# the lock, taken it, released it or given up by then. No clock is compared with another.
UNCHANGED_SECONDS = 90
# The policy every-version keeps a record of each event, which stays as it is while the event waits
# for its turn: for no longer than an Express execution may live.
EVENT_UNCHANGED_SECONDS = 300
HOLD_SECONDS = 60  # for which a command that was killed hides messages from the next one
# A receive that waits asks all servers of the queue; still, one that brings nothing may be chance.
RECEIVE_SECONDS = 1
RECEIVES_WITHOUT_NEWS = 2


@dataclass(frozen=True)
class ParkedEvent:
    """A message in the queue of parked events.

    Attributes
    ----------
    id : str
        Of the message, for as long as it is in the queue.
    receipt : str
        What SQS wants in order to delete it.
    parked_at : datetime
        When it was sent.
    body : dict
        What the state machine wrote. An event that is none of S3's has no object_key.
    """

    id: str
    receipt: str
    parked_at: datetime
    body: dict[str, Any]

    @property
    def object_key(self) -> str:
        """The bucket and the key, or nothing."""
        return str(self.body.get("object_key", ""))

    def is_startable(self, named: bool) -> bool:
        """Tell whether to start it again: of no use for what is no S3 event, unless it is named."""
        return "event" in self.body and (named or "object_key" in self.body)

    @property
    def reason(self) -> str:
        """Why it was parked, in one line."""
        reason = self.body.get("reason")
        said = f"{reason.get('Error')}: {reason.get('Cause')}" if isinstance(reason, dict) else ""
        return " ".join((said or str(reason)).split())


class Redrive:
    """A deployed stack, as these commands use it."""

    def __init__(self, stack_name: str) -> None:
        self._session = boto3.Session()
        self._stack = describe(self._client("cloudformation"), stack_name)
        self._sqs, self._states = self._client("sqs"), self._client("stepfunctions")
        self._table = self._session.resource("dynamodb").Table(self._stack.key_table)

    def parked(self) -> Generator[ParkedEvent]:
        """Receive each parked event once.

        SQS cannot show a message without hiding it for a while. Those that are not deleted are
        visible again as soon as the iterator is closed.
        """
        queue = self._stack.parked_events_queue_url
        receipts: dict[str, str] = {}
        without_news = 0
        try:
            while without_news < RECEIVES_WITHOUT_NEWS:
                messages = self._sqs.receive_message(
                    QueueUrl=queue,
                    MaxNumberOfMessages=10,
                    VisibilityTimeout=HOLD_SECONDS,
                    WaitTimeSeconds=RECEIVE_SECONDS,
                    MessageSystemAttributeNames=["SentTimestamp"],
                ).get("Messages", [])
                news = [message for message in messages if message["MessageId"] not in receipts]
                without_news = 0 if news else without_news + 1
                # A message may come again; only its latest receipt counts.
                receipts |= {each["MessageId"]: each["ReceiptHandle"] for each in messages}
                yield from map(_parked_event, news)
        finally:
            # One that was deleted is refused, alone. Out of reach, all come back by themselves.
            with suppress(BotoCoreError, ClientError):
                for start in range(0, len(receipts), 10):
                    entries = [
                        {"Id": str(number), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                        for number, receipt in enumerate([*receipts.values()][start : start + 10])
                    ]
                    self._sqs.change_message_visibility_batch(QueueUrl=queue, Entries=entries)

    def redrive(self, ids: set[str]) -> Generator[ParkedEvent]:
        """Start parked events again, and remove each from the queue once it has started.

        Interrupted in between, an event is started again by the next run. The execution is named
        after the message; where names are unique, as on the local AWS, it is refused as started
        already. Express on AWS lets names repeat: there it ends as a duplicate, or, if the event
        fails again, is parked twice. Either way nothing is lost and nothing is processed twice.

        Parameters
        ----------
        ids : set of str
            Of the messages. One that is gone, or in the hands of another run, is passed over.

        Yields
        ------
        ParkedEvent
            One that has been started and removed.
        """
        remaining = set(ids)
        with closing(self.parked()) as events:
            while remaining and (event := next(events, None)):
                if event.id in remaining:
                    self._start(json.dumps(event.body["event"]), name=f"redrive-{event.id}")
                    self._sqs.delete_message(
                        QueueUrl=self._stack.parked_events_queue_url, ReceiptHandle=event.receipt
                    )
                    remaining.remove(event.id)
                    yield event

    def stuck(self, seconds: int | None = None) -> list[dict[str, Any]]:
        """Find keys whose event nobody handles any more.

        Their lock's holder is gone; or their lock was broken by somebody who then died; or a newer
        event was seen than was ever claimed. All are known by their items, which do not change for
        longer than anybody who is alive would leave them.

        Parameters
        ----------
        seconds : int, optional
            How long that is, if not as the policy's own seconds have it.

        Returns
        -------
        list of dict
            Their items.
        """
        pages = self._table.meta.client.get_paginator("scan").paginate(
            TableName=self._table.name,
            ConsistentRead=True,
            # What a record does not have is unequal to anything.
            FilterExpression="#status = :in_progress"
            " OR (attribute_exists(newest) AND newest <> sequencer)",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":in_progress": "IN_PROGRESS"},
        )
        items: list[dict[str, Any]] = [item for page in pages for item in page["Items"]]
        if items:
            is_event = any(item["object_key"].startswith("event:") for item in items)
            seconds = seconds or (EVENT_UNCHANGED_SECONDS if is_event else UNCHANGED_SECONDS)
            said = f"{len(items)} in progress; looking again in {seconds} s, to see which move."
            click.echo(said, err=True)
            time.sleep(seconds)
        return [item for item in items if self._read(item) == item]

    def restart(self, item: dict[str, Any]) -> None:
        """Start the newest event that was seen of a stuck key, which supersedes all others.

        The execution will find that the lock is dead as any waiter does, which takes it a lease.
        It has no name of its own: should it die too, the next one must not be refused.
        """
        self._start(item.get("newest_event", item["event"]))

    def _start(self, event: str, **name: str) -> None:
        with suppress(self._states.exceptions.ExecutionAlreadyExists):
            self._states.start_execution(
                stateMachineArn=self._stack.state_machine_arn, input=event, **name
            )

    def _read(self, item: dict[str, Any]) -> dict[str, Any] | None:
        key = {"object_key": item["object_key"]}
        return self._table.get_item(Key=key, ConsistentRead=True).get("Item")

    def _client(self, service: str) -> Any:
        config = Config(connect_timeout=10, retries={"mode": "standard", "total_max_attempts": 3})
        try:
            # boto3's overloads know literal service names only.
            return self._session.client(service, config=config)  # type: ignore[call-overload]
        except ValueError as error:  # the environment's endpoint is no URL
            raise click.ClickException(str(error)) from None


@contextmanager
def aws_errors_in_one_line() -> Iterator[None]:
    """Tell the user what AWS or boto3 complains about."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise click.ClickException(" ".join(str(error).split())) from None


def _parked_event(message: dict[str, Any]) -> ParkedEvent:
    try:
        body = json.loads(message["Body"])
    except ValueError:
        body = None
    if not isinstance(body, dict):  # somebody else's message
        body = {"reason": {"Error": "NoParkedEvent", "Cause": message["Body"]}}
    parked_at = datetime.fromtimestamp(int(message["Attributes"]["SentTimestamp"]) / 1000, UTC)
    return ParkedEvent(message["MessageId"], message["ReceiptHandle"], parked_at, body)
