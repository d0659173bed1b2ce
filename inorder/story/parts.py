"""What a story is told from, and what it consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from inorder.model.execution import Execution

DONE = {"Processed", "Superseded"}  # outcomes after which an event is not processed again

Part = Literal["executions", "records", "outputs", "source", "parked", "retrying", "undelivered"]


@dataclass(frozen=True)
class Queued:
    """An event of the object in a queue.

    Attributes
    ----------
    queue : str
        ``parked``, ``retrying`` or ``undelivered``.
    id : str
        Of the message.
    version_id, sequencer : str or None
        Of the event.
    since : datetime or None
        When it was parked, first failed, or was sent.
    reason : str
        Why.
    next : datetime or None
        When it is tried again.
    attempts : int
        How often it has failed.
    event : object
        The event, if the message has it.
    """

    queue: Literal["parked", "retrying", "undelivered"]
    id: str
    version_id: str | None
    sequencer: str | None
    since: datetime | None
    reason: str
    next: datetime | None = None
    attempts: int = 0
    event: Any = None


@dataclass(frozen=True)
class Output:
    """An output, and what its metadata says of the event that it was made for."""

    key: str
    sequencer: str | None = None
    source_etag: str | None = None
    version_id: str | None = None
    modified: datetime | None = None


@dataclass(frozen=True)
class Source:
    """The object as it is now. `version_id` is None in a bucket without versions."""

    etag: str
    version_id: str | None = None
    modified: datetime | None = None


@dataclass(frozen=True)
class Facts:
    """What could be read about an object.

    Attributes
    ----------
    bucket, key : str
        Of the object.
    policy : str
        Name of the stack's policy.
    keeps : str or None
        Which output remains, as in policies.toml.
    now : datetime
        When it was read.
    executions : tuple of Execution
        Those of the key, with their steps.
    records : tuple of Mapping
        The items of the key table that belong to the object.
    queued : tuple of Queued
        Its events in the queues.
    outputs : tuple of Output
        Its outputs.
    source : Source or None
        None if there is no object.
    unread : Mapping
        Which parts could not be read, and why, in a sentence. Another part was read completely.
    since : datetime or None
        Executions that started before were not read.
    handles_deletions : bool
        Whether deletions start executions.
    heal_minutes : int
        How often the schedule looks for stuck keys; 0 if there is none.
    has_table : bool
        Whether the policy writes records.
    from_log : bool
        Whether the executions come from a log, which may lack the end of one.
    version_id : str or None
        If only one version was asked for.
    """

    bucket: str
    key: str
    policy: str
    keeps: Literal["newest", "first", "each", "last"] | None
    now: datetime
    executions: tuple[Execution, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    queued: tuple[Queued, ...] = ()
    outputs: tuple[Output, ...] = ()
    source: Source | None = None
    unread: Mapping[Part, str] | None = None
    since: datetime | None = None
    handles_deletions: bool = True
    heal_minutes: int = 15
    has_table: bool = True
    from_log: bool = False
    version_id: str | None = None

    def has(self, part: Part) -> bool:
        """Tell whether a part was read completely."""
        return part not in (self.unread or {})


@dataclass(frozen=True)
class Cause:
    """Why an execution ended as it did.

    Attributes
    ----------
    sequencer, version_id : str or None
        Of the other event that caused it.
    execution : str or None
        ARN of the execution that caused it.
    at : datetime or None
        When the other event had been recorded or processed, or the next attempt was started.
    reason : str
        The error and its cause.
    is_certain : bool
        Whether the execution itself read this; else it is what the other executions suggest.
    """

    sequencer: str | None = None
    version_id: str | None = None
    execution: str | None = None
    at: datetime | None = None
    reason: str = ""
    is_certain: bool = True


@dataclass(frozen=True)
class Delivery:
    """One execution of the story.

    Attributes
    ----------
    execution, id : str
        Its ARN, and the last part of that.
    sequencer, version_id : str or None
        Of its event.
    is_deletion : bool
        Whether its event says that the object was deleted.
    started, stopped : datetime or None
        When.
    outcome : str
        As it ended; ``Waiting`` or ``Working`` if it runs, ``Unknown`` if its end is not known.
    waited : float or None
        For how many seconds it waited for the lock.
    attempt : int
        Which attempt at its event it is.
    cause : Cause or None
        Why it ended as it did.
    text : str
        The same in a sentence.
    """

    execution: str
    id: str
    sequencer: str | None
    version_id: str | None
    is_deletion: bool
    started: datetime | None
    stopped: datetime | None
    outcome: str
    waited: float | None
    attempt: int
    cause: Cause | None
    text: str


@dataclass(frozen=True)
class Event:
    """An event of the object.

    Attributes
    ----------
    sequencer, version_id : str or None
        What identifies it.
    is_deletion : bool or None
        None if that is not known.
    etag : str or None
        Of what was created.
    at : datetime or None
        When S3 says that it happened; else when its first execution started.
    outcome : str
        What has become of it: an outcome, ``Waiting``, ``Working``, ``Undelivered``, ``Died`` or
        ``Unknown``.
    executions : tuple of str
        The ARNs of its executions, oldest first.
    """

    sequencer: str | None
    version_id: str | None
    is_deletion: bool | None
    etag: str | None
    at: datetime | None
    outcome: str
    executions: tuple[str, ...]


@dataclass(frozen=True)
class Lock:
    """A lock of the object.

    Attributes
    ----------
    record_id : str
        Of the record that has it.
    execution : str
        ARN of the holder.
    sequencer : str or None
        Of the event that the holder works on.
    since : datetime or None
        When the holder claimed it.
    is_dead : bool
        Whether the holder has ended, or cannot be alive.
    waiting : tuple of str
        The ARNs of the executions that wait for it.
    text : str
        The same in a sentence.
    """

    record_id: str
    execution: str
    sequencer: str | None
    since: datetime | None
    is_dead: bool
    waiting: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Pending:
    """Something that will still happen to the object, or that a person must decide.

    Attributes
    ----------
    kind : str
        ``waiting``, ``retrying``, ``parked``, ``undelivered`` or ``stuck``.
    sequencer, version_id : str or None
        Of its event.
    since, next : datetime or None
        Since when, and when it is tried again.
    id : str
        Of the message or the record.
    text : str
        The same in a sentence.
    """

    kind: Literal["waiting", "retrying", "parked", "undelivered", "stuck"]
    sequencer: str | None
    version_id: str | None
    since: datetime | None
    next: datetime | None
    id: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """Whether the output is as the policy promises.

    Attributes
    ----------
    state : str
        ``right``; ``pending``: it will be; ``parked``: the newest event is, so a person must
        decide; ``wrong``: nothing will change that; ``unknown``.
    text : str
        What the output shows, and why that is right or not.
    """

    state: Literal["right", "pending", "parked", "wrong", "unknown"]
    text: str


@dataclass(frozen=True)
class Story:
    """What became of an object's events.

    Attributes
    ----------
    bucket, key, policy : str
        Of the object and its stack.
    events : tuple of Event
        All that are known, oldest first.
    deliveries : tuple of Delivery
        The executions, the one that started first first.
    locks : tuple of Lock
        Those that are held.
    pending : tuple of Pending
        What waits, is retried, parked or stuck.
    outputs : tuple of Output
        The outputs as they are.
    verdict : Verdict
        Whether they are right.
    unknown : tuple of str
        What could not be read, in sentences.
    """

    bucket: str
    key: str
    policy: str
    events: tuple[Event, ...]
    deliveries: tuple[Delivery, ...]
    locks: tuple[Lock, ...]
    pending: tuple[Pending, ...]
    outputs: tuple[Output, ...]
    verdict: Verdict
    unknown: tuple[str, ...]

    def sentences(self) -> list[str]:
        """Tell the story, oldest first."""
        told = [delivery.text for delivery in self.deliveries]
        if not told:
            told = ["No execution of an event of this object was found."]
        told += [lock.text for lock in self.locks]
        told += [pending.text for pending in self.pending]
        return [*told, self.verdict.text, *(f"Not known: {each}" for each in self.unknown)]


def order(sequencer: str | None) -> str:
    """Give what orders the events of a key: S3 compares after padding with zeros on the right.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    """
    return (sequencer or "").rstrip("0")


def clock(at: datetime | None) -> str:
    """Write a time for a sentence."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "a time that is not known"


def span(seconds: float) -> str:
    """Write a duration for a sentence."""
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    if seconds < 180:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"  # noqa: PLR2004
