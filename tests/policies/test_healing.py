"""The schedule heals what a dead execution leaves behind, wherever it has died.

Each execution of these tests dies in one of its states, before or after the state has its effect,
and no newer event follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from inorder.aws import executions
from inorder.events import created
from inorder.policies import like
from tests.conftest import picture
from tests.policies.mortal import AFTER, BEFORE, Event, Mortal, Place, indexed, is_recorded
from tests.policies.situations import GREEN, RED, of
from tests.policies.test_every_policy import LOCKING

POLICIES = [*LOCKING, *like("content-hash")]
Situation = Callable[[Mortal, str], Event]  # gives the event whose execution is to die


def alone(mortal: Mortal, key: str) -> Event:
    """Upload an object, or, for content-hash, make another event."""
    if mortal.aws.like == "content-hash":
        return created(key)
    return mortal.aws.upload(key, picture(RED))


def behind_a_dead_holder(mortal: Mortal, key: str) -> Event:
    """Let a holder die, and give the newest event of the key, which must wait for its lock."""
    policy, first = mortal.aws.like, alone(mortal, key)
    mortal.run(first, ("Claim Content" if policy == "content-hash" else "Claim Key", AFTER))
    if policy in {"first-wins", "content-hash"}:
        return first  # delivered again
    # Without versions, every-version can only read what has not changed.
    return mortal.aws.upload(key, picture(GREEN if policy == "latest-wins" else RED))


def places(mortal: Mortal, situation: Situation) -> Iterator[Place]:
    """List where the execution of an event may die."""
    states = list(dict.fromkeys(mortal.aws.run(situation(mortal, "whole.png")).path))
    mortal.aws.parked()
    for state in states[:-1]:
        yield state, AFTER


# The state whose write has the event recorded: only the log knows of an event whose execution dies
# before. Under the policies that are missing, another delivery has recorded the event already.
FIRST_WRITE: dict[Situation, dict[str, str]] = {
    alone: {
        "latest-wins": "Claim Key",
        "every-version": "Record Event",
        "first-wins": "Claim Key",
        "content-hash": "Claim Content",
    },
    behind_a_dead_holder: {"latest-wins": "Claim Key", "every-version": "Record Event"},
}


@of(*POLICIES)
@pytest.mark.parametrize("situation", FIRST_WRITE)
def test_wherever_an_execution_dies_after_its_first_write_a_sweep_heals_the_key(
    mortal: Mortal, situation: Situation
) -> None:
    aws, healed = mortal.aws, 0
    first_write = FIRST_WRITE[situation].get(aws.like, "")
    there_already = not first_write
    for number, place in enumerate(places(mortal, situation)):
        key = f"{number}.png"
        event = situation(mortal, key)
        mortal.run(event, place)
        there_already |= place == (first_write, AFTER)
        assert is_recorded(aws, event) == there_already, place
        outcomes = mortal.sweep()
        assert indexed(aws) == [], place
        if there_already:
            assert set(outcomes) <= {"Processed"}, place
            mortal.assert_right(event)
            healed += bool(outcomes)
    assert healed


@pytest.mark.policy("latest-wins")
def test_wherever_the_execution_of_a_rejected_event_dies_it_is_parked(mortal: Mortal) -> None:
    def rejected(mortal: Mortal, key: str) -> Event:
        return mortal.aws.upload(key, b"no image")

    aws = mortal.aws
    for number, place in enumerate(places(mortal, rejected)):
        event = rejected(mortal, f"{number}.png")
        mortal.run(event, place)
        there = is_recorded(aws, event)
        assert set(mortal.sweep()) <= {"Parked"}
        assert indexed(aws) == [], place
        assert (event in [message["event"] for message in aws.parked()]) == there, place


@pytest.mark.policy("latest-wins")
def test_a_waiter_that_died_behind_a_holder_that_released_the_key_is_healed(mortal: Mortal) -> None:
    aws, waiter = mortal.aws, list[str]()
    first, second = (aws.upload("x.png", picture(colour)) for colour in (RED, GREEN))

    def work(payload: Any) -> Any:
        aws.invoke = aws.handle
        aws.wait_scale = 1  # its waiter must not break the lock
        waiter.append(aws.start(second))
        executions.wait_until(lambda: is_recorded(aws, second), 30, "it")
        return aws.handle(payload)

    aws.invoke = work
    mortal.run(first, ("Start Newest Event", BEFORE))  # before it could start the newer event
    aws.state_machine.stop(waiter[0])
    assert aws.outputs() == []
    assert "lock_token" not in aws.record("input/x.png")
    assert mortal.sweep() == ["Processed"]
    mortal.assert_right(second)
    assert indexed(aws) == []


@pytest.mark.filterwarnings("ignore:No application metrics")  # of a function that was killed
@pytest.mark.parametrize("moment", ["before-call", "after-call"])
def test_a_key_is_healed_whose_function_was_killed_at_any_call_of_s3_and_then_its_execution(
    mortal: Mortal, moment: str
) -> None:
    aws, emitter, left = mortal.aws, mortal.aws.app.s3.meta.events, [0]

    def kill(**_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise ConnectionResetError

    emitter.register(f"{moment}.s3", kill)
    for number in range(1, 5):
        event, left[0] = aws.upload(f"{number}.png", picture(RED)), number
        mortal.run(event, ("Invert Image", AFTER))
        assert left[0] < 1
        assert mortal.sweep() == ["Processed"]
        mortal.assert_right(event)
        assert indexed(aws) == []


@of(*POLICIES)
def test_an_execution_that_lives_is_left_alone(mortal: Mortal) -> None:
    """A sweep in the middle of the work, and one after it."""
    aws, seen = mortal.aws, list[Any]()

    def work(payload: Any) -> Any:
        seen.append((indexed(aws), mortal.sweep(9)))
        return aws.handle(payload)

    aws.invoke = work
    assert aws.run(alone(mortal, "x.png")).outcome == "Processed"
    assert mortal.sweep() == []
    if aws.like != "content-hash":  # it invokes nothing while it holds the lock
        [[(found, started)]] = [seen]
        assert (len(found), started) == (1, [])


def test_the_clock_of_a_key_that_waits_is_that_of_its_newest_waiter(mortal: Mortal) -> None:
    key, newest = "x.png", ("Count Poll", BEFORE)
    behind = behind_a_dead_holder(mortal, key)
    mortal.run(behind, newest)
    mortal.passed += timedelta(minutes=9)
    mortal.run(mortal.aws.upload(key, picture(GREEN)), newest)
    assert mortal.sweep(9) == []
    assert mortal.sweep(2) == ["Processed"]
