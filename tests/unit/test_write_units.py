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


@pytest.mark.parametrize(
    ("policy", "bucket", "key", "units"),
    [
        pytest.param(policy, *sizes, marks=pytest.mark.policy(policy))
        for policy, *sizes in [
            *(("latest-wins", 20, 20, 1), ("latest-wins", BUCKET_BYTES, 42, 1)),
            *(("latest-wins", BUCKET_BYTES, 43, 2), ("latest-wins", 63, 1024, 4)),
            *(("every-version", BUCKET_BYTES, 50, 1), ("every-version", BUCKET_BYTES, 1024, 2)),
        ]
    ],
)
def test_a_write_costs_what_the_bill_and_the_page_of_policies_say(
    aws: InProcess, policy: str, bucket: int, key: int, units: int
) -> None:
    sample = shipped("object-created")
    name, key_name = "b" * bucket, "k" * key
    event = json.loads(json.dumps(sample).replace(sample["detail"]["bucket"]["name"], name))
    event["detail"]["object"]["key"] = key_name
    held: list[dict[str, Any]] = []

    def invoke(_: Any) -> dict[str, str]:
        """See the record as it is while the function works: never larger."""
        held.append(aws.record(f"{name}/{key_name}") | {"execution": EXECUTION})
        return {"outcome": "Processed", "output_key": "out", "expires_at": "1800000000"}

    aws.invoke = invoke
    assert aws.run(event).outcome == "Processed"
    [record] = held
    assert cost.units_of_write(size(record)) == units
    if bucket == BUCKET_BYTES:
        work = cost.Workload(key_bytes=key)
        has_event = policy == "latest-wins"
        assert size(record) == cost.record_bytes(work, has_event=has_event)


@pytest.mark.parametrize(("length", "expected"), [(980, 1), (982, 2), (63 + 1 + 1024, 2)])
def test_an_entry_of_an_index_costs_what_the_page_of_operation_says(
    length: int, expected: int
) -> None:
    entry = {"id": "k" * length, "in_progress_since": "2026-11-20T09:30:00.123Z"}
    assert cost.units_of_write(size(entry)) == expected
