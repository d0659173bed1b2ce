"""What the console answers: facts about a stack, its executions and its events."""

import json
import threading
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from botocore.exceptions import ClientError

from inorder.asl.roles import roles
from inorder.aws import parked, waiting
from inorder.aws.executions import StateMachine
from inorder.aws.inspection import Gathering
from inorder.aws.parked import ParkedEvent
from inorder.aws.stack import Connection
from inorder.console.live import LiveList
from inorder.model.execution import described
from inorder.story import tell

STORY_LASTS = timedelta(days=7)  # as with `inorder why`


class Refused(Exception):
    """A question that has no answer, with the HTTP status that says so."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


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
        policy = self._stack.policy
        return {
            "stack": self._stack.name,
            "policy": self._stack.policy_name,
            "keeps": policy.keeps if policy else "newest",
            "region": self._aws.client("stepfunctions").meta.region_name,
            "is_local": self._aws.is_local,
            "since": self._since,
            "pause": waiting.pause(self._aws),
            "notes": [*self._machine.unknown],
        }

    def definition(self) -> dict[str, Any]:
        """Give the state machine's ASL, and what each state does: its roles, as texts."""
        if self._definition is None:
            client = self._aws.client("stepfunctions")
            machine = client.describe_state_machine(stateMachineArn=self._machine.arn)
            definition = json.loads(machine["definition"])
            states = definition["States"].items()
            definition["roles"] = {name: sorted(roles(state)) for name, state in states}
            self._definition = definition
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
            reader = Gathering(self._aws, self._machine, key, version_id, since, parked_events)
            facts = reader.facts()
        story = tell(facts)
        return {
            "sentences": story.sentences(),
            **asdict(story),
            "executions": [{"steps": [], **described(run)} for run in facts.executions],
        }

    def parked_events(self) -> list[ParkedEvent]:
        """Receive all parked events."""
        with self._receiving:
            return list(parked.parked_events(self._aws))
