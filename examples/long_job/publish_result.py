"""Lambda handler: publishes the staged result of a job. It is the only one that writes outputs."""

import os
import sys
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import boto3

from inorder_fence import S3_CONFIG, Fence, ObjectEvent, Rejection

STAGING_BUCKET, OUTPUT_BUCKET = os.environ["STAGING_BUCKET"], os.environ["OUTPUT_BUCKET"]
MAXIMUM_BYTES = int(os.environ["MAXIMUM_BYTES"])
s3 = boto3.client("s3", config=S3_CONFIG)


@dataclass(frozen=True)
class StagedResult:
    """The content of an output, and its media type."""

    content: bytes
    content_type: str


class ResultTooLarge(Rejection):
    """The result does not fit into the function's memory."""


class UnreadSources:
    """S3 for the fence, which asks whether a source is still the event's: it reads no content."""

    def __getattr__(self, name: str) -> Any:
        return getattr(s3, name)

    def get_object(self, **request: Any) -> dict[str, Any]:
        """Answer as S3 does, without the content, which may be as large as an object can be."""
        return {**s3.head_object(**request), "Body": BytesIO()}


def handler(payload: dict[str, Any], _context: Any) -> dict[str, str]:
    """Publish the result, unless a newer event decides the output.

    Parameters
    ----------
    payload : dict
        ``event`` and ``staged_key``, as the work gets them.
    """

    def staged(_source: bytes) -> StagedResult:
        result = s3.get_object(Bucket=STAGING_BUCKET, Key=payload["staged_key"])
        if result["ContentLength"] > MAXIMUM_BYTES:
            raise ResultTooLarge(f"The result is larger than {MAXIMUM_BYTES} bytes.")
        return StagedResult(result["Body"].read(), result["ContentType"])

    fence = Fence(
        UnreadSources(),  # type: ignore[arg-type]
        OUTPUT_BUCKET,
        maximum_bytes=sys.maxsize,
        work=staged,
        handles_deletions=os.environ["HANDLES_DELETIONS"] == "true",
    )
    try:
        output = fence.write_newest(ObjectEvent.from_event(payload["event"]))
    except Rejection as error:
        return {"outcome": "Rejected", "error": type(error).__name__, "cause": str(error)}
    return {"outcome": output.outcome, "output_key": output.key}
