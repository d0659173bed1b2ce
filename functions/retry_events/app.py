"""Lambda handler: starts the events that have waited or failed, or parks them.

A message that must wait stays in the queue: its visibility timeout ends when it is due, and it is
reported as failed, so that Lambda does not delete it. A message is finished when its event has
started an execution or has been parked. After a crash in between, SQS delivers it again: the event
is started twice, and the state machine drops the duplicate, or it is parked twice. If several
messages have the same event, one goes on: `streams` says which.

The messages of a batch are handled at the same time, so that an outage, in which each call takes as
long as it may, does not take as many times as long.

It reads two queues. In one, state machines and sweeps put what has failed. In the other, the rule
puts events while the stack is paused, or until their object is quiet: these have not failed, and
need no stream.

State machines send to an event bus what SQS may refuse. EventBridge delivers it to the queue, but
an event with characters that SQS refuses neither there nor to a dead-letter queue. The function
writes such an event to the queue with escapes, and leaves all others to EventBridge. It does the
same with events of S3 that the rule sends to a queue.

If nothing of a batch is finished and something failed, the function fails: the same messages stay,
but the metric Errors and its alarm show it. An event that could not be parked has failed, too.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from inorder_fence import records
from retry_events import streams
from retry_events.retries import (
    WAITING_STARTED,
    Fault,
    Merged,
    Message,
    Park,
    Start,
    Wait,
    Waiting,
    park_unread,
)
from retry_events.streams import Stream

KEY_TABLE = os.environ["KEY_TABLE"]
STATE_MACHINE_ARN = os.environ["STATE_MACHINE_ARN"]
STATE_MACHINE = STATE_MACHINE_ARN.rpartition(":")[2]
RETRY_QUEUE_URL = os.environ["RETRY_EVENTS_QUEUE_URL"]
WAITING_QUEUE_URL = os.environ["WAITING_EVENTS_QUEUE_URL"]
PARKED_QUEUE_URL = os.environ["PARKED_EVENTS_QUEUE_URL"]
EXECUTION_SECONDS = float(os.environ["EXECUTION_SECONDS"])
PATIENCE_SECONDS = float(os.environ["RETRY_HOURS"]) * 3600
FINISHED = {each.outcome for each in (Start, Park, Merged)} | {WAITING_STARTED}
logger = Logger()
metrics = Metrics()
# The queue retries; to try again here would keep other messages waiting. A message needs at most
# five calls, one after the other, which end before the function's timeout. Each message of a batch
# has a connection of its own: boto3 closes those above its usual ten, and opening one takes longer
# than a call.
config = Config(
    connect_timeout=2,
    read_timeout=3,
    retries={"total_max_attempts": 1},
    max_pool_connections=50,
)
dynamodb = boto3.client("dynamodb", config=config)
states = boto3.client("stepfunctions", config=config)
sqs = boto3.client("sqs", config=config)


class NothingFinished(Exception):
    """No message of a batch is finished, and one has failed."""


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Handle a batch of a queue, or an event of a rule.

    Returns
    -------
    dict
        ``batchItemFailures``: the messages that stay in the queue.

    Raises
    ------
    NothingFinished
        All messages stay in the queue, and some have failed.
    """
    if "detail" in event:
        is_of_bus = event["source"] == "inorder"
        queue_url = RETRY_QUEUE_URL if is_of_bus else WAITING_QUEUE_URL
        message = event["detail"] if is_of_bus else event
        if records.needs_escapes(message):
            sqs.send_message(QueueUrl=queue_url, MessageBody=records.as_json(message))
        return {"batchItemFailures": []}
    answer: PartialItemFailureResponse = _handle_batch(event, context)
    return answer


@metrics.log_metrics
def _handle_batch(event: dict[str, Any], _context: LambdaContext) -> PartialItemFailureResponse:
    messages = [SQSRecord(record) for record in event["Records"]]
    with ThreadPoolExecutor(len(messages)) as pool:
        outcomes = list(pool.map(handle, messages))
    for outcome in outcomes:
        metrics.add_metric(name=outcome, unit=MetricUnit.Count, value=1)
    if "RetryFailed" in outcomes and FINISHED.isdisjoint(outcomes):
        raise NothingFinished("The log has the reason for each message")
    return {
        "batchItemFailures": [
            {"itemIdentifier": message.message_id}
            for message, outcome in zip(messages, outcomes, strict=True)
            if outcome not in FINISHED
        ]
    }


def handle(record: SQSRecord) -> str:
    """Handle a message, and give the name of the outcome.

    Returns
    -------
    str
        Its line in the log and its metric: ``RetryStarted``, ``WaitingStarted`` (an event that had
        not failed), ``RetryParked``, ``RetryWaiting``, ``RetryMerging`` (it waits for another
        message of its event), ``RetryMerged`` (that one has parked the event) or ``RetryFailed``.
    """
    try:
        return _handle(record)
    except Exception:  # the message returns when its visibility ends
        logger.exception("RetryFailed", extra={"message_id": record.message_id})
        return "RetryFailed"


