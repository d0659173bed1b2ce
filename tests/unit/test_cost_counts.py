"""What the bill takes for counted is what happens: calls of S3, bytes of logs, memory."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from inorder import PROJECT
from inorder.cost import CONTENDERS
from inorder.events import shipped
from inorder.model.policies import asl_file, policies
from inorder.run import with_object
from tests.conftest import picture
from tests.in_process import INPUT, InProcess
from tests.policies.situations import GREEN, RED
from tests.unit.conftest import Lines

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
    aws: InProcess, printed_by: Callable[[Any], Lines]
) -> None:
    lines = printed_by(aws.app.logger)
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
