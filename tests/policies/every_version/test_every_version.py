"""What every_version.asl.json does with the real function and conditional writes."""

from __future__ import annotations

import pytest

from tests.conftest import colour_of, picture
from tests.policies.situations import BLUE, CYAN, GREEN, MAGENTA, RED, YELLOW
from tests.support.in_process import InProcess

pytestmark = pytest.mark.policy("every-version")


def test_each_version_is_processed_once_in_any_order(aws: InProcess) -> None:
    aws.keep_versions()
    events = [aws.upload("x.png", picture(colour)) for colour in (RED, GREEN, BLUE)]
    assert [aws.run(events[at]).outcome for at in (1, 2, 0)] == ["Processed"] * 3
    versions = [event["detail"]["object"]["version-id"] for event in events]
    outputs = [colour_of(aws.output(f"out-x.png/{version}")) for version in versions]
    assert outputs == [CYAN, MAGENTA, YELLOW]
    assert [aws.run(event).outcome for event in events] == ["Duplicate"] * 3
    assert len(aws.invocations) == 3
