"""ministack takes the paths of each policy as the interpreter does, with all services mocked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from inorder import local_aws
from inorder.aws.executions import LocalStateMachine
from inorder.local_aws import LocalAws
from tests.policies.mock_config import mock_config
from tests.policies.paths import mocked_definition, paths
from tests.policies.tables import STATES, TABLES
from tests.support.state_machines import create_local

SECONDS = 60


def wrongly_ended(machine: LocalStateMachine, policy: str, seconds: float) -> list[tuple[str, Any]]:
    """Run all paths of a policy, at once, on an engine that has read the file of mocks.

    List those that took another path, or ended otherwise than it says.
    """
    started = {
        name: LocalStateMachine(machine.client, f"{machine.arn}#{name}").start(path.event)
        for name, path in paths(policy).items()
    }
    wrong = []
    for name, arn in started.items():
        execution = machine.wait(arn, seconds)
        path = [step.state for step in paths(policy)[name].steps]
        end = STATES[policy][path[-1]]
        status = ("FAILED", end["Error"]) if end["Type"] == "Fail" else ("SUCCEEDED", None)
        expected = (path, *status, path[-1].replace(" ", ""))
        found = (execution.path, execution.status, execution.error, execution.outcome)
        if found != expected:
            wrong.append((name, found))
    return wrong


@pytest.fixture(scope="module")
def mocking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    file = tmp_path_factory.mktemp("mocks") / "MockConfigFile.json"
    file.write_text(json.dumps(mock_config(of_attempts=False)))
    folder, settings = tmp_path_factory.mktemp("mocking"), {"SFN_MOCK_CONFIG": str(file)}
    with local_aws.running(folder, wait_scale=0, settings=settings) as server:
        yield server


@pytest.mark.parametrize("policy", TABLES)
def test_every_path_is_taken(policy: str, mocking: LocalAws) -> None:
    assert paths(policy)
    machine = create_local(mocking.client("stepfunctions"), mocked_definition(policy), name=policy)
    assert wrongly_ended(machine, policy, SECONDS) == []
