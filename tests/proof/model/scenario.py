"""What happens to one object, and how often the adversary may act."""

import json
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from tests.support.events import changed, created, deleted, without

INVALID = "invalid"
FLAGS = {"versioned", "blind", "odd"}
# Of one attempt of a Task.
ERRORS = {
    "failed": "States.TaskFailed",
    "timeout": "States.Timeout",
    "throttled": "Lambda.TooManyRequestsException",
}


@dataclass(frozen=True)
class Scenario:
    """What happens, and how often the adversary may act.

    What happens to the object is numbered from 1, and `contents` has one character for each: a
    letter is an upload, "ABA" if the third has the first one's content; a small letter is not an
    image. "-" is a deletion, in a versioned bucket a delete marker. There, a digit is the permanent
    deletion of that version or marker. Sequencers then fall from version to version, and the null
    version has the lowest ones, because they must not be compared.
    """

    events: tuple[int, ...]  # delivered, in any order; a number that stands twice is a duplicate
    crashes: int = 0  # an execution dies
    restarts: int = 0  # an execution is restarted
    faults: int = 0  # a service or the function fails, or an answer is lost
    refusals: int = 0  # a queue or the bus refuses a message
    repeats: int = 0  # the retry queue delivers a message again
    expiries: int = 0  # a record expires
    starts: int = 0  # an execution starts another one; later attempts to start one fail
    lates: int = 0  # a write to the table takes effect at any time after its timeout
    sweeps: int = 0  # a sweep reads a record, and hands its event over at any time after that
    contents: str = ""  # uploads of different contents if empty
    versioned: bool = False  # whether the bucket is
    switched: int = 0  # before this happens, versioning is enabled or, if `versioned`, suspended
    transient: tuple[str, ...] = ()  # errors of Tasks, each of which fails one attempt
    blind: bool = False  # a waiter's reads of the record may fail, as often as they like
    odd: bool = False  # a fault may also be an answer of the function outside its contract
    damaged: str = ""  # "detail.object.key" is absent from the events, or "detail.object.key=5"

    def __str__(self) -> str:
        values = ((each, getattr(self, each.name)) for each in fields(self)[1:])
        told = [f"{each.name} {value}" for each, value in values if value != each.default]
        return f"{list(self.events)}; {', '.join(told) or 'none'}"

    @property
    def valid(self) -> bool:
        """Whether the events have all required fields; a version is not required."""
        return not self.damaged or "version-id" in self.damaged

    @property
    def last(self) -> int:
        return max(self.events)

    def letter(self, event: int) -> str:
        return (self.contents or "ABCDEFGH")[event - 1]

    def is_deletion(self, event: int) -> bool:
        """Tell whether something is deleted, or a delete marker created."""
        return not self.letter(event).isalpha()

    def content(self, event: int) -> str:
        letter = self.letter(event)
        return letter if letter.isupper() else f"{INVALID} {letter}"

    def version(self, event: int) -> int:
        """Give the number of the version or marker that is created or permanently deleted."""
        letter = self.letter(event)
        return int(letter) if letter.isdigit() else event

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
                kept = [each for each in there if self.is_named(event) or self.is_named(each)]
                there = [*kept, event]
        return there

    def find(self, version_id: str, happened: int) -> int | None:
        """Give the version or marker of an ID, if it exists."""
        there = [each for each in self.versions(happened) if self.version_id(each) == version_id]
        is_gone = there and self.is_deletion(there[0]) and not self.is_versioned(happened)
        return None if is_gone or not there else there[0]

    def version_id(self, event: int) -> str:
        return str(self.version(event)) if self.is_named(event) else "null"

    def is_deleted(self, upload: int, happened: int) -> bool:
        """Tell whether what was uploaded has been deleted, and not only replaced."""
        later = range(upload + 1, happened + 1)
        if self.is_named(upload):
            return upload not in self.versions(happened)
        return any(self.is_deletion(each) and not self.is_named(each) for each in later)

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
            made = deleted("k", **same)
        else:
            made = created("k", **same, etag=f"etag-{self.content(number)}")
        path, _, value = self.damaged.partition("=")
        if value:
            return changed(made, path, json.loads(value))
        return without(made, path) if path else made


def scenarios(text: str) -> tuple[Scenario, ...]:
    """Read scenarios, such as ``1 crashes=1, 11 12 A- Ab faults=1 versioned``.

    The first one has one event. The others have two deliveries, of one event (11) or of two (12),
    each with each of the contents (A- and Ab): these are five scenarios.
    """
    found: list[Scenario] = []
    for part in text.split(", "):
        adversary, events, contents = dict[str, Any](), list[tuple[int, ...]](), list[str]()
        for word in part.split():
            name, _, count = word.partition("=")
            if word.isdigit():
                events.append(tuple(map(int, word)))
            elif name in ERRORS:
                adversary["transient"] = (ERRORS[name],) * int(count or 1)
            elif word in FLAGS or count:
                adversary[name] = (int(count) if count.isdigit() else count) if count else True
            else:
                contents.append(word)
        pairs = product(events, contents or [""])
        found += [Scenario(each, contents=content, **adversary) for each, content in pairs]
    return tuple(found)
