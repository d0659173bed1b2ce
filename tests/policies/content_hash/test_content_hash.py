"""What content_hash.asl.json does with the real function, conditional writes and event bus."""

from __future__ import annotations

import json

import pytest

from inorder.asl.size import largest_event
from inorder.model.policies import definition
from tests.support.events import shipped
from tests.support.in_process import InProcess

pytestmark = pytest.mark.policy("content-hash")

EVENT = shipped("order-placed")

# What the text may have in the largest event.
ROOM = largest_event(definition("content-hash")) - len(json.dumps(EVENT | {"detail": {"text": ""}}))


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


def test_the_largest_event_is_forwarded_and_waits_and_a_larger_one_is_parked(
    aws: InProcess,
) -> None:
    aws.wait_scale = 0.02
    largest, longer = (
        EVENT | {"detail": {"text": each * (ROOM // len(json.dumps(each)[1:-1]))}}
        for each in ("x", '"')  # the record has the event as a text, in which JSON escapes quotes
    )
    assert aws.run(largest).outcome == "Processed"
    [record] = aws.records()
    aws.put_record(record | {"status": "IN_PROGRESS", "lock_token": "dead", "execution": "dead"})
    waited = aws.run(largest)
    assert (waited.outcome, "Break Lock" in waited.path) == ("Processed", True)
    assert aws.run(longer).outcome == "Parked"
    [message] = aws.parked()
    assert message["event"] == longer
    assert message["reason"]["Error"] == "States.DataLimitExceeded"
