"""The engines take the paths of each policy as the interpreter does, with all services mocked.

ministack repeats a response in all attempts, so it runs only the paths in which no retry helps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import (
    CustomErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task import mock_eval_utils
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service import (  # noqa: E501
    StateTaskService,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_dynamodb import (  # noqa: E501
    StateTaskServiceDynamoDB,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.mocking.mock_config import MockedResponseReturn, MockedResponseThrow

from inorder import local_aws
from inorder.aws.executions import Execution, LocalStateMachine
from inorder.local_aws import LocalAws
from tests.policies.mock_config import mock_config
from tests.policies.paths import mocked_definition, paths
from tests.policies.services import RESPONSES
from tests.policies.tables import STATES, TABLES
from tests.support.in_process import InProcess, MotoStateMachine
from tests.support.state_machines import create_local

SECONDS = 60


def case_machine(machine: LocalStateMachine, states: Any, case: str) -> LocalStateMachine:
    """Give the state machine whose executions have the mocks of a path."""
    return LocalStateMachine(states, f"{machine.arn}#{case}")


def run_paths(
    machine: LocalStateMachine, states: Any, policy: str, *, helpful_retries: bool, seconds: float
) -> dict[str, Execution]:
    """Run all paths of a policy, at once, on an engine that has read the file of mocks."""
    started = {
        name: case_machine(machine, states, name).start(path.event)
        for name, path in paths(policy).items()
        if path.has_helpful_retry == helpful_retries
    }
    return {name: machine.wait(execution, seconds) for name, execution in started.items()}


def wrongly_ended(policy: str, ended: dict[str, Execution]) -> list[tuple[str, Any]]:
    """List the executions that took another path than theirs, or ended otherwise than it says."""
    wrong: list[tuple[str, Any]] = []
    for name, execution in ended.items():
        path = [step.state for step in paths(policy)[name].steps]
        end = STATES[policy][path[-1]]
        status = ("FAILED", end["Error"]) if end["Type"] == "Fail" else ("SUCCEEDED", None)
        expected = (path, *status, path[-1].replace(" ", ""))
        found = (execution.path, execution.status, execution.error, execution.outcome)
        if found != expected:
            wrong.append((name, found))
    return wrong


def run_on_moto(
    monkeypatch: pytest.MonkeyPatch, aws: InProcess, policy: str
) -> dict[str, Execution]:
    """Run the paths of a policy on moto, which can answer for services but reads no file."""
    aws.wait_scale = 0
    states = boto3.client("stepfunctions")
    made = create_local(states, mocked_definition(policy), name=policy)
    machine = MotoStateMachine(states, made.arn)

    def mocked(name: str) -> MockedResponseReturn | MockedResponseThrow:
        [(kind, content)] = RESPONSES[name].items()
        if kind == "Return":
            return MockedResponseReturn(0, 0, content)
        return MockedResponseThrow(0, 0, content["Error"], content["Cause"])

    def named(error: str) -> ErrorName:
        is_engines = error.startswith("States.")
        return StatesErrorName.from_name(error) if is_engines else CustomErrorName(error)

    # It would take the engine's own error for another of the same name, which only States.ALL has.
    monkeypatch.setattr(mock_eval_utils, "CustomErrorName", named)
    # It would give every error of DynamoDB that is not botocore's one name.
    monkeypatch.setattr(StateTaskServiceDynamoDB, "_from_error", StateTaskService._from_error)
    monkeypatch.setattr(Environment, "is_mocked_mode", lambda _: True)
    ended = {}
    for name, path in paths(policy).items():
        left = {state: map(mocked, given) for state, given in path.responses().items()}
        monkeypatch.setattr(
            Environment,
            "get_current_mocked_response",
            lambda env, left=left: next(left[env.next_state_name]),
        )
        ended[name] = machine.run(path.event, SECONDS)
        assert [state for state, rest in left.items() if list(rest)] == []  # nothing is left
    return ended


@pytest.fixture(scope="module")
def mocking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """Run a ministack that reads the file of mocks."""
    file = tmp_path_factory.mktemp("mocks") / "MockConfigFile.json"
    file.write_text(json.dumps(mock_config(of_attempts=False)))
    folder, settings = tmp_path_factory.mktemp("mocking"), {"SFN_MOCK_CONFIG": str(file)}
    with local_aws.running(folder, wait_scale=0, settings=settings) as server:
        yield server


@pytest.mark.parametrize("policy", TABLES)
def test_every_path_without_a_helpful_retry_is_taken_on_ministack(
    policy: str, mocking: LocalAws
) -> None:
    states = mocking.client("stepfunctions")
    machine = create_local(states, mocked_definition(policy), name=policy)
    ended = run_paths(machine, states, policy, helpful_retries=False, seconds=SECONDS)
    machine.delete()
    assert ended
    assert wrongly_ended(policy, ended) == []


@pytest.mark.parametrize("policy", TABLES)
def test_every_path_is_taken_on_moto(
    policy: str, monkeypatch: pytest.MonkeyPatch, aws: InProcess
) -> None:
    assert wrongly_ended(policy, run_on_moto(monkeypatch, aws, policy)) == []
