"""The stories on another engine than moto: ministack, or what the environment names.

`make test-sfn-local` and `make test-aws STACK=name` name one. See docs/engines.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from inorder import PROJECT
from inorder.model.policies import asl_file
from tests.policies.places import Ministack, Place, StepFunctionsLocal, on_aws
from tests.policies.stories import TOLD, tell
from tests.policies.tables import TABLES
from tests.support.state_machines import substitute

AWS = on_aws()
SFN_LOCAL = (os.environ.get("SFN_LOCAL_ENDPOINT"), os.environ.get("AWS_ENDPOINT_URL"))


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if AWS:
        AWS.events.disable_rule(Name=AWS.rule)
        yield AWS
        AWS.events.enable_rule(Name=AWS.rule)
    elif all(SFN_LOCAL):
        yield StepFunctionsLocal(*map(str, SFN_LOCAL))
    else:
        yield Ministack(request.getfixturevalue("local"))


@pytest.mark.parametrize(("story", "policy"), TOLD)
def test_a_story_happens_as_it_is_told(place: Place, story: str, policy: str) -> None:
    tell(place, story, policy)


if AWS:
    states = AWS.states

    @pytest.mark.parametrize("policy", TABLES)
    def test_aws_finds_no_error_in_the_definition(policy: str) -> None:
        definition = substitute(PROJECT / asl_file(policy), {})
        validated = states.validate_state_machine_definition(
            definition=definition, type="EXPRESS", severity="ERROR"
        )
        assert (validated["result"], validated["diagnostics"]) == ("OK", [])
