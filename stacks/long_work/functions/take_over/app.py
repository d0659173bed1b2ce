"""Lambda handler: takes over what dead executions held, by their status events and on a schedule.

A status event says at once that an execution has failed, timed out or was stopped. EventBridge
delivers it by best effort, so it is speed only, and a sweep carries the correctness:

- It reads the oldest 1,000 records of the index, and asks whether the holders of their locks live.
- It lists the executions that have died since the last sweep, because one that died before its
  claim has left no record. Such a death comes within `CLAIM_LASTS` of the start.

If a part of a sweep fails, it fails after the rest, so that the metric Errors shows it.
https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from inorder_fence import stuck
from take_over.keys import Keys

PARKED_QUEUE_URL = os.environ["PARKED_EVENTS_QUEUE_URL"]
RECORDS_AT_MOST = 1000
DEAD: tuple[Literal["FAILED", "TIMED_OUT", "ABORTED"], ...] = ("FAILED", "TIMED_OUT", "ABORTED")
CLAIM_LASTS = timedelta(hours=26)  # with all of its retries
LATE = timedelta(minutes=10)  # ListExecutions and DescribeExecution are eventually consistent
LAST_CALL_MILLISECONDS = 60_000  # how long before its timeout a sweep begins nothing more
SWEEP = {"id": {"S": "sweep"}}  # its record says until when all deaths have been seen
CONFIG = Config(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3}
)
logger = Logger()
dynamodb = boto3.client("dynamodb", config=CONFIG)
states = boto3.client("stepfunctions", config=CONFIG)
sqs = boto3.client("sqs", config=CONFIG)
keys = Keys(
    dynamodb,
    states,
    sqs,
    boto3.client("s3", config=CONFIG),
    table=os.environ["KEY_TABLE"],
    state_machine_arn=os.environ["STATE_MACHINE_ARN"],
    parked_queue_url=PARKED_QUEUE_URL,
    staging_bucket=os.environ["STAGING_BUCKET"],
)


class SweepFailed(Exception):
    """A part of a sweep failed. The rest was done."""


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Take one execution over, or sweep.

    Raises
    ------
    SweepFailed
        A key could not be taken over.
    """
    if event.get("source") == "aws.states":
        _take_over(event["detail"]["executionArn"], "")
        return
    # SQS has metrics of a queue, which an alarm watches, for six hours after its last use.
    sqs.get_queue_attributes(QueueUrl=PARKED_QUEUE_URL, AttributeNames=["QueueArn"])
    counts = Counter(_sweep(context))
    logger.info("Swept", extra=dict(counts))
    if counts["Failed"]:
        raise SweepFailed(f"{counts['Failed']} of {counts.total()} failed: see the log")


def _take_over(execution: str, record_id: str) -> str:
    outcome = keys.take_over(execution, record_id, datetime.now(UTC))
    logger.info(f"Key{outcome}", extra={"execution": execution, "record": record_id})
    return outcome


def _sweep(context: LambdaContext) -> Iterator[str]:
    """Sweep the index, then the deaths that it does not show, and give what became of each."""

    def is_over() -> bool:
        return context.get_remaining_time_in_millis() < LAST_CALL_MILLISECONDS

    now = datetime.now(UTC)
    for record_id in stuck.oldest(dynamodb, keys.table, now, RECORDS_AT_MOST, is_over):
        if is_over():
            return
        try:
            yield keys.sweep(record_id, now)
        except Exception:  # the next sweep tries again, and the other keys must not wait for that
            logger.exception("SweepFailed", extra={"record": record_id})
            yield "Failed"
    seen, is_seen = now - LATE, True  # all deaths until then, unless one cannot be handled
    for stopped, execution in _deaths(_seen(now), seen):
        try:
            if is_over():
                raise TimeoutError(execution)
            yield _take_over(execution, "")
        except Exception:
            logger.exception("SweepFailed", extra={"execution": execution})
            yield "Failed"
            seen, is_seen = (stopped, False) if is_seen else (seen, False)
    item = {**SWEEP, "seen": {"S": seen.isoformat()}}
    dynamodb.put_item(TableName=keys.table, Item=item)


def _seen(now: datetime) -> datetime:
    """Tell until when all deaths have been seen."""
    found = dynamodb.get_item(TableName=keys.table, Key=SWEEP, ConsistentRead=True).get("Item")
    return datetime.fromisoformat(found["seen"]["S"]) if found else now - CLAIM_LASTS


def _deaths(since: datetime, until: datetime) -> list[tuple[datetime, str]]:
    """List the executions that have died within a time, in their order; the newest come first."""
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
