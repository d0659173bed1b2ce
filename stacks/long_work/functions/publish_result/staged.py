"""A staged result: what the work of one execution has made, before it is published.

The work puts it under a key of its own. It contains the event's stamp: as its last bytes or, where
the format has a better place, at the offset that its metadata ``stamp-offset`` names. So no two
events have results with the same ETag, which the fence's condition compares: after A, B, A a late B
would pass otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO
from typing import Any

from botocore.exceptions import ClientError

from inorder_fence import ObjectEvent, Rejection
from inorder_fence.fenced_output import stamp

# S3 takes 10,000 parts, of which all but the last one have at least 5 MiB, and 5 TiB in all.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PART, MOST_PARTS = 256 * 1024 * 1024, 10_000
COPIES = 16  # parts that S3 copies at a time


class RejectedByWork(Rejection):
    """The work has answered that the object cannot have an output."""


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
    event: dict[str, Any]
    place: dict[str, str]  # its bucket and key
    answer: Any  # of the work
    content: bytes = field(default=b"", init=False)
    content_type: str = field(default="", init=False)
    etag: str = field(default="", init=False)
    size: int = field(default=0, init=False)

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
        RejectedByWork, NothingStaged, NotStamped, AnotherVersion
            It is not.
        """
        event = ObjectEvent.from_event(self.event)
        if etag.decode() != event.etag:
            raise AnotherVersion("Upload the current version again.")
        match self.answer:
            case {"outcome": "Rejected", **reason}:
                raise RejectedByWork(f"{reason.get('error')}: {reason.get('cause')}")
        try:
            found = self.s3.head_object(**self.place)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.NOT_FOUND:
                raise
            raise NothingStaged(f"The work has put nothing to {self.place['Key']}.") from error
        self.content_type, self.etag = found["ContentType"], found["ETag"]
        self.size, wanted = found["ContentLength"], stamp(event)
        at = found["Metadata"].get("stamp-offset", str(self.size - len(wanted)))
        if not at.isdecimal() or int(at) + len(wanted) > self.size:
            raise NotStamped(f"The result has {self.size} bytes, and no stamp at {at}.")
        part = f"bytes={at}-{int(at) + len(wanted) - 1}"
        read = self.s3.get_object(**self.place, IfMatch=self.etag, Range=part)["Body"].read()
        if read != wanted:
            raise NotStamped(f"The result does not have {wanted.decode()} at byte {at}.")
        return self

    def put_object(self, **request: Any) -> Any:
        """Write the result to an output under a condition: CopyObject would want 5 GB at most."""
        named = [name for name in ("IfMatch", "IfNoneMatch") if name in request]
        condition = {name: request.pop(name) for name in named}
        del request["Body"]
        upload = self.s3.create_multipart_upload(**request)["UploadId"]
        place = {"Bucket": request["Bucket"], "Key": request["Key"], "UploadId": upload}
        try:
            with ThreadPoolExecutor(COPIES) as pool:
                copies = [pool.submit(self._copy, place, *each) for each in self._parts()]
                parts = [copy.result() for copy in copies]
            return self.s3.complete_multipart_upload(
                **place, **condition, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            self.s3.abort_multipart_upload(**place)
            raise

    def _parts(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Cut the result into parts; S3 gives no range of an object of less than 5 MiB."""
        size = max(PART, -(-self.size // MOST_PARTS))
        for number, at in enumerate(range(0, self.size, size), 1):
            part = f"bytes={at}-{min(at + size, self.size) - 1}"
            yield number, {"CopySourceRange": part} if self.size > size else {}

    def _copy(self, place: dict[str, str], number: int, part: dict[str, str]) -> dict[str, Any]:
        source = {"CopySource": self.place, "CopySourceIfMatch": self.etag}
        copied = self.s3.upload_part_copy(**place, **source, **part, PartNumber=number)
        return {"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]}
