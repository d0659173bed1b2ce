"""A FIFO queue with the key as group, and a function with the product's fence that retries soon.

The queue hides a message for six times the function's timeout, and its group waits as long if the
function fails. Here the function hides it just for as long as it may run, which covers a process
that dies, and for a second if it fails.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
"""

from __future__ import annotations

import json
import os
from typing import Any

from aws_lambda_powertools import Logger

from bench.contenders import image
from bench.contenders.sqs_fifo import sqs

AGAIN_SECONDS = 1
logger = Logger(service="fifo-fence")


def handler(batch: dict[str, Any], context: Any) -> None:
    """Process the messages of a batch, behind the fence."""
    for record in batch["Records"]:
        hide(record, context.get_remaining_time_in_millis() // 1000 + 1)
        event = json.loads(record["body"])
        try:
            outcome = image.process_fenced(event)
        except Exception:
            hide(record, AGAIN_SECONDS)
            raise
        logger.info(outcome, extra={"source_key": event["detail"]["object"]["key"]})


def hide(record: dict[str, Any], seconds: int) -> None:
    """Let the message of a record come again after some seconds from now, unless it is deleted."""
    sqs.change_message_visibility(
        QueueUrl=os.environ["FIFO_QUEUE_URL"],
        ReceiptHandle=record["receiptHandle"],
        VisibilityTimeout=seconds,
    )
