"""What several policies do alike, with the real functions and conditional writes."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from typing import Any

import boto3
import pytest

from inorder.asl.size import LEAST_BYTES, largest_event
from inorder.events import changed
from inorder.model.policies import definition, like
from tests.conftest import colour_of, picture
from tests.in_process import Faults, InProcess, Throttled
from tests.policies.situations import (
    BLUE,
    GREEN,
    MAGENTA,
    RED,
    SHORT,
    YELLOW,
    leave_a_dead_holder,
    locked_again,
    sequencer_of,
)
from tests.policies.tables import TABLES

LOCKING = like("latest-wins", "every-version", "first-wins")
NEWEST = like("latest-wins", "optimistic")
OBJECTS = [*LOCKING, *like("optimistic")]
DELETING = [*NEWEST, *like("every-version")]


def for_policies(policies: list[str]) -> pytest.MarkDecorator:
    """Run a test with the state machine of each policy."""
    marked = [pytest.param(name, marks=pytest.mark.policy(name)) for name in policies]
    return pytest.mark.parametrize("aws", marked, indirect=True)


def is_free(aws: InProcess) -> bool:
    return not {"lock_token", "execution"} & set(aws.record("input/x.png"))


@for_policies(NEWEST)
def test_the_newest_event_wins_in_any_order(aws: InProcess) -> None:
    for order in permutations(range(3)):
        key = f"{order}.png"
        events = [aws.upload(key, picture(colour)) for colour in (RED, GREEN, BLUE)]
        outcomes = [aws.run(events[at]).outcome for at in order]
        assert outcomes == ["Processed" if at == 2 else "Superseded" for at in order]
        assert colour_of(aws.output(f"out-{key}")) == YELLOW


@for_policies(NEWEST)
def test_an_older_version_with_a_higher_sequencer_does_not_win(aws: InProcess) -> None:
    """S3 orders the events of one version only."""
    aws.keep_versions()
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    older["detail"]["object"]["sequencer"] = "FF"
    assert [aws.run(each).outcome for each in (newer, older)] == ["Processed", "Superseded"]
    assert colour_of(aws.output("out-x.png")) == MAGENTA


@for_policies(LOCKING)
def test_a_duplicate_is_dropped_until_the_records_expire_and_then_does_no_harm(
    aws: InProcess,
) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    records = aws.records()
    assert aws.run(event).outcome == "Duplicate"
    assert len(aws.invocations) == 1
    assert aws.records() == records  # they expire when they would have
    for record in records:
        aws.table.delete_item(Key={"id": record["id"]})
    assert aws.run(event).outcome == "Processed"
    assert len(aws.outputs()) == 1


@for_policies(LOCKING)
def test_of_five_copies_at_once_one_is_processed(aws: InProcess) -> None:
    aws.wait_scale = 0.2
    event = aws.upload("x.png", picture(RED))
    executions = [aws.start(event) for _ in range(5)]
    outcomes = Counter(aws.wait(execution).outcome for execution in executions)
    assert outcomes == {"Processed": 1, "Duplicate": 4}
    assert len(aws.invocations) == 1


@for_policies(DELETING)
def test_a_deletion_removes_the_output_of_earlier_creations_only_even_if_they_come_later(
    aws: InProcess,
) -> None:
    aws.run(aws.upload("x.png", picture(RED)))
    deletion = aws.delete("x.png")
    assert aws.run(deletion).outcome == "Processed"
    assert aws.outputs() == []
    assert aws.run(aws.upload("x.png", picture(GREEN))).outcome == "Processed"
    aws.run(deletion)
    assert len(aws.outputs()) == 1
    creation, deletion = aws.upload("y.png", picture(RED)), aws.delete("y.png")
    assert [aws.run(each).outcome for each in (deletion, creation)] == ["Processed", "Superseded"]
    assert len(aws.outputs()) == 1


@for_policies(OBJECTS)
def test_an_invalid_image_is_parked_with_the_reason_and_not_retried(aws: InProcess) -> None:
    event = aws.upload("x.png", b"no image")
    ended = aws.run(event)
    assert ended.outcome == "Parked"
    assert json.loads(ended.cause)["Error"] == "InvalidImage"
    assert len(aws.invocations) == 1
    [message] = aws.parked()
    assert (message["event"], message["reason"]) == (event, json.loads(ended.cause))
    assert aws.outputs() == []
    assert is_free(aws)


@for_policies(LOCKING)
def test_a_failed_event_is_not_a_duplicate(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.invoke = lambda _: {"outcome": "Rejected", "error": "InvalidImage", "cause": "a bug"}
    assert aws.run(event).outcome == "Parked"
    of_event = aws.like == "every-version"
    record = f"event:input/x.png@{sequencer_of(event)}" if of_event else "input/x.png"
    assert aws.record(record)["status"] == "FAILED"
    aws.invoke = aws.handle  # the bug is fixed
    assert [aws.run(event).outcome for _ in range(2)] == ["Processed", "Duplicate"]


@for_policies(OBJECTS)
def test_a_fault_of_the_function_sends_the_event_to_the_retry_queue(aws: InProcess) -> None:
    tokens = list[Any]()

    def broken(_: Any) -> Any:
        tokens.append(aws.record("input/x.png").get("lock_token"))
        raise RuntimeError("no connection")

    aws.wait_scale = SHORT
    aws.invoke = broken
    event = aws.upload("x.png", picture(RED))
    assert aws.run(event).outcome == "Retrying"
    [message] = aws.retrying()
    assert message["event"] == event
    assert "no connection" in message["reason"]["Cause"]
    # A second attempt has a lease of its own.
    assert tokens == ([None] * 6 if aws.like == "optimistic" else [tokens[0], f"{tokens[0]}/2"])
    assert is_free(aws)


@for_policies(OBJECTS)
def test_a_throttled_invocation_is_retried_for_longer(aws: InProcess) -> None:
    refusals = [Throttled()] * 3

    def crowded(payload: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return aws.handle(payload)

    aws.wait_scale = SHORT
    aws.invoke = crowded
    assert aws.run(aws.upload("x.png", picture(RED))).outcome == "Processed"
    assert len(aws.invocations) == 4


@for_policies(LOCKING)
def test_the_lock_of_a_dead_holder_is_broken_after_a_lease(aws: InProcess) -> None:
    aws.wait_scale = SHORT
    event = aws.upload("x.png", picture(RED))
    leave_a_dead_holder(aws, sequencer="00")
    ended = aws.run(event)
    assert ended.outcome == "Processed"
    assert ended.path.count("Break Lock") == 1
    waits = [state for state in ended.path if state.startswith("Wait ")]
    assert len(waits) == TABLES[aws.policy].data["limits"]["lease_polls"]
    assert is_free(aws)


@for_policies([*LOCKING, "content-hash"])
def test_polls_whose_reads_fail_wait_so_that_no_lease_is_shorter(aws: InProcess) -> None:
    aws.wait_scale = SHORT
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    locked_again(aws)
    if aws.like != "content-hash":
        event = aws.upload("x.png", picture(RED))
    lease_polls = TABLES[aws.policy].data["limits"]["lease_polls"]
    refused = Faults().refuse("dynamodb.GetItem", lease_polls - 1, after=1)
    path = aws.run(event).path
    waits = [state for state in path[: path.index("Break Lock")] if state.startswith("Wait ")]
    assert (len(refused), len(waits)) == (lease_polls - 1, lease_polls)


@for_policies(LOCKING)
def test_a_claim_whose_answer_is_lost_comes_back_from_the_queue(aws: InProcess) -> None:
    operation = "UpdateItem" if aws.like == "latest-wins" else "PutItem"
    lost = Faults().lose_the_answer(f"dynamodb.{operation}", times=1)
    event = aws.upload("x.png", picture(RED))
    assert aws.run(event).outcome == "Retrying"
    assert (len(lost), aws.invocations) == (1, [])
    assert is_free(aws)
    [message] = aws.retrying()
    assert aws.run(message["event"]).outcome == "Processed"
    assert aws.run(event).outcome == "Duplicate"
    assert len(aws.invocations) == 1


@for_policies(LOCKING)
def test_a_release_whose_answer_is_lost_is_retried_without_harm(aws: InProcess) -> None:
    claims = {"latest-wins": 1, "every-version": 1, "first-wins": 0}[aws.like]  # that are updates
    lost = Faults().lose_the_answer("dynamodb.UpdateItem", times=1, after=claims)
    aws.wait_scale = SHORT
    event = aws.upload("x.png", picture(RED))
    ended = aws.run(event)
    assert (ended.outcome, len(lost)) == ("Processed", 1)
    client = boto3.client("stepfunctions")
    history = client.get_execution_history(executionArn=ended.arn)["events"]
    assert [each for each in history if each["type"] == "TaskFailed"]  # and so was retried
    assert len(aws.invocations) == 1
    assert is_free(aws)
    assert aws.run(event).outcome == "Duplicate"


@for_policies(OBJECTS)
def test_an_event_as_large_as_the_check_computes_is_processed(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    # In the record, which has the event as a text, each quote takes four bytes instead of two.
    largest = largest_event(definition(aws.policy))
    longest_key = changed(event, "detail.object.key", "\x01" * 1024)
    assert len(json.dumps(longest_key)) < LEAST_BYTES < largest
    event["detail"]["reason"] = '"' * ((largest - len(json.dumps(event)) - 20) // 2)
    assert aws.run(event).outcome == "Processed"
