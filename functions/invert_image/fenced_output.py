"""The fence: an output in S3 is replaced by that of a newer event only.

A lock cannot promise this. Its holder may stall, lose the lock, and wake up when a newer event has
been processed already. So the write itself is conditional::

    1 look at the output      its ETag, and the sequencer in its metadata
    2 read the source         only if it is still what the event told of
    3 write the output        only if it is still what step 1 saw

The order matters. A newer event's output that is there at 1 is known by its sequencer or, as those
do not compare between versions, by its source: it was uploaded before 1, so 2 fails. One that comes
after 1 makes 3 fail, and the fence begins again. A deletion goes the same way: at 2 the source must
be gone, and 3 removes the output instead.

An ETag names content, not a write: if a picture is uploaded, then another, then the first one
again, the third event's output would have the ETag of the first one's, and step 3 of a writer that
had stalled since could not tell them apart. So each output ends with its sequencer (see `stamp`).
And that there is no output names no write at all: one that stalled when there was none yet cannot
tell that there was one since, and a deletion. In a versioned bucket an old version may become
current again, and its output right again without a write. So in these cases, a writer looks once
more when it has written (and a deletion when it has removed)::

    4 look for the source     if it is gone or another version, begin again with what is current
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError
from inversion import InvalidImage, InvertedImage
from object_event import ObjectEvent, named_version

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 5
MAXIMUM_KEY_BYTES = 1024  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html


class OutputContended(Exception):
    """Other writers changed the output each time that this one had looked at it."""


class SourceChanged(Exception):
    """The source is no longer the object that the event told of."""


class SourceGone(SourceChanged):
    """There is no source any more."""


@dataclass(frozen=True)
class Output:
    """Where an event's output is, or the newer one that forbids it.

    Attributes
    ----------
    outcome : "Processed" or "Superseded"
        Whether the output is this event's.
    key : str
        The output's key.
    """

    outcome: Literal["Processed", "Superseded"]
    key: str


def output_key(key: str) -> str:
    """Name the output of a source: ``<folder>/out-<name>``.

    Raises
    ------
    InvalidImage
        The name would be longer than S3 allows.
    """
    folder, slash, name = key.rpartition("/")
    return _of_allowed_length(f"{folder}{slash}out-{name}")


def compare_sequencers(one: str, other: str) -> int:
    """Order two sequencers of the same object key.

    "Right pad the shorter value with zeros, and then do a lexicographic comparison"
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html).
    DynamoDB compares the bare strings, which gives the same order, save that it tells ``0A`` from
    ``0A0``; S3 gives no two events of a key such a pair.

    Returns
    -------
    int
        Below, at or above zero as `one` is older than, equal to or newer than `other`.
    """
    width = max(len(one), len(other))
    left, right = one.ljust(width, "0"), other.ljust(width, "0")
    return (left > right) - (left < right)


def stamp(event: ObjectEvent) -> bytes:
    """Give the bytes that make an output, and so its ETag, its event's own.

    They stand behind the image, where readers of all our formats ignore them. Work that makes
    another kind of output puts the sequencer wherever that kind has room for it.
    """
    return f"\n{event.sequencer}#{event.version_id or ''}".encode()


@dataclass(frozen=True)
class Fence:
    """What brings outputs up to date with events, and lets no older event undo a newer one.

    Attributes
    ----------
    s3 : S3Client
        Needs ``s3:GetObject`` and ``s3:ListBucket`` on both buckets (without the second, a missing
        key answers 403 and not 404), ``s3:PutObject`` on the output's and, if deletions are
        handled, ``s3:DeleteObject``; `write_each` also ``s3:GetObjectVersion`` on the source's.
    output_bucket : str
        Where the outputs go.
    maximum_bytes : int
        Size of the largest source that is read.
    work : callable
        Makes the output of a source's content. Called once at most for each content.
    handles_deletions : bool
        Whether the output of a source that is gone is removed.
    """

    s3: S3Client
    output_bucket: str
    maximum_bytes: int
    work: Callable[[bytes], InvertedImage]
    handles_deletions: bool

    def write_newest(self, event: ObjectEvent) -> Output:
        """Let the one output of a key be that of its newest event; a deletion removes it.

        Raises
        ------
        InvalidImage
            The source cannot have an output.
        OutputContended
            The fence was begun `ATTEMPTS` times in vain.
        botocore.exceptions.ClientError
            S3 failed.
        """
        key = output_key(event.key)
        if event.is_deletion and not self.handles_deletions:
            return Output("Superseded", key)
        outcome: Literal["Processed", "Superseded"] = "Processed"
        results: dict[str, InvertedImage] = {}
        follows_source = event.is_deletion
        for _ in attempts():
            etag, metadata = self._look_at(key)
            wanted = self._current(event) if follows_source else event
            if wanted is None:
                if etag is None or (self._remove(key, etag) and self._current(event) is None):
                    return Output(outcome, key)
                continue
            order = _order(metadata, wanted)
            if follows_source:
                # It is right already; or, without versions, the upload has an event of its own.
                is_superseded = order == 0 or not (wanted.version_id or event.version_id)
            else:
                is_superseded = order is not None and order > 0
            if is_superseded:
                return Output("Superseded", key)
            if order != 0:
                try:
                    content = self._read(wanted, IfMatch=f'"{wanted.etag}"')
                except SourceChanged:
                    return Output("Superseded", key)
                if wanted.etag not in results:
                    results[wanted.etag] = self.work(content)
                condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
                if not self._write(key, results[wanted.etag], wanted, condition):
                    continue
            # Without versions, a deletion since step 2 would have changed what step 1 saw.
            is_update = etag and order != 0 and not wanted.version_id
            if is_update or not self.handles_deletions or self._is_current(wanted):
                return Output(outcome, key)
            follows_source, outcome = True, "Superseded"
        raise OutputContended(f"The output {key!r} changed under all attempts to write it.")

    def write_each(self, event: ObjectEvent) -> Output:
        """Give each event an output of its own, which is written once.

        The output goes to ``<folder>/out-<name>/<version or sequencer>``. The deletion of a version
        removes that version's output, a delete marker none, and the deletion in a bucket without
        versions those of all older events, as their source is gone.

        Raises
        ------
        InvalidImage
            The source cannot have an output.
        SourceChanged
            The source has been overwritten, so that its content is lost.
        OutputContended, botocore.exceptions.ClientError
            As for `write_newest`.
        """
        prefix = output_key(event.key) + "/"
        key = _of_allowed_length(prefix + (event.version_id or event.sequencer))
        if event.is_deletion and not self.handles_deletions:
            return Output("Superseded", key)
        if event.is_deletion:
            for old in [key] if event.version_id else self._list_outputs(prefix):
                self._remove_older(old, event)
            return Output("Processed", key)
        version = {"VersionId": event.version_id} if event.version_id else {}
        result: InvertedImage | None = None
        for _ in attempts():
            etag, _ = self._look_at(key)
            if etag is None:
                try:
                    content = self._read(event, IfMatch=f'"{event.etag}"', **version)
                except SourceGone:
                    return Output("Superseded", key)
                result = result or self.work(content)
                etag = self._write(key, result, event, {"IfNoneMatch": "*"})
                if etag is None:
                    continue
            if not self.handles_deletions or self._current(event, **version):
                return Output("Processed", key)
            if self._remove(key, etag):
                return Output("Superseded", key)
        raise OutputContended(f"The output {key!r} changed under all attempts to write it.")

    def write_unfenced(self, event: ObjectEvent) -> Output:
        """Write the output of whatever the source is now over whatever the output is now.

        What most functions do, for the demonstration.
        """
        key = output_key(event.key)
        current = replace(event, version_id=None)
        self._write(key, self.work(self._read(current)), event, {})
        return Output("Processed", key)

    def _list_outputs(self, prefix: str) -> Iterator[str]:
        """List what lies under a prefix, but nothing deeper: that belongs to other sources."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.output_bucket, Prefix=prefix, Delimiter="/"
        )
        for page in pages:
            for found in page.get("Contents", []):
                yield found["Key"]

    def _remove_older(self, key: str, event: ObjectEvent) -> None:
        """Remove an output if it is of the deleted version or, without versions, older."""
        for _ in attempts():
            etag, metadata = self._look_at(key)
            order = _order(metadata, event)
            if etag is None or order is None or order > 0 or self._remove(key, etag):
                return
        raise OutputContended(f"The output {key!r} could not be removed.")

    def _look_at(self, key: str) -> tuple[str | None, dict[str, str]]:
        """Give an output's ETag and metadata, or none if there is no output."""
        try:
            response = self.s3.head_object(Bucket=self.output_bucket, Key=key)
        except ClientError as error:
            if _is_missing(error):
                return None, {}
            raise
        return response["ETag"], response["Metadata"]

    def _current(self, event: ObjectEvent, **version: Any) -> ObjectEvent | None:
        """Look for the source: its current version, unless another is named."""
        try:
            found = self.s3.head_object(Bucket=event.bucket, Key=event.key, **version)
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        return replace(
            event,
            etag=found["ETag"].strip('"'),
            version_id=named_version(found.get("VersionId")),
            is_deletion=False,
        )

    def _is_current(self, event: ObjectEvent) -> bool:
        """Tell whether the source is there and, if it has versions, is this one."""
        current = self._current(event)
        return current is not None and current.version_id == event.version_id

    def _read(self, event: ObjectEvent, **condition: Any) -> bytes:
        """Read the source: its current version, unless the condition names another."""
        try:
            response = self.s3.get_object(Bucket=event.bucket, Key=event.key, **condition)
        except ClientError as error:
            if _is_missing(error):
                raise SourceGone("The object has been deleted.") from error
            if _status(error) == HTTPStatus.PRECONDITION_FAILED:
                raise SourceChanged("The object has been overwritten.") from error
            raise
        with response["Body"] as body:
            if event.version_id and response.get("VersionId") != event.version_id:
                raise SourceChanged("Another version of the object is current.")
            if response["ContentLength"] > self.maximum_bytes:
                raise InvalidImage(f"The object is larger than {self.maximum_bytes} bytes.")
            return body.read()

    def _write(
        self, key: str, result: InvertedImage, event: ObjectEvent, condition: dict[str, Any]
    ) -> str | None:
        """Write an output and give its ETag, or none if the condition does not allow it."""
        metadata = {"sequencer": event.sequencer, "source-etag": event.etag}
        if event.version_id:
            metadata["source-version-id"] = event.version_id
        try:
            response = self.s3.put_object(
                Bucket=self.output_bucket,
                Key=key,
                Body=result.content + stamp(event),
                ContentType=result.content_type,
                Metadata=metadata,
                **condition,
            )
        except ClientError as error:
            if condition and _is_changed(error):
                return None
            raise
        return response["ETag"]

    def _remove(self, key: str, etag: str) -> bool:
        """Remove an output and tell whether it was still the one of this ETag."""
        try:
            self.s3.delete_object(Bucket=self.output_bucket, Key=key, IfMatch=etag)
        except ClientError as error:
            if _is_changed(error):
                return False
            raise
        return True


