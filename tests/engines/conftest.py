"""ministack, and which tests need AWS or Docker: `make test-aws` and `make test-sfn-local`."""

from __future__ import annotations

import os
from functools import cache

import pytest

from inorder import PROJECT
from inorder.aws.executions import StateMachine
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder.model.policies import asl_file
from tests.end_to_end.conftest import Workflow
from tests.engines.on_aws import resources_of, substitutions_of
from tests.engines.scenarios import Place
from tests.state_machines import create_local, substitute

ELSEWHERE = {"SFN_LOCAL_ENDPOINT": "test_step_functions_local.py", "STACK": "test_aws.py"}
collect_ignore = [file for variable, file in ELSEWHERE.items() if variable not in os.environ]


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
