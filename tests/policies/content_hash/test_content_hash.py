"""Each path through content_hash.asl.json, with the real conditional writes, handler and bus."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.in_process import Faults, InProcess
from tests.statemachine.situations import SHORT, at_call, leave_a_dead_holder

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


def forwarded(aws: InProcess) -> list[tuple[str, str, Any]]:
    return [(event["source"], event["detail-type"], event["detail"]) for event in aws.forwarded()]


def object_key(aws: InProcess) -> str:
    [item] = aws.table.scan()["Items"]
    return str(item["id"])


def test_an_event_is_forwarded_with_its_type_and_detail(aws: InProcess) -> None:
    ended = aws.run(EVENT)
    assert ended.path == [
        "Complete Event?",
        "Prepare Event",
        "Hash Detail",
        "Hashed?",
        "Name Content",
        "Claim Content",
        "Forward Event",
        "Release Lock",
        "Processed",
        "Processed",
    ]
    # The hash alone is the name, so that it must be made of all that tells contents apart.
    [hashed] = aws.invocations
    assert hashed == {"detail": {name: EVENT[name] for name in ("source", "detail-type", "detail")}}
    assert forwarded(aws) == [("unique.orders", "Order Placed", EVENT["detail"])]
    record = aws.record(object_key(aws))
    assert record["object_key"].startswith("content:orders/Order Placed/")
    assert record["status"] == "DONE"
    assert record["expires_at"] == int(ended.output["expires_at"])
    assert json.loads(record["event"]) == EVENT
    assert not {"lock_token", "execution"} & set(record)


def test_the_same_content_is_forwarded_once_however_it_is_written(aws: InProcess) -> None:
    assert aws.run(EVENT).outcome == "Processed"
    assert [aws.run(event).outcome for event in (EVENT, SAME)] == ["Duplicate", "Duplicate"]
    assert len(forwarded(aws)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"detail": EVENT["detail"] | {"order": 8}},
        {"detail": EVENT["detail"] | {"lines": EVENT["detail"]["lines"][::-1]}},
        {"detail": {}},
        {"source": "returns"},
        {"detail-type": "Order Changed"},
    ],
    ids=str,
)
def test_what_differs_in_what_it_says_or_who_says_it_is_forwarded(
    aws: InProcess, change: dict[str, Any]
) -> None:
    assert [aws.run(event).outcome for event in (EVENT, EVENT | change)] == ["Processed"] * 2
    assert len(forwarded(aws)) == 2


def test_a_slash_in_a_name_does_not_make_two_types_one(aws: InProcess) -> None:
    one = EVENT | {"source": "a", "detail-type": "b/c"}
    other = EVENT | {"source": "a/b", "detail-type": "c"}
    assert [aws.run(event).outcome for event in (one, other)] == ["Processed"] * 2


def test_what_could_not_be_forwarded_is_parked_and_not_marked(aws: InProcess) -> None:
    aws.wait_scale = SHORT
    refused = Faults().refuse_entries(times=3)
    ended = aws.run(EVENT)
    assert ended.outcome == "Parked"
    assert len(refused) == 3
    [message] = aws.parked()
    assert message["event"] == EVENT
    record = aws.record(object_key(aws))
    assert record["status"] == "FAILED"
    assert not {"lock_token", "execution"} & set(record)
    assert aws.run(SAME).outcome == "Processed"
    assert len(forwarded(aws)) == 1


def test_what_the_bus_refuses_is_parked(aws: InProcess) -> None:
    """The call succeeds, and its answer says that the entry failed."""
    aws.wait_scale = SHORT
    ended = aws.run(EVENT | {"detail-type": ""})
    assert ended.outcome == "Parked"
    assert json.loads(ended.cause)["Error"] == "EventBridge.FailedEntry"


@pytest.mark.parametrize("expires_in", [-1, 3600])
def test_a_record_that_has_expired_counts_no_longer_even_if_it_is_still_there(
    aws: InProcess, expires_in: int
) -> None:
    ended = aws.run(EVENT)
    now = int(ended.output["expires_at"]) - 7 * 86_400
    aws.table.update_item(
        Key={"id": object_key(aws)},
        UpdateExpression="SET expires_at = :then",
        ExpressionAttributeValues={":then": now + expires_in},
    )
    again = aws.run(EVENT)
    assert again.outcome == ("Processed" if expires_in < 0 else "Duplicate")
    assert len(forwarded(aws)) == (2 if expires_in < 0 else 1)
    assert aws.record(object_key(aws))["expires_at"] > now


def test_a_hash_that_fails_is_parked(aws: InProcess) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("no memory")

    aws.wait_scale = SHORT
    aws.hash = broken
    ended = aws.run(EVENT)
    assert ended.outcome == "Parked"
    assert "no memory" in ended.cause
    assert len(aws.invocations) == 3
    assert [message["event"] for message in aws.parked()] == [EVENT]


@pytest.mark.parametrize("answer", [None, {"hash": "9f"}], ids=str)
def test_an_answer_that_is_no_hash_is_parked(aws: InProcess, answer: Any) -> None:
    aws.hash = lambda _: answer
    ended = aws.run(EVENT)
    assert ended.outcome == "Parked"
    assert json.loads(ended.cause)["Error"] == "UnknownResult"
    assert forwarded(aws) == []
    assert aws.table.scan()["Items"] == []


def test_of_two_at_once_the_second_waits_and_is_a_duplicate(aws: InProcess) -> None:
    aws.wait_scale = 0.2
    forwarding, go_on = threading.Event(), threading.Event()

    def hold_back() -> None:
        forwarding.set()
        assert go_on.wait(30)

    at_call("eventbridge.PutEvents", 1, hold_back)
    first = aws.start(EVENT)
    assert forwarding.wait(30)
    at_call("dynamodb.GetItem", 2, go_on.set)
    second = aws.start(SAME)
    assert [aws.wait(arn).outcome for arn in (first, second)] == ["Processed", "Duplicate"]
    assert len(forwarded(aws)) == 1


def test_the_lock_of_a_dead_holder_is_broken(aws: InProcess) -> None:
    aws.wait_scale = SHORT
    aws.run(EVENT)
    leave_a_dead_holder(aws, object_key(aws))
    ended = aws.run(EVENT)
    assert ended.outcome == "Processed"
    assert ended.path.count("Break Lock") == 1
    assert ended.path.count("Wait For Lock") == 20


def test_a_lost_lock_leaves_the_record_to_whoever_took_it(aws: InProcess) -> None:
    at_call(
        "eventbridge.PutEvents",
        1,
        lambda: leave_a_dead_holder(aws, object_key(aws)),
    )
    assert aws.run(EVENT).outcome == "Processed"
    record = aws.record(object_key(aws))
    assert (record["lock_token"], record["status"]) == ("dead", "IN_PROGRESS")
