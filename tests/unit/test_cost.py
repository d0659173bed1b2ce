"""The monthly bill: a month computed by hand, what it counts, and what documents say of it."""

import json
import re
import shlex
import tomllib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from inorder import PROJECT, cost
from inorder.cost import Bill, Workload
from inorder.model.policies import policies, policy
from tests.conftest import picture
from tests.policies.situations import GREEN, RED
from tests.support.commands import run
from tests.support.events import changed, shipped
from tests.support.in_process import InProcess
from tests.support.replacing import replaced
from tests.support.resolved_template import of_type, template

LATEST = policy("latest-wins")
TABLE = tomllib.loads(cost.CONTENDERS.read_text())


def dollars(bill: Bill) -> dict[str, float]:
    return {line.name: line.dollars for line in bill.lines}


def test_a_million_uncontended_events_cost_what_was_computed_by_hand() -> None:
    work = Workload(1_000_000, process_ms=300, memory=1024, log_level="ALL", object_kb=100)
    assert dollars(cost.bill_of(LATEST, work)) == pytest.approx(
        {
            "EventBridge: events of the bucket": 1.00,
            "Step Functions: Express requests": 1.00,
            # 10 + 2 calls of 10 + 20 + 320 = 370 ms, billed as 400, in 64 MB: 25,000 GB-s
            "Step Functions: Express duration": 25_000 * 0.06 / 3600,
            "DynamoDB: writes": 2 * 0.625,  # 989 bytes are one unit
            "DynamoDB: writes of the indexes": 2 * 0.625,
            "DynamoDB: storage": 0.989 * 7 / 30 * 0.25,  # 0.989 GB for seven days
            "DynamoDB: point-in-time recovery": 0.989 * 7 / 30 * 0.20,
            "Lambda: requests": 0.20,
            # The fence reads the output, and the source a second time, in 10 ms each.
            "Lambda: duration (arm64)": 320_000 * 0.0000133334,
            "S3: GET and HEAD": 3_000 * 0.0004,
            "S3: PUT": 1_000 * 0.005,
            "S3: the outputs of the month": 100 * 0.023,
            "CloudWatch: log of executions": 21 * 0.50,
            "CloudWatch: logs of functions": 1.1 * 0.50,
            "CloudWatch: storage of logs": 22.1 * 0.15 * 14 / 30 * 0.03,
            "SQS: long polls of idle queues": 2 * 5 * 30 * 86_400 / 20 / 1e6 * 0.40,
            "CloudWatch: metrics": 2 * 0.30,
            "CloudWatch: alarms": 8 * 0.10,
        }
    )


def differences(one: Bill, other: Bill) -> dict[str, float]:
    change = Counter(dollars(other))
    change.subtract(dollars(one))
    return {name: difference for name, difference in change.items() if difference}


def test_the_contenders_cost_what_was_computed_by_hand() -> None:
    work, stored = Workload(1_000_000, memory=1024), 0.15 * 14 / 30 * 0.03
    bills = {
        contender.name: cost.bill_of_contender(contender, work) for contender in cost.contenders()
    }
    fence, fenced = 20_000 * 0.0000133334, bills["fenced-function"]
    assert differences(bills["function-alone"], fenced) == pytest.approx(
        {
            "Lambda: duration (arm64)": fence,
            "S3: GET and HEAD": 2_000 * 0.0004,
            "EventBridge: events of the bucket": 1.00,
        }
    )
    polls = 5 * 30 * 86_400 / 20 / 1e6
    queue = {"SQS: requests": 3 * 0.40, "SQS: long polls of idle queues": polls * 0.40}
    assert differences(fenced, bills["sqs-fence"]) == pytest.approx(queue)
    assert differences(bills["function-alone"], bills["fifo-fence"]) == pytest.approx(
        {
            "Lambda: requests": 0.20,  # the router's
            "Lambda: duration (arm64)": fence + 0.25 * 50_000 * 0.0000133334,
            "S3: GET and HEAD": 2_000 * 0.0004,
            "CloudWatch: logs of functions": 1.1 * 0.50,
            "CloudWatch: storage of logs": 1.1 * stored,
            "SQS: FIFO requests": 3 * 0.50,
            "SQS: long polls of an idle FIFO queue": polls * 0.50,
        }
    )


def test_aws_bills_in_steps_and_tiers() -> None:
    for milliseconds, steps in ((1, 1), (100, 1), (100.1, 2)):
        used = cost.express_gb_seconds(milliseconds)
        assert used == pytest.approx(steps * 0.1 * 64 / 1024)
    # https://aws.amazon.com/step-functions/pricing/: 17,361.11 GB-hours cost 382.97 dollars
    row = cost.prices()["express_gb_seconds"]
    assert row.dollars(17_361.11 * 3_600) == pytest.approx(382.97, abs=0.01)
    # https://www.duckbillgroup.com/?p=9080: 60 TB of a month cost 12,500 dollars, not 30,000
    row = cost.prices()["log_gb"]
    assert row.dollars(60_000) == pytest.approx(12_500)
    assert row.dollars(1) == 0.50
    stored = cost.prices()["s3_storage"].dollars(60_000)
    assert stored == pytest.approx(51_200 * 0.023 + 8_800 * 0.022)


def test_the_bill_lacks_logs_and_tables_that_are_not_used() -> None:
    for of_policy in policies():
        lines = dollars(cost.bill_of(of_policy, Workload(log_level="OFF")))
        assert "CloudWatch: log of executions" not in lines, of_policy.name
    lines = dollars(cost.bill_of(policy("uncoordinated"), Workload(overwrites=0.5)))
    assert not any(name.startswith("DynamoDB: ") for name in lines)


