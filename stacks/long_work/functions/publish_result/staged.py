"""A staged result: what the work of one execution has made, before it is published.

The work puts it under a key of its own. It contains the event's stamp: as its last bytes or, where
the format has a better place, at the offset that its metadata ``stamp-offset`` names. So no two
events have results with the same ETag, which the fence's condition compares: after A, B, A a late B
would pass otherwise. A copy keeps content and ETag, so a condition on it cannot replace the stamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO
from math import ceil
from typing import Any

from botocore.exceptions import ClientError

from inorder_fence import ObjectEvent, Rejection
from inorder_fence.fenced_output import stamp

MIB = 1024 * 1024
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
SMALLEST_PART, MOST_PARTS = 5 * MIB, 10_000
PART = 256 * MIB
COPIES = 16  # parts that S3 copies at a time


class NothingStaged(Rejection):
    """The work has ended well, and its key has no result."""


class NotStamped(Rejection):
    """The result does not contain the event's stamp where it should."""


class AnotherVersion(Rejection):
    """The output must show another version of the object, of which this is not the result."""


@dataclass
class StagedResult:
    """A client of S3 for the fence, and its work: an output's content is copied, not read.

    The fence reads a source by `get_object` and writes an output by `put_object`. Here the first
    one reads no content, and the second one copies the staged result. All other calls are S3's own.
    """

    s3: Any
    event: ObjectEvent
    bucket: str
    key: str
    content_type: str = field(default="", init=False)
    content: bytes = field(default=b"", init=False)
    _etag: str = field(default="", init=False)
    _size: int = field(default=0, init=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.s3, name)

    def get_object(self, **request: Any) -> dict[str, Any]:
        """Ask whether a source is still the one that an event names; its ETag is the content."""
        found = self.s3.head_object(**request)
        return {**found, "Body": BytesIO(found["ETag"].strip('"').encode())}

    def check(self, etag: bytes) -> StagedResult:
        """Check that this is the result of the source that the fence has read: the fence's work.

        Raises
        ------
        NothingStaged, NotStamped, AnotherVersion
            It is not.
        """
        if etag.decode() != self.event.etag:
            raise AnotherVersion("Upload the version that is now current again.")
        try:
            found = self.s3.head_object(Bucket=self.bucket, Key=self.key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.NOT_FOUND:
                raise
            raise NothingStaged(f"The work has put nothing to {self.key}.") from error
        self.content_type, self._etag = found["ContentType"], found["ETag"]
        self._size, wanted = found["ContentLength"], stamp(self.event)
        at = found["Metadata"].get("stamp-offset", str(self._size - len(wanted)))
        if not at.isdecimal() or int(at) + len(wanted) > self._size:
            raise NotStamped(f"The result has {self._size} bytes, and no stamp at {at}.")
        if self._read(Range=f"bytes={at}-{int(at) + len(wanted) - 1}") != wanted:
            raise NotStamped(f"The result does not have {wanted.decode()} at byte {at}.")
        return self

    def put_object(self, **request: Any) -> Any:
        """Write the result to an output under a condition, without reading a large one."""
        named = [name for name in ("IfMatch", "IfNoneMatch") if name in request]
        named = [name for name in ("IfMatch", "IfNoneMatch") if name in request]
        condition = {name: request.pop(name) for name in named}
        if self._size < SMALLEST_PART:
            return self.s3.put_object(**(request | condition | {"Body": self._read()}))
        del request["Body"]
        upload = self.s3.create_multipart_upload(**request)["UploadId"]
        place = {"Bucket": request["Bucket"], "Key": request["Key"], "UploadId": upload}
        try:
            with ThreadPoolExecutor(COPIES) as pool:
                copies = [pool.submit(self._copy, place, *each) for each in self._ranges()]
                parts = [copy.result() for copy in copies]
            return self.s3.complete_multipart_upload(
                **place, **condition, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            self.s3.abort_multipart_upload(**place)
            raise

    def remove(self) -> None:
        """Remove the staged result."""
        self.s3.delete_object(Bucket=self.bucket, Key=self.key)

    def _read(self, **part: str) -> bytes:
        place = {"Bucket": self.bucket, "Key": self.key, "IfMatch": self._etag}
        content: bytes = self.s3.get_object(**place, **part)["Body"].read()
        return content

    def _ranges(self) -> Iterator[tuple[int, str]]:
        """Cut the result into as many parts as S3 takes; the last one may be small."""
        part = max(PART, ceil(self._size / MOST_PARTS))
        for number, at in enumerate(range(0, self._size, part), 1):
            yield number, f"bytes={at}-{min(at + part, self._size) - 1}"

    def _copy(self, place: dict[str, str], number: int, part: str) -> dict[str, Any]:
        copied = self.s3.upload_part_copy(
            **place,
            PartNumber=number,
            CopySource={"Bucket": self.bucket, "Key": self.key},
            CopySourceIfMatch=self._etag,
            CopySourceRange=part,
        )
        return {"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]}
