"""No storms: what is tried again is bounded in number and rate, and ends."""

import re
from collections import Counter

import pytest

from inorder import PROJECT
from inorder.cost import prices, prices_of
from retry_events.retries import FIRST_SECONDS, GROWTH, LONGEST_SECONDS, RETRIES_AT_MOST
from tests.proof.simulation.clock import Kind, Outage, ServiceError
from tests.proof.simulation.cloud import (
    CONSUMER,
    CONSUMER_SECONDS,
    DEFAULTS,
    RESOURCES,
    Cloud,
    Settings,
)
from tests.proof.simulation.conftest import DAY, POLICIES, assert_promise, uploaded_at_once
from tests.proof.simulation.machine import Execution

BEGIN, END = 60.0, 360.0
# In a second.
RETRIES = Settings.maximum_concurrency * CONSUMER["BatchSize"] / CONSUMER_SECONDS
# What an execution that waits for nobody asks a service for at most: the attempts of Invert Image,
# and those of Claim Key, Record Newest Event, Release Lock and Release Lock Only.
CALLS = {"lambda": 12, "dynamodb": 14}
EVENTS = 1_000
OUTAGES: list[tuple[str, Kind]] = [
    ("lambda+sqs", "errors"),
    ("dynamodb", "silence"),
    ("s3", "silence"),
]


@pytest.mark.parametrize(("services", "kind"), OUTAGES)
def test_a_thousand_waiting_events_do_not_come_at_once(services: str, kind: Kind) -> None:
    arrivals = EVENTS / (END - BEGIN)
    outages = [Outage(service, BEGIN, END, kind) for service in services.split("+")]
    cloud = Cloud(Settings(outages=outages))
    for number in range(EVENTS):
        cloud.upload(f"{number}.png", BEGIN + number / arrivals)
    cloud.run_until_quiet(DAY)
    assert_promise(cloud)
    peak = cloud.clock.peak
    assert peak("RetryStarted") <= RETRIES
    assert peak("starts") <= RETRIES + arrivals + 1
    for service, calls in CALLS.items():
        assert peak(service, END) <= calls * (RETRIES + arrivals)
    waiting = EVENTS - sum(1 for ended in cloud.finished.values() if ended < END)
    # Some are last retried just before the outage ends, and then wait for as long as it took.
    assert cloud.makespan < END + (END - BEGIN) + 3 * waiting / RETRIES + 200


def invocations(executions: int | None = None) -> int:
    """Give how often the function is invoked for an event at most, in all its executions."""
    if executions is None:
        executions, passed = 1, 0.0
        while passed < DAY:  # with the shortest delays
            passed += min(FIRST_SECONDS * GROWTH ** (executions - 1), LONGEST_SECONDS) / 2
            executions += 1
    return executions


def test_the_document_says_what_an_upload_can_cost() -> None:
    text = (PROJECT / "docs" / "cost.md").read_text()
    rows = re.findall(r"^\| .+ \| (\d+) \| (\d\.\d{3}) \|$", text, re.MULTILINE)
    seconds = RESOURCES["InvertImageFunction"]["Timeout"]
    megabytes, region = DEFAULTS["FunctionMemorySize"], prices_of().partition(",")[0]
    assert f"with the defaults in {region}." in text
    assert f"the function's timeout of {seconds} s, with {megabytes:,} MB:" in text
    limits = RETRIES_AT_MOST["Runtime.OutOfMemory"], RETRIES_AT_MOST["Sandbox.Timedout"]
    computed = []
    for count in (*(invocations(1 + limit) for limit in limits), invocations()):
        dollars = prices()["lambda_requests"].dollars(count)
        gb_seconds = count * seconds * megabytes / 1024
        dollars += prices()["lambda_gb_seconds"].dollars(gb_seconds)
        computed.append((str(count), f"{dollars:.3f}"))
    assert rows == computed


