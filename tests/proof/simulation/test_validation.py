"""The simulation, whose steps the model takes too, agrees with other engines.

Each state and write is as its policy's table says, which `test_states` compares with TestState and
DynamoDB, locally and on AWS. A burst is as on moto with the real handlers, where executions are
threads. They sleep in a time that goes on only while all of them sleep, so the speed of the machine
decides nothing.
"""

import heapq
import itertools
import threading
import time
from collections import Counter
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from tests.conftest import picture
from tests.policies.table import CREATED, EXECUTION, Effect, Row
from tests.policies.tables import STATES, TABLES
from tests.proof.simulation.clock import Clock, ServiceError
from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import uploaded_at_once
from tests.proof.simulation.machine import CompiledState, Context, Execution
from tests.proof.simulation.table import Table
from tests.support.in_process import TABLE, InProcess, Throttled, import_anew
from tests.unit.test_retry_events import NOW, Retries


def context_of(event: Any = None) -> Context:
    execution_input = CREATED if event is None else event
    return Context(Execution(EXECUTION, execution_input, 0), Clock(0), "test")


def taken(policy: str, case: Row | Effect) -> tuple[str | None, Any]:
    """Take a state: what follows it, and its output."""
    compiled, context = CompiledState(STATES[policy][case.state]), context_of(case.event)
    if case.response is None:
        return compiled.passed(case.input, context)
    if case.response.error:
        return compiled.failed(case.input, ServiceError(case.response.error))
    return compiled.succeeded(case.input, case.response.result, context)


@pytest.mark.parametrize("policy", TABLES)
def test_each_state_does_what_the_table_says(policy: str) -> None:
    for row in TABLES[policy].rows:
        if STATES[policy][row.state]["Type"] != "Pass":  # whose outputs are checked
            assert taken(policy, row)[0] == row.following, row
    for effect in TABLES[policy].outputs:
        assert taken(policy, effect)[1] == effect.output, effect


@pytest.mark.parametrize("policy", TABLES)
def test_each_write_changes_only_the_records_that_it_may(policy: str) -> None:
    for write in TABLES[policy].writes:
        state, table, is_refused = STATES[policy][write.state], Table(Clock(0)), False
        request = CompiledState(state).parameters(TABLES[policy].data, context_of())
        key = request.get("Key") or {"id": request["Item"]["id"]}
        if write.before is not None:
            table.items[key["id"]["S"]] = key | typed(TypeSerializer().serialize, write.before)
        try:
            table.call(state["Resource"].rpartition(":")[2], request)
        except ServiceError:
            is_refused = True
        records = [typed(TypeDeserializer().deserialize, item) for item in table.items.values()]
        key = typed(TypeDeserializer().deserialize, key)
        assert records == ([] if write.after is None else [key | write.after]), write
        assert is_refused == write.is_refused, write


def typed(convert: Any, record: dict[str, Any]) -> dict[str, Any]:
    return {name: convert(value) for name, value in record.items()}


UPLOADS, CONCURRENCY, SECONDS = 20, 3, 0.5
POLL_SECONDS = 0.1
SEEDS, FACTOR = 100, 1.2


class VirtualTime:
    """What the executions sleep in."""

    def __init__(self, aws: InProcess) -> None:
        self._aws, self._numbers = aws, itertools.count()
        self._sleeping: list[tuple[float, int, threading.Event]] = []
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        is_over = threading.Event()
        heapq.heappush(self._sleeping, (self.now + seconds, next(self._numbers), is_over))
        assert is_over.wait(300)

    def pass_to(self, until: float) -> None:
        """Let the time go on, and wake each execution at its time."""
        while True:
            while len(self._sleeping) < len(self._aws.state_machine.running()):
                time.sleep(0.001)
            if not self._sleeping or self._sleeping[0][0] > until:
                self.now = until
                return
            self.now, _, is_over = heapq.heappop(self._sleeping)
            is_over.set()


class Limited:
    """The function, with a limited concurrency."""

    def __init__(self, aws: InProcess, clock: VirtualTime) -> None:
        self._aws, self._clock, self._running = aws, clock, 0
        self.refusals = 0
        self.ends: list[float] = []

    def __call__(self, payload: Any) -> Any:
        if self._running >= CONCURRENCY:
            self.refusals += 1
            raise Throttled
        self._running += 1
        self._clock.sleep(SECONDS)
        self._running -= 1
        self.ends.append(self._clock.now)
        return self._aws.handle(payload)


@pytest.fixture
def retries(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> Retries:
    for name, value in {
        "KEY_TABLE": TABLE,
        "STATE_MACHINE_ARN": aws.state_machine.arn,
        "RETRY_EVENTS_QUEUE_URL": aws.retry_queue,
        "WAITING_EVENTS_QUEUE_URL": "waiting",
        "PARKED_EVENTS_QUEUE_URL": aws.parked_queue,
        "RETRY_HOURS": "24",
        "EXECUTION_SECONDS": "300",
    }.items():
        monkeypatch.setenv(name, value)
    return Retries(import_anew("retry_events.app"), monkeypatch)


def test_a_burst_on_moto_ends_as_the_simulation_says(aws: InProcess, retries: Retries) -> None:
    clock = VirtualTime(aws)
    aws.sleep = clock.sleep
    aws.invoke = function = Limited(aws, clock)
    for event in [aws.upload(f"{number}.png", picture((9, 9, 9))) for number in range(UPLOADS)]:
        aws.start(event)
    while len(function.ends) < UPLOADS or aws.state_machine.running():
        clock.pass_to(clock.now + POLL_SECONDS)
        retries.now = NOW + clock.now
        retries.poll()
    outcomes = Counter(execution.outcome for execution in aws.state_machine.wait_for(UPLOADS))
    assert outcomes["Processed"] == len(aws.outputs()) == UPLOADS
    assert set(outcomes) <= {"Processed", "Retrying"}  # by chance, none is retried
    assert aws.parked() == []
    clouds = [simulated(seed) for seed in range(SEEDS)]
    compared: dict[str, tuple[float, list[float]]] = {
        "makespan": (max(function.ends), [cloud.makespan for cloud in clouds]),
        "refusals": (function.refusals, [cloud.clock.total("refusals") for cloud in clouds]),
    }
    for moto, simulation in compared.values():  # chance decides the jitter of both
        assert min(simulation) / FACTOR <= moto <= max(simulation) * FACTOR, compared


def simulated(seed: int) -> Cloud:
    settings = Settings(concurrency=CONCURRENCY, seconds=SECONDS, seed=seed)
    cloud = uploaded_at_once(settings, UPLOADS)
    assert cloud.outcomes["Processed"] == UPLOADS
    assert set(cloud.outcomes) <= {"Processed", "Retrying"}
    assert cloud.parked == []
    return cloud
