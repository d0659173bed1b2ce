"""Failed events are tried again on a deployed stack, and parked when the patience is over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from inorder.aws.executions import Execution, s3_object, wait_until
from inorder.commands.main import main
from tests.conftest import picture
from tests.stack.conftest import CYAN, RED, SECONDS, Workflow, inorder_on


class Retrying(Workflow):
    """A stack whose failed events are waited for."""

    def retried(self, key: str) -> Execution:
        """Wait for the execution of a key that a retry has started and that has succeeded."""
        found: list[Execution] = []

        def ended() -> bool:
            ended = [each for each in self.of_key(key, 0) if ":retry-" in each.arn]
            found[:] = [each for each in ended if each.outcome == "Processed"]
            return bool(found)

        wait_until(ended, SECONDS, f"a retry of {key}")
        [execution] = found
        return execution

    def listed(self) -> list[dict[str, Any]]:
        result = CliRunner(mix_stderr=False).invoke(main, ["retrying", "--json"])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def waiting(self) -> dict[str, Any]:
        """Wait until one event waits, and give what is listed of it."""
        found: list[dict[str, Any]] = []

        def waits() -> bool:  # soon it may be started again
            found[:] = self.listed()
            return len(found) == 1

        wait_until(waits, SECONDS, "the event to wait")
        return found[0]


@pytest.fixture
def retrying(workflow: Workflow) -> Retrying:
    workflow.parked()  # by other tests of the stack
    return Retrying(workflow.local, workflow.stack)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, retrying: Retrying) -> None:
    inorder_on(retrying, monkeypatch)


def test_a_throttled_event_is_listed_while_it_waits_and_comes_back_until_there_is_capacity(
    retrying: Retrying,
) -> None:
    key = "throttled.png"
    with retrying.limited(0):
        retrying.upload(key, picture(RED))
        waiting = retrying.waiting()
        assert retrying.unfinished() == []  # its key is free meanwhile
        assert waiting["object_key"] == retrying.record_id(key)
        assert "TooManyRequests" in waiting["reasons"][0]
        assert waiting["since"] < waiting["next"]
    [event] = retrying.events(key, 1)
    retried = retrying.retried(key)
    assert s3_object(retried.event) == s3_object(event)
    assert retried.event["retry"]["attempt"] >= waiting["attempts"]
    assert retrying.colour(key) == CYAN
    retrying.wait_for_retries()
    assert retrying.listed() == retrying.parked() == []


# --- Without SQS ---------------------------------------------------------------------------------


@contextmanager
def refusing(workflow: Workflow) -> Iterator[None]:
    """Let the retry queue refuse what a state machine sends, as it is longer than a kilobyte.

    ministack's EventBridge does not ask for the size. It would not try again either, so a queue
    that does not exist would not do here.
    """
    sqs, queue = workflow.local.client("sqs"), workflow.stack.retry_events_queue_url
    limit = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["MaximumMessageSize"])
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MaximumMessageSize": "1024"})
    try:
        yield
    finally:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=limit["Attributes"])


@contextmanager
def without_queue_of_parked_events(workflow: Workflow) -> Iterator[None]:
    sqs, queue = workflow.local.client("sqs"), workflow.stack.parked_events_queue_url
    sqs.delete_queue(QueueUrl=queue)
    try:
        yield
    finally:
        sqs.create_queue(QueueName=queue.rpartition("/")[2])


def test_a_fault_that_sqs_refuses_reaches_the_retry_queue_by_eventbridge(
    retrying: Retrying,
) -> None:
    key = "long" * 200 + ".png"
    with refusing(retrying), retrying.limited(0):
        retrying.upload(key, picture(RED))
        [failed] = retrying.of_key(key, 1)
        assert failed.outcome == "Retrying"
        assert "Send By EventBridge" in failed.path
        retrying.waiting()
    retried = retrying.retried(key)
    assert retried.event["retry"]["attempt"] >= 1
    retrying.wait_for_retries()
    assert retrying.parked() == []
    retrying.assert_quiet()


def test_what_cannot_be_parked_is_parked_once_the_queue_is_there_again(retrying: Retrying) -> None:
    no_event = {"no": "event"}
    with without_queue_of_parked_events(retrying):
        retrying.upload("no-image.png", b"no image")
        retrying.deliver(no_event)
        [rejected] = retrying.of_key("no-image.png", 1)
        assert rejected.outcome == "Retrying"
        wait_until(lambda: retrying.failed_events() == 2, SECONDS, "both to wait")
    retrying.wait_for_retries()
    found = {message["reason"]["Error"]: message["event"] for message in retrying.parked()}
    assert found["InvalidEvent"].pop("retry")["attempt"] >= 1
    assert found == {"InvalidImage": rejected.event, "InvalidEvent": no_event}
    retrying.assert_quiet()
