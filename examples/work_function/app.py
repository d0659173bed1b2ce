"""Lambda handler: writes each text in capitals, behind the fence. docs/function.md explains it."""

import json
import os
from typing import Any

import boto3

from inorder_fence import S3_CONFIG, Fence
from work import work

fence = Fence(
    boto3.client("s3", config=S3_CONFIG),
    output_bucket=os.environ["OUTPUT_BUCKET"],
    maximum_bytes=30_000_000,  # a larger object is rejected
    work=work,
    handles_deletions=os.environ["HANDLES_DELETIONS"] == "true",
)


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:  # noqa: ARG001
    """Process one event: `Fence.answer` describes what the state machine sends, and the answer."""
    answer = fence.answer(event, int(os.environ["RECORD_RETENTION_DAYS"]))
    key = event["event"]["detail"]["object"].get("key")
    entry = {"source_key": key, "execution": event.get("execution"), **answer}
    print(json.dumps(entry))  # noqa: T201 - the log
    return answer
