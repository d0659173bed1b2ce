"""What latest_wins.asl.json does with the real function and conditional writes."""

import json
from threading import Event
from typing import Any

import pytest

from inorder.aws.executions import LocalStateMachine, wait_until
from tests.conftest import colour_of, picture
from tests.policies.situations import GREEN, MAGENTA, RED
from tests.support.in_process import InProcess

pytestmark = pytest.mark.policy("latest-wins")


class Holder:
    """An execution that holds its key with an older event while a newer one is recorded."""

    def __init__(self, aws: InProcess, next_machine: LocalStateMachine) -> None:
        worked, self.release = Event(), Event()

        def answer_late(payload: Any) -> Any:
            answer = aws.handle(payload)
            worked.set()
            assert self.release.wait(30)
            return answer

        aws.invoke = answer_late
        self.event = aws.upload("x.png", picture(RED))
        self.execution = aws.start(self.event)
        assert worked.wait(30)
        self.newer = aws.upload("x.png", picture(GREEN))
        self.waiting = next_machine.start(self.newer)

        def is_recorded() -> bool:
            event = json.loads(aws.record("input/x.png")["event"])
            return bool(self.newer.items() <= event.items())

        wait_until(is_recorded, 30, "the newer event")


def test_a_holder_starts_no_event_of_the_next_policy(aws: InProcess) -> None:
    next_machine = aws.machine("every-version")
    holder = Holder(aws, next_machine)
    holder.release.set()
    path = aws.wait(holder.execution).path
    assert path[-3:] == ["Newer Event?", "Final Outcome?", "Processed"]
    assert next_machine.wait(holder.waiting, 60).outcome == "Processed"


def test_the_holder_starts_the_newest_event_and_older_ones_stop(aws: InProcess) -> None:
    holder = Holder(aws, aws.state_machine)
    duplicate = aws.run(holder.event)
    assert (duplicate.outcome, "Wait For Lock" in duplicate.path) == ("Superseded", False)
    holder.release.set()
    path = aws.wait(holder.execution).path
    assert path[-3:] == ["Start Newest Event", "Final Outcome?", "Processed"]
    assert holder.newer.items() <= aws.state_machine.find("newest-").event.items()
    wait_until(lambda: aws.record("input/x.png")["status"] == "DONE", 30, "the newer event's end")
    assert colour_of(aws.output("out-x.png")) == MAGENTA
    # Either the waiter or the started execution is quicker; the other one has nothing to do.
    assert aws.wait(holder.waiting).outcome in {"Duplicate", "Processed"}
    assert len(aws.invocations) == 2
