"""A FIFO queue with the key as message group, before a function with the product's fence.

A rule can give all its messages one group only, so a small function of its own puts each event into
the queue. SQS delivers the messages of a group one at a time, in the order in which they arrived,
and drops a message whose deduplication ID it has seen within five minutes. A message that fails
becomes visible again after the visibility timeout, and its group waits for that.

https://aws.amazon.com/blogs/compute/new-for-aws-lambda-sqs-fifo-as-an-event-source/
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/fifo-queue-lambda-behavior.html
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import Any

import boto3

from bench.contenders import recorder

sqs = boto3.client("sqs")
recorder.counted(sqs)


def route(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda gives both
    """Put an event into the queue."""
    described = event["detail"]["object"]
    group = sha256(described["key"].encode()).hexdigest()  # a key may be longer than an ID
    sqs.send_message(
        QueueUrl=os.environ["FIFO_QUEUE_URL"],
        MessageBody=json.dumps(event),
        MessageGroupId=group,
        MessageDeduplicationId=f"{group}-{described['sequencer']}",
    )
