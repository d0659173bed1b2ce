"""Lambda handler: takes over what dead executions held, by their status events and on a schedule.

A status event says at once that an execution has failed, timed out or was stopped. EventBridge
may lose it, so it only saves time. A sweep finds every dead execution:

- It reads the oldest 1,000 records of the index, and asks whether the holders of their locks live.
- It lists the executions that have died since the last sweep, because one that died before its
  claim has left no record. A claim is retried for a day at most.

If newer events stop outdated work, the status event of an execution that waits does that.

If a part of a sweep fails, it fails after the rest, so that the metric Errors shows it.
https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from inorder_fence import stuck
from take_over.keys import Keys, Outcome

PARKED_QUEUE_URL = os.environ["PARKED_EVENTS_QUEUE_URL"]
RECORDS_AT_MOST = 1000
DEAD: tuple[Literal["FAILED", "TIMED_OUT", "ABORTED"], ...] = ("FAILED", "TIMED_OUT", "ABORTED")
CLAIM_LASTS = timedelta(hours=26)
LATE = timedelta(minutes=10)  # ListExecutions and DescribeExecution are eventually consistent
LAST_CALL_MILLISECONDS = 60_000  # how long before its timeout a sweep begins nothing more
SWEEP = {"id": {"S": "sweep"}}  # its record says until when all deaths have been seen
CONFIG = Config(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3}
)
logger = Logger()
dynamodb = boto3.client("dynamodb", config=CONFIG)
states = boto3.client("stepfunctions", config=CONFIG)
sqs, s3 = boto3.client("sqs", config=CONFIG), boto3.client("s3", config=CONFIG)
names = ("KEY_TABLE", "STATE_MACHINE_ARN", "PARKED_EVENTS_QUEUE_URL", "STAGING_BUCKET")
keys = Keys(dynamodb, states, sqs, s3, *(os.environ[name] for name in names))


class SweepFailed(Exception):
    """A part of a sweep failed. The rest was done."""


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Take over from a dead execution, stop outdated work, or sweep.

    Raises
    ------
    SweepFailed
        A key could not be taken over.
    """
    if event.get("source") == "aws.states":
        dead, ended = event["detail"]["executionArn"], event["detail"].get("output")
        if event["detail"]["status"] == "SUCCEEDED":
            waiting = json.loads(ended or "{}")  # too long an input leaves no room for the output
            if waiting.get("outcome") == "Waiting":
                logger.info(keys.stop_outdated(waiting["object_key"]), extra=waiting)
            return
        logger.info(keys.take_over(dead, datetime.now(UTC)), extra={"execution": dead})
        return
    # SQS has metrics of a queue, which an alarm watches, for six hours after its last use.
    sqs.get_queue_attributes(QueueUrl=PARKED_QUEUE_URL, AttributeNames=["QueueArn"])
    counts = Counter(_sweep(context, datetime.now(UTC)))
    logger.info("Swept", extra=dict(counts))
    if counts["Failed"]:
        raise SweepFailed(f"{counts['Failed']} of {counts.total()} failed: see the log")


def _sweep(context: LambdaContext, now: datetime) -> Iterator[str]:
    """Sweep the index, then the deaths that it does not show, and give what became of each."""

    def is_over() -> bool:
        return context.get_remaining_time_in_millis() < LAST_CALL_MILLISECONDS

    for record_id in stuck.oldest(dynamodb, keys.table, now, RECORDS_AT_MOST, is_over):
        if is_over():
            return
        yield _tried(record_id, keys.sweep, now)
    found = dynamodb.get_item(TableName=keys.table, Key=SWEEP, ConsistentRead=True).get("Item")
    since = datetime.fromisoformat(found["seen"]["S"]) if found else now - CLAIM_LASTS
    failed = []
    for stopped, dead in _deaths(since, now - LATE):
        outcome = (
            "Failed" if is_over() else _tried(dead, partial(keys.take_over, is_listed=True), now)
        )
        if outcome == "Failed":
            failed.append(stopped)
        yield outcome
    seen = min([*failed, now - LATE])  # the next sweep begins there
    dynamodb.put_item(TableName=keys.table, Item={**SWEEP, "seen": {"S": seen.isoformat()}})


def _tried(what: str, act: Callable[[str, datetime], Outcome], now: datetime) -> str:
    try:
        return act(what, now)
    except Exception:  # the next sweep tries again, and the other keys must not wait for that
        logger.exception("SweepFailed", extra={"of": what})
        return "Failed"


def _deaths(since: datetime, until: datetime) -> list[tuple[datetime, str]]:
    """List the executions that have died within a time; the service lists the youngest first."""
    found = []
    for status in DEAD:
        pages = states.get_paginator("list_executions").paginate(
            stateMachineArn=keys.state_machine_arn, statusFilter=status
        )
        for each in (execution for page in pages for execution in page["executions"]):
            if each["startDate"] < since - CLAIM_LASTS:
                break
            if since <= each["stopDate"] <= until:
                found.append((each["stopDate"], each["executionArn"]))
    return sorted(found)
