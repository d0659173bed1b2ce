"""What latest_wins.asl.json does with the real function and conditional writes."""

import json
from threading import Event
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from tests.conftest import colour_of, picture
from tests.policies.situations import GREEN, MAGENTA, RED
from tests.support.in_process import InProcess

pytestmark = pytest.mark.policy("latest-wins")


def test_the_holder_starts_the_newest_event_and_older_ones_stop(aws: InProcess) -> None:
    worked, release = Event(), Event()

    def answer_late(payload: Any) -> Any:
        answer = aws.handle(payload)
        worked.set()
        assert release.wait(30)
        return answer

    aws.invoke = answer_late
    older = aws.upload("x.png", picture(RED))
    holder = aws.start(older)
    assert worked.wait(30)
    newer = aws.upload("x.png", picture(GREEN))
    waiting = aws.start(newer)

    def is_recorded() -> bool:
        return bool(newer.items() <= json.loads(aws.record("input/x.png")["event"]).items())

    wait_until(is_recorded, 30, "the newer event")
    duplicate = aws.run(older)
    assert (duplicate.outcome, "Wait For Lock" in duplicate.path) == ("Superseded", False)
    release.set()
    assert aws.wait(holder).path[-3:] == ["Start Newest Event", "Final Outcome?", "Processed"]
    assert newer.items() <= aws.state_machine.find("newest-").event.items()
    wait_until(lambda: aws.record("input/x.png")["status"] == "DONE", 30, "the newer event's end")
    assert colour_of(aws.output("out-x.png")) == MAGENTA
    # Either the waiter or the started execution is quicker; the other one has nothing to do.
    assert aws.wait(waiting).outcome in {"Duplicate", "Processed"}
    assert len(aws.invocations) == 2
