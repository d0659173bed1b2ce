"""Under every-version, each version of an object has a lock and an output of its own."""

from itertools import permutations

import pytest

from tests.conftest import colour_of, picture
from tests.policies.situations import CYAN, GREEN, MAGENTA, RED
from tests.support.in_process import InProcess

pytestmark = pytest.mark.policy("every-version")


@pytest.mark.parametrize("order", [*permutations((0, 1))])
def test_events_in_any_order_give_each_version_an_output(
    aws: InProcess, order: tuple[int, ...]
) -> None:
    aws.keep_versions()
    events = [aws.upload("x.png", picture(colour)) for colour in (RED, GREEN)]
    for number in order:
        assert aws.run(events[number]).outcome == "Processed"
        assert aws.run(events[number]).outcome == "Duplicate"
    versions = [event["detail"]["object"]["version-id"] for event in events]
    outputs = [aws.output(f"out-x.png/{version}") for version in versions]
    assert [colour_of(output) for output in outputs] == [CYAN, MAGENTA]
    assert len(aws.invocations) == 2
