"""What optimistic.asl.json does with the real function."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conftest import colour_of, picture
from tests.in_process import InProcess
from tests.policies.situations import GREEN, MAGENTA, RED

pytestmark = pytest.mark.policy("optimistic")


def test_the_newest_of_five_events_at_once_wins_without_a_record(aws: InProcess) -> None:
    events = [aws.upload("x.png", picture(RED)) for _ in range(4)]
    events.append(aws.upload("x.png", picture(GREEN)))
    executions = [aws.start(event) for event in events]
    outcomes = Counter(aws.wait(execution).outcome for execution in executions)
    assert outcomes == {"Processed": 1, "Superseded": 4}
    assert colour_of(aws.output("out-x.png")) == MAGENTA
    assert aws.records() == []
    assert aws.run(events[-1]).outcome == "Processed"  # a duplicate finds its own output
    assert colour_of(aws.output("out-x.png")) == MAGENTA
