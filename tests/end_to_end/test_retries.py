"""Failed events are tried again on a deployed stack, and parked when the patience is over."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from inorder.aws.executions import Execution, s3_object, wait_until
from inorder.aws.stack import deploy
from inorder.commands.main import main
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.end_to_end.conftest import CYAN, RED, SECONDS, Workflow, inorder_on

REASON = {"Error": "States.Timeout", "Cause": "The task took too long."}
TEXT = "States.Timeout: The task took too long."


class Retrying(Workflow):
    """A stack whose retry queue a test writes to."""

    def failed(self, event: dict[str, Any]) -> str:
        """Write what a state machine sends when an event's execution fails."""
        described = s3_object(event)
        body = {
            "outcome": "Retrying",
            "object_key": self.record_id(described["key"]),
            "sequencer": described["sequencer"],
            "reason": REASON,
            "execution": "arn:aws:states:us-east-1:000000000000:express:m:e:1",
            "event": event,
        }
        return json.dumps(body)

    def fail(self, event: dict[str, Any]) -> None:
        """Send an event to the retry queue, as a state machine does."""
        self.local.client("sqs").send_message(
            QueueUrl=self.stack.retry_events_queue_url, MessageBody=self.failed(event)
        )

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
        """Run `inorder retrying`, as a user does."""
        result = CliRunner(mix_stderr=False).invoke(main, ["retrying", "--json"])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def retrying(local: LocalAws) -> Retrying:
    retrying = Retrying(local, deploy(local, "retrying", {}))
    # Its first start takes so long that an event could be due before it is read.
    name = retrying.resource("RetryEventsFunction")
    local.client("lambda").invoke(FunctionName=name, Payload=b'{"Records": []}')
    return retrying


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, retrying: Retrying) -> None:
    inorder_on(retrying, monkeypatch)


def test_a_failed_event_is_listed_while_it_waits_and_then_started_again(retrying: Retrying) -> None:
    event = retrying.newer_event("again.png")
    sent = time.time()
    # After the fourth fault it waits for 8 to 17 s, in which a busy machine can list it.
    before = {"attempt": 3, "since": str(int(sent)), "reasons": [f"{TEXT} (3 times)"]}
    retrying.fail(event | {"retry": before})
    while not (listed := retrying.listed()):  # soon it may be started again
        assert time.time() < sent + SECONDS
    [waiting] = listed
    assert waiting["object_key"] == retrying.record_id("again.png")
    assert (waiting["attempts"], waiting["reasons"]) == (4, [f"{TEXT} (4 times)"])
    assert waiting["since"] < waiting["next"]
    retried = retrying.retried("again.png")
    assert time.time() - sent > 8
    history = retried.event.pop("retry")
    assert retried.event == event
    assert history == {"attempt": 4, "since": before["since"], "reasons": waiting["reasons"]}
    retrying.wait_for_retries()
    assert retrying.listed() == retrying.parked() == []


def test_an_event_that_cannot_be_started_waits_until_it_can(retrying: Retrying) -> None:
    event = retrying.newer_event("kept.png")
    states, arn = retrying.local.client("stepfunctions"), retrying.stack.state_machine_arn
    described = states.describe_state_machine(stateMachineArn=arn)
    states.delete_state_machine(stateMachineArn=arn)
    try:
        retrying.fail(event)

        def refused() -> bool:
            return any("StateMachineDoesNotExist" in str(each) for each in retrying.listed())

        wait_until(refused, SECONDS, "a start that is refused")
    finally:
        fields = ("name", "definition", "roleArn", "type")
        states.create_state_machine(**{name: described[name] for name in fields})
    retried = retrying.retried("kept.png")
    assert retried.event["retry"]["reasons"] == [TEXT]
    retrying.wait_for_retries()
    assert retrying.parked() == []


def test_a_throttled_event_comes_back_until_there_is_capacity(retrying: Retrying) -> None:
    with retrying.limited(0):
        retrying.upload("throttled.png", picture(RED))
        wait_until(lambda: len(retrying.listed()) == 1, SECONDS, "the event to wait")
        assert retrying.unfinished() == []  # its key is free meanwhile
    retrying.wait_for_retries()
    assert retrying.retried("throttled.png")
    assert retrying.colour("throttled.png") == CYAN
    assert retrying.parked() == []


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
        wait_until(lambda: len(retrying.listed()) == 1, SECONDS, "the event to wait")
    retried = retrying.retried(key)
    assert retried.event["retry"]["attempt"] >= 1
    retrying.wait_for_retries()
    assert retrying.parked() == []
    retrying.assert_quiet()


def test_a_key_that_no_message_of_sqs_can_have_comes_back_by_the_function(
    retrying: Retrying,
) -> None:
    """The EventBridge of ministack writes escapes, so its rule for the queue is disabled."""
    key, events = "a\uffff.png", retrying.local.client("events")
    newer = retrying.newer_event(key)
    bus = retrying.resource("RetryEventsBus")
    rule = retrying.resource("RetryEventsRule").rpartition("/")[2].rpartition("|")[2]
    events.disable_rule(Name=rule, EventBusName=bus)
    try:
        sent = {"EventBusName": bus, "Source": "inorder", "DetailType": "Retrying Event"}
        events.put_events(Entries=[sent | {"Detail": retrying.failed(newer)}])
        assert s3_object(retrying.retried(key).event) == s3_object(newer)
    finally:
        events.enable_rule(Name=rule, EventBusName=bus)
    retrying.wait_for_retries()


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
    for event in found.values():
        assert event.pop("retry")["attempt"] >= 1
    assert found == {"InvalidImage": rejected.event, "InvalidEvent": no_event}
    retrying.assert_quiet()
