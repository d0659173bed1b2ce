"""Lambda handler: inverts the image that an S3 event names, behind a fence.

The function returns its decisions, so that the state machine can branch on them. An exception is
always a fault: an error that may pass.
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
from fenced_output import Fence, SourceChanged
from inversion import InvalidImage, InvertedImage, invert
from object_event import ObjectEvent

configuration = Configuration.from_environment()
logger = Logger()
metrics = Metrics()
# Three attempts of a few seconds each fit into the function's timeout. The state retries longer.
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
        The payload that the state Invert Image sends: ``event``, the event of S3, and ``fence``,
        which is ``newest``, ``each`` or ``none``.
    context : LambdaContext
        Of the invocation.

    Returns
    -------
    dict
        ``outcome``, and ``expires_at``, the time (seconds since 1970, as text) until which the key
        table keeps the record. It is computed here because JSONPath cannot. With ``Processed`` or
        ``Superseded`` there is ``output_key``; with ``Rejected``, which a retry would not change,
        there are ``error`` and ``cause``.
    """
    object_event = ObjectEvent.from_event(event["event"])
    logger.append_keys(source_key=object_event.key, sequencer=object_event.sequencer)
    expires_at = str(int(time.time()) + configuration.record_retention_days * 86_400)
    try:
        output = FENCES[event["fence"]](object_event)
    except (InvalidImage, SourceChanged) as error:
        name = type(error).__name__
        logger.warning(name, extra={"cause": str(error)})
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=1)
        reason = {"error": name, "cause": str(error)}
        return {"outcome": "Rejected", **reason, "expires_at": expires_at}
    logger.info(output.outcome, extra={"output_key": output.key})
    metrics.add_metric(name=output.outcome, unit=MetricUnit.Count, value=1)
    return {"outcome": output.outcome, "output_key": output.key, "expires_at": expires_at}


def work(content: bytes) -> InvertedImage:
    """Make the output from a source's content. Replace this with your own work."""
    if random.random() < configuration.slow_probability:  # noqa: S311 - not for a secret
        time.sleep(configuration.slow_seconds)
    return invert(content, configuration.maximum_pixels)


fence = Fence(
    s3,
    configuration.output_bucket,
    configuration.maximum_bytes,
    work,
    configuration.handles_deletions,
)
FENCES = {
    "newest": fence.write_newest,
    "each": fence.write_each,
    "none": fence.write_unfenced,
}
