"""A change of the policy loses nothing, although what runs under the policy before dies.

It dies as the policy changes, which is tried in each of its states; then the schedule heals what it
leaves behind. The model searches executions of two policies that live, and two versions of one;
tests/stack/test_deployment.py changes the policy of a stack.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import permutations

import pytest

from inorder.asl.roles import Role, doing
from inorder.model.outcomes import FINISHED, RETRYING
from inorder.model.policies import policies
from tests.policies.tables import STATES, TABLES
from tests.proof.simulation.clock import Outage
from tests.proof.simulation.cloud import Cloud, Settings, sequencer_of
from tests.proof.simulation.conftest import DAY
from tests.proof.simulation.machine import Execution

FACTS = {policy.name: policy for policy in policies()}
# The states that record the event: only the log knows of it if its execution dies before.
RECORDING = {policy: doing(STATES[policy], Role.RECORDS) for policy in FACTS}
LOCKING = [policy for policy, states in RECORDING.items() if states]
# Policies whose lock is in the record of the key, so that each waits for the other's lock.
SHARING = {p for p in LOCKING if "object_key" in TABLES[p].data and TABLES[p].lock == "{}"}
PAIRS = list(permutations(LOCKING, 2))
KEY = "x.png"


@dataclass
class Switch:
    """Another policy for a key's events, when the last execution so far enters a state."""

    before: str
    after: str
    events: int = 1  # under the policy before: the second one has to wait
    place: str = ""  # the state, in which all executions so far die
    later: float = 0  # seconds until there is a newer event
    entered: list[str] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    newer: str = ""

    def run(self) -> Cloud:
        hashes = FACTS[self.before].fence is None  # whose waiters are of the same event
        outages = [Outage("events", 0, 6, "silence")] if hashes else []
        settings = Settings(self.before, seconds=3, outages=outages, dies=self._enters)
        self.cloud, self._ids = Cloud(settings), set[str]()
        uploads, deliveries = (1, self.events) if hashes else (self.events, 1)
        self.old = [self._upload(number, deliveries) for number in range(uploads)]
        self.cloud.run_until_quiet(DAY)
        return self.cloud

    def _upload(self, after: float, deliveries: int = 1) -> str:
        # Without versions, a policy with an output of each event can read only what stays the same.
        keeps_each = "each" in {FACTS[self.before].keeps, FACTS[self.after].keeps}
        return self.cloud.upload(KEY, after, "same" if keeps_each else None, deliveries=deliveries)

    def _enters(self, execution: Execution, state: str) -> bool:
        if execution.id == f"execution-{self.events - 1}" and not self.newer:
            self.entered.append(state)
            if state == self.place:
                self._change()
        return execution.id in self._ids

    def _change(self) -> None:
        self._ids = {each.id for each in self.cloud.executions}
        self.recorded = {
            sequencer_of(json.loads(record["event"]["S"]))
            for record in self.cloud.table.having("event")
            if record["status"]["S"] == "IN_PROGRESS"
        }
        self.cloud.switch(self.after)
        self.newer = self._upload(self.later)

    def resumed(self) -> set[str]:
        """List the events of the executions under the policy after."""
        executions = self.cloud.executions
        return {sequencer_of(each.input) for each in executions if each.id not in self._ids}

    def assert_right(self) -> None:
        allowed = {"Died", *([RETRYING] if self.cloud.settings.outages else [])}
        assert {each.outcome for each in self.cloud.executions} <= FINISHED | allowed
        assert self.cloud.parked == []
        assert_each(self.cloud, self.after, [self.newer])
        if FACTS[self.after].keeps in {"newest", "first"}:
            right = [self.newer, *(self.old if FACTS[self.after].keeps == "first" else [])]
            assert self.cloud.objects.outputs[f"out-{KEY}"] in right


def assert_each(cloud: Cloud, policy: str, events: Iterable[str]) -> None:
    """Check that a policy that promises something of each event has kept it."""
    if FACTS[policy].keeps == "each":
        assert {f"out-{KEY}/{each}" for each in events} <= set(cloud.objects.outputs)
    if FACTS[policy].fence is None:
        assert set(events) <= set(cloud.forwarded)


def each_place(before: str, after: str) -> Iterator[tuple[int, str]]:
    """List the states that the last of one or two executions enters once its event is recorded."""
    for events in (1, 2):
        switch = Switch(before, after, events)
        switch.run()
        entered = list(dict.fromkeys(switch.entered))
        first = min(map(entered.index, RECORDING[before])) + 1
        yield from ((events, place) for place in entered[first:])


@pytest.mark.parametrize(
    ("before", "after", "later"),
    [
        *((*pair, later) for pair in PAIRS for later in (0, 3600)),
        *((policy, policy, 3600) for policy in LOCKING),
    ],
)
def test_what_dies_is_handed_to_the_policy_that_is_next_or_goes_on(
    before: str, after: str, later: float
) -> None:
    for events, place in each_place(before, after):
        switch = Switch(before, after, events, place, later=later)
        cloud = switch.run()
        switch.assert_right()
        assert_each(cloud, after, switch.recorded)
        # With one record of a key, a newer event takes the place of one that is not finished.
        drops = after in SHARING and FACTS[after].keeps == "newest" and not later
        assert switch.recorded <= switch.resumed() or drops
        if {before, after} <= SHARING or before == after:  # the others do not read the lock
            assert cloud.table.having("lock_token") == []
