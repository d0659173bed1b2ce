"""Patience: for how long an event is tried again, and that nobody has to wait for it."""

from __future__ import annotations

import pytest

from bench.simulation.clock import Outage
from bench.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import DAY, POLICIES, upload

END = 60.0


@pytest.mark.parametrize("policy", POLICIES)
def test_without_retry_hours_the_first_fault_parks_an_event(policy: str) -> None:
    cloud = Cloud(Settings(policy, retry_hours=0, outages=[Outage("lambda", 0, END)]))
    for number in range(10):
        upload(cloud, f"{number}.png")
    cloud.run_until_quiet(DAY)
    assert len(cloud.parked) == len(cloud.executions) == 10


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        ("latest-wins", "Superseded"),
        ("optimistic", "Superseded"),
        ("first-wins", "Duplicate"),
        ("every-version", "Processed"),
    ],
)
def test_an_event_that_waits_for_its_retry_delays_no_newer_event_of_its_key(
    policy: str, outcome: str
) -> None:
    cloud = Cloud(Settings(policy, outages=[Outage("lambda", 0, END)]))
    older, newer = (upload(cloud, "0.png", after) for after in (0, END + 1))
    cloud.run_until_quiet(DAY)
    assert cloud.finished[newer] < END + 2 < cloud.finished[older]
    assert cloud.executions[-1].input["detail"]["object"]["sequencer"] == older
    assert cloud.executions[-1].outcome == outcome
    assert cloud.parked == []


@pytest.mark.parametrize("hours", [0.5, 24])
def test_an_outage_that_outlasts_the_patience_parks_the_events_with_their_reasons(
    hours: float,
) -> None:
    cloud = Cloud(Settings(retry_hours=hours, outages=[Outage("s3", 0, 3 * DAY)]))
    for number in range(10):
        upload(cloud, f"{number}.png")
    cloud.run_until_quiet(3 * DAY)
    assert len(cloud.parked) == 10
    for parked in cloud.parked:
        assert parked["reason"]["reasons"][0].startswith("ClientError: ")
    assert hours * 3600 < cloud.clock.now < hours * 3600 + 20 * 60
