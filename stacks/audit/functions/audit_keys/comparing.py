"""Whether an output is what its policy promises: compares it with its source and its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from inorder_fence import ObjectEvent
from inorder_fence.fenced_output import OutputState

Keeps = Literal["newest", "first", "each", "last"]


class Verdict(StrEnum):
    """What an audit finds of an object."""

    RIGHT = "right"
    MISSING = "missing"  # there is an object, and no output
    STALE = "stale"  # the output was made from another content or version
    ORPHANED = "orphaned"  # there is an output, and no object
    WAITING = "waiting"  # an event is in progress or will be retried, or something has just changed
    PARKED = "parked"  # its event is in the queue of parked events
    FOREIGN = "foreign"  # the output names no event, so the fence did not write it
    NOT_COMPARABLE = "not comparable"


# What a repair mends, and what it mends if it is told to replace what others have written.
REPAIRABLE = frozenset({Verdict.MISSING, Verdict.STALE, Verdict.ORPHANED})
REPAIRED = "Its repair was started."  # ends the reason of what an audit in the cloud repairs
WRONG = REPAIRABLE | {Verdict.PARKED, Verdict.FOREIGN, Verdict.NOT_COMPARABLE}


@dataclass(frozen=True)
class Subject:
    """What has one output: an object or, under a policy that keeps each version, a version."""

    key: str
    version_id: str | None = None


@dataclass(frozen=True)
class Reading:
    """What was read of a subject: first its record, then its output, and last its source.

    The order matters for a repair: the source is at least as new as any event whose sequencer is
    known, so the repair of that source may supersede all of those.

    Attributes
    ----------
    record : Mapping[str, str]
        The attributes of its record, or nothing if it has no record.
    output : OutputState
        Without an ETag if there is no output.
    source : ObjectEvent or None
        The object, as if an event without a sequencer had created it; None if there is no object.
    is_comparable : bool
        False for an object without a version under a policy that keeps each version: its outputs
        are named by sequencers, which S3 does not list.
    """

    subject: Subject
    record: Mapping[str, str]
    output: OutputState
    source: ObjectEvent | None
    is_comparable: bool = True

    @property
    def is_in_progress(self) -> bool:
        """Whether an execution works on an event, waits for the lock, or has died."""
        held = {"lock_token", "oldest_waiting"} & self.record.keys()
        return bool(held) or self.record.get("status") == "IN_PROGRESS"


@dataclass(frozen=True)
class Finding:
    """What an audit has found of a subject that is not right."""

    subject: Subject
    verdict: Verdict
    reading: Reading | None  # None if it changes too often to be read
    reason: str = ""

    def described(self) -> dict[str, Any]:
        """Give it as a JSON object."""
        reading = self.reading
        source, output = (reading.source, reading.output) if reading else (None, None)
        return {
            "key": self.subject.key,
            "version_id": self.subject.version_id,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "source_etag": source.etag if source else None,
            "source_version_id": source.object_id[0] if source else None,
            "output": dict(output.metadata) if output and output.etag else None,
        }


def compare(
    source: ObjectEvent | None, output: OutputState, keeps: Keeps, handles_deletions: bool
) -> Verdict:
    """Compare an output with its source."""
    if output.etag is None:
        return Verdict.MISSING if source else Verdict.RIGHT
    if "sequencer" not in output.metadata:
        return Verdict.FOREIGN
    if source is None:
        return Verdict.ORPHANED if handles_deletions else Verdict.RIGHT
    # The first event may have had another content, and its output is right all the same.
    return Verdict.RIGHT if keeps == "first" or output.shows(source) else Verdict.STALE


def judge(reading: Reading, keeps: Keeps, handles_deletions: bool) -> Verdict:
    """Judge a subject; nothing that an execution still works on is wrong."""
    if not reading.is_comparable:
        return Verdict.NOT_COMPARABLE
    found = compare(reading.source, reading.output, keeps, handles_deletions)
    return Verdict.WAITING if found in REPAIRABLE and reading.is_in_progress else found


def reason_of(verdict: Verdict, reading: Reading) -> str:
    """Say why a subject has its verdict."""
    made_of = reading.output.metadata.get("source-etag", "")
    texts = {
        Verdict.MISSING: "There is no output.",
        Verdict.ORPHANED: "The object was deleted, and its output is still there.",
        Verdict.FOREIGN: "The output names no event. The fence has not written it.",
        Verdict.WAITING: "An execution is at it, or has died and will be healed.",
        Verdict.NOT_COMPARABLE: "The object has no version, so its outputs are named by sequencers,"
        " which S3 does not list.",
    }
    if verdict is Verdict.STALE and reading.source:
        return f"The output was made of {made_of}, and the object is {reading.source.etag}."
    return texts.get(verdict, "")
