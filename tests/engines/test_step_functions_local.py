"""The scenarios and the mocked cases on Step Functions Local: `make test-sfn-local`.

It needs Docker, so `make test` leaves it out. See docs/engines.md.
"""

from __future__ import annotations

import os
from functools import cache
from urllib.parse import urlsplit

import pytest

from inorder import PROJECT
from inorder.aws.executions import LocalStateMachine, StateMachine
from inorder.local_aws import HOST, LocalAws
from inorder.model.policies import asl_file
from tests.engines.conftest import Ministack
from tests.engines.scenarios import RUNS, Story, run
from tests.policies.mock_config import NOT_ALL_MOCKED, mocked_definition
from tests.policies.tables import TABLES
from tests.policies.test_paths import case_machine, run_paths, wrongly_ended
from tests.state_machines import create_local, substitute

SFN_LOCAL, AWS = os.environ["SFN_LOCAL_ENDPOINT"], os.environ["AWS_ENDPOINT_URL"]
SECONDS = 300  # delays between attempts are not scaled there


def running_at(address: str) -> LocalAws:
    """Give a server that was not started here."""
    url = urlsplit(address)
    assert url.hostname == HOST
    assert url.port
    return LocalAws(url.port, pid=0, started=0, folder="")


class StepFunctionsLocal(Ministack):
    """Step Functions Local, with the resources of the template on the local AWS behind it."""

    def __init__(self) -> None:
        super().__init__(running_at(AWS))
        self._states = running_at(SFN_LOCAL).client("stepfunctions")
        self.plain_machine = cache(self._plain_machine)
        self._empty()

    def _empty(self) -> None:
        """Remove the records and outputs of earlier tests."""
        for item in self.table.scan()["Items"]:
            self.table.delete_item(Key={"id": item["id"]})
        for output in self.s3.list_objects_v2(Bucket=self.output_bucket).get("Contents", []):
            self.s3.delete_object(Bucket=self.output_bucket, Key=output["Key"])

    def _plain_machine(self, policy: str) -> LocalStateMachine:
        definition = substitute(PROJECT / asl_file(policy), self._substitutions)
        # Only a state machine with this name has mocks.
        return self._created(
            policy if policy == NOT_ALL_MOCKED[0] else f"{policy}-real", definition
        )

    def _created(self, name: str, definition: str) -> LocalStateMachine:
        """Create a state machine, or update that of earlier tests."""
        pages = self._states.get_paginator("list_state_machines").paginate()
        machines = [machine for page in pages for machine in page["stateMachines"]]
        for machine in machines:
            if machine["name"] == name:
                arn = machine["stateMachineArn"]
                self._states.update_state_machine(stateMachineArn=arn, definition=definition)
                return LocalStateMachine(self._states, arn)
        return create_local(self._states, definition, "STANDARD", name)

    def _machine(self, policy: str) -> StateMachine:
        machine = self.plain_machine(policy)
        only_mocked, case, _ = NOT_ALL_MOCKED
        return case_machine(machine, self._states, case) if policy == only_mocked else machine

    def wrong_paths(self, policy: str, *, helpful_retries: bool) -> list[tuple[str, object]]:
        """Run paths of a policy at once and list those that were not taken."""
        machine = self._created(policy, mocked_definition(policy))
        ended = run_paths(
            machine, self._states, policy, helpful_retries=helpful_retries, seconds=SECONDS
        )
        return wrongly_ended(policy, ended)


@pytest.fixture(scope="module")
def sfn_local() -> StepFunctionsLocal:
    return StepFunctionsLocal()


@pytest.mark.parametrize(("story", "policy"), RUNS)
def test_a_scenario_is_the_same_as_on_ministack(
    story: Story, policy: str, sfn_local: StepFunctionsLocal, ministack: Ministack
) -> None:
    assert run(sfn_local, story, policy) == run(ministack, story, policy)


@pytest.mark.parametrize("helpful_retries", [False, True])
@pytest.mark.parametrize("policy", TABLES)
def test_every_path_is_taken(
    policy: str, *, helpful_retries: bool, sfn_local: StepFunctionsLocal
) -> None:
    assert sfn_local.wrong_paths(policy, helpful_retries=helpful_retries) == []
