"""What content_hash.asl.json does with the real function, conditional writes and event bus."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inorder.asl.size import largest_event
from inorder.events import shipped
from inorder.model.policies import definition
from tests.policies.situations import SHORT
from tests.support.in_process import InProcess

pytestmark = pytest.mark.policy("content-hash")

EVENT: dict[str, Any] = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "source": "orders",
    "detail-type": "Order Placed",
    "time": "2026-11-21T07:00:00Z",
    "detail": {"order": 7, "lines": [{"item": "pen", "price": 1.5}, {"item": "ink"}]},
}
SAME = EVENT | {
    "id": "another",
    "time": "2026-11-21T08:00:00Z",
    "detail": {"lines": [{"price": 1.50, "item": "pen"}, {"item": "ink"}], "order": 7.0},
}

# What the text may have in the largest event.
ROOM = largest_event(definition("content-hash")) - len(json.dumps(EVENT | {"detail": {"text": ""}}))


def test_an_event_is_forwarded_with_its_type_and_detail_once_however_it_is_written(
    aws: InProcess,
) -> None:
    ended = aws.run(EVENT)
    # The record's ID is made of this hash, so all that tells contents apart must be hashed.
    [hashed] = aws.invocations
    assert hashed == {"detail": {name: EVENT[name] for name in ("source", "detail-type", "detail")}}
    [forwarded] = aws.forwarded()
    assert forwarded["source"] == "unique.orders"
    assert (forwarded["detail-type"], forwarded["detail"]) == ("Order Placed", EVENT["detail"])
    [record] = aws.records()
    assert record["id"].startswith("content:orders/Order Placed/")
    assert record["status"] == "DONE"
    assert record["expires_at"] == int(ended.output["expires_at"])
    assert json.loads(record["event"]) == EVENT
    assert [aws.run(event).outcome for event in (EVENT, SAME)] == ["Duplicate"] * 2
    assert aws.forwarded() == []
    shipped_outcomes = [aws.run(shipped(f"order-placed{more}")).outcome for more in ("", "-again")]
    assert shipped_outcomes == ["Processed", "Duplicate"]


def test_the_largest_event_is_forwarded_and_waits_and_a_larger_one_is_parked(
    aws: InProcess,
) -> None:
    aws.wait_scale = SHORT
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
