"""Random deaths: executions die anywhere, one event's several times, while sweeps run."""

import os
import random
from collections import Counter
from collections.abc import Iterable
from statistics import quantiles

from inorder.model.outcomes import FINISHED, RETRYING
from tests.proof.simulation.cloud import Cloud, Settings, sequencer_of
from tests.proof.simulation.conftest import DAY, POLICIES
from tests.proof.simulation.machine import Execution

RUNS, RUNS_AT_NIGHT = 120, 1_500
SEEDS = range(RUNS_AT_NIGHT if os.environ.get("MODEL") or os.environ.get("NIGHT") else RUNS)
DEATHS = 3  # of one event
LATEST_WINS, EVERY_VERSION = POLICIES


class Campaign:
    """A few events of two keys, whose executions die by chance.

    In a versioned bucket, the policy may be every-version, or change.
    """

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)  # noqa: S311
        self.is_versioned = chance.random() < 1 / 3
        self.policies = [LATEST_WINS]
        if self.is_versioned:
            self.policies = chance.sample(POLICIES, chance.randrange(1, 3))
        self.deaths, self.waited = Counter[str](), set[str]()
        self.started = dict[str, str]()  # the policies of the executions
        settings = Settings(
            self.policies[0], seconds=3, dies=self._dies, seed=seed, versioned=self.is_versioned
        )
        self.cloud = Cloud(settings)
        self.events: dict[str, list[str]] = {}
        for after in sorted(chance.uniform(0, 20) for _ in range(chance.randrange(1, 4))):
            key = chance.choice("xy")
            sequencer = self.cloud.upload(key, after, deliveries=chance.randrange(1, 3))
            self.events.setdefault(key, []).append(sequencer)
        for policy in self.policies[1:]:
            self.cloud.bus.deliver("", lambda: self.cloud.switch(policy), chance.uniform(0, 1000))  # noqa: B023

    def _dies(self, execution: Execution, state: str) -> bool:
        policy = self.started.setdefault(execution.id, self.cloud.machine.name)
        if state.startswith("Wait "):
            self.waited.add(execution.id)
        sequencer = sequencer_of(execution.input)
        if self.deaths[sequencer] == DEATHS or self.chance.random() > 0.1:
            return False
        self.deaths[sequencer] += 1
        recorded = {
            (record["state_machine"]["S"], record["sequencer"]["S"])
            for record in self.cloud.table.having("event")
        }
        if execution.id not in self.waited and (policy, sequencer) not in recorded:
            # AWS starts again what dies before its first write: a trust that covers no wait.
            self.cloud.bus.deliver("states", lambda: self.cloud.start(execution.input), 1)
        return True

    def run(self) -> str | None:
        """Run until all is quiet, and tell what is wrong, if anything is."""
        cloud = self.cloud
        cloud.run_until_quiet(4 * DAY)
        checks = {
            "lost": [*self._lost()],
            "parked": cloud.parked,
            "wrong": [*self._wrong()],
            "locks left": cloud.table.having("lock_token"),
            "two at once": cloud.shared_keys,
            "written twice": [
                output for output, times in cloud.objects.written.items() if times > 1
            ],
            "ends": set(cloud.outcomes) - FINISHED - {RETRYING, "Died"},
        }
        return next((f"{check}: {wrong}" for check, wrong in checks.items() if wrong), None)

    def _lost(self) -> Iterable[str]:
        """List the events that are not done; an older one may be dropped if a newer one came.

        An execution may also die when it has marked its event as done.
        """
        cloud = self.cloud
        done = {*cloud.finished} | {sequencer for _, sequencer in cloud.objects.written}
        marked = (
            record for record in cloud.table.having("sequencer") if record["status"]["S"] == "DONE"
        )
        done |= {record["sequencer"]["S"] for record in marked}
        for events in self.events.values():
            yield from {*(events if self.is_versioned else [max(events)])} - done

    def _wrong(self) -> Iterable[str]:
        """List the keys whose output is not the newest event's, unless the policy was another."""
        outputs = self.cloud.objects.outputs
        for key, events in self.events.items():
            if self.policies == [LATEST_WINS] and outputs.get(f"out-{key}") != max(events):
                yield key
            if self.policies == [EVERY_VERSION]:
                yield from {f"out-{key}/{version}" for version in events} - outputs.keys()

    def delays(self) -> Iterable[float]:
        """Give after how many seconds the newest event of each key was done, if any has died."""
        cloud = self.cloud
        for events in self.events.values() if self.deaths.total() else ():
            if (newest := max(events)) in cloud.finished:
                yield cloud.finished[newest] - cloud.arrived[newest]


def test_whoever_dies_every_event_ends_right_and_soon() -> None:
    delays: list[float] = []
    for seed in SEEDS:
        campaign = Campaign(seed)
        assert (seed, campaign.run()) == (seed, None)
        delays += campaign.delays()
    cuts = quantiles(delays, n=100)
    percentiles = [round(seconds) for seconds in (cuts[74], cuts[89], cuts[98], max(delays))]
    print(f"After a death, 75 %, 90 %, 99 % and all are done after {percentiles} s.")  # noqa: T201
    assert percentiles[0] <= 600
    assert percentiles[-1] <= 3_600
