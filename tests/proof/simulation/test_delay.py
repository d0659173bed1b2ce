"""Delay: how soon the newest event follows the one that blocked it, and what its waiting costs."""

from __future__ import annotations

from statistics import median, quantiles
from unittest.mock import patch

import pytest

from bench.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import DAY, upload

KEYS = 20


def delays(holder: float, seed: int) -> list[float]:
    """Measure by how much the newest events of some keys end later than the least possible.

    Each arrives while an older one of its key is processed, at any time of it. The least possible
    is the older one's end, and then the time that the function takes for the newest one.
    """
    cloud = Cloud(Settings(seconds=holder, seed=seed))
    pairs = []
    for number in range(KEYS):
        older = upload(cloud, f"{number}.png")
        after = cloud.clock.random.uniform(0.05, holder)  # by 0.05 s, the older one has the lock
        pairs.append((older, upload(cloud, f"{number}.png", after)))
    cloud.run_until_quiet(DAY)
    assert set(cloud.finished) == {sequencer for pair in pairs for sequencer in pair}
    assert cloud.clock.total("invocations") == 2 * KEYS
    ended = cloud.finished
    return [ended[newer] - ended[older] - holder for older, newer in pairs]


@pytest.mark.parametrize("holder", [0.1, 0.5, 1, 2, 3.3, 5])
def test_the_newest_event_follows_soon_after_its_holder(holder: float) -> None:
    found = [each for seed in range(2) for each in delays(holder, seed)]
    assert median(found) <= 0.2
    assert quantiles(found, n=100)[-1] <= 1.5


@pytest.mark.parametrize("policy", ["latest-wins", "first-wins", "every-version"])
def test_a_waiter_reads_at_most_8_times_in_10_seconds_and_32_times_in_80(policy: str) -> None:
    cloud = Cloud(
        Settings(
            policy, dies=lambda each, state: each.id == "execution-0" and state == "Invert Image"
        )
    )
    upload(cloud, "0.png")
    with patch.object(cloud.table, "get", wraps=cloud.table.get) as reads:
        upload(cloud, "0.png", after=1)
        for seconds, most in ((10, 8), (80, 32)):
            cloud.clock.env.run(until=1 + seconds)
            assert 0 < reads.call_count <= most
