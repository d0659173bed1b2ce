"""The fence: an older event's output never replaces a newer event's.

A lock alone cannot promise this. The call of a function may fail while the function goes on::

    event A   calls the function ... the call fails, the lock is released        A's function writes
    event B                                                    B is processed

So a write is conditional on what was read before. For a creation, under the fence `newest`::

    1 read the output         its ETag, and the sequencer in its metadata
    2 read the source         only if it is still the object that the event names
    3 write the output        only if its ETag is still the one of step 1
    4 check the source again  only where step 3 cannot notice a deletion

docs/protocol.md says why in this order, when step 4 is needed, and why each output contains its
event's sequencer. A deletion takes the same steps.

To read this file, begin with `Fence.write_newest`, `_settle`, `_apply_creation`, `_replace_output`,
`_check_source` and `OutputState.order`. `_follow_source` and `_remove_output` are for deletions and
versions, `_give_own_output` and `_delete_older` for the fence `each`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from botocore.config import Config
from botocore.exceptions import ClientError

from inorder_fence.object_event import (
    NULL_VERSION,
    ObjectEvent,
    Rejection,
    is_sequencer,
    named_version,
)
from inorder_fence.records import PARKED_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

ATTEMPTS = 5
MAXIMUM_KEY_BYTES = 1024  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
# Three attempts that get no answer fit into the function's timeout. The retry queue retries longer.
S3_CONFIG = Config(
    connect_timeout=2, read_timeout=4, retries={"mode": "standard", "total_max_attempts": 3}
)

# By the code with which S3 refuses to read an object. Any other refusal may pass, and is a fault:
# AccessDenied until a role or a key's policy has been mended; KMS.NotFoundException and
# KMS.KMSInvalidStateException, which also a key gives that has just been created, see
# https://docs.aws.amazon.com/kms/latest/developerguide/programming-eventual-consistency.html.
LASTING_REFUSALS = {
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html#API_GetObject_Errors
    "InvalidObjectState": "The object is archived. It can be read when it has been restored.",
    # https://docs.aws.amazon.com/AmazonS3/latest/userguide/ServerSideEncryptionCustomerKeys.html,
    # and https://github.com/boto/boto3/issues/1482 for the code.
    "InvalidRequest": "The object is encrypted with a key that each request must bring (SSE-C).",
    # https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/USER_ExportSnapshot.failure-msg.html
    "KMS.DisabledException": "The object is encrypted with a KMS key that is disabled.",
}


class OutputContended(Exception):
    """In each attempt, another writer changed the output between steps 1 and 3."""


class InvalidSource(Rejection):
    """The source is too large, or its output could not be written, or would be a source itself."""


class OutputOfAnotherBucket(Rejection):
    """The output was made of an object of another bucket, whose stack writes to the same bucket."""


class SourceUnreadable(Rejection):
    """S3 refuses to give the source's content until a person changes something."""


class SourceChanged(Rejection):
    """The source is no longer the object that the event names."""


class SourceGone(SourceChanged):
    """There is no source any more."""


class FolderMarker(SourceGone):
    """The source is what S3's console makes as a folder: no bytes, and a key that ends in ``/``."""


