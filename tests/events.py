"""Every S3 event of every test is built here, as EventBridge delivers it."""

from __future__ import annotations

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
    """Build the event of a created object.

    Parameters
    ----------
    key, sequencer, etag, version_id : object
        Fields of the event's object; one that is None is left out.
    bucket : object
        The bucket's name.
    **more : object
        More fields of the event's object, such as ``size``.
    """
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
    """Build the event of a deleted object; the parameters are those of `created`."""
    described = {"key": key, "sequencer": sequencer, "version-id": version_id, **more}
    return _event("Object Deleted", bucket, described)


def shipped(name: str) -> dict[str, Any]:
    """Load an event of the folder events.

    Parameters
    ----------
    name : str
        Of the file, without ``.json``.
    """
    loaded: dict[str, Any] = json.loads((PROJECT / "events" / f"{name}.json").read_text())
    return loaded


def _event(kind: str, bucket: Any, described: dict[str, Any]) -> dict[str, Any]:
    present = {name: value for name, value in described.items() if value is not None}
    return {
        "source": "aws.s3",
        "detail-type": kind,
        "detail": {"bucket": {"name": bucket}, "object": present},
    }
