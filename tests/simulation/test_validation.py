"""The simulation agrees with the shipped files in real time: moto, and the real handlers."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from statistics import mean
from typing import Any

import pytest

from bench.simulation.cloud import Cloud, Settings
from tests.conftest import picture
from tests.in_process import TABLE, InProcess, Throttled, import_anew
from tests.simulation.conftest import DAY
from tests.unit.test_retry_events import Retries

UPLOADS = int(os.environ.get("BURST_UPLOADS", "30"))
CONCURRENCY = max(3, UPLOADS // 20)
SECONDS = 0.5
# Real seconds for each second of the simulation: moto needs time of its own.
SCALE = float(os.environ.get("BURST_SCALE", "2"))
FACTOR = 1.5


class InRealTime(Retries):
    """The function that retries, and its queue, whose clock is the real one, slowed down."""

    _began = time.time()

    @property
    def now(self) -> float:
        return self._began + (time.time() - self._began) / SCALE

    @now.setter
    def now(self, _: float) -> None:
        """The time goes on by itself."""

    def poll_until(self, is_over: threading.Event) -> None:
        while not is_over.wait(0.05):
            self.poll()


class Limited:
    """The function, with a limited concurrency."""

    def __init__(self, aws: InProcess) -> None:
        self._aws, self._lock, self._running = aws, threading.Lock(), 0
        self.refusals = 0
        self.seconds: list[float] = []
        self.ends: list[float] = []

    def __call__(self, payload: Any) -> Any:
        with self._lock:
            if self._running >= CONCURRENCY:
                self.refusals += 1
                raise Throttled
            self._running += 1
        began = time.monotonic()
        try:
            time.sleep(SECONDS * SCALE)
            return self._aws.handle(payload)
        finally:
            with self._lock:
                self._running -= 1
                self.ends.append(time.monotonic())
                self.seconds.append((self.ends[-1] - began) / SCALE)


@pytest.fixture
def retries(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> InRealTime:
    for name, value in {
        "KEY_TABLE": TABLE,
        "STATE_MACHINE_ARN": aws.state_machine.arn,
        "RETRY_EVENTS_QUEUE_URL": aws.retry_queue,
        "PARKED_EVENTS_QUEUE_URL": aws.parked_queue,
        "RETRY_HOURS": "24",
        "EXECUTION_SECONDS": "300",
    }.items():
        monkeypatch.setenv(name, value)
    return InRealTime(import_anew("retry_events.app"), monkeypatch)


def test_a_burst_in_real_time_ends_as_the_simulation_says(
    aws: InProcess, retries: InRealTime
) -> None:
    events = [aws.upload(f"{number}.png", picture((9, 9, 9))) for number in range(UPLOADS)]
    aws.invoke = function = Limited(aws)
    aws.wait_scale = SCALE
    is_over, arrivals, began = threading.Event(), [], time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        polling = [pool.submit(retries.poll_until, is_over) for _ in range(2)]
        try:
            for event in events:
                arrivals.append((time.monotonic() - began) / SCALE)
                aws.start(event)
            while len(function.ends) < UPLOADS:
                assert time.monotonic() - began < 250
                time.sleep(0.1)
            executions = aws.state_machine.wait_for(UPLOADS)
        finally:
            is_over.set()
        for each in polling:
            each.result()

    seconds = sum(function.seconds) / UPLOADS
    clouds = [simulated(arrivals, seconds, seed) for seed in range(10)]
    outcomes = Counter(each.outcome for each in executions)
    assert outcomes["Processed"] == len(aws.outputs()) == UPLOADS
    assert set(outcomes) == {"Processed", "Retrying"}
    assert aws.parked() == []
    refusals = [cloud.clock.total("refusals") for cloud in clouds]
    compared = {
        "makespan": ((max(function.ends) - began) / SCALE, mean(each.makespan for each in clouds)),
        "refusals": (function.refusals, mean(refusals)),
    }
    print(f"{UPLOADS} uploads in {arrivals[-1]:.1f} s, of {seconds:.2f} s each: {compared}")  # noqa: T201
    for real, virtual in compared.values():
        assert 1 / FACTOR < real / virtual < FACTOR, compared


def simulated(arrivals: list[float], seconds: float, seed: int) -> Cloud:
    """Simulate uploads that arrive at these times."""
    cloud = Cloud(Settings(concurrency=CONCURRENCY, seconds=seconds, seed=seed))
    for number, after in enumerate(arrivals):
        cloud.upload(f"{number}.png", after)
    cloud.run_until_quiet(DAY)
    outcomes = Counter(each.outcome for each in cloud.executions)
    assert outcomes["Processed"] == UPLOADS
    assert set(outcomes) <= {"Processed", "Retrying"}
    assert cloud.parked == []
    return cloud
