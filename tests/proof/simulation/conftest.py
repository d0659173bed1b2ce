"""What the tests of bursts and outages share: a workload, and the promise."""

import random
from collections import defaultdict
from typing import Any

from tests.proof.simulation.cloud import Cloud, Settings, sequencer_of
from tests.proof.simulation.machine import Execution

POLICIES = ["latest-wins", "every-version"]
DAY = 86_400.0


def uploaded_at_once(settings: Settings, keys: int, versions: int = 1) -> Cloud:
    """Upload versions of objects at the same time, and wait until all is quiet."""
    cloud = Cloud(settings)
    for _ in range(versions):
        for number in range(keys):
            cloud.upload(f"{number}.png")
    cloud.run_until_quiet(DAY)
    return cloud


def uploaded_meanwhile(settings: Settings, until: float, keys: int = 10, events: int = 60) -> Cloud:
    """Upload objects again and again until a time, and wait until all is quiet."""
    cloud, chance = Cloud(settings), random.Random(settings.seed)  # noqa: S311
    for after in sorted(chance.uniform(0, until) for _ in range(events)):
        cloud.upload(f"{chance.randrange(keys)}.png", after)
    cloud.run_until_quiet(DAY)
    return cloud


def assert_promise(cloud: Cloud, *, may_drop: bool = False) -> None:
    """Check that each output is right, and that nothing was parked, lost or processed twice.

    Nor did two executions work on a key at once, or leave a lock.

    `may_drop`: events may have no outcome, if another event of their key decides the output.
    """
    assert cloud.parked == []
    policy, written = cloud.settings.policy, cloud.objects.written
    if not may_drop or policy == "every-version":
        assert set(cloud.finished) == set(cloud.arrived)
    assert set(written.values()) == {1}
    assert (cloud.shared_keys, cloud.table.having("lock_token")) == (set(), [])
    events: dict[str, set[str]] = defaultdict(set)
    for execution in cloud.executions:
        events[execution.input["detail"]["object"]["key"]].add(sequencer_of(execution.input))
    if policy == "every-version":
        expected = {
            (f"out-{key}/{sequencer}", sequencer) for key in events for sequencer in events[key]
        }
        assert set(written) == expected
        return
    newest = {f"out-{key}": max(sequencers) for key, sequencers in events.items()}
    assert cloud.objects.outputs == newest


def first_dies(execution: Execution, state: str) -> bool:
    """Let the first execution die as its work begins."""
    return execution.id == "execution-0" and state == "Invert Image"


def hot_key_whose_holder_dies(gap: float) -> tuple[Cloud, float]:
    """Let the first holder of a key die, whose events go on; tell when one is processed first."""
    cloud = Cloud(Settings(dies=first_dies))
    for number in range(round(2400 / gap)):
        cloud.upload("0.png", gap * number)
    cloud.run_until_quiet(DAY)
    processed = {sequencer for _, sequencer in cloud.objects.written}
    return cloud, min(cloud.finished[sequencer] for sequencer in processed)


def long_work(seconds: float, **settings: Any) -> Cloud:
    """Let a second event of each key come while the first one is processed, which takes long."""
    cloud = Cloud(Settings(seconds=seconds, timeout=seconds + 1, **settings))
    for number in range(20):
        cloud.upload(f"{number}.png")
        cloud.upload(f"{number}.png", cloud.clock.random.uniform(0.05, seconds))
    cloud.run_until_quiet(DAY)
    return cloud
