"""The write units of a record, as docs/policies.md and docs/operate.md state them.

DynamoDB bills a write by the size of the whole record: names and values in UTF-8, a unit for each
KB that is begun.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from inorder import cost
from inorder.events import shipped
from tests.in_process import InProcess

# As AWS names an execution that EventBridge has started.
EXECUTION = (
    "arn:aws:states:ap-northeast-1:123456789012:express:"
    f"inorder-LatestWinsStateMachine-{'m' * 12}:{'n' * 36}_{'n' * 36}:{'u' * 36}"
)


BUCKET_BYTES = 32  # what the bill assumes


def size(record: Mapping[str, Any]) -> int:
    return sum(len(f"{name}{value}".encode()) for name, value in record.items())


@pytest.mark.policy("latest-wins")
@pytest.mark.parametrize(
    ("bucket", "key", "expected"),
    [
        (20, 20, 1),
        (BUCKET_BYTES, 42, 1),
        (BUCKET_BYTES, 43, 2),
        (BUCKET_BYTES, 50, 2),
        (63, 1024, 4),
    ],
)
def test_a_write_costs_what_the_bill_and_the_page_of_policies_say(
    aws: InProcess, bucket: int, key: int, expected: int
) -> None:
    held = record_held(aws, "b" * bucket, "k" * key)
    assert cost.units_of_write(size(held)) == expected
    if bucket == BUCKET_BYTES:
        assert size(held) == cost.record_bytes(cost.Workload(key_bytes=key))


@pytest.mark.policy("every-version")
@pytest.mark.parametrize("key", [1, 50, 1024])
def test_a_record_without_an_event_is_as_large_as_the_bill_says(aws: InProcess, key: int) -> None:
    held = record_held(aws, "b" * BUCKET_BYTES, "k" * key)
    assert size(held) == cost.record_bytes(cost.Workload(key_bytes=key), has_event=False)


def record_held(aws: InProcess, bucket: str, key: str) -> dict[str, Any]:
    """Give the record of a key as it is while the function works: never larger."""
    sample = shipped("object-created")
    text = json.dumps(sample).replace(sample["detail"]["bucket"]["name"], bucket)
    event = json.loads(text)
    event["detail"]["object"]["key"] = key
    held: list[dict[str, Any]] = []

    def invoke(_: Any) -> dict[str, str]:
        held.append(aws.record(f"{bucket}/{key}") | {"execution": EXECUTION})
        return {"outcome": "Processed", "output_key": "out", "expires_at": "1800000000"}

    aws.invoke = invoke
    assert aws.run(event).outcome == "Processed"
    [record] = held
    return record


@pytest.mark.parametrize(("length", "expected"), [(980, 1), (982, 2), (63 + 1 + 1024, 2)])
def test_an_entry_of_an_index_costs_what_the_page_of_operation_says(
    length: int, expected: int
) -> None:
    entry = {"id": "k" * length, "in_progress_since": "2026-11-20T09:30:00.123Z"}
    assert cost.units_of_write(size(entry)) == expected
