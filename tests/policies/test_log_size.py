"""How much an execution writes to its log at level ALL, in entries as AWS writes them."""

from __future__ import annotations

import json
from itertools import pairwise
from statistics import median
from typing import Any

import boto3
import pytest

from bench.log_size import METADATA, size_of
from inorder.aws.executions import wait_until
from inorder.events import shipped
from inorder.model.policies import like, policies
from inorder.run import with_object
from tests.conftest import picture
from tests.in_process import INPUT, InProcess
from tests.policies.situations import RED, SHORT, of

KILOBYTES = {policy.name: policy.log for policy in policies()}


def with_metadata() -> None:
    """Let DynamoDB and EventBridge answer as an optimized integration hands it on."""
    assert boto3.DEFAULT_SESSION
    for service in ("dynamodb", "eventbridge"):
        boto3.DEFAULT_SESSION.events.register(
            f"after-call.{service}", lambda parsed, **_: parsed.update(METADATA)
        )


def entries(execution: str) -> list[tuple[str, int]]:
    """Give the name of the state, if it is entered, and the size of each entry of the log.

    The form is that of https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html.
    """
    client = boto3.client("stepfunctions")
    pages = client.get_paginator("get_execution_history").paginate(executionArn=execution)
    history: list[Any] = [event for page in pages for event in page["events"]]
    written = []
    for event in history:
        details: dict[str, Any] = next(
            (value for name, value in event.items() if name.endswith("Details")), {}
        )
        if event["type"] == "TaskSucceeded" and details["resourceType"] == "lambda":
            details["output"] = json.dumps(json.loads(details["output"]) | METADATA)
        entered = details["name"] if event["type"].endswith("StateEntered") else ""
        written.append((entered, size_of(event["type"], details)))
    return written


@of(*KILOBYTES)
def test_an_event_and_a_poll_write_as_much_to_the_log_as_the_facts_say(
    aws: InProcess, policy: str
) -> None:
    with_metadata()
    aws.wait_scale = SHORT
    event = with_object(
        shipped("object-created"), picture(RED), aws.s3, INPUT, aws.run, lambda _: None
    )
    ended = aws.run(event)
    assert ended.outcome == "Processed"
    assert kilobytes(entries(ended.arn)) == pytest.approx(KILOBYTES[policy].uncontended, abs=1)
    if not KILOBYTES[policy].poll:
        return
    record = next(each for each in aws.records() if not each["id"].startswith("event:"))
    held = {"status": "IN_PROGRESS", "lock_token": "6f1c8a0e-93ba-4d3e-8a57-2f9b1b0c7d11"}
    aws.put_record(record | held)
    if policy not in like("content-hash"):
        event["detail"]["object"]["sequencer"] += "0"  # a later event
    waiter = aws.start(event)

    def waits() -> list[int]:
        return [at for at, (name, _) in enumerate(entries(waiter)) if name.startswith("Wait ")]

    wait_until(lambda: len(waits()) > 4, 30, "some polls")
    written = entries(waiter)
    # On a busy machine a read may time out; then its poll has other entries.
    polls = [kilobytes(written[start:end]) for start, end in pairwise(waits()[1:5])]
    assert median(polls) == pytest.approx(KILOBYTES[policy].poll, abs=1)


def kilobytes(written: list[tuple[str, int]]) -> float:
    return sum(size for _, size in written) / 1000
