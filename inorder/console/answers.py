"""What the console answers: facts about a stack, its executions and its events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from io import BytesIO
from typing import Any, NamedTuple

from botocore.exceptions import ClientError
from PIL import Image

from inorder.asl.roles import Role, does, roles
from inorder.aws import parked, retrying
from inorder.aws.executions import StateMachine
from inorder.aws.inspection import gather
from inorder.aws.parked import ParkedEvent
from inorder.aws.stack import Connection
from inorder.console.live import LiveList
from inorder.model import policies
from inorder.model.execution import described
from inorder.story import tell
from inorder_fence.records import key_in, s3_object

STORY_LASTS = timedelta(days=7)  # as with `inorder why`
LARGEST_PICTURE = 20_000_000  # bytes
PICTURE_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
NO_OBJECT = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.BAD_REQUEST}


class Refused(Exception):
    """A question that has no answer, with the HTTP status that says so."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Picture(NamedTuple):
    """A picture, of a type that a browser shows."""

    content: bytes
    media_type: str


class Answers:
    """The answers for one stack. Each method may be called by several threads at once."""

    def __init__(
        self, aws: Connection, machine: StateMachine, since: datetime | None = None
    ) -> None:
        self._aws, self._stack, self._machine, self._since = aws, aws.stack, machine, since
        # To receive a message hides it, so only one at a time may receive all of a queue.
        self._receiving = threading.Lock()
        self._definition: dict[str, Any] | None = None
        self.executions = LiveList(machine, since)

    def stack(self) -> dict[str, Any]:
        """Describe the stack, and what its log cannot tell."""
        name = self._stack.parameters.get("Policy", "")
        policy = policies.known(name)
        return {
            "stack": self._stack.name,
            "policy": name,
            "keeps": policy.keeps if policy else "newest",
            "region": self._aws.client("stepfunctions").meta.region_name,
            "is_local": self._aws.is_local,
            "input_bucket": self._stack.input_bucket,
            "output_bucket": self._stack.output_bucket,
            "has_pictures": policy.pictures if policy else True,
            "since": self._since,
            "notes": [*self._machine.unknown],
        }

    def definition(self) -> dict[str, Any]:
        """Give the state machine's ASL, and what each state does: its roles, as texts.

        In `returned` is the field in which a claim that may leave the lock to another execution
        returns the record.
        """
        if self._definition is None:
            described = self._aws.client("stepfunctions").describe_state_machine(
                stateMachineArn=self._machine.arn
            )
            definition = json.loads(described["definition"])
            states = definition["States"].items()
            self._definition = definition | {
                "roles": {name: sorted(roles(state)) for name, state in states},
                "returned": {
                    name: state["ResultPath"].removeprefix("$.")
                    for name, state in states
                    if does(state, Role.SHARES)
                },
            }
        return self._definition

    def execution(self, arn: str) -> dict[str, Any]:
        """Describe an execution, with its states."""
        unknown = Refused(HTTPStatus.NOT_FOUND, "There is no such execution.")
        if not arn.startswith("arn:"):
            raise unknown
        try:
            execution = self._machine.describe(arn)
        except ClientError as error:
            if error.response["Error"]["Code"] in {"ExecutionDoesNotExist", "InvalidArn"}:
                raise unknown from None
            raise
        if not execution.steps and execution.started is None and execution.status == "RUNNING":
            raise unknown  # the log has nothing of it
        return {"steps": [], **described(execution)}

    def story(
        self,
        key: str,
        version_id: str | None = None,
        parked_events: Sequence[ParkedEvent] | None = None,
    ) -> dict[str, Any]:
        """Tell the story of an object, with its executions.

        Messages may be received for that, unless all parked events are given.
        """
        since = min(datetime.now(UTC) - STORY_LASTS, self._since) if self._since else None
        with self._receiving:
            facts = gather(self._aws, self._machine, key, version_id, since, parked_events)
        story = tell(facts)
        return {
            "sentences": story.sentences(),
            **asdict(story),
            "executions": [{"steps": [], **described(each)} for each in facts.executions],
            "source": asdict(facts.source) if facts.source else None,
        }

    def picture(self, which: str, key: str, version_id: str | None = None) -> Picture:
        """Read a picture from the input bucket (``source``) or the output bucket (``output``).

        The key names the picture itself: each output of a story has its own.
        """
        buckets = {"source": self._stack.input_bucket, "output": self._stack.output_bucket}
        if which not in buckets or not key:
            raise Refused(HTTPStatus.BAD_REQUEST, "Say which (source or output), and the key.")
        version = {"VersionId": version_id} if version_id else {}
        try:
            found = self._aws.client("s3").get_object(Bucket=buckets[which], Key=key, **version)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in NO_OBJECT:
                raise Refused(HTTPStatus.NOT_FOUND, "There is no such object.") from None
            raise
        with closing(found["Body"]) as body:
            if found["ContentLength"] > LARGEST_PICTURE:
                reason = f"It has more than {LARGEST_PICTURE:,} bytes."
                raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
            content: bytes = body.read()
        try:
            with Image.open(BytesIO(content), formats=[*PICTURE_TYPES]) as picture:
                return Picture(content, PICTURE_TYPES[str(picture.format)])
        except Exception:  # a broken picture can raise almost anything in Pillow
            reason = "It is no picture that a browser shows."
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, reason) from None

    def parked(self, parked_events: Sequence[ParkedEvent] | None = None) -> dict[str, Any]:
        """List the parked events, the one that was parked last first.

        They are received for that, unless all are given.
        """
        found = self.parked_events() if parked_events is None else parked_events
        events = sorted(found, key=lambda each: each.parked_at, reverse=True)
        return {"events": [_parked(each) for each in events]}

    def parked_events(self) -> list[ParkedEvent]:
        """Receive all parked events."""
        with self._receiving:
            return list(parked.parked_events(self._aws))

    def retrying(self) -> dict[str, Any]:
        """List the events that wait for a retry, the one that is tried next first."""
        if self._stack.is_long_work:
            raise Refused(HTTPStatus.NOT_FOUND, "Long work has no retry queue: see a key's page.")
        names = ("subject", "key", "version_id", "since", "next", "reasons")
        events = [
            {name: getattr(each, name) for name in names}
            | {"sequencer": each.body.get("sequencer"), "attempts": each.body["attempts"]}
            for each in retrying.retrying_events(self._aws)
        ]
        return {"events": events, "backlog": asdict(retrying.backlog(self._aws))}

    def redrive(self, ids: Iterable[str], dry_run: bool) -> dict[str, Any]:
        """Start parked events again, or tell which would be started.

        As with the command, an invalid event is started only if no other one is named.
        """
        wanted = list(dict.fromkeys(ids))
        with self._receiving:
            events = {each.id: each for each in parked.parked_events(self._aws)}
            reasons: dict[str, str] = {}
            for each in wanted:
                if each not in events:
                    reasons[each] = "It is not in the queue, or another command hides it."
                elif not events[each].is_startable(named=len(wanted) == 1):
                    reasons[each] = f"It would fail again: {events[each].reason}"
            started = [each for each in wanted if each not in reasons]
            if not dry_run:
                done = {each.id for each in parked.redrive(self._aws, set(started))}
                missed = "Another command hides it for a moment."
                reasons |= {each: missed for each in started if each not in done}
                started = [each for each in started if each in done]
        left_out = [{"id": each, "reason": reason} for each, reason in reasons.items()]
        return {"started": started, "left_out": left_out}


def _parked(event: ParkedEvent) -> dict[str, Any]:
    named = {
        each: getattr(event, each) for each in ("id", "parked_at", "subject", "reason", "body")
    }
    key = s3_object(event.body.get("event")).get("key") or key_in(event.subject)
    return named | {"key": key, "sequencer": event.sequencer or None}
