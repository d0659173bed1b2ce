"""How much an execution writes to its log at level ALL, in entries as AWS writes them."""

from __future__ import annotations

import json
from itertools import pairwise
from statistics import median
from typing import Any

import boto3
import pytest

from inorder.aws.executions import wait_until
from inorder.policies import like, policies
from inorder.run import with_object
from tests.conftest import picture
from tests.events import shipped
from tests.in_process import INPUT, InProcess
from tests.policies.situations import RED, SHORT

# An execution that a rule started, of a machine that CloudFormation named.
ARN = (
    "arn:aws:states:us-east-1:123456789012:express:inorder-LatestWinsStateMachine-"
    "AbCdEfGhIjKl:0a1b2c3d-4e5f-6789-abcd-ef0123456789_9f8e7d6c-5b4a-3210-fedc-ba9876543210:"
    "11111111-2222-3333-4444-555555555555"
)
# The optimized integrations return what the service answered and, beside it, this. AWS documents
# that it is there, not how long it is:
# https://docs.aws.amazon.com/step-functions/latest/dg/connect-supported-services.html
_HEADERS = {
    "Server": "Server",
    "Connection": "keep-alive",
    "x-amzn-RequestId": "S17HV3KQ1M3PV9IOD1ETCK0GSFVV4KQNSO5AEMVJF66Q9ASUAAJG",
    "x-amz-crc32": "2745614147",
    "Content-Length": "2",
    "Date": "Sun, 22 Nov 2026 09:30:00 GMT",
    "Content-Type": "application/x-amz-json-1.0",
}
METADATA = {
    "SdkHttpMetadata": {
        "AllHttpHeaders": {name: [value] for name, value in _HEADERS.items()},
        "HttpHeaders": _HEADERS,
        "HttpStatusCode": 200,
    },
    "SdkResponseMetadata": {"RequestId": _HEADERS["x-amzn-RequestId"]},
}
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
        entry = {
            "id": str(event["id"]),
            "type": event["type"],
            "details": {name: _compact(value) for name, value in details.items()},
            "redrive_count": "0",
            "previous_event_id": str(event["previousEventId"]),
            "event_timestamp": "1795339800000",
            "execution_arn": ARN,
        }
        entered = details["name"] if event["type"].endswith("StateEntered") else ""
        written.append((entered, len(json.dumps(entry, separators=(",", ":")).encode())))
    return written


def _compact(value: Any) -> Any:
    """Write JSON without spaces, as AWS does."""
    try:
        return json.dumps(json.loads(value), separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError):
        return value


def delivered(aws: InProcess) -> Any:
    """Give an event with all the fields that S3 sends."""
    return with_object(
        shipped("object-created"), picture(RED), aws.s3, INPUT, aws.run, lambda _: None
    )


@pytest.mark.parametrize(
    "policy", [pytest.param(name, marks=pytest.mark.policy(name)) for name in KILOBYTES]
)
def test_an_event_writes_as_much_to_the_log_as_the_facts_say(aws: InProcess, policy: str) -> None:
    with_metadata()
    ended = aws.run(delivered(aws))
    assert ended.outcome == "Processed"
    assert kilobytes(entries(ended.arn)) == pytest.approx(KILOBYTES[policy].uncontended, abs=1)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(name, marks=pytest.mark.policy(name))
        for name in KILOBYTES
        if KILOBYTES[name].poll
    ],
)
def test_a_poll_writes_as_much_to_the_log_as_the_facts_say(aws: InProcess, policy: str) -> None:
    with_metadata()
    aws.wait_scale = SHORT
    event = delivered(aws)
    aws.run(event)
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
