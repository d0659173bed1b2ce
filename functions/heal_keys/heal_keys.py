"""Lambda handler: starts the events of keys whose execution has died, on a schedule.

A sweep is bounded, so that it does not burden a service that has just recovered: it starts or parks
at most 100 events, at least 0.2 s apart. It begins within a minute of its time, or not at all, and
lasts for two minutes at most. So it has ended before the next one begins, five minutes after it or
later.
(Lambda may invoke it twice by chance. What the second one starts are further deliveries.)

A sweep also reads the attributes of the queues that only people read: SQS has metrics of a queue,
which alarms watch, for six hours after it was last used. If something failed, the sweep itself
fails in the end, so that the metric Errors and its alarm show it.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/monitoring-using-cloudwatch.html
"""

from __future__ import annotations

import os
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import boto3
import stuck
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

KEY_TABLE = os.environ["KEY_TABLE"]
PARKED_QUEUE_URL = os.environ["PARKED_EVENTS_QUEUE_URL"]
ALARMED_QUEUE_URLS = os.environ["ALARMED_QUEUE_URLS"].split()
STATE_MACHINE_ARN = os.environ["STATE_MACHINE_ARN"]
STARTS_AT_MOST = 100
SECONDS_BETWEEN_STARTS = 0.2
# Before the timeout. Three calls can follow: a record is read, and parking its event takes two.
# Each takes 10 s at most, and the pause between its two attempts.
LAST_READ_MILLISECONDS = 40_000
CONFIG = Config(
    connect_timeout=2, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2}
)
logger = Logger()
metrics = Metrics()
dynamodb = boto3.client("dynamodb", config=CONFIG)
states = boto3.client("stepfunctions", config=CONFIG)
sqs = boto3.client("sqs", config=CONFIG)


class SweepFailed(Exception):
    """Something of a sweep failed. The rest of it was done."""


@logger.inject_lambda_context
@metrics.log_metrics
def handler(_event: dict[str, Any], context: LambdaContext) -> None:
    """Sweep once.

    Parameters
    ----------
    _event : dict
        Of the schedule. Nothing of it is used.
    context : LambdaContext
        Of the invocation.

    Raises
    ------
    SweepFailed
        An event could be neither started nor parked, or a queue could not be read.
    """
    counts = Counter({"KeysStuck": 0})  # a metric without a value would make Powertools warn
    unread = [url for url in ALARMED_QUEUE_URLS if not _reads(url)]

    def is_over() -> bool:
        is_full = counts.total() - counts["KeysStuck"] >= STARTS_AT_MOST
        if is_full or context.get_remaining_time_in_millis() < LAST_READ_MILLISECONDS:
            logger.warning("SweepEndsEarly")
            return True
        return False

    try:
        for key in stuck.find(dynamodb, KEY_TABLE, datetime.now(UTC), is_over=is_over):
            counts["KeysStuck"] += 1
            if key.is_given_up or key.is_due:
                counts[_heal(key)] += 1
                time.sleep(SECONDS_BETWEEN_STARTS)
    finally:
        for name, count in counts.items():
            metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    if unread or counts["HealingsFailed"]:
        raise SweepFailed(f"{counts['HealingsFailed']} keys, {len(unread)} queues: see the log")


def _reads(queue_url: str) -> bool:
    try:
        sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
    except Exception:  # the keys must not wait for that
        logger.exception("QueueNotRead", extra={"queue": queue_url})
        return False
    return True


def _heal(key: stuck.StuckKey) -> str:
    """Start an event or park it, and give the metric that counts it."""
    details: dict[str, Any] = {
        "record": key.id,
        "minutes_in_progress": key.age.total_seconds() // 60,
        "restarts": key.restarts,
    }
    try:
        if key.is_given_up:
            stuck.park(sqs, PARKED_QUEUE_URL, dynamodb, KEY_TABLE, key)
            logger.error("KeyParked", extra=details)
            return "KeysParked"
        details["restarts"] += 1
        details["execution"] = stuck.start(states, STATE_MACHINE_ARN, key, details["restarts"])
    except Exception:  # the next sweep tries again, and the other keys must not wait for that
        logger.exception("HealingFailed", extra=details)
        return "HealingsFailed"
    logger.info("KeyRestarted", extra=details)
    return "KeysRestarted"