class Result(Protocol):
    """What `work` makes: the content of an output, and its media type."""

    @property
    def content(self) -> bytes: ...  # noqa: D102 - see above

    @property
    def content_type(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Answer:
    """What became of an event, and where its output is, or would be.

    Attributes
    ----------
    outcome : "Processed" or "Superseded"
        Whether the output was made for this event.
    key : str
        The output's key. A deletion may name one that is too long to be written.
    """

    outcome: Literal["Processed", "Superseded"]
    key: str


class Attempt(Enum):
    """What became of one attempt to take all steps."""

    DONE = auto()  # the output is what the event wants: it was made, or removed
    SUPERSEDED = auto()  # a newer event decides what the output is
    AGAIN = auto()  # another writer came between the steps: take all of them again
    STALE = auto()  # the source has changed since the output was written: follow the source


class Order(Enum):
    """Whether an output's event is older or newer than another event of the key."""

    OLDER = -1
    SAME = 0
    NEWER = 1
    UNKNOWN = None  # no output, one of unknown origin, or one of another version


@dataclass(frozen=True)
class OutputState:
    """An output as it is in S3.

    Attributes
    ----------
    etag : str or None
        None if there is no output.
    metadata : Mapping[str, str]
        From which event it was made.
    written : datetime or None
        When, by S3's clock, which shows seconds. The fence compares no times; an audit does.
    """

    etag: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    written: datetime | None = None

    def order(self, event: ObjectEvent) -> Order:
        """Compare the output's event with another one.

        In a bucket that has versions, an object that was uploaded while versioning was off or
        suspended is the null version. Its events name no version, and their sequencers order them.
        If the event of another version makes its output, nobody knows the sequencer of its upload.
        So that output names the version ``null`` and the ETag, compares with no event of the null
        version, and the upload's own event writes it again.
        """
        sequencer = self.metadata.get("sequencer", "")
        if not is_sequencer(sequencer) or self.other_bucket(event):
            return Order.UNKNOWN
        if (self.metadata.get("source-version-id") or None) != event.version_id:
            return Order.UNKNOWN  # sequencers of two versions do not compare
        if event.version_id:  # a version is created once, and only a repair makes its output again
            is_again = event.is_repair and sequencer != event.sequencer
            return Order.OLDER if is_again else Order.SAME
        return Order(compare_sequencers(sequencer, event.sequencer))

    def shows(self, source: ObjectEvent) -> bool:
        """Tell whether the output was made of a source, whatever its event."""
        if self.other_bucket(source):
            return False
        version_id = named_version(self.metadata.get("source-version-id"))
        return (version_id, self.metadata.get("source-etag")) == source.object_id

    def other_bucket(self, event: ObjectEvent) -> str:
        """Name the bucket of which the output was made, or "" if it is the event's.

        Earlier versions of the fence named none.
        """
        bucket = self.metadata.get("source-bucket", event.bucket)
        return "" if bucket == event.bucket else bucket

    def unchanged(self) -> dict[str, Any]:
        """Give the condition under which S3 replaces this output, and no other one."""
        return {"IfMatch": self.etag} if self.etag else {"IfNoneMatch": "*"}


class Source(NamedTuple):
    """What was read of a source."""

    content: bytes
    etag: str
    handed_on: dict[str, Any]  # what the output gets from it


def output_key(key: str) -> str:
    """Name the output of a source: ``<folder>/out-<name>``, which may be too long for a key."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}out-{name}"


def compare_sequencers(one: str, other: str) -> int:
    """Order two sequencers of the same object key.

    "Right pad the shorter value with zeros, and then do a lexicographic comparison"
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html).
    DynamoDB compares the strings without padding. The order is the same, except that DynamoDB
    distinguishes ``0A`` from ``0A0``; S3 gives no two events of a key such a pair.

    Returns
    -------
    int
        -1, 0 or 1 if `one` is older than, equal to or newer than `other`.
    """
    width = max(len(one), len(other))
    left, right = one.ljust(width, "0"), other.ljust(width, "0")
    return (left > right) - (left < right)


def stamp(event: ObjectEvent) -> bytes:
    """Give the bytes that make an output, and so its ETag, differ from every other event's."""
    return f"{event.sequencer}#{event.version_id or ''}".encode()


def append_stamp(content: bytes, stamp_of_event: bytes) -> bytes:
    """Put a stamp behind an output's content, where readers of most image formats ignore it."""
    return content + b"\n" + stamp_of_event