def test_a_log_without_data_is_billed_by_what_it_writes() -> None:
    work = Workload(1_000_000, overwrites=0.1)
    bills = [cost.bill_of(LATEST, replace(work, log_data=has_data)) for has_data in (True, False)]
    with_data, without = (dollars(bill)["CloudWatch: log of executions"] for bill in bills)
    # A waiter is two executions, one poll, and a start that costs as much as a poll.
    assert with_data == pytest.approx((0.9 * 21 + 0.1 * (2 * 21 + 2 * 14)) * 0.50)
    assert without == pytest.approx((0.9 * 14 + 0.1 * (2 * 14 + 2 * 4)) * 0.50)


def test_what_is_assumed_of_the_template_is_in_the_template() -> None:
    resources, assumed = template()["Resources"], TABLE["assumed"]
    events = resources["RetryEventsFunction"]["Properties"]["Events"].values()
    polls = [event["Properties"]["ScalingConfig"] for event in events if event["Type"] == "SQS"]
    assert polls == [{"MaximumConcurrency": assumed["pollers"]}] * assumed["polled_queues"]
    assert len(of_type(resources, "CloudWatch::Alarm")) == assumed["alarms"]
    default = Workload()
    for name, value in {
        "RecordRetentionDays": assumed["retention_days"],
        "LogRetentionDays": assumed["log_days"],
        "ExecutionLogLevel": default.log_level,
        "ExecutionLogData": str(default.log_data).lower(),
        "FunctionMemorySize": default.memory,
    }.items():
        assert template()["Parameters"][name]["Default"] == value, name


# What is counted


@pytest.mark.parametrize("fence", ["newest", "each", "none"])
def test_an_event_calls_s3_as_often_as_the_bill_says(aws: InProcess, fence: str) -> None:
    calls = Counter[bool]()
    aws.app.s3.meta.events.register(
        "before-call.s3", lambda model, **_: calls.update([model.name == "PutObject"])
    )

    def called(event: Any) -> list[int]:
        calls.clear()
        aws.handle({"event": event, "fence": fence})
        return [calls[False], calls[True]]

    first = aws.upload("x.png", picture(RED))
    counted = {"uncontended": called(first)}
    second = aws.upload("x.png", picture(GREEN))
    counted |= {"waiter": called(second), "duplicate": called(second)}
    # Each event has an output of its own under every-version, also an older one.
    counted["older"] = counted["uncontended"] if fence == "each" else called(first)
    assert counted == TABLE["s3"][fence]


MACHINE = "inorder_latest-wins"
# As AWS names an execution that EventBridge has started.
NAMES = f"{MACHINE}:{'n' * 36}_{'n' * 36}:{'u' * 36}"
EXECUTION = f"arn:aws:states:ap-northeast-1:123456789012:express:{NAMES}"
BUCKET = "b" * 32  # as long as the bill assumes


@pytest.mark.parametrize(("length", "units"), [(67, 1), (68, 2)])
def test_a_write_costs_what_the_bill_and_the_page_say(
    aws: InProcess, length: int, units: int
) -> None:
    key = "k" * length
    sample = shipped("object-created")
    event = json.loads(replaced(json.dumps(sample), sample["detail"]["bucket"]["name"], BUCKET))
    held: list[dict[str, Any]] = []

    def invoke(_: Any) -> dict[str, str]:
        """See the record as it is while the function works: never larger."""
        record = aws.record(f"{BUCKET}/{key}")
        held.append(record | {"execution": EXECUTION, "state_machine": MACHINE})
        return {"outcome": "Processed", "output_key": "out", "expires_at": "1800000000"}

    aws.invoke = invoke
    aws.run(changed(event, "detail.object.key", key))
    [record] = held
    size = sum(len(f"{name}{value}".encode()) for name, value in record.items())
    assert cost.units_of_write(size) == units
    assert size == cost.record_bytes(Workload(key_bytes=length))


# What the documents say


def test_the_documents_lines_are_among_those_its_command_prints() -> None:
    text = (PROJECT / "docs" / "cost.md").read_text()
    [(command, shown)] = re.findall(
        r"```sh\n\.venv/bin/inorder (cost .*)\n```\n\n(?:[^`\n].*\n)+\n```\n((?:.*\n)+?)```\n", text
    )
    printed = run(*shlex.split(command)).stdout
    assert {*shown.splitlines()} <= {line.rstrip() for line in printed.splitlines()}


def test_the_readme_has_the_dollars_of_the_bill() -> None:
    month = Workload(5e6, overwrites=0.1)
    works = month, replace(month, log_data=False), replace(month, log_level="ERROR")
    bills = [cost.bill_of(LATEST, work) for work in works]
    whole, no_data, failures = (round(bill.dollars) for bill in bills)
    text = (PROJECT / "README.md").read_text()
    assert f"[{whole}](docs/cost.md), {no_data} with a log without data, {failures} with" in text
    contenders = {contender.name: contender for contender in cost.contenders()}
    for name, source in {
        "fenced-function": "examples/fence_alone/template.yaml",
        "sqs-fence": "bench/contenders/sqs_fence.py",
        "fifo-fence": "bench/contenders/fifo_fence.py",
    }.items():
        amount = round(cost.bill_of_contender(contenders[name], month).dollars)
        assert f"({source}) | {amount} |" in text, name
    page = (PROJECT / "docs" / "cost.md").read_text()
    rows = re.findall(r"^\| `(?:ALL|ERROR)`.* \| (\d+) \|", page, re.M)
    assert rows == [str(amount) for amount in (whole, no_data, failures)]
