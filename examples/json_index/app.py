"""Lambda handler: writes an index of each JSON Lines document, behind the fence.

An example of a function of your own: docs/function.md explains it. The package ``inorder_fence`` is
its one requirement.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import boto3

from inorder_fence import S3_CONFIG, Fence, Rejection

RECORD_RETENTION_DAYS = int(os.environ["RECORD_RETENTION_DAYS"])
logger = logging.getLogger()
logger.setLevel(logging.INFO)


@dataclass(frozen=True)
class Index:
    """A JSON object, and its media type."""

    content: bytes
    content_type: str = "application/json"


def index(content: bytes) -> Index:
    """List the bytes at which the rows of a document begin, so that a reader can begin at each."""
    offsets, position = list[int](), 0
    for line in BytesIO(content):
        if line.strip():
            try:
                json.loads(line)
            except (ValueError, RecursionError) as error:
                raise Rejection(f"Row {len(offsets) + 1} is not JSON: {error}") from error
            offsets.append(position)
        position += len(line)
    return Index(json.dumps({"rows": len(offsets), "offsets": offsets}).encode())


def with_event(content: bytes, stamp: bytes) -> bytes:
    """Add the stamp of the event to an index, as its field ``event``."""
    return json.dumps(json.loads(content) | {"event": stamp.decode()}).encode()


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