@dataclass(frozen=True)
class Fence:
    """Brings outputs up to date with events, and lets no older event undo a newer one.

    Attributes
    ----------
    s3 : S3Client
        Needs ``s3:GetObject`` and ``s3:ListBucket`` on both buckets (without ``s3:ListBucket``, a
        missing key answers 403 instead of 404), ``s3:PutObject`` on the output's and, if deletions
        are handled, ``s3:DeleteObject``; `write_each` also ``s3:GetObjectVersion`` and
        ``s3:ListBucketVersions`` on the source's.
    output_bucket : str
        Where the outputs go.
    maximum_bytes : int
        Size of the largest source that is read.
    work : callable
        Makes the output from a source's content. An event calls it once, unless the content
        changes meanwhile.
    handles_deletions : bool
        Whether the output of a deleted source is deleted.
    rejection : exception class
        What `work` raises if a source cannot have an output. Any other exception is a fault.
    stamped : callable
        Puts an event's `stamp` into an output's content, so that its ETag is its own.
    hands_on : collection of str
        What an output gets from its source, by the names that S3's GetObject and PutObject have for
        it, such as ``CacheControl`` or ``Metadata``.
    """

    s3: S3Client
    output_bucket: str
    maximum_bytes: int
    work: Callable[[bytes], Result]
    handles_deletions: bool
    rejection: type[Exception] = Rejection
    stamped: Callable[[bytes, bytes], bytes] = append_stamp
    hands_on: Collection[str] = ()

    def answer(self, payload: Mapping[str, Any], record_retention_days: int) -> dict[str, str]:
        """Process an event, and answer the state machine: docs/function.md is the contract.

        Parameters
        ----------
        payload : Mapping
            ``event``, the event of S3, and ``fence``: ``newest``, ``each`` or ``none``.
        record_retention_days : int
            Days for which the key table keeps the key's record.

        Returns
        -------
        dict
            ``outcome``, and ``expires_at``, the time (seconds since 1970, as text) until which the
            key table keeps the record: of a rejected event, as long as SQS keeps the parked event.
            It is computed here because JSONPath cannot. With ``Processed`` or ``Superseded`` there
            is ``output_key``, with ``Rejected`` there are ``error`` and ``cause``.

        Raises
        ------
        KeyError
            The payload lacks the event, or names no fence.
        OutputContended, botocore.exceptions.ClientError
            As for `write_newest`.
        """
        now = int(time.time())
        try:
            event = ObjectEvent.from_event(payload["event"])
            answer = FENCES[payload["fence"]](self, event)
        except (Rejection, self.rejection) as error:
            reason = {"error": type(error).__name__, "cause": str(error)}
            return {"outcome": "Rejected", **reason, "expires_at": str(now + PARKED_SECONDS)}
        expires_at = now + record_retention_days * 86_400
        return {
            "outcome": answer.outcome,
            "output_key": answer.key,
            "expires_at": str(expires_at),
        }

    def write_newest(self, event: ObjectEvent) -> Answer:
        """Write the one output of a key for its newest event; a deletion deletes it.

        Raises
        ------
        InvalidSource, SourceUnreadable, OutputOfAnotherBucket
            The source cannot have an output.
        OutputContended
            All `ATTEMPTS` attempts met another writer.
        botocore.exceptions.ClientError
            S3 failed.
        """
        key = self._output_key(event)
        if not event.is_deletion:
            return self._settle(event, _of_allowed_length(key), self._apply_creation)
        if not self.handles_deletions:
            return Answer("Superseded", key)
        if _is_too_long(key):  # no event had an output
            return Answer("Processed", key)
        return self._settle(event, key, self._follow_source)

    def write_each(self, event: ObjectEvent) -> Answer:
        """Give each event an output of its own, which is written once.

        The output goes to ``<folder>/out-<name>/<version or sequencer>``. The deletion of a version
        deletes that version's output. A delete marker deletes none. Without versions, or of the
        null version, a deletion deletes the outputs of all older events, because their source is
        gone.

        Raises
        ------
        InvalidSource, SourceUnreadable, OutputOfAnotherBucket
            The source cannot have an output.
        SourceChanged
            The source has been overwritten, so its content is lost.
        OutputContended, botocore.exceptions.ClientError
            As for `write_newest`.
        """
        prefix = self._output_key(event) + "/"
        key = prefix + (event.version_id or event.sequencer)
        if not event.is_deletion:
            return self._settle(event, _of_allowed_length(key), self._give_own_output)
        if not self.handles_deletions:
            return Answer("Superseded", key)
        if not _is_too_long(key if event.version_id else prefix):
            for old in [key] if event.version_id else self._list_outputs(prefix):
                self._delete_older(old, event)
        return Answer("Processed", key)

    def write_unfenced(self, event: ObjectEvent) -> Answer:
        """Write the output of the source as it is now, whatever output is there.

        Most functions do this. It is here for the demonstration. The output names the content that
        was read, so that an audit knows it.
        """
        key = _of_allowed_length(self._output_key(event))
        try:
            source = self._read_source(event)
        except FolderMarker:
            return Answer("Superseded", key)
        result = self.work(source.content)
        self._write_output(key, result, replace(event, etag=source.etag), source)
        return Answer("Processed", key)

    def _settle(
        self,
        event: ObjectEvent,
        key: str,
        attempt: Callable[[ObjectEvent, str, dict[str, Result]], Attempt],
    ) -> Answer:
        """Make attempts until one of them gives an outcome."""
        results: dict[str, Result] = {}  # of `work`, by the source's ETag
        outcome: Literal["Processed", "Superseded"] = "Processed"
        for _ in attempts():
            match attempt(event, key, results):
                case Attempt.DONE:
                    return Answer(outcome, key)
                case Attempt.SUPERSEDED:
                    return Answer("Superseded", key)
                case Attempt.STALE:
                    attempt = self._follow_source
                    outcome = "Superseded"
        raise OutputContended(f"The output {key!r} changed under all attempts to write it.")

    def _apply_creation(self, event: ObjectEvent, key: str, results: dict[str, Result]) -> Attempt:
        """Write the output of a creation, unless a newer event has written it."""
        output = self._read_own_output(key, event)  # step 1
        match output.order(event):
            case Order.NEWER:
                return Attempt.SUPERSEDED
            case Order.SAME:  # by an attempt that may have died before its step 4
                return self._check_source(event)
        return self._replace_output(output, event, key, results)

    def _follow_source(self, event: ObjectEvent, key: str, results: dict[str, Result]) -> Attempt:
        """Write the output of the source as it is now; without a source, delete the output.

        If the source cannot have an output, the output is deleted, too. An upload of another
        version ends as superseded, because the source's own event is rejected. A deletion is
        rejected, because no other event may still tell somebody.
        """
        output = self._read_own_output(key, event)  # step 1
        source = self.find_source(event)  # step 2
        if source is None:
            return self._remove_output(output, event, key, source)
        if not source.version_id:
            return Attempt.SUPERSEDED  # by a later upload, which has its own event
        if output.shows(source):
            return Attempt.SUPERSEDED  # the output is right already
        try:
            return self._replace_output(output, source, key, results)
        except (Rejection, self.rejection):
            if self._remove_output(output, event, key, source) is Attempt.AGAIN:
                return Attempt.AGAIN
            if event.is_deletion:
                raise
            return Attempt.SUPERSEDED

    def _give_own_output(self, event: ObjectEvent, key: str, results: dict[str, Result]) -> Attempt:
        """Write a creation's own output, unless what it created has been deleted."""
        # The null version is named, too: other versions may be over it.
        version = {"VersionId": event.version_id or NULL_VERSION}
        output = self._read_own_output(key, event)  # step 1
        etag = output.etag
        if etag is None:
            try:  # step 2
                source = self._read_source(event, IfMatch=_quoted(event.etag), **version)
            except SourceGone:
                return Attempt.SUPERSEDED
            result = self._work_once(event, source.content, results)
            etag = self._write_output(key, result, event, source, **output.unchanged())  # step 3
            if not etag:
                return Attempt.AGAIN
        if not self.handles_deletions or self.find_source(event, **version):  # step 4
            return Attempt.DONE
        return Attempt.SUPERSEDED if self._delete_output(key, etag) else Attempt.AGAIN

    def _replace_output(
        self,
        output: OutputState,
        source: ObjectEvent,
        key: str,
        results: dict[str, Result],
    ) -> Attempt:
        """Take steps 2 to 4 for a source that exists."""
        try:  # step 2
            read = self._read_source(source, IfMatch=_quoted(source.etag))
        except SourceChanged:
            return Attempt.SUPERSEDED
        result = self._work_once(source, read.content, results)
        if not self._write_output(key, result, source, read, **output.unchanged()):  # step 3
            return Attempt.AGAIN
        if output.order(source) is Order.OLDER:  # so it is of the same version
            # A deletion that was processed since step 1 would have made step 3 fail.
            return Attempt.DONE
        return self._check_source(source)

    def _remove_output(
        self, output: OutputState, event: ObjectEvent, key: str, source: ObjectEvent | None
    ) -> Attempt:
        """Take steps 3 and 4 for an output that `source`, or no source, cannot have."""
        if output.etag is None:
            return Attempt.DONE
        if not self._delete_output(key, output.etag):  # step 3
            return Attempt.AGAIN
        current = self.find_source(event)  # step 4
        is_same = (current and current.object_id) == (source and source.object_id)
        return Attempt.DONE if is_same else Attempt.AGAIN

    def _check_source(self, source: ObjectEvent) -> Attempt:
        """Take step 4: find out whether the source is still there and is still this version."""
        if not self.handles_deletions:
            return Attempt.DONE
        current = self.find_source(source)
        if current is None or (current.version_id and current.object_id != source.object_id):
            return Attempt.STALE
        return Attempt.DONE

    def _delete_older(self, key: str, event: ObjectEvent) -> None:
        """Delete an output if it is of the deleted version or, without versions, older."""
        for _ in attempts():
            output = self.read_output(key)
            if output.etag is None or output.order(event) in {Order.UNKNOWN, Order.NEWER}:
                return
            # What was written for a key in a folder of the output's name has another name: the
            # fence `newest` gives the object out-x.png/y the output out-x.png/out-y.
            if not key.endswith(f"/{output.metadata['sequencer']}") and not event.version_id:
                return
            if self._delete_output(key, output.etag):
                return
        raise OutputContended(f"The output {key!r} could not be deleted.")

    # The single steps

    def _output_key(self, event: ObjectEvent) -> str:
        if event.bucket == self.output_bucket:
            raise InvalidSource(
                "The output bucket is the input bucket: each output would be input."
            )
        return output_key(event.key)

    def _read_own_output(self, key: str, event: ObjectEvent) -> OutputState:
        """Read an output's ETag and metadata, unless the stack of another bucket has written it."""
        output = self.read_output(key)
        if other := output.other_bucket(event):
            text = (
                f"The output {key!r} was made of the bucket {other}, and the event is of the bucket"
            )
            raise OutputOfAnotherBucket(f"{text} {event.bucket}: each needs an output bucket.")
        return output

    def read_output(self, key: str) -> OutputState:
        """Read an output's ETag and metadata."""
        try:
            response = self.s3.head_object(Bucket=self.output_bucket, Key=key)
        except ClientError as error:
            if _is_missing(error):
                return OutputState()
            raise
        return OutputState(response["ETag"], response["Metadata"], response.get("LastModified"))

    def find_source(self, event: ObjectEvent, **version: Any) -> ObjectEvent | None:
        """Find out what the source is now: its current version, unless another one is named.

        S3 names the null version ``null`` if the bucket has versions, and names none if it has not:
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/AddingObjectstoVersionSuspendedBuckets.html

        Returns
        -------
        ObjectEvent or None
            The event, as if it had created what is there. None if there is no source.
        """
        try:
            head = self.s3.head_object(Bucket=event.bucket, Key=event.key, **version)
        except ClientError as error:
            if _is_missing(error):
                return None
            if _status(error) == HTTPStatus.BAD_REQUEST:  # only the answer to GET has a code
                self._open_source(event, **version)["Body"].close()
            raise
        return replace(
            event,
            etag=head["ETag"].strip('"'),
            version_id=head.get("VersionId", NULL_VERSION if event.version_id else None),
            is_deletion=False,
        )

    def _read_source(self, source: ObjectEvent, **condition: Any) -> Source:
        """Read the source: its current version, unless another one is named.

        Raises
        ------
        SourceChanged
            The condition does not hold, what was read is not the version of `source`, or a folder.
        InvalidSource, SourceUnreadable
            The content is too large, or S3 does not give it.
        """
        try:
            response = self._open_source(source, **condition)
        except ClientError as error:
            if _is_missing(error):
                raise SourceGone("The object has been deleted.") from error
            if _status(error) == HTTPStatus.PRECONDITION_FAILED:
                raise SourceChanged("The object has been overwritten.") from error
            raise
        # `with response["Body"]` gives a stream that checks neither the length nor the checksum.
        with closing(response["Body"]) as body:
            version_id = named_version(response.get("VersionId"))
            if condition and version_id != named_version(source.version_id):
                raise SourceChanged("Another version of the object is current.")
            if response["ContentLength"] > self.maximum_bytes:
                raise InvalidSource(f"The object is larger than {self.maximum_bytes} bytes.")
            if not response["ContentLength"] and source.key.endswith("/"):
                raise FolderMarker("The object is a folder.")
            fields: Mapping[str, Any] = response
            handed_on = {name: fields[name] for name in self.hands_on if name in fields}
            return Source(body.read(), fields.get("ETag", "").strip('"'), handed_on)

    def _open_source(self, source: ObjectEvent, **condition: Any) -> GetObjectOutputTypeDef:
        """Ask for the source's content, and tell S3's lasting refusals from those that may pass."""
        try:
            return self.s3.get_object(Bucket=source.bucket, Key=source.key, **condition)
        except ClientError as error:
            if reason := LASTING_REFUSALS.get(error.response["Error"]["Code"]):
                raise SourceUnreadable(reason) from error
            raise

    def _work_once(self, source: ObjectEvent, content: bytes, results: dict[str, Result]) -> Result:
        """Call `work`, unless the attempt before has called it for the same content."""
        if source.etag not in results:
            results.clear()  # there is memory for one
            results[source.etag] = self.work(content)
        return results[source.etag]

    def _write_output(
        self, key: str, result: Result, event: ObjectEvent, source: Source, **condition: Any
    ) -> str | None:
        """Write an output and give its ETag; None if the condition failed."""
        handed_on = dict(source.handed_on)
        metadata = {
            **handed_on.pop("Metadata", {}),
            "sequencer": event.sequencer,
            "source-bucket": event.bucket,
            "source-etag": event.etag,
            "source-version-id": event.version_id,  # the source's own may be there, too
        }
        try:
            response = self.s3.put_object(
                Bucket=self.output_bucket,
                Key=key,
                Body=self.stamped(result.content, stamp(event)),
                ContentType=result.content_type,
                Metadata={name: value for name, value in metadata.items() if value is not None},
                **handed_on,
                **condition,
            )
        except ClientError as error:
            if condition and _is_failed_condition(error):
                return None
            if error.response["Error"]["Code"] == "MetadataTooLarge":
                raise InvalidSource("The metadata would be larger than S3 takes.") from error
            raise
        return response["ETag"]

    def _delete_output(self, key: str, etag: str) -> bool:
        """Delete an output if it still has this ETag, and tell whether it had."""
        try:
            self.s3.delete_object(Bucket=self.output_bucket, Key=key, IfMatch=etag)
        except ClientError as error:
            if _is_failed_condition(error):
                return False
            raise
        return True

    def _list_outputs(self, prefix: str) -> Iterator[str]:
        """List the outputs under a prefix, but none that is deeper: that belongs to another key."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.output_bucket, Prefix=prefix, Delimiter="/"
        )
        for page in pages:
            for entry in page.get("Contents", []):
                yield entry["Key"]


# By the name that the state machine sends.
FENCES: dict[str, Callable[[Fence, ObjectEvent], Answer]] = {
    "newest": Fence.write_newest,
    "each": Fence.write_each,
    "none": Fence.write_unfenced,
}


def attempts() -> Iterator[int]:
    """Count the attempts, and pause between them for random times, which spreads the writers."""
    for attempt in range(ATTEMPTS):
        time.sleep(random.uniform(0, 0.1 * attempt))  # noqa: S311 - not for a secret
        yield attempt


def _is_too_long(key: str) -> bool:
    return len(key.encode()) > MAXIMUM_KEY_BYTES


def _of_allowed_length(key: str) -> str:
    if _is_too_long(key):
        raise InvalidSource(f"The output's key would be longer than {MAXIMUM_KEY_BYTES} bytes.")
    return key


def _quoted(etag: str) -> str:
    """Write an event's ETag as S3's conditions want it."""
    return f'"{etag}"'


def _is_missing(error: ClientError) -> bool:
    """Tell whether there is no such object. A missing bucket is a fault, where S3 says so.

    405: the version is a delete marker, as the null version may be.
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
    """
    is_bucket = error.response["Error"]["Code"] == "NoSuchBucket"
    is_missing = _status(error) in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
    return is_missing and not is_bucket


def _is_failed_condition(error: ClientError) -> bool:
    """Tell whether S3 changed nothing because the output was not as the condition wants it.

    412: another ETag. 409: another write is in progress. 404: the output was deleted meanwhile.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-requests.html
    """
    failed = {HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED}
    return _is_missing(error) or _status(error) in failed


def _status(error: ClientError) -> int:
    return error.response["ResponseMetadata"]["HTTPStatusCode"]
