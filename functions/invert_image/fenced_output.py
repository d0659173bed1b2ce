"""The fence: an output in S3 is replaced by that of a newer event only.

A lock cannot promise this. Its holder may stall, lose the lock, and wake up when a newer event has
been processed already. So the write itself is conditional::

    1 look at the output      its ETag, and the sequencer in its metadata
    2 read the source         only if it is still what the event told of
    3 write the output        only if it is still what step 1 saw

The order matters. A newer event's output that is there at 1 is known by its sequencer or, as those
do not compare between versions, by its source: it was uploaded before 1, so 2 fails. One that comes
after 1 makes 3 fail, and the fence begins again.

An ETag names content, not a write: if a picture is uploaded, then another, then the first one
again, the third event's output would have the ETag of the first one's, and step 3 of a writer that
had stalled since could not tell them apart. So each output ends with its sequencer (see `stamp`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError
from inversion import InvalidImage, InvertedImage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 5
MAXIMUM_KEY_BYTES = 1024  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html


class OutputContended(Exception):
    """Other writers changed the output each time that this one had looked at it."""


class SourceChanged(Exception):
    """The source is no longer the object that the event told of."""


@dataclass(frozen=True)
class Source:
    """The object that an event tells of.

    Attributes
    ----------
    bucket, key : str
        Where it is. The key as EventBridge gives it, which is not URL-encoded.
    etag : str
        Its ETag, without quotes.
    version_id : str or None
        Its version, in a versioned bucket.
    """

    bucket: str
    key: str
    etag: str
    version_id: str | None = None


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
    result = f"{folder}{slash}out-{name}"
    if len(result.encode()) > MAXIMUM_KEY_BYTES:
        raise InvalidImage(f"The output's key would be longer than {MAXIMUM_KEY_BYTES} bytes.")
    return result


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


def stamp(source: Source, sequencer: str) -> bytes:
    """Give the bytes that make an output, and so its ETag, its event's own.

    They stand behind the image, where readers of all our formats ignore them. Work that makes
    another kind of output puts the sequencer wherever that kind has room for it.
    """
    return f"\n{sequencer}#{source.version_id or ''}".encode()


def write_fenced(
    s3: S3Client,
    source: Source,
    sequencer: str,
    output_bucket: str,
    maximum_bytes: int,
    work: Callable[[bytes], InvertedImage],
) -> Output:
    """Write the output of an event, unless that of a newer event is or will be there.

    Parameters
    ----------
    s3 : S3Client
        Needs ``s3:GetObject`` and ``s3:ListBucket`` on both buckets (without the second, a missing
        key answers 403 and not 404) and ``s3:PutObject`` on the output's.
    source : Source
        The object that the event tells of.
    sequencer : str
        The event's.
    output_bucket : str
        Where the output goes, under `output_key`.
    maximum_bytes : int
        Size of the largest source that is read.
    work : callable
        Makes the output of the source's content. Called once at most.

    Raises
    ------
    InvalidImage
        The source cannot have an output.
    OutputContended
        The fence was begun `ATTEMPTS` times in vain.
    botocore.exceptions.ClientError
        S3 failed.
    """
    key = output_key(source.key)
    result: InvertedImage | None = None
    for attempt in range(ATTEMPTS):
        time.sleep(random.uniform(0, 0.1 * attempt))  # noqa: S311 - spreads writers, hides nothing
        etag, metadata = _look_at_output(s3, output_bucket, key)
        # Between versions sequencers do not compare; step 2 alone tells which version is current.
        if "sequencer" in metadata and metadata.get("source-version-id") == source.version_id:
            order = compare_sequencers(metadata["sequencer"], sequencer)
            if order >= 0:
                return Output("Processed" if order == 0 else "Superseded", key)
        try:
            content = _read_source(s3, source, maximum_bytes, {"IfMatch": f'"{source.etag}"'})
        except SourceChanged:
            return Output("Superseded", key)
        result = result or work(content)
        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        if _write_output(s3, output_bucket, key, result, source, sequencer, condition):
            return Output("Processed", key)
    raise OutputContended(f"The output {key!r} changed under {ATTEMPTS} attempts to write it.")


def write_unfenced(
    s3: S3Client,
    source: Source,
    sequencer: str,
    output_bucket: str,
    maximum_bytes: int,
    work: Callable[[bytes], InvertedImage],
) -> Output:
    """Write the output of whatever the source is now over whatever the output is now.

    What most functions do, for the demonstration. Parameters as for `write_fenced`.
    """
    key = output_key(source.key)
    result = work(_read_source(s3, source, maximum_bytes, {}))
    _write_output(s3, output_bucket, key, result, source, sequencer, {})
    return Output("Processed", key)


def _look_at_output(s3: S3Client, bucket: str, key: str) -> tuple[str | None, dict[str, str]]:
    """Give the output's ETag and metadata, or none if there is no output."""
    try:
        response = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if _status(error) == 404:  # noqa: PLR2004
            return None, {}
        raise
    return response["ETag"], response["Metadata"]


def _read_source(
    s3: S3Client, source: Source, maximum_bytes: int, condition: dict[str, Any]
) -> bytes:
    """Read the source's current version, which is the only one that may have an output."""
    try:
        response = s3.get_object(Bucket=source.bucket, Key=source.key, **condition)
    except ClientError as error:
        if _status(error) in {404, 412}:
            raise SourceChanged from error
        raise
    with response["Body"] as body:
        if source.version_id and response.get("VersionId") != source.version_id:
            raise SourceChanged
        if response["ContentLength"] > maximum_bytes:
            raise InvalidImage(f"The object is larger than {maximum_bytes} bytes.")
        return body.read()


def _write_output(
    s3: S3Client,
    bucket: str,
    key: str,
    result: InvertedImage,
    source: Source,
    sequencer: str,
    condition: dict[str, Any],
) -> bool:
    """Write the output and tell whether the condition allowed it."""
    metadata = {"sequencer": sequencer, "source-etag": source.etag}
    if source.version_id:
        metadata["source-version-id"] = source.version_id
    try:
        s3.put_object(
            Bucket=bucket,
            Key=key,
            Body=result.content + stamp(source, sequencer),
            ContentType=result.content_type,
            Metadata=metadata,
            **condition,
        )
    except ClientError as error:
        # 412: another ETag. 409: another write is under way. 404: the output was deleted meanwhile.
        if condition and _status(error) in {404, 409, 412} and _code(error) != "NoSuchBucket":
            return False
        raise
    return True


def _status(error: ClientError) -> int:
    return error.response["ResponseMetadata"]["HTTPStatusCode"]


def _code(error: ClientError) -> str:
    return error.response["Error"]["Code"]
