"""The monthly bill: small months computed by hand, what it counts, and what documents say of it."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import scale
from bench.resolved_template import of_type, resources_with, template
from inorder import PROJECT, cost
from inorder.commands.main import main
from inorder.cost import Bill, Workload
from inorder.events import changed, shipped
from inorder.model.policies import policies, policy
from tests.conftest import picture
from tests.policies.situations import GREEN, RED
from tests.support.in_process import InProcess

LATEST = policy("latest-wins")
POLICIES = policies()
BILLS = [lambda work, each=each: cost.bill_of(each, work) for each in POLICIES] + [
    lambda work, each=each: cost.bill_of_contender(each, work)
    for each in cost.contenders(LATEST)
    if not each.policy
]
EACH_BILL = pytest.mark.parametrize("bill_of", BILLS, ids=lambda of: of(Workload()).name)
TABLE = tomllib.loads((PROJECT / cost.CONTENDERS).read_text())
TIERED = ("Express duration", "log of executions", "logs of functions")
SAMPLED = "X-Ray: traces"  # the first in each second is recorded, and few of the others
WORKLOADS = st.builds(
    Workload,
    events=st.floats(1, 1e9),
    overwrites=st.floats(0, 0.3),
    duplicates=st.floats(0, 0.3),
    older=st.floats(0, 0.3),
    retried=st.floats(0, 1),
    process_ms=st.floats(1, 15_000),
    memory=st.integers(128, 10_240),
    log_level=st.sampled_from(cost.LOG_LEVELS),
    tracing=st.booleans(),
)


def quantities(bill: Bill) -> dict[str, float]:
    return {line.name: line.quantity for line in bill.lines}


def dollars(bill: Bill) -> dict[str, float]:
    return {line.name: line.dollars for line in bill.lines}


def test_a_month_of_a_million_uncontended_events_is_the_one_computed_by_hand() -> None:
    work = Workload(1_000_000, process_ms=300, memory=1024, log_level="ALL", object_kb=100)
    assert dollars(cost.bill_of(LATEST, work)) == pytest.approx(
        {
            "EventBridge: events of the bucket": 1.00,
            "Step Functions: Express requests": 1.00,
            # 10 + 2 calls of 10 + 20 + 300 = 350 ms, billed as 400, in 64 MB: 25,000 GB-s
            "Step Functions: Express duration": 25_000 * 0.06 / 3600,
            "DynamoDB: writes": 2 * 2 * 0.625,  # 1,040 bytes are two units
            "DynamoDB: writes of the indexes": 2 * 0.625,
            "DynamoDB: storage": 1.04 * 7 / 30 * 0.25,  # 1.04 GB for seven days
            "DynamoDB: point-in-time recovery": 1.04 * 7 / 30 * 0.20,
            "Lambda: requests": 0.20,
            "Lambda: duration (arm64)": 300_000 * 0.0000133334,
            "S3: GET and HEAD": 3_000 * 0.0004,
            "S3: PUT": 1_000 * 0.005,
            "S3: the outputs of the month": 100 * 0.023,
            "CloudWatch: log of executions": 26 * 0.50,
            "CloudWatch: logs of functions": 1.1 * 0.50,
            "CloudWatch: storage of logs": 27.1 * 0.15 * 14 / 30 * 0.03,
            "SQS: long polls of an idle queue": 5 * 30 * 86_400 / 20 / 1e6 * 0.40,
            "Schedule: requests of Lambda": 2_880 / 1e6 * 0.20,
            "Schedule: duration of Lambda": 2_880 * 0.25 * 0.2 * 0.0000133334,
            "Schedule: reads of DynamoDB": 2_880 / 1e6 * 0.125,
            "CloudWatch: metrics": 2 * 0.30,
            "CloudWatch: alarms": 7 * 0.10,
        }
    )


def test_aws_bills_in_steps_and_tiers() -> None:
    for milliseconds, steps in ((1, 1), (100, 1), (100.1, 2)):
        used = cost.express_gb_seconds(LATEST, milliseconds)
        assert used == pytest.approx(steps * 0.1 * 64 / 1024)
    # https://aws.amazon.com/step-functions/pricing/: 17,361.11 GB-hours cost 382.97 dollars
    row = cost.prices()["express_gb_seconds"]
    assert row.dollars(17_361.11 * 3_600) == pytest.approx(382.97, abs=0.01)
    # https://www.duckbillgroup.com/?p=9080: 60 TB of a month cost 12,500 dollars, not 30,000
    row = cost.prices()["log_gb"]
    assert row.dollars(60_000) == pytest.approx(12_500)
    assert row.dollars(1) == 0.50


@pytest.mark.parametrize(
    "work",
    [
        Workload(1_000_000, overwrites=0.5, process_ms=2_000, log_level="OFF"),
        Workload(2e8, process_ms=3_000),  # the log of some shares has more than 10 TB
    ],
)
def test_contenders_are_sorted_and_at_a_break_even_both_cost_the_same(work: Workload) -> None:
    compared = cost.compare(LATEST, work)
    assert [each.dollars for each in compared] == sorted(each.dollars for each in compared)
    for each in compared:
        if each.overwrites:
            there = replace(work, overwrites=each.overwrites.at)
            assert cost.bill_of(LATEST, there).dollars == pytest.approx(
                cost.bill_of_contender(each.contender, there).dollars
            )
    [lock] = [each for each in compared if each.contender.name == "lock-in-function"]
    assert lock.overwrites
    assert lock.overwrites.is_cheaper_above
    if lock.process_ms:
        for milliseconds, is_cheaper in ((-100, False), (0, True)):
            then = replace(work, process_ms=lock.process_ms.at + milliseconds)
            other = cost.bill_of_contender(lock.contender, then).dollars
            assert (cost.bill_of(LATEST, then).dollars < other) == is_cheaper


@EACH_BILL
@given(work=WORKLOADS)
@settings(max_examples=20, deadline=None)
def test_a_bill_sums_up_and_twice_the_events_use_twice_of_what_is_not_fixed(
    bill_of: Any, work: Workload
) -> None:
    once, twice = bill_of(work), bill_of(replace(work, events=2 * work.events))
    assert all(line.quantity > 0 <= line.dollars for line in once.lines)
    assert once.dollars == pytest.approx(sum(dollars(once).values()))
    for one, two in zip(once.lines, twice.lines, strict=True):
        factor = 1 if one.is_fixed else 2
        if one.name != SAMPLED:
            assert two.quantity == pytest.approx(factor * one.quantity)
            if not any(each in one.name for each in TIERED):
                assert two.dollars == pytest.approx(factor * one.dollars)
    assert twice.dollars > once.dollars
    levels = [bill_of(replace(work, log_level=level)).dollars for level in cost.LOG_LEVELS]
    assert levels == sorted(levels, reverse=True)


def test_what_is_switched_off_or_not_there_is_not_on_the_bill() -> None:
    off = Workload(log_level="OFF", heal_minutes=0, alarms="none")
    switched = ("Schedule", "alarms", "log of executions", "dashboard", "X-Ray")
    by_policy = [
        *((each.name, off, switched) for each in POLICIES),
        ("optimistic", Workload(overwrites=0.5), ("DynamoDB", "Schedule")),
        ("content-hash", Workload(), ("S3",)),
        ("uncoordinated", Workload(), ("SQS: long polls of an idle queue",)),
    ]
    for name, work, parts in by_policy:
        lines = " ".join(dollars(cost.bill_of(policy(name), work)))
        assert [part for part in parts if part in lines] == [], name
    content = quantities(cost.bill_of(policy("content-hash"), Workload(100, duplicates=0.25)))
    assert content["EventBridge: events put on a bus"] == 75


def test_a_retry_adds_an_execution_and_messages() -> None:
    without, retried = (cost.usage_of(LATEST, Workload(1_000, retried=r)) for r in (0, 0.1))
    assert retried["express_requests"] - without["express_requests"] == 100
    assert retried["sqs_requests"] == 400


def test_each_price_has_a_source_and_is_on_a_line() -> None:
    of_lines = {price for _, price, _ in cost.LINES.values()}
    not_used = {"snapstart_cache", "snapstart_restores"}  # docs/performance.md says why
    assert of_lines | not_used == set(cost.prices())
    for price in cost.prices().values():
        assert price.source.startswith("https://aws.amazon.com/")


def test_what_is_assumed_of_the_template_is_in_the_template() -> None:
    resources, assumed = template()["Resources"], TABLE["assumed"]
    audit = template("audit/template.yaml")["Resources"]
    for function, name in (
        (resources["RetryEventsFunction"], "retry_mb"),
        (resources["HealKeysFunction"], "heal_mb"),
        (audit["AuditKeysFunction"], "audit_mb"),
    ):
        assert function["Properties"]["MemorySize"] == assumed[name]
    faults = resources["RetryEventsFunction"]["Properties"]["Events"]["Faults"]["Properties"]
    assert faults["ScalingConfig"]["MaximumConcurrency"] == assumed["pollers"]
    for level, count in TABLE["alarms"].items():
        assert len(of_type(resources_with({"Alarms": level}), "CloudWatch::Alarm")) == count
    default = Workload()
    for name, value in {
        "RecordRetentionDays": default.retention_days,
        "LogRetentionDays": default.log_days,
        "HealMinutes": default.heal_minutes,
        "ExecutionLogLevel": default.log_level,
        "FunctionMemorySize": default.memory,
        "Alarms": default.alarms,
        "Dashboard": str(default.dashboard).lower(),
        "Tracing": str(default.tracing).lower(),
    }.items():
        assert template()["Parameters"][name]["Default"] == value, name


# What is counted


@pytest.mark.parametrize(
    "fence",
    [
        pytest.param(each.fence, marks=pytest.mark.policy(each.name))
        for each in POLICIES
        if each.fence
    ],
)
def test_an_event_calls_s3_as_often_as_the_bill_says(aws: InProcess, fence: str) -> None:
    calls: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        calls["puts" if model.name == "PutObject" else "gets"] += 1

    aws.app.s3.meta.events.register("before-call.s3", count)

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
    assert counted == TABLE["s3"][fence]


# As AWS names an execution that EventBridge has started.
EXECUTION = (
    "arn:aws:states:ap-northeast-1:123456789012:express:"
    f"inorder-LatestWinsStateMachine-{'m' * 12}:{'n' * 36}_{'n' * 36}:{'u' * 36}"
)
BUCKET_BYTES = 32  # what the bill assumes


def size(record: dict[str, Any]) -> int:
    return sum(len(f"{name}{value}".encode()) for name, value in record.items())


@pytest.mark.parametrize(
    ("policy", "key", "units"),
    [
        pytest.param(policy, *sizes, marks=pytest.mark.policy(policy))
        for policy, *sizes in [
            *(("latest-wins", 42, 1), ("latest-wins", 43, 2), ("every-version", 1024, 2)),
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
    work, has_event = Workload(key_bytes=key), policy == "latest-wins"
    assert size(record) == cost.record_bytes(work, has_event=has_event)


# What the documents say

EXAMPLE = r"```sh\n\.venv/bin/inorder (cost .*)\n```\n\n```\n((?:.*\n)*?)```\n"


def example(found: re.Match[str]) -> str:
    """Give an example with the output that its command prints now."""
    printed = CliRunner().invoke(main, shlex.split(found[1])).stdout
    lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return found[0].replace(found[2], lines)


def test_the_examples_are_what_the_command_prints() -> None:
    """Run `python -m tests.unit.test_cost` to write them."""
    text = (PROJECT / "docs" / "cost.md").read_text()
    assert len(re.findall(EXAMPLE, text)) == 1
    assert re.sub(EXAMPLE, example, text) == text


def test_the_tables_of_scale_are_those_that_are_computed() -> None:
    text = (PROJECT / scale.DOCUMENT).read_text()
    assert scale.written(text) == text


if __name__ == "__main__":
    page = PROJECT / "docs" / "cost.md"
    page.write_text(re.sub(EXAMPLE, example, page.read_text()))
