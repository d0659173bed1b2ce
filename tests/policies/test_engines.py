"""The stories on another engine than moto: ministack, or what the environment names.

`make test-node-engine` and `make test-sfn-local` name one. See docs/engines.md.
"""

import os
from collections.abc import Iterator

import pytest

from tests.policies.places import Ministack, NodeEngine, Place, StepFunctionsLocal
from tests.policies.stories import TOLD, tell

NODE_ENGINE = os.environ.get("NODE_ENGINE")
SFN_LOCAL = (os.environ.get("SFN_LOCAL_ENDPOINT"), os.environ.get("AWS_ENDPOINT_URL"))


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if all(SFN_LOCAL):
        yield StepFunctionsLocal(*map(str, SFN_LOCAL))
    elif NODE_ENGINE:
        yield NodeEngine(request.getfixturevalue("local"), NODE_ENGINE)
    else:
        yield Ministack(request.getfixturevalue("local"))


@pytest.mark.parametrize(("story", "policy"), TOLD)
def test_a_story_happens_as_it_is_told(place: Place, story: str, policy: str) -> None:
    tell(place, story, policy)
