"""Lambda handler: keeps one row of a table for each object, whatever comes late, twice or at once.

The condition of the write is the fence: no older event replaces a row. README.md says the rest.
"""

import json
import os
import time
from typing import Any, Literal

import boto3
from botocore.exceptions import ClientError

from inorder_fence import S3_CONFIG, ObjectEvent, Rejection

NOT_OLDER = "attribute_not_exists(sequencer) OR sequencer <= :sequencer"
MAXIMUM_BYTES = 10_000_000  # a larger object is rejected
# For so long the main stack keeps its record: a day longer than SQS keeps a parked event.
RECORD_SECONDS = 15 * 86_400
TOMBSTONE_SECONDS = 2 * RECORD_SECONDS  # nothing delivers an event again after such a time
GONE = {"NoSuchKey", "PreconditionFailed"}  # deleted, or overwritten: a newer event decides the row

Outcome = Literal["Processed", "Superseded"]

s3 = boto3.client("s3", config=S3_CONFIG)
table = boto3.resource("dynamodb", config=S3_CONFIG).Table(os.environ["TABLE_NAME"])


def work(content: bytes) -> dict[str, Any]:
    """Make the attributes of a row. Your own work goes here; it must be safe to repeat."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise Rejection(f"The object is no text: {error}") from error
    return {"title": lines[0] if lines else "", "lines": len(lines)}


def handler(payload: dict[str, Any], context: Any) -> dict[str, str]:  # noqa: ARG001
    """Process one event: a rule sends it alone, a state machine as a field (docs/function.md)."""
    event = payload.get("event", payload)
    try:
        answer: dict[str, str] = {"outcome": keep_row(ObjectEvent.from_event(event))}
    except Rejection as rejection:
        if event is payload:  # Lambda tries it twice more, then sends it to FailedEvents
            raise
        name = type(rejection).__name__
        answer = {"outcome": "Rejected", "error": name, "cause": str(rejection)}
    print(json.dumps({"key": event["detail"]["object"].get("key"), **answer}))  # noqa: T201
    return answer | {"expires_at": str(int(time.time()) + RECORD_SECONDS)}


def keep_row(event: ObjectEvent) -> Outcome:
    """Write the row of an object for its newest event; a deletion leaves a tombstone."""
    if event.version_id:
        raise Rejection("The bucket has versions, whose sequencers do not compare.")
    if event.is_deletion:
        return write(event, {"deleted": True, "expires_at": int(time.time()) + TOMBSTONE_SECONDS})
    try:
        source = s3.get_object(Bucket=event.bucket, Key=event.key, IfMatch=f'"{event.etag}"')
    except ClientError as error:
        if error.response["Error"]["Code"] in GONE:
            return "Superseded"
        raise
    if source["ContentLength"] > MAXIMUM_BYTES:
        raise Rejection(f"The object is larger than {MAXIMUM_BYTES} bytes.")
    return write(event, work(source["Body"].read()))


def write(event: ObjectEvent, attributes: dict[str, Any]) -> Outcome:
    """Replace the whole row, unless it is a newer event's; the same event may write it again."""
    sequencer = comparable(event.sequencer)
    try:
        table.put_item(
            Item={**attributes, "key": event.key, "sequencer": sequencer},
            ConditionExpression=NOT_OLDER,
            ExpressionAttributeValues={":sequencer": sequencer},
        )
    except table.meta.client.exceptions.ConditionalCheckFailedException:
        return "Superseded"
    return "Processed"


def comparable(sequencer: str) -> str:
    """Leave out the zeros at the end, so that DynamoDB compares sequencers as S3 says.

    S3 says to pad the shorter one with zeros; DynamoDB does not, and takes ``0A`` for older than
    ``0A0``, which is the same.
    """
    return sequencer.rstrip("0")
