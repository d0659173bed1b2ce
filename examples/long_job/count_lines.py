"""Lambda handler: does a part of the job. Your own work goes here: this one counts lines.

A function works for 15 minutes at most, so it does the work slice by slice. Each slice may be done
twice: after a fault, it is done again.
"""

import os
from http import HTTPStatus
from typing import Any

import boto3
from botocore.exceptions import ClientError

from inorder_fence import ObjectEvent

STAGING_BUCKET = os.environ["STAGING_BUCKET"]
SLICE_BYTES = int(os.environ["SLICE_BYTES"])
OUTDATED = {HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED}
s3 = boto3.client("s3")


def handler(payload: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Count the lines of the next slice.

    Parameters
    ----------
    payload : dict
        ``event``, as `start_job` has written it; ``staged_key``, where the result goes;
        ``progress``, as the answer to the slice before has it, and nothing at first.

    Returns
    -------
    dict
        ``outcome``: ``Continue``, with ``progress``, if there is another slice; ``Done`` if the
        result is staged; ``Superseded`` if the object has been overwritten or deleted. Of an object
        that cannot have an output: ``Rejected``, with ``error`` and ``cause``.
    """
    event = ObjectEvent.from_event(payload["event"])
    progress = {"position": 0, "lines": 0} | payload["progress"]
    source: Any = {"Bucket": event.bucket, "Key": event.key, "IfMatch": f'"{event.etag}"'}
    try:
        size = s3.head_object(**source)["ContentLength"]
        if progress["position"] < size:
            last = progress["position"] + SLICE_BYTES - 1
            part = s3.get_object(**source, Range=f"bytes={progress['position']}-{last}")
            content = part["Body"].read()
            progress["position"] += len(content)
            progress["lines"] += content.count(b"\n")
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in OUTDATED:
            return {"outcome": "Superseded"}
        raise
    if progress["position"] < size:
        return {"outcome": "Continue", "progress": progress}
    s3.put_object(
        Bucket=STAGING_BUCKET,
        Key=payload["staged_key"],
        Body=str(progress["lines"]).encode(),
        ContentType="text/plain",
    )
    return {"outcome": "Done"}
