"""A change of the policy loses nothing: each policy after each other one.

The template leaves what runs under the policy before alone. So it goes on beside the events of the
next one, or dies at that very moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple, NoReturn

import pytest

from inorder.aws.executions import LocalStateMachine
from tests.conftest import picture
from tests.in_process import OUTPUT, InProcess
from tests.policies.mortal import AFTER, BEFORE, Event, Held, Mortal, Place, indexed, is_recorded
from tests.policies.situations import RED, of, sequencer_of

SHARING = ["latest-wins", "every-version"]  # the record of a key, and so its lock
RECORDING = [*SHARING, "first-wins", "content-hash"]
ALL = [*RECORDING, "optimistic", "uncoordinated"]
SETTLED = {"Processed", "Duplicate", "Superseded"}
WAIT = dict.fromkeys(RECORDING, "Wait For Lock") | {"every-version": "Wait For Turn"}
# Each policy before and after another one, and the two that share a lock. The others have only the
# queues and the outputs in common.
CYCLE = [*ALL[:-1], ALL[0]]
PAIRS = [*pairwise(CYCLE), *pairwise(CYCLE[::-1])]
# Each waiter of these is in a record. One that dies under another policy is in none, as ever.
RECORDS_WAITERS = ["latest-wins", "every-version"]


def for_changes(pairs: Iterable[tuple[str, str]]) -> pytest.MarkDecorator:
    """Run a test with the first policies, and the second ones after them."""
    changes = [
        pytest.param(one, other, marks=pytest.mark.policy(one), id=f"{one} to {other}")
        for one, other in pairs
    ]
    return pytest.mark.parametrize(("before", "after"), changes)


class Key(NamedTuple):
    """A key, its events so far, and their executions, which are held."""

    name: str
    events: list[Event]
    executions: list[tuple[str, Held]]


def uploads(mortal: Mortal, *policies: str) -> Callable[[str], Event]:
    """Give a function that uploads another object each time, if every-version is not concerned.

    Without versions, that can only read what has not changed.
    """
    colours = iter(range(255))

    def upload(key: str) -> Event:
        same = "every-version" in policies
        return mortal.aws.upload(key, picture(RED if same else (255, next(colours), 0)))

    return upload


def situations(policy: str) -> dict[str, list[Place]]:
    """List where the executions of a key are: one that holds it, and one that waits."""
    work = "Forward Event" if policy == "content-hash" else "Invert Image"
    found = {"before the work": [(work, BEFORE)], "after the work": [(work, AFTER)]}
    if policy in RECORDING:
        found["waiting"] = [(work, BEFORE), (WAIT[policy], BEFORE)]
    return found


def begin(mortal: Mortal, name: str, places: list[Place], upload: Callable[[str], Event]) -> Key:
    """Upload objects to a key, and let their executions come to places."""
    key = Key(name, [], [])
    for place in places:
        # Events differ, so under content-hash only a delivery of the same one waits.
        again = key.events and mortal.aws.policy == "content-hash"
        key.events.append(key.events[0] if again else upload(name))
        key.executions.append(mortal.hold(key.events[-1], place))
    return key


def deliver(
    mortal: Mortal, name: str, upload: Callable[[str], Event], *, waits: bool = False
) -> Key:
    """Upload a newer object to a key, and run its event, or let it wait for its turn."""
    if waits:
        return begin(mortal, name, [(WAIT[mortal.aws.policy], BEFORE)], upload)
    event = upload(name)
    assert mortal.aws.run(event).outcome in SETTLED
    return Key(name, [event], [])


def settle(mortal: Mortal) -> None:
    """Check that nothing is left to do."""
    assert mortal.retry() == []
    assert mortal.heal() == []
    assert indexed(mortal.aws) == []
    assert mortal.aws.parked() == []


def assert_output(mortal: Mortal, events: list[Event]) -> None:
    """Check the output of a key after its events, the newest of which came to the new policy."""
    if mortal.aws.policy == "first-wins":
        name = events[0]["detail"]["object"]["key"]
        head = mortal.aws.s3.head_object(Bucket=OUTPUT, Key=f"out-{name}")
        assert head["Metadata"]["sequencer"] in map(sequencer_of, events)
    else:
        mortal.assert_right(events[-1])


def locked(aws: InProcess) -> list[str]:
    return [str(each["id"]) for each in aws.records() if "lock_token" in each]


def end(machine: LocalStateMachine, keys: list[Key], *, dies: bool) -> list[str | None]:
    """End the executions under the policy before, one by one, and give their outcomes."""
    outcomes = []
    for key in keys:
        for execution, held in key.executions:
            held.end(dies=dies)
            outcomes.append(machine.wait(execution).outcome)
    while running := machine.arns("RUNNING"):  # under latest-wins, a holder starts the newest event
        machine.wait(running[0])
    return outcomes


@for_changes([*PAIRS, ("uncoordinated", "latest-wins")])
def test_what_runs_under_the_policy_before_goes_on(mortal: Mortal, before: str, after: str) -> None:
    aws, upload = mortal.aws, uploads(mortal, before, after)
    keys = [begin(mortal, name, at, upload) for name, at in situations(before).items()]
    machine_before = aws.state_machine
    aws.change(after)
    waits = {before, after} <= set(SHARING)
    newer = [deliver(mortal, key.name, upload, waits=waits) for key in keys]
    assert set(end(machine_before, keys, dies=False)) <= SETTLED
    assert set(end(aws.state_machine, newer, dies=False)) <= SETTLED
    # A holder of every-version gives the key of a waiter of latest-wins an older sequencer, so that
    # the waiter ends. Its event is in the record.
    assert {outcome for _, outcome in mortal.heal()} <= SETTLED
    settle(mortal)
    assert locked(aws) == []
    for key, more in zip(keys, newer, strict=True):
        if before != "uncoordinated":  # which writes what is late over what is newer, as ever
            assert_output(mortal, [*key.events, *more.events])
        if before in {"every-version", "content-hash"}:  # which promise something of each event
            for event in key.events:
                mortal.assert_right(event, before)


@for_changes(pair for pair in PAIRS if pair[0] in RECORDING)
def test_what_dies_with_the_policy_before_is_handed_to_the_next(
    mortal: Mortal, before: str, after: str
) -> None:
    aws, upload = mortal.aws, uploads(mortal, before, after)
    at = situations(before)
    if before not in RECORDS_WAITERS:
        del at["waiting"]
    early = [begin(mortal, name, places, upload) for name, places in at.items()]
    late = [begin(mortal, "healed before an event comes", at["after the work"], upload)]
    machine_before = aws.state_machine
    aws.change(after)
    assert set(end(machine_before, [*early, *late], dies=True)) == {"Died"}
    recorded = {
        key.name: [each for each in key.events if is_recorded(aws, each)] for key in [*early, *late]
    }
    assert all(recorded.values())
    newer = [deliver(mortal, key.name, upload) for key in early]
    ended = [*mortal.retry(), *mortal.heal()]
    newer += [deliver(mortal, key.name, upload) for key in late]
    settle(mortal)
    assert {outcome for _, outcome in ended} <= SETTLED
    handed_over = [event for event, _ in ended]
    for key, more in zip([*early, *late], newer, strict=True):
        for event in recorded[key.name]:
            # Under latest-wins, a newer event takes the place of one that is not finished.
            assert event in handed_over or (after == "latest-wins" and key in early)
            if after in {"every-version", "content-hash"}:
                mortal.assert_right(event)
        assert_output(mortal, [*key.events, *more.events])
    if {before, after} <= set(SHARING):  # the others do not read the lock
        assert locked(aws) == []


def retry_later(aws: InProcess, event: Event) -> None:
    """Let the function fail, so that an event goes to the retry queue."""
    aws.invoke = aws.hash = fail
    assert aws.run(event).outcome == "Retrying"
    aws.invoke, aws.hash = aws.handle, aws.handle_hash


def fail(_: object) -> NoReturn:
    raise RuntimeError


@for_changes(pairwise(CYCLE))
def test_what_is_finished_retried_or_parked(mortal: Mortal, before: str, after: str) -> None:
    aws, upload = mortal.aws, uploads(mortal, before, after)
    finished, older = upload("delivered again"), upload("newer")
    assert {aws.run(each).outcome for each in (finished, older)} == {"Processed"}
    retried, rejected = upload("retried"), aws.upload("rejected", b"no image")
    retry_later(aws, retried)
    if before != "content-hash":
        assert aws.run(rejected).outcome == "Parked"

    aws.change(after)
    assert aws.run(finished).outcome == "Processed"
    newer = upload("newer")
    assert aws.run(newer).outcome == "Processed"
    assert_output(mortal, [newer])
    assert mortal.retry() == [(retried, "Processed")]
    mortal.assert_right(retried)
    for message in aws.parked():
        assert message["event"] == rejected
        outcome = "Processed" if after == "content-hash" else "Parked"
        assert aws.run(rejected).outcome == outcome
        assert [each["event"] for each in aws.parked()] == [rejected] * (outcome == "Parked")
    settle(mortal)


@pytest.mark.policy("latest-wins")
def test_a_deletion_that_is_not_finished_is_parked_by_a_policy_that_handles_none(
    mortal: Mortal,
) -> None:
    aws = mortal.aws
    aws.upload("x.png", picture(RED))
    retry_later(aws, deleted := aws.delete("x.png"))
    aws.change("first-wins")
    assert mortal.retry() == [(deleted, "InvalidEvent")]
    assert [each["event"] for each in aws.parked()] == [deleted]


@of(*RECORDING)
def test_a_waiter_of_a_version_with_a_shorter_lease_breaks_the_lock_of_a_slow_holder(
    mortal: Mortal,
) -> None:
    """The output is right and nothing is lost, but content-hash forwards twice."""
    aws, policy = mortal.aws, mortal.aws.policy
    upload = uploads(mortal, policy)
    key = begin(mortal, "x.png", situations(policy)["before the work"], upload)
    again = policy == "content-hash"
    newer = key.events[0] if again else upload(key.name)
    assert aws.run(newer).outcome == "Processed"
    assert set(end(aws.state_machine, [key], dies=False)) <= SETTLED
    assert {outcome for _, outcome in [*mortal.retry(), *mortal.heal()]} <= SETTLED
    if again:
        assert [each["detail"] for each in aws.forwarded()] == [newer["detail"]] * 2
    else:
        assert_output(mortal, [*key.events, newer])
    assert locked(aws) == []
    settle(mortal)
