"""Bursts: Lambda refuses what is too much at once, and every event is processed all the same."""

from __future__ import annotations

import pytest

from bench.simulation.cloud import Settings
from tests.proof.simulation.conftest import POLICIES, assert_promise, uploaded_at_once

EVERYONE = {"Processed", "Superseded", "Duplicate", "Retrying"}


@pytest.mark.parametrize(
    ("policy", "shares_concurrency", "times"),
    # In an account with a concurrency of 10, the function that retries takes some of it.
    [*((policy, False, 2) for policy in POLICIES), (POLICIES[0], True, 2.5)],
)
def test_many_uploads_at_once_take_about_twice_the_time_that_the_function_needs(
    policy: str, shares_concurrency: bool, times: float
) -> None:
    settings = Settings(policy, concurrency=10, seconds=0.5, shares_concurrency=shares_concurrency)
    cloud = uploaded_at_once(settings, keys=500)
    assert_promise(cloud)
    assert {each.outcome for each in cloud.executions} == {"Processed", "Retrying"}
    assert cloud.clock.total("invocations") == 500
    assert cloud.makespan <= times * 500 * 0.5 / 10


@pytest.mark.parametrize("policy", ["latest-wins", "every-version", "optimistic"])
def test_twenty_keys_with_twenty_versions_each_end_right(policy: str) -> None:
    cloud = uploaded_at_once(Settings(policy, concurrency=5), keys=20, versions=20)
    assert_promise(cloud)
    assert {each.outcome for each in cloud.executions} <= EVERYONE


def test_a_hundred_versions_of_one_key_are_all_processed() -> None:
    cloud = uploaded_at_once(Settings("every-version", seconds=3), keys=1, versions=100)
    assert_promise(cloud)
    reasons = cloud.reasons()
    assert set(reasons) == {"KeyLocked"}  # so each of them waited, and was tried again
    assert len(cloud.objects.outputs) == 100


def test_messages_that_sqs_delivers_twice_are_processed_once() -> None:
    cloud = uploaded_at_once(Settings(concurrency=10, twice=0.3), keys=100)
    assert_promise(cloud)
    assert any(each.outcome == "Duplicate" for each in cloud.executions)
