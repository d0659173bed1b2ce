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

from tests.events import shipped
from tests.in_process import InProcess

# As AWS names an execution that EventBridge has started.
EXECUTION = (
    "arn:aws:states:ap-northeast-1:123456789012:express:"
    f"inorder-LatestWinsStateMachine-{'m' * 12}:{'n' * 36}_{'n' * 36}:{'u' * 36}"
)


def units(record: Mapping[str, Any]) -> int:
    size = sum(len(f"{name}{value}".encode()) for name, value in record.items())
    return -(-size // 1024)


@pytest.mark.policy("latest-wins")
@pytest.mark.parametrize(
    ("bucket", "key", "expected"), [("b" * 20, "k" * 20, 1), ("b" * 63, "k" * 1024, 4)]
)
def test_a_write_costs_what_the_page_of_policies_says(
    aws: InProcess, bucket: str, key: str, expected: int
) -> None:
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
    assert units(record) == expected


@pytest.mark.parametrize(("length", "expected"), [(980, 1), (982, 2), (63 + 1 + 1024, 2)])
def test_an_entry_of_an_index_costs_what_the_page_of_operation_says(
    length: int, expected: int
) -> None:
    entry = {"id": "k" * length, "in_progress_since": "2026-11-20T09:30:00.123Z"}
    assert units(entry) == expected
