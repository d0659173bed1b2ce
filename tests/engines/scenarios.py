"""One set of scenarios for every engine: which objects and records exist, which events arrive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from inorder.aws.executions import Execution, StateMachine, Step
from inorder.events import created, deleted
from inorder.policies import like
from tests.conftest import picture
from tests.state_machines import put_record

RED, GREEN = (255, 0, 0), (0, 255, 0)
FIRST, SECOND, THIRD = (f"006A0F5FCE2D7F28B{number}" for number in "123")  # sequencers


class Place:
    """Where a scenario runs: an engine, and the resources of the template on it."""

    input_bucket: str
    output_bucket: str
    s3: Any
    table: Any
    seconds = 60.0
    machine: Callable[[str], StateMachine]  # gives a policy's, created from the shipped file

    def upload(self, key: str, content: bytes, sequencer: str) -> dict[str, Any]:
        """Put an object and build its event."""
        bucket = self.input_bucket
        etag = self.s3.put_object(Bucket=bucket, Key=key, Body=content)["ETag"].strip('"')
        return created(key, bucket=bucket, sequencer=sequencer, etag=etag)

    def delete(self, key: str, sequencer: str) -> dict[str, Any]:
        """Delete an object and build its event."""
        self.s3.delete_object(Bucket=self.input_bucket, Key=key)
        return deleted(key, bucket=self.input_bucket, sequencer=sequencer)

    def run(self, policy: str, *events: Any) -> list[Execution]:
        """Run events one after the other."""
        return [self.machine(policy).run(event, self.seconds) for event in events]

    def put_record(self, key: str, **attributes: str) -> None:
        """Write the record of a key."""
        put_record(self.table, {"id": f"{self.input_bucket}/{key}", **attributes})

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


Scenario = Callable[[Place, str], list[Execution]]
SCENARIOS: dict[str, Scenario] = {}
# Each with its policies: shipped ones, and those that were made from them.
RUNS: list[tuple[str, str]] = []


def scenario(*shipped: str) -> Callable[[Scenario], Scenario]:
    """Add a function to the scenarios of policies."""

    def add(function: Scenario) -> Scenario:
        SCENARIOS[function.__name__] = function
        RUNS.extend((function.__name__, policy) for policy in like(*shipped))
        return function

    return add


@scenario("latest-wins")
def latest_wins_upload_duplicate_and_overwrite(place: Place, policy: str) -> list[Execution]:
    old = place.upload("a b+%C3%A9.png", picture(RED), FIRST)
    first = place.run(policy, old, old)
    new = place.upload("a b+%C3%A9.png", picture(GREEN), SECOND)
    return first + place.run(policy, new, old, new)


@scenario("latest-wins")
def latest_wins_source_replaced_before_it_is_read(place: Place, policy: str) -> list[Execution]:
    old = place.upload("replaced.png", picture(RED), FIRST)
    place.upload("replaced.png", picture(GREEN), SECOND)
    return place.run(policy, old)


@scenario("latest-wins")
def latest_wins_bad_image_and_again(place: Place, policy: str) -> list[Execution]:
    bad = place.upload("bad.png", b"no image", FIRST)
    failed = place.run(policy, bad, bad)
    return failed + place.run(policy, place.upload("bad.png", picture(RED), SECOND), bad)


@scenario("latest-wins")
def latest_wins_deletion(place: Place, policy: str) -> list[Execution]:
    created = place.upload("gone.png", picture(RED), FIRST)
    first = place.run(policy, created)
    deleted = place.delete("gone.png", SECOND)
    again = place.upload("gone.png", picture(GREEN), THIRD)
    return first + place.run(policy, deleted, created, again, deleted)


@scenario("latest-wins")
def latest_wins_dead_holder(place: Place, policy: str) -> list[Execution]:
    event = place.upload("dead.png", picture(RED), FIRST)
    place.put_record(
        "dead.png",
        sequencer=FIRST,
        status="IN_PROGRESS",
        lock_token="dead",
        execution="dead",
        event=json.dumps(event),
    )
    return place.run(policy, event)


@scenario("latest-wins", "every-version", "first-wins", "optimistic")
def invalid_events(place: Place, policy: str) -> list[Execution]:
    complete = place.upload("lacking.png", picture(RED), FIRST)
    events: list[Any] = [{}, [], {"detail": {}}]
    for lacking in ("sequencer", "etag", "key"):
        event = json.loads(json.dumps(complete))
        del event["detail"]["object"][lacking]
        events.append(event)
    return place.run(policy, *events)


@scenario("every-version")
def every_version_each_once_and_deleted(place: Place, policy: str) -> list[Execution]:
    first = place.upload("each.png", picture(RED), FIRST)
    ended = place.run(policy, first, first)
    second = place.upload("each.png", picture(GREEN), SECOND)
    ended += place.run(policy, second, first)
    return ended + place.run(policy, place.delete("each.png", THIRD), second)


@scenario("every-version")
def every_version_overwritten_before_it_is_read(place: Place, policy: str) -> list[Execution]:
    old = place.upload("lost.png", picture(RED), FIRST)
    place.upload("lost.png", picture(GREEN), SECOND)
    return place.run(policy, old)


@scenario("every-version")
def every_version_dead_waiter_is_cleared(place: Place, policy: str) -> list[Execution]:
    event = place.upload("turn.png", picture(RED), FIRST)
    place.put_record("turn.png", oldest_waiting="00")
    return place.run(policy, event)


@scenario("first-wins")
def first_wins_second_upload(place: Place, policy: str) -> list[Execution]:
    first = place.upload("first.png", picture(RED), FIRST)
    ended = place.run(policy, first, first)
    return ended + place.run(policy, place.upload("first.png", picture(GREEN), SECOND))


@scenario("first-wins")
def first_wins_after_a_failure(place: Place, policy: str) -> list[Execution]:
    bad = place.upload("second.png", b"no image", FIRST)
    ended = place.run(policy, bad)
    good = place.upload("second.png", picture(RED), SECOND)
    return ended + place.run(policy, bad, good, bad)


@scenario("content-hash")
def content_hash_same_content(place: Place, policy: str) -> list[Execution]:
    event = {"source": "com.example", "detail-type": "Paid", "detail": {"a": 1, "b": ["x", 1.0]}}
    same = {"detail": {"b": ["x", 1], "a": 1}, "detail-type": "Paid", "source": "com.example"}
    other = event | {"detail": {"a": 2}}
    shipped = event | {"detail-type": "Shipped"}
    return place.run(policy, event, same, other, shipped, {"detail": {}})


@scenario("optimistic")
def optimistic_in_any_order(place: Place, policy: str) -> list[Execution]:
    old = place.upload("fence.png", picture(RED), FIRST)
    new = place.upload("fence.png", picture(GREEN), SECOND)
    ended = place.run(policy, new, old, new)
    bad = place.run(policy, place.upload("not.png", b"no image", FIRST))
    return ended + bad + place.run(policy, place.delete("fence.png", THIRD), new)