@pytest.mark.parametrize(
    "error", ["Runtime.OutOfMemory", "Runtime.ExitError", "MemoryError", "Sandbox.Timedout"]
)
@pytest.mark.parametrize("policy", POLICIES)
def test_an_event_that_kills_its_function_is_parked_soon(policy: str, error: str) -> None:
    cloud = Cloud(Settings(policy, poison={"poison.png": ServiceError(error)}))
    cloud.upload("poison.png")
    cloud.upload("0.png")
    cloud.run_until_quiet(DAY)
    [parked] = cloud.parked
    executions = 1 + RETRIES_AT_MOST[error]
    assert (parked["reason"]["Error"], parked["reason"]["attempts"]) == (error, executions)
    assert cloud.clock.total("invocations") == invocations(executions) + 1  # the other event's
    assert len(cloud.finished) == 1


@pytest.mark.parametrize(
    ("policy", "deliveries", "twice"),
    [*((policy, 5, 0) for policy in POLICIES), (POLICIES[0], 2, 1)],
)
def test_an_always_failing_event_is_parked_once_after_a_day(
    policy: str, deliveries: int, twice: float
) -> None:
    error = ValueError("This object always fails.")
    cloud = Cloud(Settings(policy, poison={"poison.png": error}, twice=twice))
    cloud.upload("poison.png", deliveries=deliveries)
    cloud.upload("0.png")
    cloud.run_until_quiet(2 * DAY)
    [parked] = cloud.parked
    reason = parked["reason"]
    assert parked["event"]["detail"]["object"]["key"] == "poison.png"
    assert reason["reasons"] == [
        f"ValueError: This object always fails. ({reason['attempts']} times)"
    ]
    assert 90 < reason["attempts"] < 13 + DAY / 450
    assert len(cloud.executions) <= 1 + deliveries + 200 * (1 + twice)
    if not twice:
        extra = invocations(1 + deliveries)  # the other event's, and further deliveries'
        assert cloud.clock.total("invocations") <= invocations() + extra
    assert 0 <= max(execution.started for execution in cloud.executions) - DAY < 900
    assert len(cloud.finished) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_an_event_whose_executions_die_is_parked_after_40_restarts(policy: str) -> None:
    cloud = Cloud(Settings(policy, dies=lambda _, state: state == "Invert Image"))
    cloud.upload("0.png")
    cloud.run_until_quiet(7 * DAY)
    attempts = [
        execution.input.get("retry", {"attempt": 0})["attempt"] for execution in cloud.executions
    ]
    assert attempts == list(range(41))
    [parked] = cloud.parked
    assert parked["reason"]["Error"] == "ExecutionDied"


def test_keys_of_dead_executions_restart_at_the_pace_of_retries() -> None:
    def dies(execution: Execution, state: str) -> bool:
        return state == "Invert Image" and execution.started < 60

    cloud = uploaded_at_once(Settings(dies=dies), keys=1200)
    assert_promise(cloud)
    restarted = [execution.started for execution in cloud.executions if "retry" in execution.input]
    by_sweep = [*Counter(int(started // 60) for started in restarted).values()]
    assert (sum(by_sweep), by_sweep[0] > 400) == (1200, True)  # as many as a sweep can in its time
    assert cloud.clock.peak("starts", 60) <= RETRIES


@pytest.mark.parametrize("service", ["none", "s3", "dynamodb", "lambda"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_event_is_started_after_it_was_processed(policy: str, service: str) -> None:
    settings = Settings(policy, concurrency=1, seconds=1, outages=[Outage(service, 5, 300)])
    cloud = uploaded_at_once(settings, keys=100)
    assert_promise(cloud)
    assert len(cloud.executions) > 100
    for execution in cloud.executions:
        is_waiters = "waited for the key's lock" in str(execution.input.get("retry"))  # a duplicate
        finished = cloud.finished[execution.input["detail"]["object"]["sequencer"]]
        # Without the table, no stream says that the event is retried: a sweep hands it over, too.
        is_swept = service == "dynamodb" and execution.outcome == "Duplicate"
        assert execution.started < finished or is_waiters or is_swept
