"""What a story is told from, and what it consists of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cmp_to_key
from typing import Any, Literal

from inorder.audit.repairing import repaired_at
from inorder.model.execution import Execution
from inorder_fence.fenced_output import OutputState, compare_sequencers

# As a sentence names it.
Part = Literal[
    "executions", "records", "object", "output", "parked events", "events that are retried"
]


@dataclass(frozen=True)
class Queued:
    """An event of the object in a queue."""

    queue: Literal["parked", "retrying"]
    id: str  # of the message
    version_id: str | None
    sequencer: str | None
    since: datetime | None  # when it was parked, or first failed
    reason: str
    next: datetime | None = None  # when it is tried again
    attempts: int = 0  # how often it has failed
    event: Any = None  # the event, if the message has it


@dataclass(frozen=True)
class Output:
    """An output, and what its metadata says of the event that it was made for."""

    key: str
    sequencer: str | None = None
    source_etag: str | None = None
    version_id: str | None = None
    modified: datetime | None = None
    bucket: str | None = None  # of its source; earlier versions of the fence named none

    @property
    def state(self) -> OutputState:
        """The same as the fence reads it; the ETag is not known."""
        made_of = {
            "sequencer": self.sequencer,
            "source-bucket": self.bucket,
            "source-etag": self.source_etag,
            "source-version-id": self.version_id,
        }
        return OutputState("-", {name: value for name, value in made_of.items() if value})


@dataclass(frozen=True)
class Source:
    """The object as it is now. `version_id` is None in a bucket without versions."""

    etag: str
    version_id: str | None = None
    modified: datetime | None = None
    is_folder: bool = False  # made by "Create folder" of S3's console: no bytes, and a / at the end


@dataclass(frozen=True)
class Facts:
    """What could be read about an object."""

    bucket: str
    key: str
    policy: str
    keeps: Literal["newest", "first", "each", "last"]
    now: datetime
    executions: tuple[Execution, ...] = ()  # of the key, with their steps
    # The items of the key table that belong to the object.
    records: tuple[Mapping[str, Any], ...] = ()
    queued: tuple[Queued, ...] = ()
    outputs: tuple[Output, ...] = ()
    source: Source | None = None  # None if there is no object
    # Which parts could not be read, and why, in a sentence. Another part was read completely.
    unread: Mapping[Part, str] | None = None
    since: datetime | None = None  # executions that started before were not read
    handles_deletions: bool = True  # whether deletions start executions
    has_table: bool = True  # whether the policy writes records
    from_log: bool = False  # whether the executions come from a log, which may lack the end of one
    version_id: str | None = None  # the only version that was asked for
    is_own_function: bool = False  # whether a function of the user's own writes the outputs
    left_out: str = ""  # why the rule starts no execution for the key; empty if it does
    near: tuple[str, ...] = ()  # if nothing of the key was found: keys like it

    def has(self, part: Part) -> bool:
        """Tell whether a part was read completely."""
        return part not in (self.unread or {})


def named(sequencer: str | None) -> str:
    """Name an event, or a repair, by its sequencer."""
    return f"{'repair' if repaired_at(sequencer) else 'event'} {sequencer or '(unknown)'}"


@dataclass(frozen=True)
class Cause:
    """Why an execution ended as it did."""

    sequencer: str | None = None  # of the other event that caused it
    version_id: str | None = None
    execution: str | None = None
    # When the other event had been recorded or processed, or the next attempt was started.
    at: datetime | None = None
    reason: str = ""
    # Whether the execution itself read this; else it is what the other executions suggest.
    is_certain: bool = True


@dataclass(frozen=True)
class ToldExecution:
    """An execution of an event of the object, and why it ended so."""

    execution: str  # its ARN
    id: str  # the last part of that
    sequencer: str | None
    version_id: str | None
    is_deletion: bool | None  # None if that is not known
    started: datetime | None
    # As it ended; ``Waiting`` or ``Working`` if it runs, ``Unknown`` if its end is not known.
    outcome: str
    cause: Cause | None
    text: str  # the same in a sentence


@dataclass(frozen=True)
class Event:
    """An event of the object."""

    sequencer: str | None
    version_id: str | None
    is_deletion: bool | None  # None if that is not known
    etag: str | None  # of what was created
    at: datetime | None  # when S3 says that it happened; else when its first execution started
    # What has become of it: an outcome, ``Waiting``, ``Working``, ``Died`` or ``Unknown``.
    outcome: str
    executions: tuple[str, ...]  # the ARNs of its executions, oldest first


@dataclass(frozen=True)
class Lock:
    """A lock of the object."""

    execution: str  # ARN of the holder
    sequencer: str | None  # of the event that the holder works on
    since: datetime | None  # when the holder claimed it
    is_dead: bool  # whether the holder has ended, or cannot be alive
    waiting: tuple[str, ...]  # the ARNs of the executions that wait for it
    text: str = ""  # the same in a sentence


@dataclass(frozen=True)
class Pending:
    """Something that will still happen to the object, or that a person must decide."""

    kind: Literal["waiting", "retrying", "parked", "stuck"]
    sequencer: str | None
    id: str  # of the message or the record
    text: str  # the same in a sentence


@dataclass(frozen=True)
class Judgement:
    """Whether the output is as the policy promises."""

    # ``right``; ``pending``: it will be; ``parked``: the newest event is, so a person must
    # decide; ``wrong``: nothing will change that; ``none``: there is nothing to judge; ``unknown``.
    state: Literal["right", "pending", "parked", "wrong", "none", "unknown"]
    text: str  # what the output shows, and why that is right or not


@dataclass(frozen=True)
class Story:
    """What became of an object's events."""

    bucket: str
    key: str
    policy: str
    events: tuple[Event, ...]  # all that are known, oldest first
    deliveries: tuple[ToldExecution, ...]  # the executions, the one that started first first
    locks: tuple[Lock, ...]
    pending: tuple[Pending, ...]
    outputs: tuple[Output, ...]
    verdict: Judgement
    unknown: tuple[str, ...]  # what could not be read, in sentences

    def sentences(self) -> list[str]:
        """Tell the story, oldest first."""
        none = ["No execution of an event of this object was found."]
        return [
            *([each.text for each in self.deliveries] or none),
            *(each.text for each in self.locks),
            *(each.text for each in self.pending),
            self.verdict.text,
            *(f"Not known: {each}" for each in self.unknown),
        ]


_order = cmp_to_key(compare_sequencers)


def order(sequencer: str | None) -> Any:
    """Give what orders the events of a key."""
    return _order(sequencer or "")


def is_newer(one: str | None, other: str | None) -> bool:
    """Tell whether an event is newer than another one of the same key, by their sequencers."""
    return compare_sequencers(one or "", other or "") > 0


def clock(at: datetime | None) -> str:
    """Write a time for a sentence."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "a time that is not known"


def counted(number: int, noun: str) -> str:
    """Write a number of things for a sentence."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def span(seconds: float) -> str:
    """Write a duration for a sentence."""
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    if seconds < 180:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"  # noqa: PLR2004
