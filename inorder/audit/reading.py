"""Reads what an audit compares: sources, outputs and records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
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
)
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
Answer = TypeVar("Answer")


def _now() -> datetime:
    return datetime.now(UTC)


class Refused(Exception):
    """S3 or DynamoDB refuses to show one object, or its record."""


class Reader:
    """Reads with the fence's own requests. It changes nothing, and several threads may use it."""

    def __init__(
        self,
        s3: Any,
        dynamodb: Any,
        scope: Scope,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._s3, self._dynamodb, self.scope, self._now = s3, dynamodb, scope, now
        self._fence = Fence(s3, scope.output_bucket, 0, _no_work, scope.handles_deletions)

    def sources(self, prefix: str) -> Iterator[list[tuple[ObjectEvent, int]]]:
        """List the sources, as if events had created them, and their sizes, by pages."""
        begins = max(prefix, self.scope.key_prefix, key=len)
        listing = ("list_objects_v2", "Contents")
        if self.scope.keeps == "each":
            listing = ("list_object_versions", "Versions")
        for page in self._listed(*listing, self.scope.bucket, begins):
            covered = (each for each in page if self.scope.covers(each["Key"], prefix))
            yield [(self._source(each), each["Size"]) for each in covered]

    def outputs(self, prefix: str) -> Iterator[list[Subject]]:
        """List the subjects of which there may be an output, by pages of at most 1,000 outputs."""
        folder = max(prefix, self.scope.key_prefix, key=len).rpartition("/")
        listing = ("list_objects_v2", "Contents")
        for page in self._listed(*listing, self.scope.output_bucket, folder[0] + folder[1]):
            found = (_subject(each["Key"], self.scope.keeps) for each in page)
            yield [each for each in found if each and self.scope.covers(each.key, prefix)]

    def compared(self, source: ObjectEvent, size: int) -> Finding:
        """Judge a listed source: if its output is right, with one request, or at most two."""
        subject = Subject(source.key, source.version_id)
        if source.key.endswith("/") and size == 0:
            return Finding(subject, Verdict.SKIPPED, None)
        if self._is_right(source):
            return Finding(subject, Verdict.RIGHT, None)
        return self.find(subject)

    def _is_right(self, source: ObjectEvent) -> bool:
        try:
            output = self._output(Subject(source.key, source.version_id))
            # A listing of objects does not name their versions.
            is_same = output.metadata.get("source-etag") == source.etag
            if self.scope.keeps != "each" and is_same and "source-version-id" in output.metadata:
                current = self._find(source)
                return bool(current) and compare(current, output, self.scope) is Verdict.RIGHT
        except Refused:
            return False
        return compare(source, output, self.scope) is Verdict.RIGHT

    def find(self, subject: Subject) -> Finding:
        """Read and judge a subject."""
        try:
            return self.finding(subject, self._read(subject))
        except Refused as error:
            return self.finding(subject, Reading(subject, refusal=str(error)))

    def finding(
        self, subject: Subject, reading: Reading | None, parked: bool | None = None
    ) -> Finding:
        """Judge what was read of a subject; `parked` is as for `judge`."""
        if reading is None:
            return Finding(subject, Verdict.WAITING, None, "It changes while it is read.")
        verdict = judge(reading, self.scope, self._now(), parked)
        return Finding(subject, verdict, reading, reason_of(verdict, reading))

    def _read(self, subject: Subject) -> Reading | None:
        """Read a subject; None if the source changes meanwhile."""
        if self.scope.keeps == "each":
            output = self._output(subject)
            made_of = output.metadata.get("source-version-id")
            if not subject.version_id or (output.etag and made_of != subject.version_id):
                is_foreign = compare(None, output, self.scope) is Verdict.FOREIGN
                return Reading(subject, output=output, is_comparable=is_foreign)
        named = {"VersionId": subject.version_id} if subject.version_id else {}
        before = self._find(self._event(subject), **named)
        version = before.object_id[0] if before else subject.version_id
        record = self._record(Subject(subject.key, version))
        output = self._output(subject)
        source = self._find(self._event(subject), **named)
        if source != before:
            return None
        retries = dict[str, str]()
        is_wrong = compare(source, output, self.scope) in REPAIRABLE
        if is_wrong and (sequencer := record.get("sequencer")):
            described = {"key": subject.key, "sequencer": sequencer, "version-id": version}
            event = {"detail": {"bucket": {"name": self.scope.bucket}, "object": described}}
            retries = self._item(retry_id(event))
        return Reading(subject, record, output, source, retries=retries)

    def _event(self, subject: Subject) -> ObjectEvent:
        """Give a subject as the fence takes it."""
        return ObjectEvent(self.scope.bucket, subject.key, "", version_id=subject.version_id)

    def _find(self, source: ObjectEvent, **version: Any) -> ObjectEvent | None:
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

    def _record(self, subject: Subject) -> dict[str, str]:
        return self._item(object_key(self.scope.bucket, subject.key, subject.version_id))

    def _item(self, record_id: str) -> dict[str, str]:
        if not self.scope.table:
            return {}
        try:
            found = self._dynamodb.get_item(
                TableName=self.scope.table, Key={"id": {"S": record_id}}, ConsistentRead=True
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationException":
                raise
            raise Refused(f"DynamoDB refuses to read its record ({error}).") from error
        return {name: str(*value.values()) for name, value in found.get("Item", {}).items()}

    def _source(self, listed: dict[str, Any]) -> ObjectEvent:
        version = named_version(listed.get("VersionId"))
        return ObjectEvent(self.scope.bucket, listed["Key"], "", listed["ETag"].strip('"'), version)

    def _listed(
        self, operation: str, what: str, bucket: str, prefix: str
    ) -> Iterator[list[dict[str, Any]]]:
        pages = self._s3.get_paginator(operation).paginate(Bucket=bucket, Prefix=prefix)
        for page in pages:
            yield page.get(what, [])


def _subject(key: str, keeps: Keeps) -> Subject | None:
    """Give the subject of an output's key; None if no output has such a key."""
    version = None
    if keeps == "each":
        key, _, version = key.rpartition("/")
    folder, slash, name = key.rpartition("/")
    if not name.startswith(NAME):
        return None
    return Subject(f"{folder}{slash}{name.removeprefix(NAME)}", version)


def _no_work(_content: bytes) -> Any:
    raise NotImplementedError("an audit writes nothing")
