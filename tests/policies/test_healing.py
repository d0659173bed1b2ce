"""The schedule heals what a dead execution leaves behind, wherever it has died.

Each execution dies after one of its states, and no newer event follows. The model searches the same
behind others, with rejections and between all steps.
"""

from __future__ import annotations

from inorder.events import created
from inorder.policies import like
from tests.conftest import picture
from tests.policies.mortal import AFTER, Event, Mortal, indexed, is_recorded
from tests.policies.situations import RED, of

# The state whose write has the event recorded: only the log knows of an event whose execution dies
# before.
FIRST_WRITE = {
    "latest-wins": "Claim Key",
    "every-version": "Record Event",
    "first-wins": "Claim Key",
    "content-hash": "Claim Content",
}


def event_of(mortal: Mortal, key: str) -> Event:
    """Upload an object, or, for content-hash, make another event."""
    if mortal.aws.like == "content-hash":
        return created(key)
    return mortal.aws.upload(key, picture(RED))


@of(*like(*FIRST_WRITE))
def test_wherever_an_execution_dies_after_its_first_write_a_sweep_heals_the_key(
    mortal: Mortal,
) -> None:
    aws, is_there, healed = mortal.aws, False, list[str]()
    *states, _ = aws.run(event_of(mortal, "whole.png")).path
    for number, state in enumerate(states):
        event = event_of(mortal, f"{number}.png")
        mortal.run(event, (state, AFTER))
        is_there |= state == FIRST_WRITE[aws.like]
        assert is_recorded(aws, event) == is_there, state
        outcomes = mortal.sweep()
        assert indexed(aws) == [], state
        if is_there:
            assert set(outcomes) <= {"Processed"}, state
            mortal.assert_right(event)
            healed += outcomes
    assert healed
