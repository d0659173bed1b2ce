"""What can be read about an object: its executions, records, queued events, source and outputs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from itertools import chain
from typing import Any, TypeVar
from unicodedata import normalize

from botocore.exceptions import BotoCoreError, ClientError

from inorder.aws import parked, retrying, waiting
from inorder.aws.executions import StateMachine
from inorder.aws.log import AwsStateMachine, state_machine
from inorder.aws.parked import ParkedEvent
from inorder.aws.stack import Connection, Stack
from inorder.errors import Failure
from inorder.model.execution import Execution, Filter
from inorder.model.outcomes import FINISHED
from inorder.story.parts import Facts, Output, Part, Queued, Source
from inorder.wording import in_one_line
from inorder_fence import named_version
from inorder_fence.fenced_output import MAXIMUM_KEY_BYTES, output_key
from inorder_fence.records import object_key, s3_object
from inorder_fence.stuck import LOCK, SINCE

Read = TypeVar("Read")
# Of a record, in bytes.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
LONGEST_ID = 2048
MAXIMUM_EXECUTIONS = 200  # of one object; each costs a read of its history
LISTED_KEYS = 1000  # at a time, to find keys like one that is not there


def machine_of(aws: Connection, since: datetime | None = None) -> StateMachine:
    """Give the state machine of a stack, with what those of other policies have executed."""
    clients = aws.client("stepfunctions"), aws.client("logs")
    stack = aws.stack
    return state_machine(*clients, stack.state_machine_arns, since, stack.function_log_group)


@dataclass
class Gathering:
    """Reads what there is about an object, for `inorder.story.tell`.

    The key may also be given as S3's console and the commands show it: see `_spellings`. A part
    that cannot be read is named in the facts. If one of the parked events may be the object's, and
    none are given, all are received, which hides them for a moment and counts as a receive.
    """

    aws: Connection
    machine: StateMachine
    key: str
    version_id: str | None = None
    since: datetime | None = None
    parked_events: Sequence[ParkedEvent] | None = None
    unread: dict[Part, str] = field(default_factory=dict)

    def facts(self) -> Facts:
        """Read all of it."""
        stack, now = self.aws.stack, datetime.now(UTC)
        policy = stack.policy
        self.key = self._named()
        executions = self._read("executions", self._executions)
        records = self._read("records", lambda: self._records(self.version_id, executions))
        executions += self._read("executions", lambda: self._holders(executions, records))
        source = next(iter(self._read("object", self._source)), None)
        current = source.version_id if source else None
        if current and not self.version_id:  # it may have no execution that is still read
            items = self._read("records", lambda: self._records(current))
            ids = {record["id"] for record in records}
            records += tuple(item for item in items if item["id"] not in ids)
        lacking = self._read("object", lambda: self._lacking(source))
        outputs = self._read("output", self._outputs)
        queued = tuple(self._queued(executions, records))
        is_known = executions or records or source or outputs or queued
        is_older = self.since and stack.created and stack.created < self.since
        return Facts(
            stack.input_bucket,
            self.key,
            stack.policy_name,
            policy.keeps if policy else "newest",
            now,
            executions,
            records,
            queued,
            outputs,
            source,
            self.unread,
            self.since if is_older else None,
            (policy is None or policy.deletions) and stack.handles_deletions,
            isinstance(self.machine, AwsStateMachine),
            self.version_id,
            bool(stack.parameters.get("WorkFunctionArn")),
            stack.left_out(self.key),
            () if is_known else self._read("object", self._near),
            " ".join(self._read("events that wait", lambda: [waiting.backlog(self.aws)])),
            stack.quiet_seconds,
            stack.is_paused,
            bool(lacking),
        )

    def _read(self, part: Part, read: Callable[[], Iterable[Read]]) -> tuple[Read, ...]:
        """Read a part; if that fails, note why."""
        try:
            return tuple(read())
        except (ClientError, BotoCoreError, Failure) as error:
            self.unread[part] = f"The {part} could not be read: {in_one_line(error)}"
            return ()

    def _executions(self) -> tuple[Execution, ...]:
        wanted = Filter(key=self.key, since=self.since, limit=MAXIMUM_EXECUTIONS)
        executions, unread = self.machine.of_key(wanted)
        if len(executions) == MAXIMUM_EXECUTIONS:
            unread += (f"Only the {MAXIMUM_EXECUTIONS} latest executions were read.",)
        if unread:
            self.unread["executions"] = " ".join(unread)
        return tuple(executions)

    def _records(
        self, version_id: str | None, executions: Iterable[Execution] = ()
    ) -> Iterable[dict[str, Any]]:
        """Read the records of the key, and of its versions."""
        policy = self.aws.stack.policy
        if policy and not policy.claims_keys:
            return
        id_of = partial(object_key, self.aws.stack.input_bucket, self.key)
        ids = {id_of(version_id)}
        ids |= {execution.record_id or id_of(execution.version_id) for execution in executions}
        yield from filter(None, map(self._record, sorted(ids)))

    def _record(self, record_id: str) -> dict[str, Any] | None:
        if len(record_id.encode()) > LONGEST_ID:
            return None
        item: dict[str, Any] | None = self.aws.table.get_item(
            Key={"id": record_id}, ConsistentRead=True
        ).get("Item")
        return item

    def _holders(
        self, executions: Iterable[Execution], records: Iterable[dict[str, Any]]
    ) -> Iterable[Execution]:
        """Read the execution that has the lock, if only the record says whose it is."""
        locked = object_key(self.aws.stack.input_bucket, self.key, self.version_id)
        arns = {execution.arn for execution in executions}
        for record in records if not self.machine.names_keys else ():
            arn = str(record.get("execution"))
            if record["id"] == locked and LOCK in record and arn not in arns:
                holder = self.machine.describe(arn)
                if holder.started and holder.event is None:
                    answer = {"key": self.key, "version_id": self.version_id}
                    yield replace(holder, answer=answer)

    def _named(self) -> str:
        """Find the key that was meant: the first for which there is an object, or a record."""
        bucket, spellings = self.aws.stack.input_bucket, _spellings(self.key, self.aws.stack)
        if len(spellings) == 1:
            return spellings[0]
        with suppress(ClientError, BotoCoreError):  # what cannot be read is named later
            objects = (key for key in spellings if self.aws.head(bucket, key))
            records = (key for key in spellings if self._record(object_key(bucket, key)))
            return next(chain(objects, records), spellings[0])
        return spellings[0]

    def _near(self) -> Iterable[str]:
        """List some keys that are like one that is not there, of those that begin like it."""
        s3, folder = self.aws.client("s3"), self.key.rpartition("/")[0]
        for beginning in (self.key[: len(self.key) * 3 // 4], folder, ""):
            listed = s3.list_objects_v2(
                Bucket=self.aws.stack.input_bucket, Prefix=beginning, MaxKeys=LISTED_KEYS
            )
            keys = {_folded(item["Key"]): item["Key"] for item in listed.get("Contents", [])}
            if matches := get_close_matches(_folded(self.key), keys):
                return [keys[match] for match in matches]
        return []

    def _source(self) -> Iterable[Source]:
        if head := self.aws.head(self.aws.stack.input_bucket, self.key):
            version_id = named_version(head.get("VersionId"))
            is_folder = self.key.endswith("/") and not head["ContentLength"]
            modified = head["LastModified"].astimezone(UTC)
            yield Source(head["ETag"].strip('"'), version_id, modified, is_folder)

    def _lacking(self, source: Source | None) -> Iterable[str]:
        """Give the version that was asked for, if S3 does not have it."""
        if self.version_id in (None, source and source.version_id):
            return
        listing = self.aws.client("s3").get_paginator("list_object_versions")
        for page in listing.paginate(Bucket=self.aws.stack.input_bucket, Prefix=self.key):
            listed = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            ids = {entry["VersionId"] for entry in listed if entry["Key"] == self.key}
            if self.version_id in ids:
                return
            if not ids:  # other keys that begin like it follow
                break
        yield str(self.version_id)

    def _outputs(self) -> Iterable[Output]:
        keys, bucket = [output_key(self.key)], self.aws.stack.output_bucket
        policy = self.aws.stack.policy
        if len(keys[0].encode()) > MAXIMUM_KEY_BYTES:
            return  # S3 refuses to read it; nothing can have this name
        if policy and policy.keeps == "each":
            listing = self.aws.client("s3").get_paginator("list_objects_v2")
            pages = listing.paginate(Bucket=bucket, Prefix=f"{keys[0]}/", Delimiter="/")
            keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        for key in keys:
            if head := self.aws.head(bucket, key):
                yield Output(key, head["Metadata"])

    def _queued(
        self, executions: Iterable[Execution], records: Iterable[dict[str, Any]]
    ) -> Iterable[Queued]:
        is_finished = (
            "executions" not in self.unread
            and all(run.outcome in FINISHED or run.status == "RUNNING" for run in executions)
            # A record keeps the status IN_PROGRESS when its event is parked after faults.
            and all(record.get("status") in {None, "DONE"} or SINCE in record for record in records)
        )
        yield from self._read("events that are retried", self._retrying)
        if not is_finished:
            yield from self._read("parked events", self._parked)

    def _retrying(self) -> Iterable[Queued]:
        for event in retrying.retrying_events(self.aws):
            version = event.body.get("version_id")
            if event.subject == object_key(self.aws.stack.input_bucket, self.key, version):
                yield Queued(
                    *("retrying", event.id, event.version_id, event.body.get("sequencer")),
                    *(event.since, event.reasons, event.next, event.attempts),
                )

    def _parked(self) -> Iterable[Queued]:
        messages = self.parked_events
        if messages is None:
            messages = list(parked.parked_events(self.aws))
        objects = [s3_object(message.body.get("event")) for message in messages]
        own = [
            pair for pair in zip(messages, objects, strict=True) if pair[1].get("key") == self.key
        ]
        overtaken = parked.overtaken(self.aws, [message for message, _ in own])
        for message, described in own:
            yield Queued(
                *("parked", message.id, described.get("version-id"), described["sequencer"]),
                *(message.parked_at, message.reason),
                event=message.body["event"],
                remedy=parked.remedy(message, overtaken),
                is_overtaken=message.id in overtaken,
            )


def _spellings(text: str, stack: Stack) -> list[str]:
    """List the keys that a text may mean, the likeliest first.

    It may have the bucket before the key, as a URL of S3 or as a record's ID, or a slash. What
    looks the same may be written in another form of Unicode.
    """
    bucket, is_url = stack.input_bucket, text.startswith("s3://")
    named, slash, rest = text.removeprefix("s3://").partition("/")
    if is_url and slash and named != bucket:
        raise Failure(f"{text} is not in the input bucket, {bucket}.")
    keys = [] if is_url and slash else [text]
    keys += [rest] if named in {bucket, ""} and rest else []
    forms = [normalize(form, key) for key in keys for form in ("NFC", "NFD")]
    return list(dict.fromkeys([*keys, *forms]))


def _folded(key: str) -> str:
    return normalize("NFC", key).casefold()
