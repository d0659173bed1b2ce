"""Outages: a service is out while events arrive, and nobody types a command.

And patience: for how long an event is tried again, and that nobody has to wait for it.
"""

import random
from itertools import combinations, cycle, product

import pytest

from tests.proof.simulation.clock import KINDS, Kind, Outage
from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import (
    DAY,
    POLICIES,
    assert_promise,
    uploaded_at_once,
    uploaded_meanwhile,
)
from tests.proof.simulation.machine import Execution

BEGIN, END = 60.0, 360.0
SERVICES = ["s3", "dynamodb", "lambda", "sqs"]
PAIRS = list(combinations(SERVICES, 2))
OUTAGES = [*product([(service,) for service in SERVICES], KINDS), *zip(PAIRS, cycle(KINDS))]


def outages(services: tuple[str, ...], kind: Kind) -> list[Outage]:
    return [Outage(service, BEGIN, END, kind) for service in services]


@pytest.mark.parametrize(("services", "kind"), OUTAGES)
def test_after_an_outage_all_is_right_without_a_command(
    services: tuple[str, ...], kind: Kind
) -> None:
    settings = Settings(concurrency=10, outages=outages(services, kind))
    cloud = uploaded_meanwhile(settings, until=END + 60)
    assert_promise(cloud)
    is_retried = services != ("sqs",)
    assert bool(cloud.outcomes["Retrying"]) == is_retried
    assert bool(cloud.clock.total("by EventBridge")) == (is_retried and "sqs" in services)
    assert cloud.makespan < END + 5 * 60 + 30


def test_timeouts_of_functions_while_s3_is_silent_park_nothing() -> None:
    """With work of 4 s, the repeated calls of S3 do not end within the function's timeout."""
    settings = Settings(concurrency=10, seconds=4, outages=outages(("s3",), "silence"))
    cloud = uploaded_meanwhile(settings, until=END + 60)
    assert_promise(cloud)
    assert any(reasons[-1].startswith("Sandbox.Timedout") for reasons in cloud.reasons)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_schedule_finds_an_event_that_could_not_be_sent(policy: str) -> None:
    settings = Settings(
        policy, concurrency=10, outages=outages(("lambda", "sqs", "events"), "errors")
    )
    cloud = uploaded_meanwhile(settings, END + 60, keys=20)
    assert_promise(cloud, may_drop=True)
    assert cloud.outcomes["NotParked"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", POLICIES)
def test_executions_that_die_while_sqs_is_out_are_started_again(policy: str, kind: Kind) -> None:
    chance = random.Random(1)  # noqa: S311

    def dies(execution: Execution, state: str) -> bool:
        return (
            state == "Invert Image" and BEGIN <= execution.started < END and chance.random() < 0.5
        )

    settings = Settings(policy, concurrency=10, outages=outages(("sqs",), kind), dies=dies)
    cloud = uploaded_meanwhile(settings, END + 60, keys=20, events=120)
    assert_promise(cloud, may_drop=True)
    assert cloud.outcomes["Died"] >= 5


def test_while_step_functions_is_out_the_events_wait() -> None:
    both = [*outages(("lambda",), "errors"), Outage("states", 200, 600)]
    cloud = uploaded_meanwhile(Settings(concurrency=10, outages=both), until=END)
    assert_promise(cloud)
    assert cloud.clock.total("states, failing") > 10


@pytest.mark.parametrize("policy", POLICIES)
def test_without_retry_hours_the_first_fault_parks_an_event(policy: str) -> None:
    settings = Settings(policy, retry_hours=0, outages=[Outage("lambda", 0, BEGIN)])
    cloud = uploaded_at_once(settings, keys=10)
    assert len(cloud.parked) == len(cloud.executions) == 10


@pytest.mark.parametrize(
    ("policy", "outcome"), [("latest-wins", "Superseded"), ("every-version", "Processed")]
)
def test_an_event_awaiting_its_retry_delays_no_newer_event(policy: str, outcome: str) -> None:
    cloud = Cloud(Settings(policy, outages=[Outage("lambda", 0, BEGIN)]))
    older, newer = (cloud.upload("0.png", after) for after in (0, BEGIN + 1))
    cloud.run_until_quiet(DAY)
    assert cloud.finished[newer] < BEGIN + 2 < cloud.finished[older]
    assert cloud.executions[-1].input["detail"]["object"]["sequencer"] == older
    assert cloud.executions[-1].outcome == outcome
    assert cloud.parked == []


@pytest.mark.parametrize("hours", [0.5, 24])
def test_an_outage_longer_than_the_patience_parks_events_with_reasons(hours: float) -> None:
    cloud = Cloud(Settings(retry_hours=hours, outages=[Outage("s3", 0, 3 * DAY)]))
    for number in range(10):
        cloud.upload(f"{number}.png")
    cloud.run_until_quiet(3 * DAY)
    assert len(cloud.parked) == 10
    for parked in cloud.parked:
        assert parked["reason"]["reasons"][0].startswith("ClientError: ")
    assert hours * 3600 < cloud.clock.now < hours * 3600 + 35 * 60  # after the next sweep
