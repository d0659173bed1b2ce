"""Lambda handler: inverts the image that an S3 event names, behind a fence.

The function returns its decisions, so that the state machine can branch on them. An exception is
always a fault: an error that may pass.
"""

from __future__ import annotations

import os
import time
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from inorder_fence import S3_CONFIG, Fence, Result
from invert_image.inversion import InvalidImage, invert
from invert_image.stamp import stamp_image

RECORD_RETENTION_DAYS = int(os.environ["RECORD_RETENTION_DAYS"])
MAXIMUM_PIXELS = int(os.environ["MAXIMUM_PIXELS"])  # of all frames together
# For the demonstration: how many seconds longer a slow object takes, and how its content ends. If
# this end is empty, all objects are slow.
SLOW_SECONDS, SLOW_MARK = float(os.environ["SLOW_SECONDS"]), os.environ["SLOW_MARK"].encode()
logger = Logger()
metrics = Metrics()
s3 = boto3.client("s3", config=S3_CONFIG)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:  # noqa: ARG001
    """Process one event.

    Parameters
    ----------
    event : dict
        The payload that the state Invert Image sends: see `Fence.answer`.
    """
    described = event["event"]["detail"]["object"]
    logger.append_keys(source_key=described["key"], sequencer=described["sequencer"])
    # By these, inorder finds the execution and tells its story.
    logger.append_keys(
        version_id=described.get("version-id") or None, execution=event.get("execution")
    )
    answer = fence.answer(event, RECORD_RETENTION_DAYS)
    name = answer.get("error", answer["outcome"])
    if "error" in answer:
        logger.warning(name, extra={"cause": answer["cause"]})
    else:
        logger.info(name, extra={"output_key": answer["output_key"]})
    metrics.add_metric(name=name, unit=MetricUnit.Count, value=1)
    return answer


def work(content: bytes) -> Result:
    """Make the output from a source's content."""
    if content.endswith(SLOW_MARK):
        time.sleep(SLOW_SECONDS)
    return invert(content, maximum_pixels=MAXIMUM_PIXELS)


fence = Fence(
    s3,
    os.environ["OUTPUT_BUCKET"],
    int(os.environ["MAXIMUM_BYTES"]),
    work,
    os.environ["HANDLES_DELETIONS"] == "true",
    rejection=InvalidImage,
    stamped=stamp_image,
)
