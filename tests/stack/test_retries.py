"""Failed events are tried again on a deployed stack, by the queue and by EventBridge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inorder.aws.executions import Execution, s3_object, wait_until
from tests.conftest import picture
from tests.stack.conftest import CYAN, RED, SECONDS, Inorder, Workflow, inorder_on


@pytest.fixture
def inorder(workflow: Workflow, monkeypatch: pytest.MonkeyPatch) -> Inorder:
    workflow.parked()  # by other tests of the stack
    return inorder_on(workflow, monkeypatch)


def listed(inorder: Inorder) -> list[dict[str, Any]]:
    result = inorder("retrying", "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def waiting(inorder: Inorder) -> dict[str, Any]:
    """Wait until one event waits, and give what is listed of it; soon it may be started again."""
    found: list[dict[str, Any]] = []

    def waits() -> bool:
        found[:] = listed(inorder)
        return len(found) == 1

    wait_until(waits, SECONDS, "the event to wait")
    return found[0]


def retried(workflow: Workflow, key: str) -> Execution:
    """Wait for the execution of a key that a retry has started and that has succeeded."""
    workflow.wait_for_retries()
    [succeeded] = [
        each
        for each in workflow.of_key(key, 2)
        if ":retry-" in each.arn and each.outcome == "Processed"
    ]
    return succeeded


def test_a_throttled_event_is_listed_while_it_waits_and_comes_back_until_there_is_capacity(
    workflow: Workflow, inorder: Inorder
) -> None:
    key = "throttled.png"
    with workflow.limited(0):
        workflow.upload(key, picture(RED))
        shown = waiting(inorder)
        assert workflow.unfinished() == []  # its key is free meanwhile
        assert shown["object_key"] == workflow.record_id(key)
        assert "TooManyRequests" in shown["reasons"][0]
        assert shown["since"] < shown["next"]
    [event] = workflow.events(key, 1)
    again = retried(workflow, key)
    assert s3_object(again.event) == s3_object(event)
    assert again.event["retry"]["attempt"] >= shown["attempts"]
    assert workflow.colour(key) == CYAN
    assert listed(inorder) == workflow.parked() == []


def test_a_fault_that_sqs_refuses_reaches_the_retry_queue_by_eventbridge(
    workflow: Workflow, inorder: Inorder
) -> None:
    """The queue refuses more than a kilobyte of a state machine; ministack's bus does not ask.

    That bus would not try again either, so a queue that does not exist would not do here.
    """
    key = "long" * 200 + ".png"
    sqs, queue = workflow.local.client("sqs"), {"QueueUrl": workflow.stack.retry_events_queue_url}
    limit = sqs.get_queue_attributes(**queue, AttributeNames=["MaximumMessageSize"])["Attributes"]
    sqs.set_queue_attributes(**queue, Attributes={"MaximumMessageSize": "1024"})
    try:
        with workflow.limited(0):
            workflow.upload(key, picture(RED))
            [failed] = workflow.of_key(key, 1)
            assert failed.outcome == "Retrying"
            assert "Send By EventBridge" in failed.path
            waiting(inorder)
    finally:
        sqs.set_queue_attributes(**queue, Attributes=limit)
    assert retried(workflow, key).event["retry"]["attempt"] >= 1
    assert workflow.parked() == []
    workflow.assert_quiet()
