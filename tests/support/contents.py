"""Events with the same content, as SQS and Kinesis give them to the function of content_hash."""

import base64
import json
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

from inorder import PROJECT

EXAMPLE = PROJECT / "examples" / "content_hash"
# The same order, with another id, another time and another order of fields.
ORDER, AGAIN = (
    json.loads((EXAMPLE / "events" / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("order-placed", "order-placed-again")
)


def sqs_record(body: Any, message_id: str | None = None) -> dict[str, Any]:
    """Build a message of SQS; a body that is no text is an event."""
    return {
        "messageId": message_id or str(uuid4()),
        "body": body if isinstance(body, str) else json.dumps(body),
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:orders",
    }


def kinesis_record(data: Any, number: str | None = None) -> dict[str, Any]:
    """Build a record of Kinesis as it was recorded; data that are no bytes are an event."""
    content = data if isinstance(data, bytes) else json.dumps(data).encode()
    number = number or str(uuid4().int)
    return {
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": "1",
            "sequenceNumber": number,
            "data": base64.b64encode(content).decode(),
            "approximateArrivalTimestamp": 1545084650.987,
        },
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"shardId-000000000006:{number}",
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": "arn:aws:iam::123456789012:role/lambda-role",
        "awsRegion": "us-east-2",
        "eventSourceARN": "arn:aws:kinesis:us-east-2:123456789012:stream/orders",
    }


@cache
def app() -> ModuleType:
    """Import the function, with the variables that its template gives it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STATE_MACHINE_ARN", "arn:of:the:machine")
        environment.setenv("POWERTOOLS_METRICS_NAMESPACE", "unique")
        environment.setenv("POWERTOOLS_SERVICE_NAME", "content-hash")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        return import_module("examples.content_hash.function.app")
