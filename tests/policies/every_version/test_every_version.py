"""How long a turn of every_version.asl.json lasts."""

from __future__ import annotations

import pytest

from inorder.asl.lease import limits, longest
from inorder.model.policies import definition

pytestmark = pytest.mark.policy("every-version")
ROUND = ("Record Oldest Waiter", "Wait For Turn", "Read Key Record", "Claim Key")


def test_a_turn_lasts_until_the_oldest_waiter_has_claimed_twice_and_no_longer() -> None:
    """One claim may fail. In a shorter turn a newer event would overtake an older one.

    A longer one would make all wait for a dead waiter.
    """
    read = definition("every-version")
    states, given = read["States"], limits(read)
    seconds = 2 * sum(longest(states[name], given) for name in ROUND)
    assert given["turn_polls"] == seconds // given["poll_seconds"] + 1
