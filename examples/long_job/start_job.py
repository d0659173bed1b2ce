"""Lambda handler: starts a job for an object, and removes the output of a deleted object.

It is what the main stack's parameter WorkFunctionArn names. docs/function.md is its contract.
"""

import json
import os
import sys
import time
from contextlib import suppress
from hashlib import sha256
from typing import Any

import boto3

from inorder_fence import S3_CONFIG, Fence, ObjectEvent, Rejection, Result

STATE_MACHINE_ARN = os.environ["STATE_MACHINE_ARN"]
RECORD_RETENTION_DAYS = int(os.environ["RECORD_RETENTION_DAYS"])
PARKED_DAYS = 15  # one more than SQS keeps a parked event
# https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
NAME_LENGTH = 80
SEQUENCER_LENGTH = 52  # of a repair's event; S3's have 16 or 18 digits
states = boto3.client("stepfunctions", config=S3_CONFIG)


class NotSupported(Rejection):
    """The bucket has versions, whose sequencers do not compare, or no job can be named."""


def refuse(_content: bytes) -> Result:
    """Make no output: of a bucket without versions, a deletion never needs one."""
    raise NotSupported("The bucket has versions.")


fence = Fence(
    boto3.client("s3", config=S3_CONFIG),
    output_bucket=os.environ["OUTPUT_BUCKET"],
    maximum_bytes=sys.maxsize,
    work=refuse,
    handles_deletions=os.environ["HANDLES_DELETIONS"] == "true",
)


def job_name(event: ObjectEvent) -> str:
    """Name the job of an event: the names of a key's jobs begin alike, and sort by sequencer.

    A key may have a thousand characters of any kind; a name may not.
    """
    if event.version_id:
        raise NotSupported("The bucket has versions.")
    if len(event.sequencer) > SEQUENCER_LENGTH:
        raise NotSupported(f"The sequencer has more than {SEQUENCER_LENGTH} digits.")
    key = sha256(f"{event.bucket}/{event.key}".encode()).hexdigest()
    return f"{key[: NAME_LENGTH - len('-') - SEQUENCER_LENGTH]}-{event.sequencer}"


def job_input(event: ObjectEvent) -> str:
    """Write what the job gets: of two deliveries of an event, the same."""
    described = {"key": event.key, "sequencer": event.sequencer, "etag": event.etag}
    detail = {"bucket": {"name": event.bucket}, "object": described}
    return json.dumps({"event": {"detail-type": "Object Created", "detail": detail}})


def handler(payload: dict[str, Any], _context: Any) -> dict[str, str]:
    """Start the job of an event, unless another delivery of the event has started it."""
    now = int(time.time())
    try:
        event = ObjectEvent.from_event(payload["event"])
        name = job_name(event)
    except Rejection as error:
        reason = {"error": type(error).__name__, "cause": str(error)}
        return {"outcome": "Rejected", **reason, "expires_at": str(now + PARKED_DAYS * 86_400)}
    if event.is_deletion:
        return fence.answer(payload, RECORD_RETENTION_DAYS)
    # It succeeds if the same job runs, and gives this error if that has ended, whether well or not.
    # A name is free again after 90 days, when no delivery comes any more.
    with suppress(states.exceptions.ExecutionAlreadyExists):
        states.start_execution(stateMachineArn=STATE_MACHINE_ARN, name=name, input=job_input(event))
    kept_until = now + RECORD_RETENTION_DAYS * 86_400
    return {"outcome": "Processed", "expires_at": str(kept_until), "job": name}
