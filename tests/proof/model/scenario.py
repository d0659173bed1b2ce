"""What happens to one object, and how often the adversary may act."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from tests.support.events import changed, created, deleted, without

# Errors of one attempt of a Task.
FAILED, TIMED_OUT, THROTTLED = (
    "States.TaskFailed",
    "States.Timeout",
    "Lambda.TooManyRequestsException",
)
ABSENT = object()


class Change:
    """Something that happens to the object."""


@dataclass(frozen=True)
class Upload(Change):
    """An upload of a content."""

    content: str

    def __str__(self) -> str:
        return self.content


@dataclass(frozen=True)
class Deletion(Change):
    """A deletion of the object, in a versioned bucket by a delete marker, or of a version."""

    version: int | None = None  # the number of the change that has created it

    def __str__(self) -> str:
        return f"deletion of {self.version}" if self.version else "deletion"


A, B, C, D = map(Upload, "ABCD")
NO_IMAGE = Upload("no image")
DELETED = Deletion()


@dataclass(frozen=True)
class Damage:
    """A field of the events that is absent, or has another value."""

    path: str
    value: Any = ABSENT

    def __str__(self) -> str:
        return self.path + (" is absent" if self.value is ABSENT else f" is {self.value!r}")

    def of(self, event: dict[str, Any]) -> dict[str, Any]:
        """Damage an event."""
        if self.value is ABSENT:
            return without(event, self.path)
        return changed(event, self.path, self.value)


@dataclass(frozen=True)
class Scenario:
    """What happens, and how often the adversary may act.

    What happens to the object is numbered from 1. Sequencers fall from version to version, and the
    null version has the lowest ones, because they must not be compared.
    """

    changes: Sequence[Change]
    delivered: Sequence[int] = ()  # events, in any order; if empty, each once
    crashes: int = 0  # an execution dies
    restarts: int = 0  # an execution is restarted
    faults: int = 0  # a service or the function fails, or an answer is lost
    refusals: int = 0  # a queue or the bus refuses a message
    repeats: int = 0  # the retry queue delivers a message again
    expiries: int = 0  # a record expires
    starts: int = 0  # an execution starts another one; later attempts to start one fail
    lates: int = 0  # a write to the table takes effect at any time after its timeout
    sweeps: int = 0  # a sweep reads a record, and hands its event over at any time after that
    versioned: bool = False  # whether the bucket is
    switched: int = 0  # before this happens, versioning is enabled or, if `versioned`, suspended
    transient: tuple[str, ...] = ()  # errors of Tasks, each of which fails one attempt
    blind: bool = False  # a waiter's reads of the record may fail, as often as they like
    odd: bool = False  # a fault may also be an answer of the function outside its contract
    damaged: Damage | None = None

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self)[2:])
        listed = (f"; {name} {_listed(value)}" for name, value in values if value)
        more = "".join(text.removesuffix(" True") for text in listed)
        delivered = f", delivered {_listed(self.delivered)}" if self.delivered else ""
        return _listed(self.changes) + delivered + more

    @property
    def events(self) -> Sequence[int]:
        """The events that are delivered; a number that stands twice is a duplicate."""
        return self.delivered or range(1, len(self.changes) + 1)

    @property
    def valid(self) -> bool:
        """Whether the events have all required fields; a version is not required."""
        return not self.damaged or "version-id" in self.damaged.path

    @property
    def last(self) -> int:
        return max(self.events)

    def is_deletion(self, event: int) -> bool:
        """Tell whether something is deleted, or a delete marker created."""
        return isinstance(self.changes[event - 1], Deletion)

    def is_no_image(self, event: int) -> bool:
        """Tell whether what is uploaded is not an image."""
        return self.changes[event - 1] == NO_IMAGE

    def content(self, event: int) -> str:
        return str(self.changes[event - 1])

    def version(self, event: int) -> int:
        """Give the number of the version or marker that is created or permanently deleted."""
        change = self.changes[event - 1]
        return (isinstance(change, Deletion) and change.version) or event

    def is_named(self, event: int) -> bool:
        """Tell whether the version of an event has a name of its own, and is not the null version.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/AddingObjectstoVersionSuspendedBuckets.html
        """
        return self.versioned != (0 < self.switched <= self.version(event))

    def is_versioned(self, happened: int) -> bool:
        """Tell whether the bucket has versions, because its versioning is enabled or suspended."""
        return self.versioned or 0 < self.switched <= happened

    def versions(self, happened: int) -> list[int]:
        """List the versions and markers that exist, the current one last.

        What is created without a name replaces the null version, which may be a marker
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeletingObjectsfromVersioningSuspendedBuckets.html).
        """
        there: list[int] = []
        for event in range(1, happened + 1):
            if self.version(event) != event:
                there.remove(self.version(event))
            else:
                kept = [
                    version for version in there if self.is_named(event) or self.is_named(version)
                ]
                there = [*kept, event]
        return there

    def find(self, version_id: str, happened: int) -> int | None:
        """Give the version or marker of an ID, if it exists."""
        there = [
            version for version in self.versions(happened) if self.version_id(version) == version_id
        ]
        is_gone = there and self.is_deletion(there[0]) and not self.is_versioned(happened)
        return None if is_gone or not there else there[0]

    def version_id(self, event: int) -> str:
        return str(self.version(event)) if self.is_named(event) else "null"

    def is_deleted(self, upload: int, happened: int) -> bool:
        """Tell whether what was uploaded has been deleted, and not only replaced."""
        later = range(upload + 1, happened + 1)
        if self.is_named(upload):
            return upload not in self.versions(happened)
        return any(self.is_deletion(event) and not self.is_named(event) for event in later)

    def current(self, happened: int) -> int | None:
        """Give the upload that is the current object, or None if there is no object."""
        there = self.versions(happened)
        return there[-1] if there and not self.is_deletion(there[-1]) else None

    def sequencer(self, event: int) -> str:
        return f"{9 - self.version(event) if self.is_named(event) else 0}{event}"

    def number(self, sequencer: str) -> int:
        return int(sequencer[-1])

    def key(self, event: int) -> str:
        return f"b#{self.version(event)}/k" if self.is_named(event) else "b/k"

    def event(self, number: int) -> dict[str, Any]:
        same: dict[str, Any] = {"bucket": "b", "sequencer": self.sequencer(number)}
        if self.is_named(number):
            same["version_id"] = str(self.version(number))
        if self.is_deletion(number):
            event = deleted("k", **same)
        else:
            event = created("k", **same, etag=f"etag-{self.content(number)}")
        return self.damaged.of(event) if self.damaged else event


def _listed(values: Any) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)
