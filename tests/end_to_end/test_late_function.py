"""A function that outlives its execution, and wakes up when a newer event is processed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from tests.conftest import WAIT_SCALE, picture
from tests.end_to_end.conftest import GREEN, MAGENTA, RED, SECONDS, Workflow
from tests.proof.soak.fault_proxy import FaultProxy, behind_a_proxy


class Mortal(Workflow):
    """A stack behind a proxy."""

    proxy: FaultProxy


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    folder = tmp_path_factory.mktemp("local-aws")
    with behind_a_proxy(folder, WAIT_SCALE) as (local, proxy):
        mortal = Mortal(local, deploy(local, "mortal", {}))
        mortal.proxy = proxy
        yield mortal


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
    with mortal.proxy.holding(write, "hang") as hold:  # which then is refused, so it is repeated
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
