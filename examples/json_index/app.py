"""Lambda handler: writes an index of each JSON Lines document, behind the fence.

An example of a function of your own: docs/function.md explains it. The package ``inorder_fence`` is
its one requirement.
"""

import json
import logging
import os
from typing import Any

import boto3

from inorder_fence import S3_CONFIG, Fence
from work import index, with_event

RECORD_RETENTION_DAYS = int(os.environ["RECORD_RETENTION_DAYS"])
logger = logging.getLogger()
logger.setLevel(logging.INFO)


fence = Fence(
    boto3.client("s3", config=S3_CONFIG),
    output_bucket=os.environ["OUTPUT_BUCKET"],
    maximum_bytes=int(os.environ["MAXIMUM_BYTES"]),
    work=index,
    handles_deletions=os.environ["HANDLES_DELETIONS"] == "true",
    stamped=with_event,
)


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:  # noqa: ARG001
    """Process one event: `Fence.answer` describes what the state machine sends, and the answer."""
    answer = fence.answer(event, RECORD_RETENTION_DAYS)
    source_key = event["event"]["detail"]["object"]["key"]
    told = {"source_key": source_key, "execution": event.get("execution"), **answer}
    logger.info(json.dumps(told))
    return answer
