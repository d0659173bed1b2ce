"""What a story is told from, and what it consists of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key
from typing import Any, Literal

from inorder.audit.repairing import repaired_at
from inorder.model.execution import Execution
from inorder_fence import named_version
from inorder_fence.fenced_output import compare_sequencers

# As a sentence names it.
Part = Literal[
    "executions",
    "records",
    "object",
    "output",
    "parked events",
    "events that are retried",
    "events that wait",
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
    remedy: str = ""  # of a parked event: what helps
    is_overtaken: bool = False  # whether a redrive would change nothing


@dataclass(frozen=True)
class Output:
    """An output, and what its metadata says of the event that it was made for."""

    key: str
    metadata: Mapping[str, str]

    @property
    def sequencer(self) -> str | None:
        """The sequencer of that event."""
        return self.metadata.get("sequencer")

    @property
    def version_id(self) -> str | None:
        """The version that it was made from."""
        return named_version(self.metadata.get("source-version-id"))


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
    executions: tuple[Execution, ...] = ()  # of the key, with their steps, under any policy
    # The items of the key table that belong to the object.
    records: tuple[Mapping[str, Any], ...] = ()
    queued: tuple[Queued, ...] = ()
    outputs: tuple[Output, ...] = ()
    source: Source | None = None  # None if there is no object
    # Which parts could not be read, and why, in a sentence. Another part was read completely.
    unread: Mapping[Part, str] | None = None
    since: datetime | None = None  # executions that started before were not read
    handles_deletions: bool = True  # whether deletions start executions
    from_log: bool = False  # whether the executions come from a log, which may lack the end of one
    version_id: str | None = None  # the only version that was asked for
    is_own_function: bool = False  # whether a function of the user's own writes the outputs
    left_out: str = ""  # why the rule starts no execution for the key; empty if it does
    near: tuple[str, ...] = ()  # if nothing of the key was read: keys like it
    pause: str = ""  # says that events wait in a pause, or since one; empty if none does
    quiet_seconds: int = 0  # for which each event waits after it came
    is_paused: bool = False
    lacks_version: bool = False  # whether S3 does not have the version that was asked for

    def has(self, part: Part) -> bool:
        """Tell whether a part was read completely."""
        return part not in (self.unread or {})


@dataclass(frozen=True)
class Cause:
    """The event for which an execution ended or waits so, as a record or a queue says."""

    sequencer: str | None
    version_id: str | None
    execution: str | None = None  # that had recorded or done it, retries it, or has the lock
    at: datetime | None = None  # when it did, or will do, that


@dataclass(frozen=True)
class ToldExecution:
    """An execution of an event of the object, and why it ended so."""

    execution: str  # its ARN
    sequencer: str | None
    version_id: str | None
    is_deletion: bool | None  # None if that is not known
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


@dataclass(frozen=True)
class Pending:
    """A lock, something that will still happen, or something that a person must decide."""

    kind: Literal["lock", "waiting", "stuck", "retrying", "parked", "overtaken"]
    sequencer: str | None  # of the event that it is about
    text: str  # the same in a sentence


@dataclass(frozen=True)
class Judgement:
    """Whether the output is as the policy promises."""

    # ``right``; ``pending``: it will be; ``parked``: its event is, so a person must decide;
    # ``wrong``: nothing will change that; ``none``: there is nothing to judge; ``unknown``.
    state: Literal["right", "pending", "parked", "wrong", "none", "unknown"]
    text: str  # what the output shows, why that is right or not, and which command helps


@dataclass(frozen=True)
class Story:
    """What became of an object's events."""

    bucket: str
    key: str
    policy: str
    events: tuple[Event, ...]  # all that are known, oldest first
    deliveries: tuple[ToldExecution, ...]  # the executions, the one that started first first
    pending: tuple[Pending, ...]
    outputs: tuple[Output, ...]
    verdict: Judgement
    unknown: tuple[str, ...]  # what could not be read, in sentences

    def sentences(self) -> list[str]:
        """Tell the story, oldest first."""
        none = ["No execution of an event of this object was read."]
        return [
            *([delivery.text for delivery in self.deliveries] or none),
            *(pending.text for pending in self.pending if pending.text not in self.verdict.text),
            self.verdict.text,
            *(f"Not known: {reason}" for reason in self.unknown),
        ]


_order = cmp_to_key(compare_sequencers)


def order(sequencer: str | None) -> Any:
    """Give what orders the events of a key."""
    return _order(sequencer or "")


def is_newer(sequencer: str | None, other: str | None) -> bool:
    """Tell whether an event is newer than another one of the same key, by their sequencers."""
    return compare_sequencers(sequencer or "", other or "") > 0


def named(sequencer: str | None) -> str:
    """Name an event, or a repair, by its sequencer."""
    return f"{'repair' if repaired_at(sequencer) else 'event'} {sequencer or '(unknown)'}"


def sentence(text: str) -> str:
    """End a text as a sentence ends."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
