"""What can be read about an object: its executions, records, queued events, source and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from inorder.aws import parked, retrying
from inorder.aws.executions import StateMachine
from inorder.aws.log import AwsStateMachine, state_machine
from inorder.aws.parked import ParkedEvent
from inorder.aws.stack import Connection
from inorder.errors import Failure
from inorder.model import policies
from inorder.model.execution import Execution, Filter
from inorder.model.outcomes import FINISHED
from inorder.story.parts import Facts, Output, Part, Queued, Source
from inorder.story.reading import parsed
from inorder_fence import named_version
from inorder_fence.fenced_output import MAXIMUM_KEY_BYTES, output_key
from inorder_fence.records import event_id, first_id, object_key, s3_object

Read = TypeVar("Read")
# Of a record, in bytes.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
LONGEST_ID = 2048
MAXIMUM_EXECUTIONS = 200  # of one object; each costs a read of its history


def machine_of(aws: Connection, since: datetime | None = None) -> StateMachine:
    """Give the state machine of a stack, whatever its log lacks."""
    clients = aws.client("stepfunctions"), aws.client("logs")
    return state_machine(*clients, aws.stack.state_machine_arn, since, needs_all=False)


def gather(
    aws: Connection,
    machine: StateMachine,
    key: str,
    version_id: str | None = None,
    since: datetime | None = None,
    parked_events: Sequence[ParkedEvent] | None = None,
) -> Facts:
    """Read what there is about an object, for `inorder.story.tell`.

    The key is that in the input bucket, or in any bucket under ``content-hash``. A part that cannot
    be read is named in the facts. Messages of the queues of parked and undelivered events are
    received, which hides them for a moment and counts as a receive; so that is done only if one of
    them may be the object's, and no parked events are given.
    """
    return _Gathering(aws, machine, key, version_id, since, parked_events).facts()


class _Gathering:
    def __init__(
        self,
        aws: Connection,
        machine: StateMachine,
        key: str,
        version_id: str | None,
        since: datetime | None,
        parked_events: Sequence[ParkedEvent] | None,
    ) -> None:
        self._aws, self._stack, self._machine = aws, aws.stack, machine
        self._parked_events = parked_events
        self._key, self._version_id, self._since = key, version_id, since
        self._policy = policies.known(self._stack.parameters.get("Policy", ""))
        self._unread: dict[Part, str] = {}
        self._now = datetime.now(UTC)

    def facts(self) -> Facts:
        policy, parameters = self._policy, self._stack.parameters
        executions = self._read("executions", self._executions)
        records = self._read("records", lambda: self._records(executions))
        source = next(iter(self._read("source", self._source)), None)
        outputs = self._read("outputs", self._outputs)
        has_table = policy is None or policy.cost.uncontended.writes > 0
        return Facts(
            self._stack.input_bucket,
            self._key,
            parameters.get("Policy", ""),
            policy.keeps if policy else "newest",
            self._now,
            executions,
            records,
            tuple(self._queued(executions, records, source)),
            outputs,
            source,
            self._unread,
            self._since,
            (policy.deletions if policy else True) and parameters.get("HandleDeletions") != "false",
            int(parameters.get("HealMinutes", 0)) if has_table else 0,
            has_table,
            isinstance(self._machine, AwsStateMachine),
            self._version_id,
        )

    def _read(self, part: Part, read: Callable[[], Iterable[Read]]) -> tuple[Read, ...]:
        """Read a part; if that fails, note why."""
        try:
            return tuple(read())
        except (ClientError, BotoCoreError, Failure) as error:
            said = " ".join(str(error).split())
            self._unread[part] = f"The {_NAMES[part]} could not be read: {said}"
            return ()

    def _executions(self) -> tuple[Execution, ...]:
        wanted = Filter(key=self._key, since=self._since, limit=MAXIMUM_EXECUTIONS)
        found = tuple(self._machine.of_key(wanted))
        said = list(self._machine.unknown)
        if len(found) == MAXIMUM_EXECUTIONS:
            said.append(f"Only the {MAXIMUM_EXECUTIONS} latest executions were read.")
        if said:
            self._unread["executions"] = " ".join(said)
        return found

    def _records(self, executions: Iterable[Execution]) -> Iterable[dict[str, Any]]:
        """Read the records of the key, of its versions, and of its events or contents."""
        if self._policy and not self._policy.cost.uncontended.writes:
            return
        known = [(each.record_id, each.sequencer) for each in executions if each.record_id]
        ids = {object_key(self._stack.input_bucket, self._key, self._version_id)}
        ids |= {named for named, _ in known}
        if self._policy is None or self._policy.keeps == "each":
            ids |= {event_id(*each) for each in known}
        if self._policy is None or self._policy.keeps == "first":
            ids |= set(map(first_id, ids))
        for each in sorted(ids):
            if len(each.encode()) <= LONGEST_ID:
                found = self._aws.table.get_item(Key={"id": each}, ConsistentRead=True)
                if "Item" in found:
                    yield found["Item"]

    def _source(self) -> Iterable[Source]:
        s3 = self._aws.client("s3")
        try:
            found = s3.head_object(Bucket=self._stack.input_bucket, Key=self._key)
        except ClientError as error:
            if _status(error) != HTTPStatus.NOT_FOUND:
                raise
            return []
        version_id = found.get("VersionId")
        modified = found["LastModified"].astimezone(UTC)
        return [Source(found["ETag"].strip('"'), named_version(version_id), modified)]

    def _outputs(self) -> Iterable[Output]:
        if self._policy and self._policy.keeps is None:
            return
        key = output_key(self._key)
        s3, bucket = self._aws.client("s3"), self._stack.output_bucket
        keys = [key]
        if len(key.encode()) > MAXIMUM_KEY_BYTES:
            keys = []  # S3 refuses to read it; nothing can have this name
        elif self._policy and self._policy.keeps == "each":
            pages = s3.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=f"{key}/", Delimiter="/"
            )
            keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
        found = [output for each in keys if (output := _output(s3, bucket, each))]
        if self._stack.parameters.get("WorkFunctionArn") and not any(
            each.sequencer for each in found
        ):
            raise Failure(
                "a function of your own (WorkFunctionArn) writes it, and not as the fence does."
            )
        yield from found

    def _queued(
        self,
        executions: Iterable[Execution],
        records: Iterable[dict[str, Any]],
        source: Source | None,
    ) -> Iterable[Queued]:
        is_finished = (
            "executions" not in self._unread
            and all(each.outcome in FINISHED or each.status == "RUNNING" for each in executions)
            and all(each.get("status") in {None, "DONE", "IN_PROGRESS"} for each in records)
        )
        yield from self._read("retrying", self._retrying)
        if not is_finished:
            yield from self._read("parked", self._parked)
        etags = {s3_object(each.event).get("etag") for each in executions}
        if source and source.etag not in etags and self._policy and self._policy.keeps:
            yield from self._read("undelivered", self._undelivered)

    def _retrying(self) -> Iterable[Queued]:
        for each in retrying.retrying_events(self._aws):
            bucket = each.subject.partition("/")[0]
            if (bucket, each.key) == (self._stack.input_bucket, self._key):
                yield Queued(
                    "retrying",
                    str(each.body.get("message_id", "")),
                    each.version_id,
                    each.body.get("sequencer"),
                    each.since,
                    each.reasons,
                    each.next,
                    int(each.body["attempts"]),
                )

    def _parked(self) -> Iterable[Queued]:
        events = self._parked_events
        if events is None:
            with closing(parked.parked_events(self._aws)) as received:
                events = list(received)
        for each in events:
            yield from self._of_this_key("parked", each, each.body.get("event"), each.reason)

    def _undelivered(self) -> Iterable[Queued]:
        described = self._aws.client("cloudformation").describe_stack_resource(
            StackName=self._stack.name, LogicalResourceId="UndeliveredEventsQueue"
        )
        url = described["StackResourceDetail"]["PhysicalResourceId"]
        with closing(parked.messages(self._aws, url)) as messages:
            for each in messages:
                event = parsed(each["Body"])
                attributes = each.get("MessageAttributes", {})
                reason = ": ".join(
                    attributes[name]["StringValue"]
                    for name in ("ERROR_CODE", "ERROR_MESSAGE")
                    if name in attributes
                )
                message = ParkedEvent.of(each)
                yield from self._of_this_key("undelivered", message, event, reason)

    def _of_this_key(
        self, queue: Any, message: ParkedEvent, event: Any, reason: str
    ) -> Iterable[Queued]:
        described = s3_object(event)
        if described.get("key") == self._key:
            yield Queued(
                queue,
                message.id,
                described.get("version-id"),
                described["sequencer"],
                message.parked_at,
                reason,
                event=event,
            )


_NAMES: dict[Part, str] = {
    "executions": "executions",
    "records": "records",
    "source": "object",
    "outputs": "output",
    "parked": "parked events",
    "retrying": "events that are retried",
    "undelivered": "undelivered events",
}


def _output(s3: Any, bucket: str, key: str) -> Output | None:
    try:
        found = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if _status(error) != HTTPStatus.NOT_FOUND:
            raise
        return None
    metadata = found["Metadata"]
    return Output(
        key,
        metadata.get("sequencer"),
        metadata.get("source-etag"),
        named_version(metadata.get("source-version-id")),
        found["LastModified"].astimezone(UTC),
    )


def _status(error: ClientError) -> int:
    return error.response["ResponseMetadata"]["HTTPStatusCode"]
