"""The schedule heals the key of an execution that is aborted in any of its calls of a service.

tests/policies/test_healing.py shows the same for each state and each policy, in one process. Here
the executions are aborted while a call hangs, the functions are processes that are killed, and the
sweep is the deployed function's. Before its first write, an execution is in no record, so the first
call is stopped after its effect only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inorder.aws.stack import deploy
from tests.conftest import WAIT_SCALE, picture
from tests.end_to_end.conftest import CYAN, GREEN, MAGENTA, RED, SECONDS, Workflow
from tests.proof.soak.fault_proxy import FaultProxy, behind_a_proxy

BEFORE, AFTER = "hang", "hold the answer"  # the call's effect

HOLDER = [
    ("Claim Key", AFTER),
    ("Invert Image", BEFORE),
    ("Invert Image", AFTER),
    ("Release Lock", BEFORE),
    ("Release Lock", AFTER),
]
# A waiter is in the record from its first write on, too.
WAITER = [("Claim Key", AFTER), ("Read Key Record", BEFORE), ("Break Lock", AFTER)]
FUNCTION = [
    (call, moment)
    for call in ("HEAD output/out-", "GET input/", "PUT output/out-", "HEAD input/")
    for moment in (BEFORE, AFTER)
]


class Mortal(Workflow):
    """A stack whose executions and functions a test ends in the middle of a call."""

    proxy: FaultProxy

    def die(self, call: str, moment: str, key: str, colour: tuple[int, int, int] = RED) -> None:
        """Upload an object, and end its execution, and the function, in a call."""
        with self.proxy.holding(call, moment) as hold:
            self.upload(key, picture(colour))
            assert hold.reached.wait(SECONDS), f"{call} is not called"
            [execution] = self.executions.arns("RUNNING")
            self.executions.stop(execution)
            for worker in self.workers():
                worker.kill()

    def heal(self) -> None:
        """Let the schedule find what is in progress, and wait for what it starts."""
        for record in self.unfinished():
            self.age(record["id"])
        assert self.sweep() == ""
        self.wait_for_retries()
        self.assert_quiet()
        assert self.parked() == []


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    folder = tmp_path_factory.mktemp("local-aws")
    with behind_a_proxy(folder, WAIT_SCALE) as (local, proxy):
        mortal = Mortal(local, deploy(local, "mortal", {}))
        mortal.proxy = proxy
        yield mortal


def test_the_keys_of_holders_that_are_aborted_in_any_call_are_healed(mortal: Mortal) -> None:
    keys = [f"holder-{number}.png" for number, _ in enumerate(HOLDER)]
    for key, (state, moment) in zip(keys, HOLDER, strict=True):
        mortal.die(state, moment, key)
    assert len(mortal.unfinished()) == len(HOLDER) - 1  # the last one has released its key
    mortal.heal()
    assert {mortal.colour(key) for key in keys} == {CYAN}


def test_the_keys_of_waiters_that_are_aborted_in_any_call_are_healed(mortal: Mortal) -> None:
    keys = [f"waiter-{number}.png" for number, _ in enumerate(WAITER)]
    for key, (state, moment) in zip(keys, WAITER, strict=True):
        mortal.die("Invert Image", BEFORE, key)
        mortal.die(state, moment, key, GREEN)
    assert len(mortal.unfinished()) == len(WAITER)
    mortal.heal()
    assert {mortal.colour(key) for key in keys} == {MAGENTA}


def test_the_keys_of_functions_that_are_killed_in_any_call_of_s3_are_healed(
    mortal: Mortal,
) -> None:
    buckets = {"input": mortal.stack.input_bucket, "output": mortal.stack.output_bucket}
    keys = [f"function-{number}.png" for number, _ in enumerate(FUNCTION)]
    for key, (call, moment) in zip(keys, FUNCTION, strict=True):
        method, place = call.split()
        bucket, _, prefix = place.partition("/")
        mortal.die(f"{method} /{buckets[bucket]}/{prefix}{key}", moment, key)
    assert len(mortal.unfinished()) == len(FUNCTION)
    mortal.heal()
    assert {mortal.colour(key) for key in keys} == {CYAN}
