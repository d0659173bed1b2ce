"""Whether an output is what its policy promises, and whether anything will still act on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from inorder.wording import clock
from inorder_fence import ObjectEvent
from inorder_fence.fenced_output import OutputState
from inorder_fence.object_event import is_sequencer
from inorder_fence.records import PARKED_SECONDS

Keeps = Literal["newest", "first", "each", "last"]
# A record that expires later does not say when its event failed: a state machine has written it,
# which knows no time. One hour more, because clocks differ.
_PARKED = timedelta(seconds=PARKED_SECONDS, hours=1)
# So long after its last sign of life, something still acts on an event: an execution lives for five
# minutes at most, and an event that has failed is retried within 15. A sweep, each minute, takes a
# record after six minutes. What three sweeps have left, no sweep heals.
ACTS_WITHIN = timedelta(minutes=5 + 15 + 3)


class Verdict(StrEnum):
    """What an audit finds of an object."""

    RIGHT = "right"
    MISSING = "missing"  # there is an object, and no output
    STALE = "stale"  # the output was made from another content or version
    ORPHANED = "orphaned"  # there is an output, and no object
    OLD = "old"  # the output is right, and was written before a time that the audit was given
    WAITING = "waiting"  # an event is in progress or will be retried, or something has just changed
    PARKED = "parked"  # its event is in the queue of parked events
    FOREIGN = "foreign"  # the output names no event of the bucket, so this stack did not write it
    UNREADABLE = "unreadable"  # S3 refuses to show the object or its output
    NOT_COMPARABLE = "not comparable"
    SKIPPED = "skipped"  # a folder that S3's console has made: it has no bytes, and no output


# What a repair mends. It also replaces foreign outputs of objects if it is told to.
REPAIRABLE = frozenset({Verdict.MISSING, Verdict.STALE, Verdict.ORPHANED, Verdict.OLD})
WRONG = frozenset(Verdict) - {Verdict.RIGHT, Verdict.WAITING, Verdict.SKIPPED}


def left_out(key: str, prefix: str, suffix: str) -> str:
    """Tell why the rule's pattern lacks a key; "" if it has it.

    The pattern is the key prefix, then anything, then the key suffix: they do not overlap.
    """
    if not key.startswith(prefix):
        return f"its key does not begin with {prefix} (KeyPrefix)"
    if not key.removeprefix(prefix).endswith(suffix):
        return f"its key does not end in {suffix} (KeySuffix); upper and lower case differ"
    return ""


@dataclass(frozen=True)
class Scope:
    """What a stack processes, and what it keeps."""

    bucket: str
    output_bucket: str
    table: str  # "" if the policy has no records
    keeps: Keeps
    handles_deletions: bool
    key_prefix: str = ""
    key_suffix: str = ""
    without_output: frozenset[str] = frozenset()  # the outcomes after which there is no output
    # Outputs that were written before are to be made again, though they are right.
    older_than: datetime | None = None
    # Why the event of each output that is not right may wait; "" if none does. Nobody can tell
    # which ones wait, because SQS does not list messages.
    pause: str = ""

    @property
    def folder(self) -> str:
        """The folder of all keys, and of their outputs, which have other names."""
        return self.key_prefix[: self.key_prefix.rfind("/") + 1]

    @property
    def rewrites(self) -> bool:
        """Whether a repair may replace an output that is right, or that others have written."""
        return self.keeps == "newest"

    def covers(self, key: str, prefix: str = "") -> bool:
        """Tell whether the rule's pattern has a key, and whether it begins with a prefix."""
        return key.startswith(prefix) and not left_out(key, self.key_prefix, self.key_suffix)


@dataclass(frozen=True)
class Subject:
    """What has one output: an object or, under a policy that keeps each version, a version."""

    key: str
    version_id: str | None = None


def version_of(subject: Subject, source: ObjectEvent | None) -> str | None:
    """Give the version that a subject's record, its retries and its repair are about."""
    return source.object_id[0] if source else subject.version_id


