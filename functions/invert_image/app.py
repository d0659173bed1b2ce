"""Lambda handler: inverts the image that an S3 event tells of, behind a fence.

What the function decides it returns, so that the state machine can branch on it. An exception is
always a fault, which may pass by itself.
"""

from __future__ import annotations

import random
import time
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config
from configuration import Configuration
from fenced_output import Source, write_fenced, write_unfenced
from inversion import InvalidImage, InvertedImage, invert

configuration = Configuration.from_environment()
logger = Logger()
metrics = Metrics()
# Three attempts of a few seconds each fit into the function's timeout; the state retries beyond.
s3 = boto3.client(
    "s3",
    config=Config(
        connect_timeout=2, read_timeout=4, retries={"mode": "standard", "total_max_attempts": 3}
    ),
)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:  # noqa: ARG001
    """Process one event.

    Parameters
    ----------
    event : dict
        ``source`` (bucket, key, etag and perhaps version_id), ``sequencer``, and ``fenced``, as the
        state machine's Invert Image state makes it.
    context : LambdaContext
        Lambda's.

    Returns
    -------
    dict
        ``outcome``: ``Processed`` or ``Superseded``, with ``output_key`` and ``expires_at``, the
        time (seconds since 1970, as text) until which the key table keeps the record, as JSONPath
        cannot compute one; or ``InvalidImage``, with ``cause``.
    """
    source, sequencer = Source(**event["source"]), event["sequencer"]
    logger.append_keys(source_key=source.key, sequencer=sequencer)
    write = write_fenced if event["fenced"] else write_unfenced
    try:
        output = write(
            s3, source, sequencer, configuration.output_bucket, configuration.maximum_bytes, work
        )
    except InvalidImage as error:
        logger.warning("InvalidImage", extra={"cause": str(error)})
        metrics.add_metric(name="InvalidImage", unit=MetricUnit.Count, value=1)
        return {"outcome": "InvalidImage", "cause": str(error)}
    logger.info(output.outcome, extra={"output_key": output.key})
    metrics.add_metric(name=output.outcome, unit=MetricUnit.Count, value=1)
    expires_at = int(time.time()) + configuration.record_retention_days * 86_400
    return {"outcome": output.outcome, "output_key": output.key, "expires_at": str(expires_at)}


def work(content: bytes) -> InvertedImage:
    """Make the output of a source's content: what a user of this project replaces."""
    if random.random() < configuration.slow_probability:  # noqa: S311 - no secret
        time.sleep(configuration.slow_seconds)
    return invert(content, configuration.maximum_pixels)
