"""Turns S3's own notifications into the events that EventBridge would deliver.

Both have the same content. But the shape and the names differ, and a notification URL-encodes the
key, while EventBridge does not.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote_plus
from uuid import NAMESPACE_OID, uuid5

OBJECT_CREATED = "ObjectCreated:"
# Those that have another name in an event: CompleteMultipartUpload has none.
CREATED_REASONS = {"Put": "PutObject", "Post": "POST Object", "Copy": "CopyObject"}
# For each event name: the fields reason and deletion-type.
DELETIONS = {
    "ObjectRemoved:Delete": ("DeleteObject", "Permanently Deleted"),
    "ObjectRemoved:DeleteMarkerCreated": ("DeleteObject", "Delete Marker Created"),
    "LifecycleExpiration:Delete": ("Lifecycle Expiration", "Permanently Deleted"),
    "LifecycleExpiration:DeleteMarkerCreated": ("Lifecycle Expiration", "Delete Marker Created"),
}


class MalformedNotification(ValueError):
    """The message is not a notification of S3."""


def s3_records(body: str) -> list[Any]:
    """Read the records of a notification, with or without the envelope of SNS.

    Returns
    -------
    list
        At least one. The test message that S3 sends to a new destination counts as a record.

    Raises
    ------
    MalformedNotification
        The body is not a notification of S3.
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
    raise MalformedNotification("The message has no Records and is not an s3:TestEvent")


def adapt(record: Any) -> dict[str, Any] | None:
    """Make the event that EventBridge would deliver for a record.

    Two fields differ. The bucket owner's account is absent, because a notification does not have
    it. The requester is a principal's ID, where EventBridge has an account's. A record that is
    delivered twice makes the same event twice, with the same ID.

    Returns
    -------
    dict or None
        None if no object was created or deleted.

    Raises
    ------
    MalformedNotification
        The name of the event, the bucket's name or the key is missing, or the key is not
        URL-encoded UTF-8.
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
        raise MalformedNotification(f"The message is not JSON: {error}") from error


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
