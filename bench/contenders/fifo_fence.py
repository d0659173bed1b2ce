"""A FIFO queue with the key as group, and a function with the product's fence that retries soon.

Its queue hides a message just for as long as the function may run, which covers a process that
dies. AWS advises six times as long because of throttling, which the event source mapping's maximum
concurrency avoids. If the function fails, it lets its message come again after a second.
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


def handler(batch: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda gives both
    """Process the messages of a batch, behind the fence."""
    for record in batch["Records"]:
        event = json.loads(record["body"])
        try:
            outcome = image.process_fenced(event)
        except Exception:
            sqs.change_message_visibility(
                QueueUrl=os.environ["FIFO_QUEUE_URL"],
                ReceiptHandle=record["receiptHandle"],
                VisibilityTimeout=AGAIN_SECONDS,
            )
            raise
        logger.info(outcome, extra={"source_key": event["detail"]["object"]["key"]})
