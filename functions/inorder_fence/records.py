"""How records of the key table and messages of the queues are named, written and read.

State machines write them by intrinsic functions; tests/unit/test_records.py compares the two. A
record's ID is one of these::

    bucket/key                    a key, whose lock it is: `object_key`
    bucket#version/key            a version, in a bucket that has versions: `object_key`
    retry:OBJECT_KEY@SEQUENCER    a stream of retries: `retry_id`

No two of these are equal. A bucket's name has no ``#``, no ``:`` and no ``/``, a version no ``/``,
and a sequencer no ``@``. A key may have all of them, so it is last, or before the last ``@``.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

from inorder_fence.object_event import is_sequencer

Json = dict[str, Any]

# For how long a record says that its event is parked: a day longer than SQS keeps the event.
PARKED_SECONDS = 15 * 86_400
# SQS refuses these, or replaces them by U+FFFD: its documents say both. In JSON they occur in
# strings only, where an escape can replace them. S3 allows U+FFFE and U+FFFF in a key.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
# https://github.com/Genbox/SimpleS3/issues/5
_REFUSED = re.compile("[\ud800-\udfff\ufffe\uffff]")


# IDs of records


def object_key(bucket: str, key: str, version_id: Any = None) -> str:
    """Name a key or, if it is given a version, that version: the field ``object_key``."""
    is_named = isinstance(version_id, str) and version_id
    return f"{bucket}#{version_id}/{key}" if is_named else f"{bucket}/{key}"


def retry_id(event: Json) -> str:
    """Give the ID of the record of an event's retries; all deliveries of an event have the same.

    Whichever policy has sent the message, an event of S3 is named by its object and its sequencer.
    If nothing orders it, a hash of all of it is its name.
    """
    named, sequencer = object_key_of(event), s3_object(event).get("sequencer")
    if named and isinstance(sequencer, str) and is_sequencer(sequencer):
        return f"retry:{named}@{sequencer}"
    text = json.dumps(without_history(event), sort_keys=True)
    return f"retry:{sha256(text.encode()).hexdigest()}"


def key_in(named: str) -> str | None:
    """Give the S3 key of an `object_key`; None if it names something else."""
    place, slash, key = named.partition("/")
    return key if slash and ":" not in place.partition("#")[0] else None


# Events


def s3_object(event: Any) -> Json:
    """Give ``detail.object`` of an event of S3; an empty dict for any other input."""
    detail = event.get("detail") if isinstance(event, dict) else None
    described = detail.get("object") if isinstance(detail, dict) else None
    return described if isinstance(described, dict) and "sequencer" in described else {}


def object_key_of(event: Any) -> str | None:
    """Give the `object_key` of an event of S3; None for any other input."""
    match event:
        case {"detail": {"bucket": {"name": str(bucket)}, "object": {"key": str(key), **more}}}:
            return object_key(bucket, key, more.get("version-id"))
    return None


def without_history(event: Any) -> Any:
    """Leave out ``retry``, which counts the attempts so far: the event as S3 has sent it."""
    if not isinstance(event, dict):
        return event
    return {name: value for name, value in event.items() if name != "retry"}


# Messages


def retry_message(event: Json, error: str, cause: str, record_id: str) -> str:
    """Write what a state machine sends to the retry queue, whichever policy wrote the record.

    Parameters
    ----------
    record_id : str
        ID of the event's record: it names an event that is not of S3.
    """
    if named := object_key_of(event):
        sequencer = s3_object(event).get("sequencer", "")
        subject = {"object_key": named, "sequencer": str(sequencer)}
    else:
        subject = {"object_key": record_id}
    reason = {"Error": error, "Cause": cause}
    return as_json({"outcome": "Retrying", **subject, "reason": reason, "event": event})


def rejected_message(record: Json, error: str, cause: str) -> str:
    """Write the message that lets a record without an event be parked, as DynamoDB gives it."""
    named, reason = record["id"]["S"], {"Error": error, "Cause": cause, "rejected": True}
    body = {"outcome": "Retrying", "object_key": named, "reason": reason, "record": record}
    return as_json(body)


def as_json(value: Any) -> str:
    """Write JSON that SQS takes, and that is as short as the JSON of States.JsonToString."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _REFUSED.sub(lambda refused: f"\\u{ord(refused[0]):04x}", text)


def needs_escapes(value: Any) -> bool:
    """Tell whether SQS refuses the JSON of a service that escapes nothing."""
    return bool(_REFUSED.search(json.dumps(value, ensure_ascii=False)))
