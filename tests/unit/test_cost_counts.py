"""What the bill and the pages count: calls of S3, lines of a log, units of a write."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from inorder import PROJECT, cost
from inorder.cost import CONTENDERS
from inorder.events import changed, shipped
from inorder.model.policies import asl_file, policies
from inorder.run import with_object
from tests.conftest import picture
from tests.policies.situations import GREEN, RED
from tests.support.in_process import INPUT, InProcess
from tests.unit.conftest import Lines, print_lines_of

POLICIES = {policy.name: policy for policy in policies()}
ASSUMED = tomllib.loads((PROJECT / CONTENDERS).read_text())


def of(*names: str) -> pytest.MarkDecorator:
    marked = [pytest.param(name, marks=pytest.mark.policy(name)) for name in names]
    return pytest.mark.parametrize("policy", marked)


@of(*(policy.name for policy in POLICIES.values() if policy.fence))
def test_an_event_calls_s3_as_often_as_the_bill_says(aws: InProcess, policy: str) -> None:
    calls: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        calls["puts" if model.name == "PutObject" else "gets"] += 1

    aws.app.s3.meta.events.register("before-call.s3", count)
    fence = POLICIES[policy].fence
    assert fence

    def called(event: Any) -> list[int]:
        calls.clear()
        aws.handle({"event": event, "fence": fence})
        return [calls["gets"], calls["puts"]]

    first = aws.upload("x.png", picture(RED))
    counted = {"uncontended": called(first)}
    second = aws.upload("x.png", picture(GREEN))
    counted |= {"waiter": called(second), "duplicate": called(second)}
    # Each event has an output of its own under every-version, also an older one.
    counted["older"] = counted["uncontended"] if fence == "each" else called(first)
    assert counted == ASSUMED["s3"][fence]


def test_an_invocation_logs_about_as_much_as_the_bill_says(
    aws: InProcess, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    print_lines_of(aws.app.logger, monkeypatch)
    event = with_object(
        shipped("object-created"), picture(RED), aws.s3, INPUT, aws.run, lambda _: None
    )
    aws.handle({"event": event, "fence": "newest"})
    request = "0a1b2c3d-4e5f-6789-abcd-ef0123456789"
    platform = (
        f"START RequestId: {request} Version: $LATEST\n"
        f"END RequestId: {request}\n"
        f"REPORT RequestId: {request}\tDuration: 312.52 ms\tBilled Duration: 313 ms\t"
        "Memory Size: 1769 MB\tMax Memory Used: 112 MB\t\n"
    )
    written = sum(len(json.dumps(line)) for line in lines()) + len(platform)
    assert written / 1000 == pytest.approx(ASSUMED["assumed"]["function_log_kb"], abs=0.2)


@of(*POLICIES)
def test_a_definition_fits_into_the_memory_that_is_billed(policy: str) -> None:
    definition = (PROJECT / asl_file(policy)).read_text()
    assert ASSUMED["assumed"]["express_mb"] + len(definition) / 1e6 < 64


# As AWS names an execution that EventBridge has started.
EXECUTION = (
    "arn:aws:states:ap-northeast-1:123456789012:express:"
    f"inorder-LatestWinsStateMachine-{'m' * 12}:{'n' * 36}_{'n' * 36}:{'u' * 36}"
)
BUCKET_BYTES = 32  # what the bill assumes


def size(record: Mapping[str, Any]) -> int:
    return sum(len(f"{name}{value}".encode()) for name, value in record.items())


@pytest.mark.parametrize(
    ("policy", "key", "units"),
    [
        pytest.param(policy, *sizes, marks=pytest.mark.policy(policy))
        for policy, *sizes in [
            *(("latest-wins", 42, 1), ("latest-wins", 43, 2)),
            *(("every-version", 50, 1), ("every-version", 1024, 2)),
        ]
    ],
)
def test_a_write_costs_what_the_bill_and_the_page_of_policies_say(
    aws: InProcess, policy: str, key: int, units: int
) -> None:
    sample = shipped("object-created")
    named = json.dumps(sample).replace(sample["detail"]["bucket"]["name"], "b" * BUCKET_BYTES)
    event = changed(json.loads(named), "detail.object.key", "k" * key)
    held: list[dict[str, Any]] = []

    def invoke(_: Any) -> dict[str, str]:
        """See the record as it is while the function works: never larger."""
        held.append(aws.record(f"{'b' * BUCKET_BYTES}/{'k' * key}") | {"execution": EXECUTION})
        return {"outcome": "Processed", "output_key": "out", "expires_at": "1800000000"}

    aws.invoke = invoke
    assert aws.run(event).outcome == "Processed"
    [record] = held
    assert cost.units_of_write(size(record)) == units
    work, has_event = cost.Workload(key_bytes=key), policy == "latest-wins"
    assert size(record) == cost.record_bytes(work, has_event=has_event)


@pytest.mark.parametrize(("length", "expected"), [(980, 1), (982, 2), (63 + 1 + 1024, 2)])
def test_an_entry_of_an_index_costs_what_the_page_of_operation_says(
    length: int, expected: int
) -> None:
    entry = {"id": "k" * length, "in_progress_since": "2026-11-20T09:30:00.123Z"}
    assert cost.units_of_write(size(entry)) == expected