@dataclass(frozen=True)
class Reading:
    """What was read of a subject: first its record, then its output, and last its source.

    The order matters for a repair: the source is at least as new as any event whose sequencer is
    known, so the repair of that source may supersede all of those.
    """

    subject: Subject
    record: Mapping[str, str] = field(default_factory=dict)  # its attributes; empty if none
    output: OutputState = field(default_factory=OutputState)  # without an ETag if there is none
    # The object, as if an event without a sequencer had created it; None if there is no object.
    source: ObjectEvent | None = None
    # False for an object without a version under a policy that keeps each version: its outputs are
    # named by sequencers, which S3 does not list.
    is_comparable: bool = True
    retries: Mapping[str, str] = field(default_factory=dict)  # the record of its event's retries
    refusal: str = ""  # why S3 or DynamoDB refuses to show it: then nothing else is known

    @property
    def is_replaceable(self) -> bool:
        """Whether a repair can replace the output, if others have written it.

        Without an object, its event would delete that output. What was made of another bucket, the
        fence leaves, and rejects the event.
        """
        return bool(self.source and not self.output.other_bucket(self.source))

    def is_in_progress(self, now: datetime) -> bool:
        """Tell whether an execution works on an event, waits for the lock, or will be healed.

        Nothing clears `status` and `lock_token` of an execution that has died, so they do not tell.
        The index does: a record leaves it with its event's end, or when the event is parked.
        """
        return abs(now - _time(self.record.get("in_progress_since"))) < ACTS_WITHIN

    def is_retried(self, now: datetime) -> bool:
        """Tell whether the retry queue has its event, as far as records can tell.

        SQS lists no messages that wait. The record of an event's retries says when the last one was
        started.
        """
        is_parked = self.retries.get("status") == "PARKED"
        return not is_parked and abs(now - _time(self.retries.get("at"))) < ACTS_WITHIN

    def is_parked(self, now: datetime) -> bool:
        """Tell whether its event has failed for good, as far as records can tell.

        Both records expire when SQS has deleted the parked event. A record of another event than
        the object's says nothing: the object's own event never came.
        """
        records = {"FAILED": self.record, "PARKED": self.retries}
        return self._is_of_source() and any(
            record.get("status") == status
            and timedelta() < _time(record.get("expires_at")) - now < _PARKED
            for status, record in records.items()
        )

    def has_no_output(self, outcomes: frozenset[str]) -> bool:
        """Tell whether its event has ended in one of the outcomes that have no output."""
        ended = self.record.get("status") == "DONE" and self.record.get("outcome") in outcomes
        return ended and self._is_of_source()

    def _is_of_source(self) -> bool:
        with suppress(LookupError, TypeError, ValueError, RecursionError):
            event = json.loads(self.record["event"])
            if event["detail-type"] == "Object Deleted":
                return self.source is None
            return bool(self.source and self.source.etag == event["detail"]["object"]["etag"])
        return False


@dataclass(frozen=True)
class Finding:
    """What an audit has found of a subject that is not right."""

    subject: Subject
    verdict: Verdict
    reading: Reading | None  # None if it changes too often to be read
    reason: str = ""

    def is_repairable(self, verdicts: Set[Verdict]) -> bool:
        """Tell whether a repair of these verdicts starts an event for this finding."""
        if self.verdict is Verdict.FOREIGN and not (self.reading and self.reading.is_replaceable):
            return False
        return self.verdict in verdicts

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


def compare(source: ObjectEvent | None, output: OutputState, scope: Scope) -> Verdict:
    """Compare an output with its source."""
    if output.etag is None:
        return Verdict.MISSING if source else Verdict.RIGHT
    made_of = output.metadata.get("source-bucket", scope.bucket)  # earlier versions name none
    if made_of != scope.bucket or not is_sequencer(output.metadata.get("sequencer", "")):
        return Verdict.FOREIGN
    if source is None:
        return Verdict.ORPHANED if scope.handles_deletions else Verdict.RIGHT
    if not output.shows(source):
        # The first event may have had another content, and its output is right all the same.
        return Verdict.RIGHT if scope.keeps == "first" else Verdict.STALE
    is_old = scope.older_than and output.written and output.written < scope.older_than
    return Verdict.OLD if is_old else Verdict.RIGHT


def judge(reading: Reading, scope: Scope, now: datetime, parked: bool | None = None) -> Verdict:
    """Judge a subject; nothing that something will still act on is wrong.

    `parked` says whether its event is in the queue of parked events; if nobody has read the queue,
    it is None, and the records tell.
    """
    if reading.refusal:
        return Verdict.UNREADABLE
    verdict = compare(reading.source, reading.output, scope)
    if not reading.is_comparable:
        return Verdict.NOT_COMPARABLE
    if verdict is Verdict.MISSING and reading.has_no_output(scope.without_output):
        verdict = Verdict.RIGHT
    if verdict not in REPAIRABLE:
        return verdict
    if reading.is_in_progress(now):
        return Verdict.WAITING
    is_parked = reading.is_parked(now) if parked is None else parked
    if is_parked and verdict is not Verdict.OLD:
        return Verdict.PARKED
    may_wait = bool(scope.pause) and verdict is not Verdict.OLD
    return Verdict.WAITING if may_wait or reading.is_retried(now) else verdict


def reason_of(verdict: Verdict, reading: Reading, scope: Scope) -> str:
    """Say why a subject has its verdict."""
    made_of = reading.output.metadata.get("source-etag", "")
    texts = {
        Verdict.MISSING: "There is no output.",
        Verdict.ORPHANED: "The object was deleted, and its output is still there.",
        Verdict.OLD: f"The output was written at {clock(reading.output.written)}.",
        Verdict.FOREIGN: "The output names no event of the bucket. This stack has not written it."
        + ("" if scope.rewrites and reading.is_replaceable else " No repair replaces it."),
        Verdict.WAITING: scope.pause or "An execution works on it, or it will be started again.",
        Verdict.PARKED: "Its event has failed for good. It is parked, unless it has been removed.",
        Verdict.UNREADABLE: f"{reading.refusal} It is neither compared nor repaired.",
        Verdict.NOT_COMPARABLE: "The object has no version, so its outputs are named by sequencers,"
        " which S3 does not list.",
    }
    if verdict is Verdict.STALE and reading.source:
        return f"The output was made of {made_of}, and the object is {reading.source.etag}."
    return texts.get(verdict, "")


def _time(text: str | None) -> datetime:
    """Read a time, in ISO's form or as seconds since 1970; what is none is long ago."""
    with suppress(ValueError, OverflowError, OSError):
        if text and text.isdecimal():
            return datetime.fromtimestamp(int(text), UTC)
        return datetime.fromisoformat(text or "").astimezone(UTC)
    return datetime.fromtimestamp(0, UTC)
