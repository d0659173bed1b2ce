"""S3's direct notifications, as the events that EventBridge would bring.

They tell of the same things in another shape, with other names, and with the key URL-encoded, which
it is not in an EventBridge event.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote_plus
from uuid import NAMESPACE_OID, uuid5

OBJECT_CREATED = "ObjectCreated:"
CREATED_REASONS = {
    "Put": "PutObject",
    "Post": "POST Object",
    "Copy": "CopyObject",
    "CompleteMultipartUpload": "CompleteMultipartUpload",
}
# The event's name: its reason and deletion-type.
DELETIONS = {
    "ObjectRemoved:Delete": ("DeleteObject", "Permanently Deleted"),
    "ObjectRemoved:DeleteMarkerCreated": ("DeleteObject", "Delete Marker Created"),
    "LifecycleExpiration:Delete": ("Lifecycle Expiration", "Permanently Deleted"),
    "LifecycleExpiration:DeleteMarkerCreated": ("Lifecycle Expiration", "Delete Marker Created"),
}


class MalformedNotification(ValueError):
    """S3 sends nothing of this shape."""


def s3_records(body: str | bytes) -> list[Any]:
    """Read the records of a notification, perhaps in the envelope that SNS puts around it.

    Parameters
    ----------
    body : str or bytes
        An SQS message's body, or a Kinesis record's data.

    Returns
    -------
    list
        At least one. The test that S3 sends to a new destination counts as a record.

    Raises
    ------
    MalformedNotification
        It is no notification of S3.
    """
    message = _json(body)
    if isinstance(message, dict) and message.get("Type") == "Notification":
        message = _json(message.get("Message"))
    if isinstance(message, dict):
        if message.get("Event") == "s3:TestEvent":
            return [{"eventName": message["Event"]}]
        records = message.get("Records")
        if isinstance(records, list) and records:
            return records
    raise MalformedNotification("The message has no Records and is no s3:TestEvent")


def adapt(record: Any) -> dict[str, Any] | None:
    """Make the event that EventBridge would bring of a record.

    The bucket owner's account is left out, as no notification tells it. The requester is a
    principal's ID, where EventBridge has an account's. The same record makes the same event, down
    to its ID, however often it is delivered.

    Parameters
    ----------
    record : dict
        One of ``Records``.

    Returns
    -------
    dict or None
        None if the record tells neither of a new object nor of a deleted one.

    Raises
    ------
    MalformedNotification
        It lacks its name, its bucket's name or its key, or the key is not URL-encoded UTF-8.
    """
    name = _text(record, "eventName").removeprefix("s3:")
    if name.startswith(OBJECT_CREATED):
        method = name.removeprefix(OBJECT_CREATED)
        detail_type, outcome = "Object Created", {"reason": CREATED_REASONS.get(method, method)}
    elif name in DELETIONS:
        reason, deletion_type = DELETIONS[name]
        detail_type, outcome = "Object Deleted", {"reason": reason, "deletion-type": deletion_type}
    else:
        return None
    bucket, encoded_key = (
        _text(record, "s3", "bucket", "name"),
        _text(record, "s3", "object", "key"),
    )
    try:
        key = unquote_plus(encoded_key, errors="strict")
    except UnicodeDecodeError as error:
        raise MalformedNotification(f"The key {encoded_key!r} is not UTF-8") from error
    described = {
        "key": key,
        "size": _find(record, "s3", "object", "size"),
        "etag": _find(record, "s3", "object", "eTag"),
        "version-id": _find(record, "s3", "object", "versionId"),
        "sequencer": _find(record, "s3", "object", "sequencer"),
    }
    request = {
        "request-id": _find(record, "responseElements", "x-amz-request-id"),
        "requester": _find(record, "userIdentity", "principalId"),
        "source-ip-address": _find(record, "requestParameters", "sourceIPAddress"),
    }
    envelope = {"time": _find(record, "eventTime"), "region": _find(record, "awsRegion")}
    return {
        "version": "0",
        "id": str(uuid5(NAMESPACE_OID, json.dumps(record, sort_keys=True))),
        "detail-type": detail_type,
        "source": "aws.s3",
        **_known(envelope),
        "resources": [_find(record, "s3", "bucket", "arn") or f"arn:aws:s3:::{bucket}"],
        "detail": {
            "version": "0",
            "bucket": {"name": bucket},
            "object": _known(described),
            **_known(request),
            **outcome,
        },
    }


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedNotification(f"The message is no JSON: {error}") from error


def _find(record: Any, *path: str) -> Any:
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def _text(record: Any, *path: str) -> str:
    found = _find(record, *path)
    if isinstance(found, str) and found:
        return found
    raise MalformedNotification(f"The record has no {'.'.join(path)}")


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
