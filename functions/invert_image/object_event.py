"""What an event of S3 tells: which object was created or deleted, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ObjectEvent:
    """An event of S3, as EventBridge delivers it.

    Attributes
    ----------
    bucket, key : str
        Which object. The key as EventBridge gives it, which is not URL-encoded.
    sequencer : str
        Orders the events of one key; in a versioned bucket, of one version.
    etag : str
        ETag of what was created, without quotes. Empty for a deletion.
    version_id : str or None
        Its version, or that of a delete marker, in a versioned bucket.
    is_deletion : bool
        Whether the object was deleted, or a delete marker put over it.
    """

    bucket: str
    key: str
    sequencer: str
    etag: str = ""
    version_id: str | None = None
    is_deletion: bool = False

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> ObjectEvent:
        """Read an event that the state machine has found to be whole.

        Parameters
        ----------
        event : dict
            https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html

        Raises
        ------
        KeyError
            The event lacks something.
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
    """Give a version's ID, or none for an object that has no version of its own.

    S3 calls that one ``null`` in a bucket whose versioning was off before or is suspended, and
    overwrites it as in any bucket without versions.
    """
    return version_id if isinstance(version_id, str) and version_id != "null" else None
