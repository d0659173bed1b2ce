"""Lambda handler: inverts the image that an S3 event names, behind a fence.

The function returns its decisions, so that the state machine can branch on them. An exception is
always a fault: an error that may pass.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from inorder_fence import S3_CONFIG, Fence, Result, in_time
from invert_image.configuration import Configuration
from invert_image.inversion import InvalidImage, invert

# Of the function's timeout, this leaves the calls of S3 the time of an attempt without an answer.
WORK_SECONDS = 9
configuration = Configuration.from_environment()
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
    answer = fence.answer(event, configuration.record_retention_days)
    name = answer.get("error", answer["outcome"])
    if "error" in answer:
        logger.warning(name, extra={"cause": answer["cause"]})
    else:
        logger.info(name, extra={"output_key": answer["output_key"]})
    metrics.add_metric(name=name, unit=MetricUnit.Count, value=1)
    return answer


def work(content: bytes) -> Result:
    """Make the output from a source's content."""
    if content.endswith(configuration.slow_mark):
        time.sleep(configuration.slow_seconds)
    limited = partial(invert, maximum_pixels=configuration.maximum_pixels)
    return in_time(limited, content, WORK_SECONDS)


fence = Fence(
    s3,
    configuration.output_bucket,
    configuration.maximum_bytes,
    work,
    configuration.handles_deletions,
    rejection=InvalidImage,
)