def attempts() -> Iterator[int]:
    """Count the attempts of a fence, with a pause between them that spreads writers."""
    for attempt in range(ATTEMPTS):
        time.sleep(random.uniform(0, 0.1 * attempt))  # noqa: S311 - hides nothing
        yield attempt


def _of_allowed_length(key: str) -> str:
    if len(key.encode()) > MAXIMUM_KEY_BYTES:
        raise InvalidImage(f"The output's key would be longer than {MAXIMUM_KEY_BYTES} bytes.")
    return key


def _order(metadata: dict[str, str], event: ObjectEvent) -> int | None:
    """Compare an output's event with another one; none if they do not compare.

    A version is created once. Without versions the sequencer tells; between versions, nothing.
    """
    if "sequencer" not in metadata or metadata.get("source-version-id") != event.version_id:
        return None
    return 0 if event.version_id else compare_sequencers(metadata["sequencer"], event.sequencer)


def _is_missing(error: ClientError) -> bool:
    """Tell whether there is no such object. No such bucket is a fault, where S3 says so."""
    is_bucket = error.response["Error"]["Code"] == "NoSuchBucket"
    return _status(error) == HTTPStatus.NOT_FOUND and not is_bucket


def _is_changed(error: ClientError) -> bool:
    """Tell whether an output was no longer what the condition asked for.

    412: another ETag. 409: another write is under way. 404: the output was deleted meanwhile.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-requests.html
    """
    changed = {HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED}
    return _is_missing(error) or _status(error) in changed


def _status(error: ClientError) -> int:
    return error.response["ResponseMetadata"]["HTTPStatusCode"]
