"""The scenarios on AWS, in a deployed stack: `make test-aws STACK=name`. See docs/engines.md.

The state machines are made of the shipped files, with the stack's role and log, and deleted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from inorder import PROJECT
from inorder.aws.log import AwsStateMachine
from inorder.model.policies import asl_file, like, names
from tests.engines.conftest import Ministack
from tests.engines.on_aws import SUBSTITUTIONS, OnAws, on_aws, resources_of, substitutions_of
from tests.engines.scenarios import RUNS, Place, Story, run
from tests.state_machines import substitute

FOUND = on_aws()
assert FOUND, "STACK names no stack"
AWS: OnAws = FOUND
# The role and the resources of a stack are those that its policy needs.
IS_CONTENT_HASH = "ContentHash" in AWS.stack.state_machine_arn
HERE = [run for run in RUNS if (run.values[1] in like("content-hash")) == IS_CONTENT_HASH]


class Aws(Place):
    """AWS."""

    seconds = 300  # waits take the time that they take

    def __init__(self) -> None:
        self._substitutions = substitutions_of(resources_of(AWS.cloudformation, AWS.stack.name))
        self.input_bucket, self.output_bucket = AWS.stack.input_bucket, AWS.stack.output_bucket
        self.s3, self.table = AWS.s3, AWS.table
        self.made: list[AwsStateMachine] = []
        self.machine = cache(self._machine)

    def _machine(self, policy: str) -> AwsStateMachine:
        machine = AWS.create(PROJECT / asl_file(policy), self._substitutions)
        self.made.append(machine)
        return machine


@pytest.fixture(scope="module")
def aws_place() -> Iterator[Aws]:
    """Switch the stack's rule off, as uploads would start executions of their own."""
    described = AWS.cloudformation.describe_stack_resources(StackName=AWS.stack.name)
    rules = [
        each["PhysicalResourceId"]
        for each in described["StackResources"]
        if each["ResourceType"] == "AWS::Events::Rule"
    ]
    place = Aws()
    for rule in rules:
        AWS.events.disable_rule(Name=rule)
    try:
        yield place
    finally:
        for rule in rules:
            AWS.events.enable_rule(Name=rule)
        for machine in place.made:
            machine.delete()


@pytest.mark.parametrize("policy", names())
def test_aws_finds_no_error_in_the_definition(policy: str) -> None:
    definition = substitute(PROJECT / asl_file(policy), SUBSTITUTIONS)
    validated = AWS.states.validate_state_machine_definition(
        definition=definition, type="EXPRESS", severity="ERROR"
    )
    assert (validated["result"], validated["diagnostics"]) == ("OK", [])


@pytest.mark.parametrize(("story", "policy"), HERE)
def test_the_same_as_on_ministack(
    story: Story, policy: str, aws_place: Aws, ministack: Ministack
) -> None:
    assert run(aws_place, story, policy) == run(ministack, story, policy)
