"""What several policies do alike, with the real functions and conditional writes, on moto."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from inorder.asl.size import LEAST_BYTES, largest_event
from inorder.events import changed
from inorder.policies import definition, like
from tests.conftest import colour_of, picture
from tests.in_process import Faults, InProcess
from tests.policies.places import Moto
from tests.policies.situations import GREEN, MAGENTA, RED, SHORT, of
from tests.policies.stories import TOLD, tell

LOCKING = like("latest-wins", "every-version", "first-wins")


def is_free(aws: InProcess) -> bool:
    return not {"lock_token", "execution"} & set(aws.record("input/x.png"))


@pytest.mark.parametrize(("story", "policy"), TOLD)
def test_a_story_happens_as_it_is_told(aws: InProcess, story: str, policy: str) -> None:
    tell(Moto(aws), story, policy)


@of(*like("latest-wins", "optimistic"))
def test_an_older_version_with_a_higher_sequencer_does_not_win(aws: InProcess) -> None:
    """S3 orders the events of one version only."""
    aws.keep_versions()
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    older["detail"]["object"]["sequencer"] = "FF"
    assert [aws.run(each).outcome for each in (newer, older)] == ["Processed", "Superseded"]
    assert colour_of(aws.output("out-x.png")) == MAGENTA


@of(*LOCKING, *like("content-hash"))
def test_of_five_copies_at_once_one_is_processed(aws: InProcess) -> None:
    aws.wait_scale = 0.2
    event = aws.upload("x.png", picture(RED))
    executions = [aws.start(event) for _ in range(5)]
    outcomes = Counter(aws.wait(execution).outcome for execution in executions)
    assert outcomes == {"Processed": 1, "Duplicate": 4}
    done = aws.forwarded() if aws.like == "content-hash" else aws.invocations
    assert len(done) == 1


@of(*like("optimistic"))
def test_the_newest_of_five_events_at_once_wins_without_a_record(aws: InProcess) -> None:
    events = [aws.upload("x.png", picture(RED)) for _ in range(4)]
    events.append(aws.upload("x.png", picture(GREEN)))
    executions = [aws.start(event) for event in events]
    outcomes = Counter(aws.wait(execution).outcome for execution in executions)
    assert outcomes == {"Processed": 1, "Superseded": 4}
    assert colour_of(aws.output("out-x.png")) == MAGENTA
    assert aws.records() == []


@of(*LOCKING, *like("optimistic"))
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


@of(*LOCKING)
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


@of(*LOCKING, *like("optimistic"))
def test_an_event_as_large_as_the_check_computes_is_processed(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(RED))
    # In the record, which has the event as a text, each quote takes four bytes instead of two.
    largest = largest_event(definition(aws.policy))
    longest_key = changed(event, "detail.object.key", "\x01" * 1024)
    assert len(json.dumps(longest_key)) < LEAST_BYTES < largest
    event["detail"]["reason"] = '"' * ((largest - len(json.dumps(event)) - 20) // 2)
    assert aws.run(event).outcome == "Processed"
