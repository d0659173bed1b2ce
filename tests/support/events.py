"""Every S3 event of every test is built here, as EventBridge delivers it or as S3 itself does."""

import copy
import json
from typing import Any

from inorder import PROJECT

SEQUENCER = "006A0F5FCE2D7F28B1"


def created(
    key: Any = "x.png",
    *,
    bucket: Any = "input",
    sequencer: Any = SEQUENCER,
    etag: Any = "9b2cf535f27731c974343645a3985328",
    version_id: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """Build the event of a created object, without those fields of the object that are None."""
    described = {"key": key, "sequencer": sequencer, "etag": etag, "version-id": version_id, **more}
    return _event("Object Created", bucket, described)


def deleted(
    key: str = "x.png",
    *,
    bucket: str = "input",
    sequencer: str = SEQUENCER,
    version_id: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Build the event of a deleted object; the parameters are as for `created`."""
    described = {"key": key, "sequencer": sequencer, "version-id": version_id, **more}
    return _event("Object Deleted", bucket, described)


def upload(
    s3: Any,
    key: str,
    content: bytes,
    *,
    bucket: str = "input",
    sequencer: str = SEQUENCER,
    **more: Any,
) -> dict[str, Any]:
    """Put an object, and build the event of it; there may be more parameters of PutObject."""
    answer = s3.put_object(Bucket=bucket, Key=key, Body=content, **more)
    return created(
        key,
        bucket=bucket,
        sequencer=sequencer,
        etag=answer["ETag"].strip('"'),
        version_id=answer.get("VersionId") or None,
    )


def delete(
    s3: Any,
    key: str,
    version_id: str | None = None,
    *,
    bucket: str = "input",
    sequencer: str = SEQUENCER,
) -> dict[str, Any]:
    """Delete an object, or one version or delete marker of it, and build the event of it."""
    version = {"VersionId": version_id} if version_id else {}
    deleted_version = s3.delete_object(Bucket=bucket, Key=key, **version).get("VersionId") or None
    return deleted(key, bucket=bucket, sequencer=sequencer, version_id=deleted_version)


def shipped(name: str) -> dict[str, Any]:
    """Load an event of the folder events."""
    loaded: dict[str, Any] = json.loads((PROJECT / "events" / f"{name}.json").read_text())
    return loaded


def changed(event: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Copy an event, or a record, with another value in a field such as ``detail.object.key``."""
    copied, inside, last = _opened(event, path)
    inside[last] = value
    return copied


def without(event: dict[str, Any], path: str) -> dict[str, Any]:
    """Copy an event, or a record, without one field; `path` is as for `changed`."""
    copied, inside, last = _opened(event, path)
    del inside[last]
    return copied


def _event(kind: str, bucket: Any, described: dict[str, Any]) -> dict[str, Any]:
    present = {name: value for name, value in described.items() if value is not None}
    return {
        "source": "aws.s3",
        "detail-type": kind,
        "detail": {"bucket": {"name": bucket}, "object": present},
    }


def _opened(event: dict[str, Any], path: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Copy an event, and give what a field of the copy is in, and the field's name there."""
    copied = inside = copy.deepcopy(event)
    *parents, last = path.split(".")
    for name in parents:
        inside = inside[name]
    return copied, inside, last
