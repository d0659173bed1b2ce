"""An event of S3: which object was created or deleted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

REPAIR_SOURCE = "inorder.repair"  # of an audit's events; S3's events have aws.s3
NULL_VERSION = "null"  # the ID of an object that has no version of its own
_NO_VERSION = {"", NULL_VERSION}
# "A string representation of a hexadecimal value": S3's have 16 or 18 digits, and an audit makes
# longer ones. https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
_HEXADECIMAL = re.compile("[0-9A-Fa-f]+")
_DIGITS = 128  # an output's metadata have no room for many more


class Rejection(Exception):
    """The event cannot have an output. Another attempt would not help."""


class InvalidEvent(Rejection):
    """It is no event of S3: a field is missing or empty, or its sequencer orders nothing."""


@dataclass(frozen=True)
class ObjectEvent:
    """An event of S3, as EventBridge delivers it.

    Attributes
    ----------
    bucket, key : str
        Of the object. EventBridge does not URL-encode the key.
    sequencer : str
        Orders the events of one key or, in a versioned bucket, of one version. Of a longer one,
        these are the first 128 digits: no two events of a key have so many in common.
    etag : str
        ETag of the created object, without quotes. Empty for a deletion.
    version_id : str or None
        In a versioned bucket: the version, or the delete marker, that was created or deleted. An
        event of the null version names none; what `Fence` reads of it has ``null``.
    is_deletion : bool
        Whether the object was deleted, or a delete marker was created.
    is_repair : bool
        Whether an audit has made the event, of an object as it found it.
    """

    bucket: str
    key: str
    sequencer: str
    etag: str = ""
    version_id: str | None = None
    is_deletion: bool = False
    is_repair: bool = False

    @property
    def object_id(self) -> tuple[str | None, str]:
        """Identifies the object among all of its key: its version, if it has one, and its ETag."""
        return named_version(self.version_id), self.etag

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> ObjectEvent:
        """Read an event.

        Parameters
        ----------
        event : dict
            https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html

        Raises
        ------
        InvalidEvent
            The event lacks a key, a bucket, a sequencer or an ETag.
        KeyError
            It lacks `detail-type`, `detail`, or the bucket or object there. The shipped state
            machines do not accept such an input.
        """
        is_deletion = event["detail-type"] == "Object Deleted"
        described = event["detail"]["object"]
        read = {
            "bucket": event["detail"]["bucket"].get("name"),
            **{name: described.get(name) for name in ("key", "sequencer", "etag")},
        }
        if is_deletion:
            del read["etag"]
        for name, value in read.items():
            if not isinstance(value, str) or not value:
                raise InvalidEvent(f"The event has no {name}.")
        if not _HEXADECIMAL.fullmatch(read["sequencer"]):
            raise InvalidEvent("The event's sequencer is not a hexadecimal number.")
        # A long one is recorded as the key's newest by now: to reject it would make no output.
        read["sequencer"] = read["sequencer"][:_DIGITS]
        version_id = named_version(described.get("version-id"))
        is_repair = event.get("source") == REPAIR_SOURCE
        return cls(**read, version_id=version_id, is_deletion=is_deletion, is_repair=is_repair)


def is_sequencer(text: str) -> bool:
    """Tell whether S3, or an audit, may have written a sequencer: who can write outputs can lie."""
    return len(text) <= _DIGITS and bool(_HEXADECIMAL.fullmatch(text))


def named_version(version_id: object) -> str | None:
    """Give a version's ID, or None for an object without a version of its own.

    If versioning was enabled later, or is suspended, S3 calls such an object's version ``null``,
    and overwrites the object as in a bucket without versions.
    """
    return version_id if isinstance(version_id, str) and version_id not in _NO_VERSION else None
