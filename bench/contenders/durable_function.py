"""A durable function that locks the object's key, and is suspended while it is locked.

The published design holds the lock of `lock` in a plain function. Here the wait is a durable wait,
which costs no function time, and every operation is a checkpoint. One second is the shortest wait.

https://docs.aws.amazon.com/lambda/latest/dg/durable-functions.html
https://docs.aws.amazon.com/durable-functions/sdk-reference/operations/wait/
"""

from __future__ import annotations

import os
from typing import Any

import boto3
from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import Duration
from aws_durable_execution_sdk_python.waits import (
    WaitForConditionConfig,
    WaitForConditionDecision,
)
from aws_lambda_powertools import Logger

from bench.contenders import image
from bench.contenders.lock import Lock
from bench.contenders.recorder import recorded
from bench.contenders.warm import warm

logger = Logger(service="durable-function")
table = boto3.resource("dynamodb").Table(os.environ["LOCK_TABLE"])
POLL = Duration.from_seconds(1)


def process(event: dict[str, Any], context: DurableContext) -> str:
    """Process an event, unless a newer one of its key has been processed."""
    if "warm" in event:
        warm(**event["warm"])
        return "Warm"
    lock = Lock.of(table, event, context.execution_context.durable_execution_arn)
    claim = context.wait_for_condition(
        lambda _state, _context: lock.claim(),
        WaitForConditionConfig(wait_strategy=poll_while_locked, initial_state="locked"),
        name="lock",
    )
    if claim == "superseded":
        logger.info("Superseded", extra={"source_key": lock.key})
        return "Superseded"
    try:
        context.step(lambda _context: image.process(event), name="process")
    except Exception:
        context.step(lambda _context: lock.give_up(), name="give up")
        raise
    context.step(lambda _context: lock.unlock(), name="unlock")
    logger.info("Processed", extra={"source_key": lock.key})
    return "Processed"


def poll_while_locked(claim: str, attempts: int) -> WaitForConditionDecision:  # noqa: ARG001
    """Try again each second."""
    if claim == "locked":
        return WaitForConditionDecision.continue_waiting(POLL)
    return WaitForConditionDecision.stop_polling()


handler = recorded(durable_execution(process))
