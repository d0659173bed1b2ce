"""Each scenario on moto and on ministack: the same outcomes by the same states, data included."""

from __future__ import annotations

from functools import cache

import pytest

from inorder import PROJECT
from inorder.aws.executions import StateMachine, create_local
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder.policies import asl_file
from tests.end_to_end.conftest import Workflow
from tests.engines.on_aws import resources_of, substitutions_of
from tests.engines.scenarios import SCENARIOS, Place
from tests.in_process import INPUT, OUTPUT, InProcess


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
        # The first for the objects, the second for what content-hash has beside.
        workflow = Workflow(local, deploy(local, "engines", {"Policy": "every-version"}))
        content = {"Policy": "content-hash", "ContentSources": "com.example.none"}
        deploy(local, "engines-content", content)
        events, cloudformation = local.client("events"), local.client("cloudformation")
        for rule in events.list_rules()["Rules"]:
            if rule["Name"].startswith("engines-"):
                events.disable_rule(Name=rule["Name"])
        resources = resources_of(cloudformation, "engines-content")
        resources |= resources_of(cloudformation, "engines")
        self._substitutions = substitutions_of(resources)
        self._states = local.client("stepfunctions")
        self.input_bucket = workflow.stack.input_bucket
        self.output_bucket = workflow.stack.output_bucket
        self.s3, self.table = workflow.s3, workflow._table
        self.machine = cache(self._machine)

    def _machine(self, policy: str) -> StateMachine:
        return create_local(self._states, PROJECT / asl_file(policy), self._substitutions)


@pytest.fixture(scope="module")
def ministack(local: LocalAws) -> Ministack:
    return Ministack(local)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_on_moto_and_ministack(name: str, ministack: Ministack, aws: InProcess) -> None:
    run = SCENARIOS[name]
    moto = Moto(aws)
    on_ministack = [ministack.comparable(ended) for ended in run(ministack)]
    on_moto = [moto.comparable(ended) for ended in run(moto)]
    assert on_ministack
    assert on_moto == on_ministack
