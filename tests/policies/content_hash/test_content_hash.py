"""What content_hash.asl.json does with the real function, conditional writes and event bus."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inorder.asl.size import largest_event
from inorder.events import shipped
from inorder.policies import definition
from tests.in_process import InProcess
from tests.policies.situations import SHORT

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

LARGEST = largest_event(definition("content-hash"))


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


def sized(text: str, of_bytes: int) -> dict[str, Any]:
    """Give an event whose JSON has a number of bytes, filled up with a text."""
    unit = len(json.dumps(text)) - 2
    missing = of_bytes - len(json.dumps(EVENT | {"detail": {"text": ""}}))
    return EVENT | {"detail": {"text": text * (missing // unit)}}


@pytest.mark.parametrize(
    ("text", "of_bytes", "error"),
    [
        ('"', 125_000, None),  # the record has the event as a text, in which JSON escapes quotes
        ("x", LARGEST, None),
        ('"', LARGEST, "States.DataLimitExceeded"),
    ],
)
def test_a_large_event_is_forwarded_or_parked(
    aws: InProcess, text: str, of_bytes: int, error: str | None
) -> None:
    event = sized(text, of_bytes)
    ended = aws.run(event)
    if error:
        assert ended.outcome == "Parked"
        [message] = aws.parked()
        assert (message["event"], message["reason"]["Error"]) == (event, error)
    else:
        assert ended.outcome == "Processed"


def test_a_large_event_waits_for_its_content(aws: InProcess) -> None:
    aws.wait_scale = SHORT
    event = sized("x", LARGEST)
    aws.run(event)
    [record] = aws.records()
    aws.put_record(record | {"status": "IN_PROGRESS", "lock_token": "dead", "execution": "dead"})
    waited = aws.run(event)
    assert waited.outcome == "Processed"
    assert "Break Lock" in waited.path
