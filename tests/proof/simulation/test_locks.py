"""A key whose lock is wanted: hot keys, long work, and that no two executions work at once."""

from statistics import median

import pytest

from inorder.model.outcomes import FINISHED, RETRYING
from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import (
    DAY,
    assert_promise,
    hot_key_whose_holder_dies,
    long_work,
)
from tests.proof.simulation.machine import Execution
from tests.proof.simulation.table import WRITES_A_SECOND


@pytest.mark.parametrize(("overwrites", "work"), [(500, 0.3), (500, 3), (1_000, 0.3)])
def test_a_key_ends_right_however_fast_it_is_overwritten(overwrites: int, work: float) -> None:
    """Each overwrite tries to claim the key, and records itself: two writes."""
    cloud, seconds = Cloud(Settings(seconds=work)), 3
    for number in range(overwrites * seconds):
        newest = cloud.upload("0.png", number / overwrites)
    cloud.run_until_quiet(DAY)
    is_refused = cloud.clock.total("throttled writes") > overwrites
    assert is_refused == (2 * overwrites > WRITES_A_SECOND)
    assert_promise(cloud)
    assert cloud.finished[newest] - cloud.arrived[newest] < work + 2


@pytest.mark.parametrize("gap", [10, 30, 100])
def test_a_dead_holders_key_goes_on_within_eight_minutes(gap: float) -> None:
    cloud, seconds = hot_key_whose_holder_dies(gap)
    assert_promise(cloud, may_drop=True)
    assert 300 < seconds < 480


def test_keys_whose_holders_die_go_on_within_eight_minutes() -> None:
    """No other event wants these keys, so only the sweep notices."""
    keys, dying = range(50), ("Invert Image", "Release Lock")

    def dies(execution: Execution, state: str) -> bool:
        number = int(execution.input["detail"]["object"]["key"])
        return "retry" not in execution.input and state == dying[number % 2]

    cloud = Cloud(Settings(dies=dies))
    for number in keys:
        cloud.upload(str(number), cloud.clock.random.uniform(0, 600))
    cloud.run_until_quiet(DAY)
    assert_promise(cloud)
    seconds = sorted(cloud.finished[event] - cloud.arrived[event] for event in cloud.arrived)
    print(f"A dead holder's key: {median(seconds):.0f} s, at most {seconds[-1]:.0f} s")  # noqa: T201
    assert len(seconds) == len(keys)
    assert 300 < seconds[0] < seconds[-1] < 480


@pytest.mark.parametrize("seconds", [15, 60, 110])
def test_no_holder_loses_its_lock_however_long_it_works(seconds: float) -> None:
    cloud = long_work(seconds)
    assert_promise(cloud)
    assert set(cloud.outcomes) <= {*FINISHED, RETRYING}
    assert cloud.clock.total("invocations") <= len(cloud.arrived)
    errors = {reason.partition(":")[0] for reasons in cloud.reasons for reason in reasons}
    assert errors == {"KeyLocked"}  # waiters have less patience than a holder may need


def test_long_work_parks_no_waiting_event_even_without_retry_hours() -> None:
    assert_promise(long_work(110, retry_hours=0))
