"""Reads what an audit compares: sources, outputs and records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from audit_keys.comparing import (
    Finding,
    Keeps,
    Reading,
    Subject,
    Verdict,
    compare,
    judge,
    reason_of,
)
from inorder_fence import Fence, ObjectEvent, named_version
from inorder_fence.fenced_output import MAXIMUM_KEY_BYTES, OutputState, output_key
from inorder_fence.records import first_id, object_key

READS = 3  # of a source that changes while it is read
NAME = "out-"  # begins the name of each output
Page = list[ObjectEvent]


@dataclass(frozen=True)
class Scope:
    """What a stack processes, and what it keeps.

    Attributes
    ----------
    table : str
        Empty if the policy has no records.
    """

    bucket: str
    output_bucket: str
    table: str
    keeps: Keeps
    handles_deletions: bool
    key_prefix: str = ""
    key_suffix: str = ""

    def covers(self, key: str, prefix: str = "") -> bool:
        """Tell whether the stack processes a key, and whether it begins with a prefix."""
        begins = key.startswith(self.key_prefix) and key.startswith(prefix)
        return begins and key.endswith(self.key_suffix)

    def of(self, subject: Subject) -> ObjectEvent:
        """Give a subject as the fence takes it."""
        return ObjectEvent(self.bucket, subject.key, "", version_id=subject.version_id)


class Reader:
    """Reads with the fence's own requests. It changes nothing, and several threads may use it."""

    def __init__(self, s3: Any, dynamodb: Any, scope: Scope) -> None:
        self._s3, self._dynamodb, self.scope = s3, dynamodb, scope
        self._fence = Fence(s3, scope.output_bucket, 0, _no_work, scope.handles_deletions)

    def sources(self, prefix: str) -> Iterator[Page]:
        """List the sources by pages of at most 1,000, as if events had created them."""
        begins = max(prefix, self.scope.key_prefix, key=len)
        if self.scope.keeps != "each":
            for page in self._listed("list_objects_v2", self.scope.bucket, begins, "Contents"):
                found = [self._source(each, None) for each in page]
                yield [each for each in found if self.scope.covers(each.key, prefix)]
            return
        for page in self._listed("list_object_versions", self.scope.bucket, begins, "Versions"):
            found = [self._source(each, each["VersionId"]) for each in page]
            yield [each for each in found if self.scope.covers(each.key, prefix)]

    def outputs(self, prefix: str) -> Iterator[list[Subject]]:
        """List the subjects of which there may be an output, by pages of at most 1,000 outputs."""
        folder = max(prefix, self.scope.key_prefix, key=len).rpartition("/")
        for page in self._listed(
            "list_objects_v2", self.scope.output_bucket, folder[0] + folder[1], "Contents"
        ):
            found = (subject_of(each["Key"], self.scope.keeps) for each in page)
            yield [each for each in found if each and self.scope.covers(each.key, prefix)]

    def is_right(self, source: ObjectEvent) -> bool:
        """Tell whether a listed source has the right output, with one request, or at most two."""
        output = self._output(Subject(source.key, source.version_id))
        if self.scope.keeps != "each" and output.metadata.get("source-etag") == source.etag:
            # A listing of objects does not name their versions.
            version = output.metadata.get("source-version-id")
            current = self._fence.find_source(source) if version else source
            return bool(current) and self._compare(current, output) is Verdict.RIGHT
        return self._compare(source, output) is Verdict.RIGHT

    def has_source(self, subject: Subject) -> bool:
        """Tell whether an object is there, with one request."""
        return self._fence.find_source(self.scope.of(subject)) is not None

    def read(self, subject: Subject) -> Reading | None:
        """Read a subject: its record, output and source; None if the source keeps changing."""
        if self.scope.keeps == "each":
            output = self._output(subject)
            made_of = output.metadata.get("source-version-id")
            if not subject.version_id or (output.etag and made_of != subject.version_id):
                is_foreign = bool(output.etag) and "sequencer" not in output.metadata
                return Reading(subject, {}, output, None, is_comparable=is_foreign)
        named = {"VersionId": subject.version_id} if subject.version_id else {}
        source = self._fence.find_source(self.scope.of(subject), **named)
        for _ in range(READS):
            before, version = source, source.object_id[0] if source else subject.version_id
            record = self._record(Subject(subject.key, version))
            output = self._output(subject)
            source = self._fence.find_source(self.scope.of(subject), **named)
            if source == before:
                return Reading(subject, record, output, source)
        return None

    def finding(self, subject: Subject, reading: Reading | None) -> Finding:
        """Judge what was read of a subject."""
        if reading is None:
            return Finding(subject, Verdict.WAITING, None, "It changes while it is read.")
        verdict = judge(reading, self.scope.keeps, self.scope.handles_deletions)
        return Finding(subject, verdict, reading, reason_of(verdict, reading))

    def _compare(self, source: ObjectEvent | None, output: OutputState) -> Verdict:
        return compare(source, output, self.scope.keeps, self.scope.handles_deletions)

    def _output(self, subject: Subject) -> OutputState:
        key = output_key(subject.key)
        if self.scope.keeps == "each":
            key += f"/{subject.version_id}"
        if len(key.encode()) > MAXIMUM_KEY_BYTES:
            return OutputState()  # S3 refuses to read it; nothing can have this name
        return self._fence.read_output(key)

    def _record(self, subject: Subject) -> dict[str, str]:
        if not self.scope.table:
            return {}
        record_id = object_key(self.scope.bucket, subject.key, subject.version_id)
        if self.scope.keeps == "first":
            record_id = first_id(record_id)
        found = self._dynamodb.get_item(
            TableName=self.scope.table,
            Key={"id": {"S": record_id}},
            ConsistentRead=True,
            ProjectionExpression="sequencer, #status, lock_token, oldest_waiting",
            ExpressionAttributeNames={"#status": "status"},
        )
        return {name: value.get("S", "") for name, value in found.get("Item", {}).items()}

    def _source(self, listed: dict[str, Any], version_id: str | None) -> ObjectEvent:
        etag = listed["ETag"].strip('"')
        return ObjectEvent(self.scope.bucket, listed["Key"], "", etag, named_version(version_id))

    def _listed(
        self, operation: str, bucket: str, prefix: str, what: str
    ) -> Iterator[list[dict[str, Any]]]:
        pages = self._s3.get_paginator(operation).paginate(Bucket=bucket, Prefix=prefix)
        for page in pages:
            yield page.get(what, [])


def subject_of(key: str, keeps: Keeps) -> Subject | None:
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
