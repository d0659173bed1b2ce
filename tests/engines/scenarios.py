"""One set of scenarios for every engine: which objects and records exist, which events arrive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from inorder.aws.executions import Execution, StateMachine, Step
from inorder.events import created, deleted, without
from inorder.model.policies import like
from tests.conftest import picture
from tests.state_machines import put_record


class Place:
    """Where a scenario runs: an engine, and the resources of the template on it."""

    input_bucket: str
    output_bucket: str
    s3: Any
    table: Any
    seconds = 60.0
    machine: Callable[[str], StateMachine]  # gives a policy's, created from the shipped file

    def change(self, key: str, content: bytes | None, sequencer: str) -> dict[str, Any]:
        """Put an object, or delete it if there is no content, and build its event."""
        named = {"Bucket": self.input_bucket, "Key": key}
        described = {"bucket": self.input_bucket, "sequencer": sequencer}
        if content is None:
            self.s3.delete_object(**named)
            return deleted(key, **described)
        etag = self.s3.put_object(Body=content, **named)["ETag"].strip('"')
        return created(key, etag=etag, **described)

    def comparable(self, ended: Execution) -> dict[str, Any]:
        """Give an execution without what differs between engines and between executions."""

        def compared(value: Any) -> Any:
            if isinstance(value, dict):
                # Services word their errors differently, and only AWS adds SDK metadata.
                left_out = {"Cause", "SdkHttpMetadata", "SdkResponseMetadata"}
                return {k: compared(v) for k, v in value.items() if k not in left_out}
            if isinstance(value, list):
                return list(map(compared, value))
            if isinstance(value, str) and value.startswith("{"):
                return compared(json.loads(value))
            return self._comparable_text(value) if isinstance(value, str) else value

        def compared_step(step: Step) -> dict[str, Any]:
            return {"state": step.state, "input": compared(step.input)} | (
                {} if step.output is None else {"output": compared(step.output)}
            )

        return {
            "outcome": ended.outcome,
            "output": compared(ended.output),
            "steps": list(map(compared_step, ended.steps)),
        }

    def _comparable_text(self, text: str) -> str:
        text = text.replace(self.input_bucket, "INPUT").replace(self.output_bucket, "OUTPUT")
        for pattern, name in {
            r"arn:aws:states:\S+": "EXECUTION",
            r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": "UUID",
            r"\b\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)": "TIME",
            r"^\d{10}$": "SECONDS",
        }.items():
            text = re.sub(pattern, name, text)
        return text


Story = Sequence[Any]  # what happens to one key, and which events arrive, in order
# "A1": a red picture is uploaded, which makes event 1; B is a green one, and a is no image. "-2":
# the object is deleted, which makes event 2. A number: this event arrives. A dict: the record of
# the key or, with brackets around it, an event that arrives as it is.
CONTENTS = {"A": picture((255, 0, 0)), "B": picture((0, 255, 0)), "a": b"no image"}
SEQUENCERS = {number: f"006A0F5FCE2D7F28B{number}" for number in (1, 2, 3)}
DEAD = {"status": "IN_PROGRESS", "lock_token": "dead", "execution": "dead", "event": "{}"}
PAID = {"source": "com.example", "detail-type": "Paid", "detail": {"a": 1, "b": ["x", 1.0]}}
OTHER, SHIPPED = PAID | {"detail": {"a": 2}}, PAID | {"detail-type": "Shipped"}
SAME = {"detail": {"b": ["x", 1], "a": 1}, "detail-type": "Paid", "source": "com.example"}
STORIES: dict[str, dict[str, Story]] = {
    "latest-wins": {
        "upload, duplicate and overwrite": ("A1", 1, 1, "B2", 2, 1, 2),
        "source replaced before it is read": ("A1", "B2", 1),
        "bad image and again": ("a1", 1, 1, "A2", 2, 1),
        "deletion": ("A1", 1, "-2", "B3", 2, 1, 3, 2),
        "dead holder": ("A1", DEAD | {"sequencer": SEQUENCERS[1]}, 1),
    },
    "every-version": {
        "each once and deleted": ("A1", 1, 1, "B2", 2, 1, "-3", 3, 2),
        "overwritten before it is read": ("A1", "B2", 1),
        "dead waiter is cleared": ("A1", {"oldest_waiting": "00"}, 1),
    },
    "first-wins": {
        "second upload": ("A1", 1, 1, "B2", 2),
        "after a failure": ("a1", 1, "A2", 1, 2, 1),
    },
    "content-hash": {
        "same content": (
            [PAID],
            [SAME],
            [OTHER],
            [PAID | {"detail-type": "Shipped"}],
            [{"detail": {}}],
        )
    },
    "optimistic": {
        "in any order": ("A1", "B2", 2, 1, 2, "-3", 3, 2),
        "bad image": ("a1", 1),
    },
}
WHOLE = created(bucket="any")
LACKING = [without(WHOLE, f"detail.object.{field}") for field in ("key", "sequencer", "etag")]
for shipped in ("latest-wins", "every-version", "first-wins", "optimistic"):
    invalid: list[Any] = [{}, [], {"detail": {}}, *LACKING]
    STORIES[shipped]["invalid events"] = [[event] for event in invalid]
# Each with its policies: shipped ones, and those that were made from them.
RUNS = [
    pytest.param(story, policy, id=f"{policy}: {name}")
    for shipped, stories in STORIES.items()
    for policy in like(shipped)
    for name, story in stories.items()
]


def run(place: Place, story: Story, policy: str) -> list[dict[str, Any]]:
    """Let a story happen to a key of its own, and give what is comparable of its executions."""
    key, events = f"a b+%C3%A9 {uuid5(NAMESPACE_OID, repr((policy, story)))}.png", dict[int, Any]()
    ended = []
    for step in story:
        if isinstance(step, str):
            number = int(step[-1])
            events[number] = place.change(key, CONTENTS.get(step[0]), SEQUENCERS[number])
        elif isinstance(step, dict):
            record = {"id": f"{place.input_bucket}/{key}", **step}
            put_record(place.table, record)
        else:
            event = events[step] if isinstance(step, int) else step[0]
            ended.append(place.machine(policy).run(event, place.seconds))
    return list(map(place.comparable, ended))
