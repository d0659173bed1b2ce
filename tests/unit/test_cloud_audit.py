"""What the command says of an audit in the cloud that does not tell whether all is right."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from inorder.aws import cloud_audit
from inorder.errors import Failure

OUTPUTS = [
    {"OutputKey": "AuditStateMachineArn", "OutputValue": "machine"},
    {"OutputKey": "AuditLogGroupName", "OutputValue": "log"},
]
FAILED = {"status": "FAILED", "error": "E", "cause": json.dumps({"errorMessage": "no buckets."})}
SUCCEEDED = {"status": "SUCCEEDED"}
LINES = [
    "no JSON",
    json.dumps({"audit": "other", "message": "OutputsCompared", "items": 9, "counts": {}}),
    json.dumps({"audit": "a", "message": "OutputsCompared", "items": 2, "counts": {"right": 2}}),
]


def run(ended: dict[str, Any], items: int, outputs: list[dict[str, str]]) -> Any:
    """Follow an audit of this end, which has compared so many objects."""
    log = SimpleNamespace(paginate=lambda **_: [{"events": [{"message": line} for line in LINES]}])
    stub = SimpleNamespace(
        describe_stacks=lambda **_: {"Stacks": [{"Outputs": outputs}]},
        start_execution=lambda **_: {"executionArn": "arn:a"},
        describe_execution=lambda **_: ended,
        list_map_runs=lambda **_: {"mapRuns": [{"mapRunArn": "run"}]},
        describe_map_run=lambda **_: {"itemCounts": {"total": items, "succeeded": items}},
        get_paginator=lambda _: log,
    )
    aws: Any = SimpleNamespace(
        stack=SimpleNamespace(name="s"), client=lambda _: stub, is_local=True
    )
    audit: Any = SimpleNamespace(
        scope=SimpleNamespace(bucket="input"), queued=lambda findings: findings
    )
    return cloud_audit.run(audit, aws, "", lambda *_: None)


@pytest.mark.parametrize(
    ("ended", "items", "outputs", "said"),
    [
        (FAILED, 2, OUTPUTS, "ended as FAILED: E no buckets. Its log is log."),
        (SUCCEEDED, 100_000_000, OUTPUTS, "audit it by prefixes"),
        (SUCCEEDED, 3, OUTPUTS, "lacks 1 of 3 objects"),
        (SUCCEEDED, 2, [], "no output AuditStateMachineArn"),
    ],
)
def test_an_audit_that_is_not_complete_says_why(
    ended: Any, items: int, outputs: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_audit, "LOG_SECONDS", -1)
    with pytest.raises(Failure, match=said):
        run(ended, items, outputs)


def test_only_the_lines_of_the_audit_count() -> None:
    assert run(SUCCEEDED, 2, OUTPUTS).counts == {"right": 2}
