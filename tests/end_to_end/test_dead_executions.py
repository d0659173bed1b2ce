"""The schedule heals the key of an execution that is aborted in any of its calls of a service.

tests/policies/test_healing.py shows the same for each state and each policy, in one process. Here
the executions are aborted while a call hangs, the functions are processes that are killed, and the
sweep is the deployed function's. Before its first write, an execution is in no record, so the first
call is stopped after its effect only. A function that an execution left behind changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inorder.aws.executions import wait_until
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


@pytest.fixture
def patient_lambda(mortal: Mortal) -> Iterator[None]:
    """Keep Lambda from ending a function that stalls, for as long as a test may take."""
    functions = mortal.local.client("lambda")
    name = mortal.stack.function_name
    before = functions.get_function_configuration(FunctionName=name)["Timeout"]
    functions.update_function_configuration(FunctionName=name, Timeout=600)
    yield
    functions.update_function_configuration(FunctionName=name, Timeout=before)


@pytest.mark.usefixtures("patient_lambda")
def test_a_function_that_wakes_up_after_its_execution_was_aborted_changes_nothing(
    mortal: Mortal,
) -> None:
    for worker in mortal.workers():
        worker.kill()
    wait_until(lambda: not mortal.workers(), SECONDS, "the idle processes to end")
    write = f"PUT /{mortal.stack.output_bucket}/out-late.png"
    with mortal.proxy.holding(write, BEFORE) as hold:  # which then is refused, so it is repeated
        mortal.upload("late.png", picture(RED))
        assert hold.reached.wait(SECONDS)
        [holder] = mortal.workers()
        holder.suspend()
    token = mortal.wait_for_lock("late.png")
    [execution] = mortal.executions.arns("RUNNING")
    mortal.executions.stop(execution)
    try:
        mortal.upload("late.png", picture(GREEN))
        assert mortal.record("late.png")["lock_token"] == token
        mortal.wait_for_lock("late.png", other_than=token)
        _, newer = mortal.of_key("late.png", 2)
        assert newer.outcome == "Processed"
        assert newer.path.count("Break Lock") == 1
        assert len([state for state in newer.path if state.startswith("Wait ")]) == 12
        assert mortal.colour("late.png") == MAGENTA
        wait_until(lambda: bool(mortal.logged("late.png")), SECONDS, "the log")
        assert mortal.logged("late.png") == ["Processed"]
    finally:
        holder.resume()
    wait_until(lambda: len(mortal.logged("late.png")) == 2, SECONDS, "the late holder to wake up")
    assert mortal.logged("late.png") == ["Processed", "Superseded"]
    assert mortal.colour("late.png") == MAGENTA
    mortal.assert_quiet()
