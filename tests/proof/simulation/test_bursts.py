"""Bursts: Lambda refuses what is too much at once, and every event is processed all the same.

And delay: how soon the newest event follows the one that blocked it, and what its waiting costs.
"""

from statistics import median, quantiles
from unittest.mock import patch

import pytest

from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import DAY, assert_promise, first_dies, uploaded_at_once

EVERYONE = {"Processed", "Superseded", "Duplicate", "Retrying"}


@pytest.mark.parametrize("shares_concurrency", [False, True])  # as in a small account
def test_a_burst_needs_little_extra_time_and_few_calls(shares_concurrency: bool) -> None:
    settings = Settings(concurrency=10, seconds=0.5, shares_concurrency=shares_concurrency)
    cloud = uploaded_at_once(settings, keys=500)
    assert_promise(cloud)
    assert set(cloud.outcomes) <= {"Processed", "Retrying"}
    assert cloud.clock.total("invocations") == 500
    assert cloud.clock.total("dynamodb") < 5 * 500
    assert cloud.makespan <= 1.35 * 500 * 0.5 / 10


def test_a_burst_uses_a_large_concurrency() -> None:
    cloud = uploaded_at_once(Settings(concurrency=500, seconds=1), keys=5_000)
    assert_promise(cloud)
    assert cloud.clock.total("dynamodb") < 5 * 5_000
    assert cloud.makespan <= 1.5 * 5_000 / 500


@pytest.mark.parametrize("policy", ["latest-wins", "every-version"])
def test_twenty_keys_with_twenty_versions_each_end_right(policy: str) -> None:
    cloud = uploaded_at_once(Settings(policy, concurrency=5), keys=20, versions=20)
    assert_promise(cloud)
    assert set(cloud.outcomes) <= EVERYONE


def test_a_hundred_versions_of_one_key_wait_for_nobody() -> None:
    cloud = uploaded_at_once(Settings("every-version", seconds=3), keys=1, versions=100)
    assert_promise(cloud)
    assert set(cloud.outcomes) == {"Processed"}
    assert cloud.makespan < 3.5


def test_messages_that_sqs_delivers_twice_are_processed_once() -> None:
    cloud = uploaded_at_once(Settings(concurrency=1, seconds=1, twice=0.3), keys=100)
    assert_promise(cloud)
    assert cloud.outcomes["Duplicate"]


KEYS = 20


def delays(holder: float, seed: int) -> list[float]:
    """Measure by how much the newest events of some keys end later than the least possible.

    Each arrives while an older one of its key is processed, at any time of it. The least possible
    is the older one's end, and then the time that the function takes for the newest one.
    """
    cloud = Cloud(Settings(seconds=holder, seed=seed))
    pairs = []
    for number in range(KEYS):
        older = cloud.upload(f"{number}.png")
        after = cloud.clock.random.uniform(0.05, holder)  # by 0.05 s, the older one has the lock
        pairs.append((older, cloud.upload(f"{number}.png", after)))
    cloud.run_until_quiet(DAY)
    assert set(cloud.finished) == {sequencer for pair in pairs for sequencer in pair}
    assert cloud.clock.total("invocations") == 2 * KEYS
    ended = cloud.finished
    return [ended[newer] - ended[older] - holder for older, newer in pairs]


@pytest.mark.parametrize("holder", [0.1, 0.5, 1, 2, 3.3, 5])
def test_the_newest_event_follows_soon_after_its_holder(holder: float) -> None:
    measured = [delay for seed in range(2) for delay in delays(holder, seed)]
    assert median(measured) <= 0.2
    assert quantiles(measured, n=100)[-1] <= 1.5


def test_a_waiter_reads_six_times_and_is_then_retried() -> None:
    cloud = Cloud(Settings(dies=first_dies))
    cloud.upload("0.png")
    with patch.object(cloud.table, "get", wraps=cloud.table.get) as reads:
        cloud.upload("0.png", after=1)
        cloud.clock.env.run(until=28)
    assert reads.call_count == 6
    assert cloud.executions[1].outcome == "Retrying"
