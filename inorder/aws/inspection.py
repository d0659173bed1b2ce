"""What can be read about an object: its executions, records, queued events, source and outputs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeVar
from unicodedata import normalize

from botocore.exceptions import BotoCoreError, ClientError

from inorder.aws import parked, retrying, waiting
from inorder.aws.executions import StateMachine
from inorder.aws.log import AwsStateMachine, state_machine
from inorder.aws.parked import ParkedEvent
from inorder.aws.stack import Connection, Stack
from inorder.errors import Failure
from inorder.model import policies
from inorder.model.execution import Execution, Filter
from inorder.model.outcomes import FINISHED
from inorder.story.parts import Facts, Output, Part, Queued, Source
from inorder_fence import named_version
from inorder_fence.fenced_output import MAXIMUM_KEY_BYTES, output_key
from inorder_fence.records import object_key, s3_object
from inorder_fence.stuck import LOCK

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
        policy = self._policy
        self.key = self._named()
        executions = self._read("executions", self._executions)
        records = self._read("records", lambda: self._records(executions))
        executions += self._read("executions", lambda: self._holders(executions, records))
        source = next(iter(self._read("object", self._source)), None)
        outputs = self._read("output", self._outputs)
        handles_deletions = stack.parameters.get("HandleDeletions") != "false"
        queued = tuple(self._queued(executions, records))
        is_known = executions or records or source or outputs or queued
        is_older = self.since and stack.created and stack.created < self.since
        return Facts(
            stack.input_bucket,
            self.key,
            stack.parameters.get("Policy", ""),
            policy.keeps if policy else "newest",
            now,
            executions,
            records,
            queued,
            outputs,
            source,
            self.unread,
            self.since if is_older else None,
            (policy.deletions if policy else True) and handles_deletions,
            isinstance(self.machine, AwsStateMachine),
            self.version_id,
            bool(stack.parameters.get("WorkFunctionArn")),
            stack.left_out(self.key),
            () if is_known else self._read("object", self._near),
            waiting.pause(self.aws),
            stack.quiet_seconds,
        )

    @property
    def _policy(self) -> policies.Policy | None:
        return policies.known(self.aws.stack.parameters.get("Policy", ""))

    @property
    def _has_records(self) -> bool:
        return self._policy is None or self._policy.cost.uncontended.writes > 0

    def _may_keep(self, what: str) -> bool:
        """Tell whether the outputs are such, as far as the policy is known."""
        return self._policy is None or self._policy.keeps == what

    def _read(self, part: Part, read: Callable[[], Iterable[Read]]) -> tuple[Read, ...]:
        """Read a part; if that fails, note why."""
        try:
            return tuple(read())
        except (ClientError, BotoCoreError, Failure) as error:
            said = " ".join(str(error).split())
            self.unread[part] = f"The {part} could not be read: {said}"
            return ()

    def _executions(self) -> tuple[Execution, ...]:
        wanted = Filter(key=self.key, since=self.since, limit=MAXIMUM_EXECUTIONS)
        found, unread = self.machine.of_key(wanted)
        said = list(unread)
        if len(found) == MAXIMUM_EXECUTIONS:
            said.append(f"Only the {MAXIMUM_EXECUTIONS} latest executions were read.")
        if said:
            self.unread["executions"] = " ".join(said)
        return tuple(found)

    def _records(self, executions: Iterable[Execution]) -> Iterable[dict[str, Any]]:
        """Read the records of the key, and of its versions."""
        if not self._has_records:
            return
        names = partial(object_key, self.aws.stack.input_bucket, self.key)
        ids = {names(self.version_id)}
        ids |= {each.record_id or names(each.version_id) for each in executions}
        for each in sorted(ids):
            if len(each.encode()) <= LONGEST_ID:
                found = self.aws.table.get_item(Key={"id": each}, ConsistentRead=True)
                if item := found.get("Item"):
                    yield item

    def _holders(
        self, executions: Iterable[Execution], records: Iterable[dict[str, Any]]
    ) -> Iterable[Execution]:
        """Read the execution that has the lock, if only the record says whose it is."""
        locked = object_key(self.aws.stack.input_bucket, self.key, self.version_id)
        known = {each.arn for each in executions}
        for record in records if not self.machine.names_keys else ():
            arn = str(record.get("execution"))
            if record["id"] == locked and LOCK in record and arn not in known:
                found = self.machine.describe(arn)
                if found.started and found.event is None:
                    answer = {"key": self.key, "version_id": self.version_id}
                    yield replace(found, answer=answer)

    def _named(self) -> str:
        """Find the key that was meant: the first for which there is an object, or a record."""
        spellings = _spellings(self.key, self.aws.stack)
        with suppress(ClientError, BotoCoreError):  # what cannot be read is named later
            for is_there in (self._is_object, self._has_record) if len(spellings) > 1 else ():
                for key in spellings:
                    if is_there(key):
                        return key
        return spellings[0]

    def _is_object(self, key: str) -> bool:
        return bool(self.aws.head(self.aws.stack.input_bucket, key))

    def _has_record(self, key: str) -> bool:
        named = object_key(self.aws.stack.input_bucket, key)
        is_name = len(named.encode()) <= LONGEST_ID
        return is_name and "Item" in self.aws.table.get_item(Key={"id": named})

    def _near(self) -> Iterable[str]:
        """List some keys that are like one that is not there, of those that begin like it."""
        s3, folder = self.aws.client("s3"), self.key.rpartition("/")[0]
        for beginning in (self.key[: len(self.key) * 3 // 4], folder, ""):
            listed = s3.list_objects_v2(
                Bucket=self.aws.stack.input_bucket, Prefix=beginning, MaxKeys=LISTED_KEYS
            )
            keys = {_folded(each["Key"]): each["Key"] for each in listed.get("Contents", [])}
            if found := get_close_matches(_folded(self.key), keys):
                return [keys[each] for each in found]
        return []

    def _source(self) -> Iterable[Source]:
        if found := self.aws.head(self.aws.stack.input_bucket, self.key):
            version_id = named_version(found.get("VersionId"))
            is_folder = self.key.endswith("/") and not found["ContentLength"]
            modified = found["LastModified"].astimezone(UTC)
            yield Source(found["ETag"].strip('"'), version_id, modified, is_folder)

    def _outputs(self) -> Iterable[Output]:
        key, bucket = output_key(self.key), self.aws.stack.output_bucket
        keys = [key]
        if len(key.encode()) > MAXIMUM_KEY_BYTES:
            keys = []  # S3 refuses to read it; nothing can have this name
        elif self._policy and self._policy.keeps == "each":
            listing = self.aws.client("s3").get_paginator("list_objects_v2")
            pages = listing.paginate(Bucket=bucket, Prefix=f"{key}/", Delimiter="/")
            keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
        for each in keys:
            if found := self.aws.head(bucket, each):
                yield Output(each, found["Metadata"])

    def _queued(
        self, executions: Iterable[Execution], records: Iterable[dict[str, Any]]
    ) -> Iterable[Queued]:
        is_finished = (
            "executions" not in self.unread
            and all(each.outcome in FINISHED or each.status == "RUNNING" for each in executions)
            and all(each.get("status") in {None, "DONE", "IN_PROGRESS"} for each in records)
        )
        yield from self._read("events that are retried", self._retrying)
        if not is_finished:
            yield from self._read("parked events", self._parked)

    def _retrying(self) -> Iterable[Queued]:
        for each in retrying.retrying_events(self.aws):
            bucket = each.subject.partition("/")[0]
            if (bucket, each.key) == (self.aws.stack.input_bucket, self.key):
                yield Queued(
                    *("retrying", each.id, each.version_id, each.body.get("sequencer")),
                    *(each.since, each.reasons, each.next, each.attempts),
                )

    def _parked(self) -> Iterable[Queued]:
        events = self.parked_events
        if events is None:
            events = list(parked.parked_events(self.aws))
        own = [each for each in events if s3_object(each.body.get("event")).get("key") == self.key]
        overtaken = parked.overtaken(self.aws, own)
        for each in own:
            event, why = each.body["event"], overtaken.get(each.id, "")
            described = s3_object(event)
            yield Queued(
                *("parked", each.id, described.get("version-id"), described["sequencer"]),
                *(each.parked_at, each.reason),
                event=event,
                remedy=f"{why}: {parked.REMOVES}" if why else each.remedy,
                is_overtaken=bool(why),
            )


def _spellings(given: str, stack: Stack) -> list[str]:
    """List the keys that a text may mean, the likeliest first.

    It may have the bucket before the key, as a URL of S3 or as a record's ID, or a slash. What
    looks the same may be written in another form of Unicode.
    """
    bucket, is_url = stack.input_bucket, given.startswith("s3://")
    named, slash, key = given.removeprefix("s3://").partition("/")
    if is_url and slash and named != bucket:
        raise Failure(f"{given} is not in the input bucket, {bucket}.")
    keys = [] if is_url and slash else [given]
    keys += [key] if named in {bucket, ""} and key else []
    forms = [normalize(form, each) for each in keys for form in ("NFC", "NFD")]
    return list(dict.fromkeys([*keys, *forms]))


def _folded(key: str) -> str:
    return normalize("NFC", key).casefold()
