"""A rule and a function that locks the object's key, and waits while it is locked.

`lock` has the design. As in AWS's sample, the function sleeps for a random time below one
second before it tries again, so the waiting is paid as function time.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import boto3
from aws_lambda_powertools import Logger

from bench.contenders import image
from bench.contenders.lock import Lock

logger = Logger(service="lock-in-function")
table = boto3.resource("dynamodb").Table(os.environ["LOCK_TABLE"])


def handler(event: dict[str, Any], context: Any) -> None:
    """Process an event, unless a newer one of its key has been processed."""
    lock = Lock.of(table, event, context.aws_request_id)
    while (claim := lock.claim()) == "locked":
        time.sleep(random.random())  # noqa: S311 - not for a secret
    if claim == "taken":
        try:
            image.process(event)
        except Exception:
            lock.give_up()
            raise
        lock.unlock()
    outcome = "Processed" if claim == "taken" else "Superseded"
    logger.info(outcome, extra={"source_key": lock.key})
