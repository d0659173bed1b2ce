"""Random deaths: executions die anywhere, one event's several times, while the policy changes."""

import json
import os
import random
from collections import Counter
from typing import Any

import pytest

from inorder.model.outcomes import FINISHED, RETRYING
from inorder.model.policies import policies
from inorder_fence import stuck
from tests.proof.simulation.cloud import Cloud, Settings, sequencer_of
from tests.proof.simulation.conftest import DAY, POLICIES
from tests.proof.simulation.machine import Execution

RUNS, RUNS_AT_NIGHT = 200, 2_000
SEEDS = range(RUNS_AT_NIGHT if os.environ.get("MODEL") else RUNS)
DEATHS = 3  # of one event
EACH = {policy.name for policy in policies() if policy.keeps == "each"}


class Campaign:
    """A few events of two keys, whose executions die by chance, and perhaps another policy."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)  # noqa: S311
        self.policies = chance.sample(POLICIES, chance.randrange(1, 3))
        self.deaths, self.waited = Counter[str](), set[str]()
        self.started = dict[str, str]()  # the policies of the executions
        settings = Settings(self.policies[0], seconds=3, dies=self._dies, seed=seed)
        self.cloud = Cloud(settings)
        # After a change of the policy, an output of each event needs a source that stays the same.
        same = "same" if EACH & {*self.policies} else None
        self.events: dict[str, list[str]] = {}
        for after in sorted(chance.uniform(0, 20) for _ in range(chance.randrange(1, 4))):
            key = chance.choice("xy")
            sequencer = self.cloud.upload(key, after, same, chance.randrange(1, 3))
            self.events.setdefault(key, []).append(sequencer)
        for policy in self.policies[1:]:
            self.cloud.bus.deliver("", lambda: self.cloud.switch(policy), chance.uniform(0, 3000))  # noqa: B023

    def _dies(self, execution: Execution, state: str) -> bool:
        policy = self.started.setdefault(execution.id, self.cloud.machine.name)
        if state.startswith("Wait "):
            self.waited.add(execution.id)
        sequencer = sequencer_of(execution.input)
        if self.deaths[sequencer] == DEATHS or self.chance.random() > 0.1:
            return False
        self.deaths[sequencer] += 1
        recorded = {
            (each["state_machine"]["S"], sequencer_of(json.loads(each["event"]["S"])))
            for each in self.cloud.table.having("event")
        }
        if execution.id not in self.waited and (policy, sequencer) not in recorded:
            # AWS starts again what dies before its first write: a trust that covers no wait.
            self.cloud.bus.deliver("states", lambda: self.cloud.start(execution.input), 1)
        return True

    def run(self) -> str | None:
        """Run until all is quiet, and tell which event is lost, if one is."""
        cloud = self.cloud
        cloud.run_until_quiet(4 * DAY)
        written = {sequencer for _, sequencer in cloud.objects.written}
        done = {*cloud.finished} | written
        for events in self.events.values():
            # An older event may have died, or may have been dropped, because a newer one came.
            for event in events if {*self.policies} <= EACH else [max(events)]:
                if event not in done:
                    return event
        return None


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_dies_no_event_is_lost_and_none_is_parked(seed: int) -> None:
    campaign = Campaign(seed)
    assert campaign.run() is None
    cloud = campaign.cloud
    assert cloud.parked == []
    assert {each.outcome for each in cloud.executions} <= FINISHED | {"Died", RETRYING}
    if campaign.policies == ["latest-wins"]:
        newest = {f"out-{key}": max(events) for key, events in campaign.events.items()}
        assert cloud.objects.outputs == newest
        assert cloud.table.having("lock_token") == []


def test_an_event_is_lost_if_a_record_leaves_the_index_when_it_is_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update = stuck._update

    def leave(dynamodb: Any, table: str, key: stuck.StuckKey, *_: Any) -> None:
        update(dynamodb, table, key, f"REMOVE {stuck.SINCE}", {})

    monkeypatch.setattr(stuck, "_update", leave)
    lost = {campaign.policies[0] for campaign in map(Campaign, range(60)) if campaign.run()}
    assert lost
