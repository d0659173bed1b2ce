"""Each scenario passes the same states with the same data on moto and on ministack."""

from __future__ import annotations

from functools import cache

import pytest

from inorder import PROJECT
from inorder.aws.executions import StateMachine
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder.policies import asl_file
from tests.end_to_end.conftest import Workflow
from tests.engines.on_aws import resources_of, substitutions_of
from tests.engines.scenarios import RUNS, SCENARIOS, Place
from tests.in_process import INPUT, OUTPUT, InProcess
from tests.state_machines import create_local, substitute


class Moto(Place):
    """moto, in this process."""

    input_bucket, output_bucket = INPUT, OUTPUT

    def __init__(self, aws: InProcess) -> None:
        aws.wait_scale = 0.01
        self.s3, self.table = aws.s3, aws.table
        self.machine = cache(aws.machine)


class Ministack(Place):
    """ministack, with two stacks of template.yaml."""

    def __init__(self, local: LocalAws) -> None:
        # The first has the buckets, the second has what only content-hash needs.
        workflow = Workflow(local, deploy(local, "engines", {"Policy": "every-version"}))
        content = {"Policy": "content-hash", "ContentSources": "com.example.none"}
        deploy(local, "engines-content", content)
        workflow.disable_rules()  # those of both stacks
        cloudformation = local.client("cloudformation")
        resources = resources_of(cloudformation, "engines-content")
        resources |= resources_of(cloudformation, "engines")
        self._substitutions = substitutions_of(resources)
        self._states = local.client("stepfunctions")
        self.input_bucket = workflow.stack.input_bucket
        self.output_bucket = workflow.stack.output_bucket
        self.s3, self.table = workflow.s3, workflow.table
        self.machine = cache(self._machine)

    def _machine(self, policy: str) -> StateMachine:
        definition = substitute(PROJECT / asl_file(policy), self._substitutions)
        return create_local(self._states, definition)


@pytest.fixture(scope="module")
def ministack(local: LocalAws) -> Ministack:
    return Ministack(local)


@pytest.mark.parametrize(("name", "policy"), RUNS)
def test_a_scenario_is_the_same_on_moto_and_ministack(
    name: str, policy: str, ministack: Ministack, aws: InProcess
) -> None:
    run = SCENARIOS[name]
    moto = Moto(aws)
    on_ministack = [ministack.comparable(ended) for ended in run(ministack, policy)]
    on_moto = [moto.comparable(ended) for ended in run(moto, policy)]
    assert on_ministack
    assert on_moto == on_ministack
