"""A change of the policy loses nothing, and the schedule heals what a dead execution leaves behind.

What runs under the policy before goes on beside the events of the next one, or dies at that very
moment, which is tried in each of its states. The model searches deaths with faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import permutations

import pytest

from inorder import PROJECT
from inorder.model.outcomes import finished
from inorder.model.policies import asl_file, like, policy
from tests.proof.simulation.clock import Outage
from tests.proof.simulation.cloud import Cloud, Settings, sequencer_of
from tests.proof.simulation.conftest import DAY
from tests.proof.simulation.machine import Execution, Machine

SHARING = {"latest-wins", "every-version"}  # the record of a key, and so its lock
# The state that records the event: only the log knows of an event whose execution dies before.
FIRST_WRITE = {
    "latest-wins": "Claim Key",
    "every-version": "Record Event",
    "first-wins": "Claim Key",
    "content-hash": "Claim Content",
}
PAIRS = list(permutations(FIRST_WRITE, 2))
SAME = [(each, each) for each in like(*FIRST_WRITE)]
OF_EACH = {"every-version", "content-hash"}  # promise something of each event
KEY = "x.png"


@dataclass
class Switch:
    """Another policy for a key's events, when the last execution so far enters a state."""

    before: str
    after: str
    events: int = 1  # under the policy before: the second one has to wait
    place: str = ""  # the state
    dies: bool = False  # these executions die then
    later: float = 0  # seconds until there is a newer event
    lease: int = 0  # the polls of a lease after the change, if not those of the file
    entered: list[str] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    newer: str = ""

    def run(self) -> Cloud:
        hashes = shipped(self.before) == "content-hash"  # whose waiters are of the same event
        outages = [Outage("events", 0, 6, "silence")] if hashes else []
        settings = Settings(self.before, seconds=3, outages=outages, dies=self._enters)
        self.cloud, self._ids = Cloud(settings), set[str]()
        uploads, deliveries = (1, self.events) if hashes else (self.events, 1)
        self.old = [self._upload(number, deliveries) for number in range(uploads)]
        self.cloud.run_until_quiet(DAY)
        return self.cloud

    def _upload(self, after: float, deliveries: int = 1) -> str:
        # Without versions, every-version can only read what has not changed.
        content = "same" if "every-version" in map(shipped, (self.before, self.after)) else None
        return self.cloud.upload(KEY, after, content, deliveries=deliveries)

    def _enters(self, execution: Execution, state: str) -> bool:
        if execution.id == f"execution-{self.events - 1}" and not self.newer:
            self.entered.append(state)
            if state == self.place:
                self._change()
        return self.dies and execution.id in self._ids

    def _change(self) -> None:
        self._ids = {each.id for each in self.cloud.executions}
        self.recorded = {
            sequencer_of(json.loads(record["event"]["S"]))
            for record in self.cloud.table.having("event")
            if record["status"]["S"] == "IN_PROGRESS"
        }
        text = (PROJECT / asl_file(self.after)).read_text()
        if self.lease:
            text = re.sub(r'"lease_polls": \d+', f'"lease_polls": {self.lease}', text)
        self.cloud.machine = Machine(json.loads(text))
        self.newer = self._upload(self.later)

    def resumed(self) -> set[str]:
        """List the events of the executions under the policy after."""
        executions = self.cloud.executions
        return {sequencer_of(each.input) for each in executions if each.id not in self._ids}

    def assert_right(self) -> None:
        outcomes = {each.outcome for each in self.cloud.executions}
        assert outcomes <= finished() | ({"Died"} if self.dies else set())
        assert self.cloud.parked == []
        assert_each(self.cloud, self.after, [self.newer])
        if (after := shipped(self.after)) not in OF_EACH:
            right = [self.newer, *(self.old if after == "first-wins" else [])]
            assert self.cloud.objects.outputs[f"out-{KEY}"] in right


def shipped(name: str) -> str:
    """Give the shipped policy from which a policy was made, or its name."""
    return policy(name).like or name


def assert_each(cloud: Cloud, name: str, events: Iterable[str]) -> None:
    if shipped(name) == "every-version":
        assert {f"out-{KEY}/{each}" for each in events} <= set(cloud.objects.outputs)
    if shipped(name) == "content-hash":
        assert set(events) <= set(cloud.forwarded)


def each_place(before: str, after: str, behind: str = "") -> Iterator[tuple[int, str]]:
    """List the states that the last of one or two executions under a policy enters."""
    for events in (1, 2):
        switch = Switch(before, after, events)
        switch.run()
        entered = list(dict.fromkeys(switch.entered))
        first = entered.index(behind) + 1 if behind else 0
        yield from ((events, place) for place in entered[first:])


@pytest.mark.parametrize(("before", "after"), [*PAIRS, ("uncoordinated", "latest-wins")])
def test_what_runs_under_the_policy_before_goes_on(before: str, after: str) -> None:
    for events, place in each_place(before, after):
        switch = Switch(before, after, events, place)
        cloud = switch.run()
        if before != "uncoordinated":  # writes what is late over what is newer, as ever
            switch.assert_right()
        assert_each(cloud, before, switch.old)
        assert cloud.table.having("lock_token") == []


@pytest.mark.parametrize(
    ("before", "after", "later"),
    [(*pair, later) for later in (0, 3600) for pair in (*PAIRS, *SAME * bool(later))],
)
def test_what_dies_is_handed_to_the_policy_that_is_next_or_goes_on(
    before: str, after: str, later: float
) -> None:
    for events, place in each_place(before, after, FIRST_WRITE[shipped(before)]):
        switch = Switch(before, after, events, place, dies=True, later=later)
        cloud = switch.run()
        switch.assert_right()
        assert_each(cloud, after, switch.recorded)
        # Under latest-wins, a newer event takes the place of one that is not finished.
        assert switch.recorded <= switch.resumed() or (after == "latest-wins" and not later)
        if {before, after} <= SHARING or before == after:  # the others do not read the lock
            assert cloud.table.having("lock_token") == []


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_what_is_finished_or_retried(before: str, after: str) -> None:
    cloud = Cloud(Settings(before, poison=frozenset({"retried.png"})))
    for key in (KEY, "retried.png"):
        cloud.upload(key, 0, "same")
    while len(outcomes := {each.outcome: each for each in cloud.executions}) < 2 or "" in outcomes:
        cloud.clock.env.run(until=cloud.clock.now + 1)
    assert set(outcomes) == {"Processed", "Retrying"}
    cloud.settings.poison = frozenset()
    cloud.machine = Machine(json.loads((PROJECT / asl_file(after)).read_text()))
    cloud.start(outcomes["Processed"].input)
    cloud.run_until_quiet(DAY)
    assert [each.outcome for each in cloud.executions[2:]] == ["Processed"] * 2
    assert cloud.parked == []


@pytest.mark.parametrize("policy", FIRST_WRITE)
def test_a_waiter_of_a_version_with_a_shorter_lease_breaks_the_lock_of_a_slow_holder(
    policy: str,
) -> None:
    """The output is right and nothing is lost, but content-hash may forward twice."""
    work = "Forward Event" if policy == "content-hash" else "Invert Image"
    switch = Switch(policy, policy, place=work, lease=1)
    cloud = switch.run()
    switch.assert_right()
    assert_each(cloud, policy, switch.old)
    assert cloud.table.having("lock_token") == []
