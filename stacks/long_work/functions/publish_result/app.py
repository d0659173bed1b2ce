"""Lambda handler: publishes the staged result of an execution behind the fence, whatever its size.

It is the only writer of outputs. The work that made the result may have outlived its execution, and
this function, too: the fence lets no older event's output replace a newer one's.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from inorder_fence import Fence, ObjectEvent
from inorder_fence.records import PARKED_SECONDS
from publish_result.staged import AnotherVersion, StagedResult

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
        As `Fence.answer`. What the work has answered, if it has rejected the object.
    """
    event = ObjectEvent.from_event(payload["event"])
    staged = StagedResult(s3, event, STAGING_BUCKET, payload["staged_key"])
    answer = _rejection(payload["answer"]) or _published(staged, payload)
    staged.remove()  # not before: a fault may be retried, and then needs it
    logger.info(answer["outcome"], extra=answer)
    return answer


def _rejection(answer: Any) -> dict[str, str] | None:
    """Give what the work has rejected the object with, if it has; any other answer is its own."""
    if not isinstance(answer, dict) or answer.get("outcome") != "Rejected":
        return None
    reason = {name: str(answer.get(name, "")) for name in ("error", "cause")}
    return {"outcome": "Rejected", **reason, "expires_at": str(int(time.time()) + PARKED_SECONDS)}


def _published(staged: StagedResult, payload: dict[str, Any]) -> dict[str, str]:
    fence = Fence(
        staged,  # type: ignore[arg-type]
        OUTPUT_BUCKET,
        maximum_bytes=sys.maxsize,  # nothing is read
        work=staged.check,
        handles_deletions=True,
        stamped=lambda content, _: content,  # the work has done that
    )
    answer = fence.answer(payload, RECORD_RETENTION_DAYS)
    if answer.get("error") == AnotherVersion.__name__ and not staged.event.is_deletion:
        # The version that is current has an event of its own, which publishes its result.
        return {"outcome": "Superseded", "expires_at": answer["expires_at"]}
    return answer
