"""Lambda handler: publishes the staged result of an execution behind the fence, whatever its size.

It is the only writer of outputs. The work that made the result may have outlived its execution, and
this function, too: the fence lets no older event's output replace a newer one's.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from inorder_fence import Fence
from publish_result.staged import StagedResult

OUTPUT_BUCKET, STAGING_BUCKET = os.environ["OUTPUT_BUCKET"], os.environ["STAGING_BUCKET"]
RECORD_RETENTION_DAYS = int(os.environ["RECORD_RETENTION_DAYS"])
logger = Logger()
# S3 copies a part, and puts the parts together, in seconds to minutes.
CONFIG = Config(
    connect_timeout=2, read_timeout=180, retries={"mode": "standard", "total_max_attempts": 3}
)
s3 = boto3.client("s3", config=CONFIG)


@logger.inject_lambda_context
def handler(payload: dict[str, Any], _context: LambdaContext) -> dict[str, str]:
    """Publish a result, or remove the output of a deleted object.

    Parameters
    ----------
    payload : dict
        ``event`` and ``fence`` as for any work function; ``answer``, what the work has answered;
        ``staged_key``, where it has put its result.

    Returns
    -------
    dict
        As `Fence.answer`.
    """
    place = {"Bucket": STAGING_BUCKET, "Key": payload["staged_key"]}
    staged = StagedResult(s3, payload["event"], place, payload["answer"])
    fence = Fence(
        staged,  # type: ignore[arg-type]
        OUTPUT_BUCKET,
        maximum_bytes=sys.maxsize,  # nothing is read
        work=staged.check,
        handles_deletions=True,
        stamped=lambda content, _: content,  # the work has done that
    )
    answer = fence.answer(payload, RECORD_RETENTION_DAYS)
    # Not before: after a fault, the next attempt needs it.
    s3.delete_object(**place)
    logger.info(answer["outcome"], extra=answer)
    return answer