def _handle(record: SQSRecord) -> str:
    message = Message(
        record.message_id,
        record.body,
        int(record.attributes.sent_timestamp) / 1000,
        int(record.attributes.approximate_receive_count),
    )
    details: dict[str, Any] = {"message_id": message.id}
    is_waiting = record.event_source_arn.rpartition(":")[2] == WAITING_QUEUE_URL.rpartition("/")[2]
    event = Waiting.read(message) if is_waiting else Fault.read(message)
    decision = _start_or_wait(event, details) if event else park_unread(message)
    cannot_park = False
    if isinstance(decision, Park):
        try:
            now = time.time()  # before it is sent: a redrive of it may come before the answer
            sqs.send_message(QueueUrl=PARKED_QUEUE_URL, MessageBody=decision.body)
            _mark_parked(event, now)
        except (BotoCoreError, ClientError) as error:
            details["refusal"] = str(error)
            decision, cannot_park = message.postpone(), True
    if isinstance(decision, Wait):
        sqs.change_message_visibility(
            QueueUrl=WAITING_QUEUE_URL if is_waiting else RETRY_QUEUE_URL,
            ReceiptHandle=record.receipt_handle,
            VisibilityTimeout=decision.seconds,
        )
        details["next"] = _iso(time.time() + decision.seconds)
    log = logger.warning if "refusal" in details else logger.info
    log(decision.outcome, extra=details)
    return "RetryFailed" if cannot_park else decision.outcome


def _start_or_wait(event: Fault | Waiting, details: dict[str, Any]) -> Wait | Start | Park | Merged:
    """Start an event if it is due and, after a failure, no other message has its stream.

    If a service refuses, the event waits. What the log should say is added to the details.
    """
    details |= _described(event)
    try:
        decision: Wait | Start | Park | Merged = event.decide(time.time(), PATIENCE_SECONDS)
        if isinstance(event, Fault) and isinstance(decision, Start | Park):
            decision = _wait_for_other_message(event, decision) or decision
        if isinstance(decision, Start):
            details["execution"] = _start(f"{event.name}-{event.message.id}", decision.input)
    except (BotoCoreError, ClientError) as error:
        details["refusal"] = str(error)
        return event.decide_again(details["refusal"], time.time(), PATIENCE_SECONDS)
    return decision


def _wait_for_other_message(fault: Fault, decision: Start | Park) -> Wait | Merged | None:
    """Take the stream of a message's event. If another message has it, give what to do instead."""
    status: streams.Status = "PARKING" if isinstance(decision, Park) else "RETRYING"
    now = time.time()
    stream = _take(fault, status, now)
    if stream is None:
        return None
    seconds = stream.seconds_to_wait(fault, now, EXECUTION_SECONDS)
    if seconds is None:
        return Merged()
    if seconds:
        return Wait(seconds, "RetryMerging")
    return fault.message.postpone() if _take(fault, status, now, stream) else None


def _take(
    fault: Fault, status: streams.Status, now: float, before: Stream | None = None
) -> Stream | None:
    """Take the stream of a message's event, or give the stream for which that is refused."""
    taken = streams.taken(KEY_TABLE, fault, before, now, status, STATE_MACHINE, EXECUTION_SECONDS)
    try:
        dynamodb.put_item(**taken)
    except dynamodb.exceptions.ConditionalCheckFailedException as refusal:
        return Stream.of(refusal.response["Item"])  # type: ignore[typeddict-item] # it has one
    return None


def _mark_parked(event: Fault | Waiting | None, now: float) -> None:
    """Finish the other messages of a parked event. If that fails, they wait, and then park it."""
    with suppress(BotoCoreError, ClientError, LookupError):
        if isinstance(event, Fault):
            _take(event, "PARKED", now)


def _start(name: str, text: str) -> str:
    """Start an execution and give its ARN, or nothing if its message has started it before.

    Express on AWS lets names repeat, so there a message that is delivered twice starts two.
    """
    with suppress(states.exceptions.ExecutionAlreadyExists):
        return states.start_execution(stateMachineArn=STATE_MACHINE_ARN, name=name, input=text)[
            "executionArn"
        ]
    return ""


def _described(event: Fault | Waiting) -> dict[str, Any]:
    """Describe an event for the log, from which `inorder retrying` reads a fault."""
    described = records.s3_object(event.body["event"])
    names = {
        "sequencer": described.get("sequencer"),
        **{name: event.body[name] for name in {"object_key", "sequencer"} & event.body.keys()},
        # An `object_key` does not tell a key from a version.
        **{"key": described.get("key"), "version_id": described.get("version-id")},
    }
    details = {name: value for name, value in names.items() if value is not None}
    if isinstance(event, Fault):
        details |= {"attempts": event.attempt + 1, "since": _iso(event.since)}
        details["reasons"] = event.reasons
    return details


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
