"""Reads what an audit compares: sources, outputs and records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import chain
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from inorder.audit.comparing import (
    REPAIRABLE,
    Finding,
    Keeps,
    Reading,
    Scope,
    Subject,
    Verdict,
    compare,
    judge,
    reason_of,
    version_of,
)
from inorder.audit.listing import Listed, Pair
from inorder.aws.stack import answered_at
from inorder_fence import Fence, ObjectEvent, named_version
from inorder_fence.fenced_output import (
    MAXIMUM_KEY_BYTES,
    OutputState,
    SourceUnreadable,
    output_key,
)
from inorder_fence.records import object_key, retry_id

NAME = "out-"  # begins the name of each output
REFUSALS = {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN}  # which may be of one object only
RECORDS = 100  # that one request reads at most
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds until what DynamoDB left out is asked for again
Answer = TypeVar("Answer")
Item = Mapping[str, str]
Apply = Callable[..., Iterable[Any]]
# A source that was read once, None if there is none; or all that can be read of its subject.
Begun = ObjectEvent | Reading | None


class Refused(Exception):
    """S3 or DynamoDB refuses to show one object, or its record."""


class Reader:
    """Reads with the fence's own requests. It changes nothing, and several threads may use it.

    The client `lists` gives times as text, and is for listings: see `Connection.lists`.
    """

    def __init__(
        self,
        s3: Any,
        lists: Any,
        dynamodb: Any,
        scope: Scope,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._s3, self._lists, self._dynamodb = s3, lists, dynamodb
        self.scope, self._now = scope, now
        self._fence = Fence(s3, scope.output_bucket, 0, _no_work, scope.handles_deletions)

    def clock(self) -> datetime:
        """Tell what time it is for S3, whose times the listings have."""
        answer = self._lists.list_objects_v2(Bucket=self.scope.output_bucket, MaxKeys=1)
        return answered_at(answer)

    def sources(self, prefix: str) -> Iterator[list[Listed]]:
        """List the sources, by pages."""
        begins = max(prefix, self.scope.key_prefix, key=len)
        listing = ("list_objects_v2", "Contents")
        if self.scope.keeps == "each":
            listing = ("list_object_versions", "Versions")
        for page in self._listed(*listing, self.scope.bucket, begins):
            yield [
                _listed(entry, Subject(entry["Key"], named_version(entry.get("VersionId"))))
                for entry in page
                if self.scope.covers(entry["Key"], prefix)
            ]

    def outputs(self, prefix: str) -> Iterator[list[Listed]]:
        """List what may be outputs, by pages, under the keys and versions of their sources."""
        begins = max(prefix, self.scope.key_prefix, key=len)
        folder, slash, name = begins.rpartition("/")
        in_folder = f"{folder}{slash}{NAME}{name}"  # the others are in folders that begin so
        beginnings = [begins] if in_folder.startswith(begins) else [in_folder, begins]
        listed = (
            self._listed("list_objects_v2", "Contents", self.scope.output_bucket, beginning)
            for beginning in beginnings
        )
        for page in chain.from_iterable(listed):
            subjects = [_subject(entry["Key"], self.scope.keeps) for entry in page]
            yield [
                _listed(entry, subject)
                for entry, subject in zip(page, subjects, strict=True)
                if subject and self.scope.covers(subject.key, prefix)
            ]

    def compared(self, pair: Pair) -> OutputState | None:
        """Ask S3 about the output of a listed source, with one request, or at most two.

        Gives the output if it is right.
        """
        subject = pair.subject
        source = ObjectEvent(self.scope.bucket, pair.key, "", pair.etag, subject.version_id)
        try:
            output = self._output(subject)
            # A listing of objects does not name their versions.
            is_same = output.metadata.get("source-etag") == source.etag
            if self.scope.keeps != "each" and is_same and "source-version-id" in output.metadata:
                current = self._find(source)
                if current is None:
                    return None
                source = current
        except Refused:
            return None
        is_right = compare(source, output, self.scope) is Verdict.RIGHT
        return output if is_right and output.etag else None

    def find(self, subject: Subject) -> Finding:
        """Read and judge a subject."""
        [finding] = self.find_all([subject])
        return finding

    def find_all(self, subjects: Sequence[Subject], apply: Apply = map) -> Iterator[Finding]:
        """Read and judge subjects; `apply` calls a function with each value, as map does."""
        for first in range(0, len(subjects), RECORDS):
            some = subjects[first : first + RECORDS]
            begun = [*apply(self._begin, some)]
            records = self._items([*map(self._record_id, some, begun)])
            readings = [*apply(self._end, some, begun, records)]
            retries = self._items([*map(self._retry_id, readings)])
            for subject, reading, item in zip(some, readings, retries, strict=True):
                if isinstance(item, Refused):
                    reading = Reading(subject, refusal=str(item))  # noqa: PLW2901
                elif reading:
                    reading = replace(reading, retries=item)  # noqa: PLW2901
                yield self.finding(subject, reading)

    def finding(
        self, subject: Subject, reading: Reading | None, parked: bool | None = None
    ) -> Finding:
        """Judge what was read of a subject; `parked` is as for `judge`."""
        if reading is None:
            return Finding(subject, Verdict.WAITING, None, "It changes while it is read.")
        verdict = judge(reading, self.scope, self._now(), parked)
        return Finding(subject, verdict, reading, reason_of(verdict, reading, self.scope))

    def _begin(self, subject: Subject) -> Begun:
        """Read the source, which names the version whose record is the subject's."""
        try:
            if self.scope.keeps == "each":
                output = self._output(subject)
                made_of = output.metadata.get("source-version-id")
                if not subject.version_id or (output.etag and made_of != subject.version_id):
                    is_foreign = compare(None, output, self.scope) is Verdict.FOREIGN
                    return Reading(subject, output=output, is_comparable=is_foreign)
            return self._find(self._event(subject))
        except Refused as error:
            return Reading(subject, refusal=str(error))

    def _end(self, subject: Subject, begun: Begun, record: Item | Refused) -> Reading | None:
        """Read the output, then the source again; None if that has changed meanwhile."""
        if isinstance(begun, Reading):
            return begun
        try:
            if isinstance(record, Refused):
                raise record
            output = self._output(subject)
            source = self._find(self._event(subject))
        except Refused as error:
            return Reading(subject, refusal=str(error))
        return Reading(subject, record, output, source) if source == begun else None

    def _record_id(self, subject: Subject, begun: Begun) -> str:
        """Name the record of a subject; "" if it is not needed."""
        if isinstance(begun, Reading):
            return ""
        return object_key(self.scope.bucket, subject.key, version_of(subject, begun))

    def _retry_id(self, reading: Reading | None) -> str:
        """Name the record of the retries of a subject's event; "" if it is not needed."""
        sequencer = reading and reading.record.get("sequencer")
        if not reading or not sequencer:
            return ""
        if compare(reading.source, reading.output, self.scope) not in REPAIRABLE:
            return ""
        version = version_of(reading.subject, reading.source)
        described = {"key": reading.subject.key, "sequencer": sequencer, "version-id": version}
        return retry_id({"detail": {"bucket": {"name": self.scope.bucket}, "object": described}})

    def _event(self, subject: Subject) -> ObjectEvent:
        """Give a subject as the fence takes it."""
        return ObjectEvent(self.scope.bucket, subject.key, "", version_id=subject.version_id)

    def _find(self, source: ObjectEvent) -> ObjectEvent | None:
        """Read what a source is now, or what its version is, if each version has an output."""
        is_version = self.scope.keeps == "each" and source.version_id
        version = {"VersionId": source.version_id} if is_version else {}
        return self._asked(source.bucket, lambda: self._fence.find_source(source, **version))

    def _output(self, subject: Subject) -> OutputState:
        key = output_key(subject.key)
        if self.scope.keeps == "each":
            key += f"/{subject.version_id}"
        if len(key.encode()) > MAXIMUM_KEY_BYTES:
            return OutputState()  # S3 refuses to read it; nothing can have this name
        return self._asked(self.scope.output_bucket, lambda: self._fence.read_output(key))

    def _asked(self, bucket: str, ask: Callable[[], Answer]) -> Answer:
        """Ask S3 about an object.

        The answer to HEAD has no code. So a refusal is the object's own only if S3 still lists the
        bucket: with an expired token, it does not, and says why.
        https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html

        Raises
        ------
        Refused
            S3 does not show the object, such as one with a key of its own (SSE-C).
        """
        try:
            return ask()
        except SourceUnreadable as error:
            raise Refused(str(error)) from error
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in REFUSALS:
                raise
            self._s3.list_objects_v2(Bucket=bucket, Prefix=self.scope.folder, MaxKeys=1)
            raise Refused(f"S3 refuses to show it ({error}).") from error

    def _items(self, ids: Sequence[str]) -> list[Item | Refused]:
        """Read records, as many as one request may ask for; nothing for an empty name."""
        wanted = sorted({record_id for record_id in ids if record_id and self.scope.table})
        records: dict[str, Item | Refused] = {}
        try:
            for item in self._batch(wanted):
                named = {name: str(*value.values()) for name, value in item.items()}
                records[named["id"]] = named
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationException":
                raise
            if len(wanted) > 1:  # one name is refused, and all with it
                records = {record_id: self._items([record_id])[0] for record_id in wanted}
            else:
                text = f"DynamoDB refuses to read its record ({error})."
                records = {record_id: Refused(text) for record_id in wanted}
        return [records.get(record_id, {}) for record_id in ids]

    def _batch(self, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html."""
        table, pause = self.scope.table, FIRST_PAUSE
        keys = [{"id": {"S": record_id}} for record_id in ids]
        while keys:
            asked = {table: {"Keys": keys, "ConsistentRead": True}}
            answer = self._dynamodb.batch_get_item(RequestItems=asked)
            yield from answer["Responses"].get(table, [])
            # It leaves out what is above 16 MB, or what the table refuses for now.
            keys = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            if keys:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _listed(
        self, operation: str, field: str, bucket: str, prefix: str
    ) -> Iterator[list[dict[str, Any]]]:
        pages = self._lists.get_paginator(operation).paginate(Bucket=bucket, Prefix=prefix)
        return (page.get(field, []) for page in pages)


def _listed(described: dict[str, Any], subject: Subject) -> Listed:
    etag, written = described["ETag"].strip('"'), described["LastModified"]
    return Listed(subject.key, subject.version_id or "", etag, written, described["Size"])


def _subject(key: str, keeps: Keeps) -> Subject | None:
    """Give the subject of an output's key; None if no output has such a key."""
    version = None
    if keeps == "each":
        key, _, version = key.rpartition("/")
        if version.startswith(NAME):  # latest-wins wrote it, for a key in a folder out-NAME
            return None
    folder, slash, name = key.rpartition("/")
    if not name.startswith(NAME):
        return None
    source = f"{folder}{slash}{name.removeprefix(NAME)}"
    return Subject(source, version) if source else None


def _no_work(_content: bytes) -> Any:
    raise NotImplementedError("an audit writes nothing")
