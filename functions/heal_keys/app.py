"""Lambda handler: hands the events of dead executions to the retry queue, on a schedule.

A sweep takes the oldest records first, several at a time, and ends before the next one begins. What
it does not reach is older than all that it has handed over, so the next one begins there. If Lambda
invokes it twice, messages of one event merge in the retry queue. That queue bounds how fast the
events are started, so that they do not burden a service that has just recovered.

While the stack is paused, no event may be started, so a sweep hands nothing over.

A sweep also reads the attributes of the queues that only people read, or that a pause lets nobody
read: SQS reports the metrics of a queue, which alarms watch, for six hours after its last use. If
something failed, the sweep fails
after it has done the rest, so that the metric Errors and its alarm show it.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/monitoring-using-cloudwatch.html
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from inorder_fence import stuck

KEY_TABLE, STATE_MACHINE = os.environ["KEY_TABLE"], os.environ["STATE_MACHINE"]
CLAIMS_KEYS = os.environ["CLAIMS_KEYS"] == "true"
RETRY_QUEUE_URL = os.environ["RETRY_EVENTS_QUEUE_URL"]
ALARMED_QUEUE_URLS = os.environ["ALARMED_QUEUE_URLS"].split()
IS_PAUSED = os.environ["PAUSED"] == "true"
METRICS: dict[stuck.Outcome, str] = {
    "HandedOver": "KeysHandedOver",
    "Settled": "KeysSettled",
    "Parked": "KeysParked",
    "Retried": "KeysRetried",
}
NOT_STUCK = {"KeysSettled", "KeysRetried"}
# One whole processor is busy with the calls of about eight threads; the others wait for services.
THREADS = 16
# How long before the timeout the last record is begun. Four calls follow: it is read, and what else
# is known of its event; the event is sent; it is updated. Each takes 3 s at most. The next sweep,
# in a minute, is their second attempt.
LAST_RECORD_MILLISECONDS = 15_000
# How long before it the index is read. If it has millions of entries, a later sweep reads the rest,
# when those that were read have left it.
LAST_PAGE_MILLISECONDS = 30_000
CONFIG = Config(
    connect_timeout=1,
    read_timeout=2,
    retries={"total_max_attempts": 1},
    max_pool_connections=THREADS,
)
logger = Logger()
metrics = Metrics()
dynamodb = boto3.client("dynamodb", config=CONFIG)
sqs = boto3.client("sqs", config=CONFIG)


class SweepFailed(Exception):
    """A part of a sweep failed. The rest was done."""


@logger.inject_lambda_context
@metrics.log_metrics
def handler(_event: dict[str, Any], context: LambdaContext) -> None:
    """Sweep once.

    Raises
    ------
    SweepFailed
        An event could not be handed over, or a queue could not be read.
    """
    counts = Counter({"KeysStuck": 0})  # a metric without a value would make Powertools warn
    unread = [url for url in ALARMED_QUEUE_URLS if not _reads(url)]
    now = datetime.now(UTC)

    def is_late(milliseconds: int = LAST_RECORD_MILLISECONDS) -> bool:
        return context.get_remaining_time_in_millis() < milliseconds

    def stuck_ids() -> list[str]:
        if IS_PAUSED:
            return []
        return stuck.oldest(dynamodb, KEY_TABLE, now, lambda: is_late(LAST_PAGE_MILLISECONDS))

    try:
        ids = iter(stuck_ids())
        with ThreadPoolExecutor(THREADS) as pool:
            for part in pool.map(lambda _: _heal_next(ids, now, is_late), range(THREADS)):
                counts.update(part)
        if is_late():
            logger.warning("SweepEndsEarly")
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


def _heal_next(ids: Iterator[str], now: datetime, is_late: Callable[[], bool]) -> Counter[str]:
    """Heal record after record, as one of several threads, and count what became of them."""
    counts = Counter[str]()
    while not is_late() and (record_id := next(ids, None)):
        if outcome := _heal(record_id, now):
            counts.update([outcome] if outcome in NOT_STUCK else [outcome, "KeysStuck"])
    return counts


def _heal(record_id: str, now: datetime) -> str | None:
    """Hand an event over, and give the metric that counts it; None if its key is not stuck."""
    details: dict[str, Any] = {"record": record_id}
    try:
        key = stuck.read(dynamodb, KEY_TABLE, record_id, now)
        if key is None:
            return None
        details["minutes_in_progress"] = key.age.total_seconds() // 60
        outcome = stuck.hand_over(
            *(sqs, RETRY_QUEUE_URL, dynamodb, KEY_TABLE, key, now),
            *(STATE_MACHINE, CLAIMS_KEYS),
        )
    except Exception:  # the next sweep tries again, and the other keys must not wait for that
        logger.exception("HealingFailed", extra=details)
        return "HealingsFailed"
    log = logger.error if outcome == "Parked" else logger.info
    log(f"Key{outcome}", extra=details)
    return METRICS[outcome]
