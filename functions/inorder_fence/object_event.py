"""An event of S3: which object was created or deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NULL_VERSION = "null"  # the ID of an object that has no version of its own


@dataclass(frozen=True)
class ObjectEvent:
    """An event of S3, as EventBridge delivers it.

    Attributes
    ----------
    bucket, key : str
        Of the object. EventBridge does not URL-encode the key.
    sequencer : str
        Orders the events of one key or, in a versioned bucket, of one version.
    etag : str
        ETag of the created object, without quotes. Empty for a deletion.
    version_id : str or None
        In a versioned bucket: the version, or the delete marker, that was created or deleted. An
        event of the null version names none; what `Fence` reads of it has ``null``.
    is_deletion : bool
        Whether the object was deleted, or a delete marker was created.
    """

    bucket: str
    key: str
    sequencer: str
    etag: str = ""
    version_id: str | None = None
    is_deletion: bool = False

    @property
    def object_id(self) -> tuple[str | None, str]:
        """Identifies the object among all of its key: its version, if it has one, and its ETag."""
        return named_version(self.version_id), self.etag

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> ObjectEvent:
        """Read an event in which the state machine has found all fields that it needs.

        Parameters
        ----------
        event : dict
            https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html

        Raises
        ------
        KeyError
            The event lacks a field.
        """
        described = event["detail"]["object"]
        is_deletion = event["detail-type"] == "Object Deleted"
        return cls(
            bucket=event["detail"]["bucket"]["name"],
            key=described["key"],
            sequencer=described["sequencer"],
            etag="" if is_deletion else described["etag"],
            version_id=named_version(described.get("version-id")),
            is_deletion=is_deletion,
        )


def named_version(version_id: object) -> str | None:
    """Give a version's ID, or None for an object without a version of its own.

    If versioning was enabled later, or is suspended, S3 calls such an object's version ``null``,
    and overwrites the object as in a bucket without versions.
    """
    return version_id if isinstance(version_id, str) and version_id != NULL_VERSION else None
