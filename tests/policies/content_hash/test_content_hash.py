"""What content_hash.asl.json does with the real function, conditional writes and event bus."""

import json

import pytest

from inorder.asl.size import TOO_LARGE, largest_event
from inorder.model.policies import definition
from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import DAY
from tests.support.events import created, shipped
from tests.support.in_process import InProcess

pytestmark = pytest.mark.policy("content-hash")

EVENT = shipped("order-placed")


def test_an_event_is_forwarded_with_its_type_and_detail_once(aws: InProcess) -> None:
    ended = aws.run(EVENT)
    # The record's ID is made of this hash, so all that tells contents apart must be hashed.
    content = {name: EVENT[name] for name in ("source", "detail-type", "detail")}
    assert aws.invocations == [{"detail": content}]
    [forwarded] = aws.forwarded()
    told = content | {"source": f"unique.{EVENT['source']}"}
    assert {name: forwarded[name] for name in told} == told
    [record] = aws.records()
    assert record["status"] == "DONE"
    assert record["expires_at"] == int(ended.output["expires_at"])
    assert json.loads(record["event"]) == EVENT | {"account": "", "resources": []}
    assert aws.run(shipped("order-placed-again")).outcome == "Duplicate"
    assert aws.forwarded() == []


def test_the_largest_event_is_forwarded_and_waits_and_a_larger_one_is_parked() -> None:
    largest, longer = created(reason=""), created(reason="")
    room = largest_event(definition("content-hash")) - len(json.dumps(largest))
    largest["detail"]["object"]["reason"] = "x" * room
    # The record has the event as a text, in which JSON escapes quotes.
    longer["detail"]["object"]["reason"] = '"' * (room // 2)
    cloud = Cloud(
        Settings(
            "content-hash",
            dies=lambda each, state: each.id == "execution-0" and state == "Forward Event",
        )
    )
    for event in (largest, largest, longer):
        cloud.start(event)
    cloud.run_until_quiet(DAY)
    assert sum(cloud.forwarded.values()) == 1
    assert cloud.parked[0]["event"] == longer
    assert [each["reason"]["Error"] for each in cloud.parked] == [TOO_LARGE]
