"""What the bill takes for counted is what happens: entries of indexes, polls, calls of S3, logs."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.cost import CONTENDERS
from inorder.policies import asl_file, policies
from inorder.run import with_object
from tests.conftest import picture
from tests.events import shipped
from tests.in_process import INPUT, InProcess
from tests.policies.situations import GREEN, RED, release
from tests.policies.test_policy_facts import cost, entered
from tests.unit.conftest import Lines

POLICIES = {policy.name: policy for policy in policies()}
ASSUMED = tomllib.loads((PROJECT / CONTENDERS).read_text())
INDEXED = "in_progress_since"


def of(*names: str) -> pytest.MarkDecorator:
    marked = [pytest.param(name, marks=pytest.mark.policy(name)) for name in names]
    return pytest.mark.parametrize("policy", marked)


LOCKING = of(*(policy.name for policy in POLICIES.values() if policy.cost.waiter))


class Index:
    """Counts the entries of the table's index that are written or removed."""

    def __init__(self, aws: InProcess) -> None:
        self._aws, self._before, self.units = aws, self._entries(aws), 0
        assert boto3.DEFAULT_SESSION
        for operation in ("PutItem", "UpdateItem"):
            events = boto3.DEFAULT_SESSION.events
            events.register(f"before-call.dynamodb.{operation}", self._remember)
            events.register(f"after-call.dynamodb.{operation}", self._count)

    @staticmethod
    def _entries(aws: InProcess) -> set[tuple[Any, ...]]:
        return {(record["id"], record[INDEXED]) for record in aws.records() if INDEXED in record}

    def _remember(self, **_: Any) -> None:
        self._before = self._entries(self._aws)

    def _count(self, **_: Any) -> None:
        # A changed entry is removed and written anew.
        self.units += len(self._before ^ self._entries(self._aws))

    def take(self) -> int:
        units, self.units = self.units, 0
        return units


@of(*POLICIES)
def test_an_event_writes_as_many_entries_of_indexes_as_the_facts_say(
    aws: InProcess, policy: str
) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    index, facts = Index(aws), POLICIES[policy].index
    for situation, event in (("uncontended", newer), ("duplicate", newer), ("older", older)):
        aws.run(event)
        assert index.take() == facts.get(situation, 0), situation


@LOCKING
def test_a_waiter_writes_as_many_entries_and_polls_as_the_facts_say(
    aws: InProcess, policy: str
) -> None:
    aws.wait_scale = 0.15
    first = aws.upload("x.png", picture(RED))
    aws.run(first)
    record = next(each for each in aws.records() if not str(each["id"]).startswith("event:"))
    aws.put_record(record | {"status": "IN_PROGRESS", "lock_token": "another's"})
    index = Index(aws)
    event = first if policy == "content-hash" else aws.upload("x.png", picture(GREEN))
    waiter = aws.start(event)

    def waits() -> int:
        return sum(name.startswith("Wait ") for name in entered(waiter))

    wait_until(lambda: waits() > 1, 30, "two waits")
    written = index.take()
    release(aws, str(record["id"]))
    index.take()
    facts = POLICIES[policy]
    waiting = facts.cost.waiter
    assert waiting
    counted = cost(policy, waiter)
    assert (counted.writes, counted.reads) == (
        waiting.writes + (waits() - 1) * facts.each_poll.writes,
        waiting.reads + (waits() - 1) * facts.each_poll.reads,
    )
    assert written + index.take() == facts.index.get("waiter", 0)


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
