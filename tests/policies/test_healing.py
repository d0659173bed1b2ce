"""The schedule heals what a dead execution leaves behind, wherever it has died."""

from __future__ import annotations

import pytest

from bench.simulation.cloud import Cloud, Settings
from bench.simulation.machine import Execution
from inorder.model.policies import like, policy
from tests.proof.simulation.conftest import DAY

# The state whose write has the event recorded: only the log knows of an event whose execution dies
# before.
FIRST_WRITE = {
    "latest-wins": "Claim Key",
    "every-version": "Record Event",
    "first-wins": "Claim Key",
    "content-hash": "Claim Content",
}


def happened(name: str, place: str) -> tuple[Cloud, list[str]]:
    """Let the execution of an event die in a state, and list the states that it has entered."""
    entered = list[str]()

    def dies(execution: Execution, state: str) -> bool:
        is_first = execution.id == "execution-0"
        entered.extend([state] * is_first)
        return is_first and state == place

    cloud = Cloud(Settings(name, dies=dies))
    cloud.upload("x.png")
    cloud.run_until_quiet(DAY)
    return cloud, entered


@pytest.mark.parametrize("name", like(*FIRST_WRITE))
def test_wherever_an_execution_dies_after_its_first_write_a_sweep_heals_the_key(name: str) -> None:
    """The model searches the same behind other executions, and with faults."""
    _, entered = happened(name, "nowhere")
    first_write = FIRST_WRITE[policy(name).like or name]
    recorded = entered[entered.index(first_write) + 1 :]
    assert len(recorded) > 2
    for state in recorded:
        cloud, _ = happened(name, state)
        assert cloud.executions[0].outcome == "Died"
        assert {each.outcome for each in cloud.executions[1:]} <= {"Processed"}, state
        done = cloud.forwarded if name in like("content-hash") else cloud.objects.outputs
        assert (len(done), cloud.parked) == (1, []), state
