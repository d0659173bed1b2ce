"""Many events in disorder, with faults, outages and kills, in real processes: all heals by itself.

`make test` delivers a few events, `make soak` a thousand. The environment gives the numbers and the
seed (SOAK_EVENTS, SOAK_KEYS, SOAK_SEED), and a failure names the seed. The same seed gives the same
uploads and outages, but not the same timing.

Nobody runs a command. The schedule's function is invoked by the test, because it is to see all
times as ten times as long, as the waits of the state machines are a tenth here.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from inorder import PROJECT
from inorder.aws.executions import Execution, wait_until
from inorder.aws.stack import deploy
from tests.conftest import WAIT_SCALE, colour_of, picture
from tests.end_to_end.conftest import Workflow
from tests.proof.soak.backlog import Backlog, Outage, TimedStateMachine
from tests.proof.soak.fault_proxy import KINDS, FaultProxy, behind_a_proxy

EVENTS = int(os.environ.get("SOAK_EVENTS", "120"))
KEYS = int(os.environ.get("SOAK_KEYS", "8"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
AT_ONCE = 40  # executions, before the test waits
CAPACITY = 2  # invocations at a time; Lambda refuses further ones
SECONDS = 180 + EVENTS
ENDS = {"Processed", "Duplicate", "Superseded", "Parked", "Retrying", "NotParked"}

# Of each service's calls, so many of a hundred pass, are slow, are refused, lose their answer, or
# hang.
USUAL = {
    "s3": [82, 8, 6, 4, 0],
    "dynamodb": [96, 2, 1, 1, 0],
    "sqs": [96, 2, 1, 1, 0],
    "states": [96, 2, 1, 1, 0],
    "lambda": [97, 0, 2, 1, 0],
    "events": [97, 0, 2, 1, 0],
}
DOWN = [0, 0, 60, 10, 30]
OUTAGES = [
    ("s3",),
    ("dynamodb",),
    ("sqs",),
    ("lambda",),
    ("states",),
    ("s3", "dynamodb"),
    ("dynamodb", "sqs"),
    ("lambda", "states"),
]
# This one comes first: a fault from an outage of a third service could not be recorded or sent.
FIRST_OUTAGE = ("sqs", "events")
NO_IMAGE, SLOW_MARK = b"no image", b"slow"
OUTAGE_SECONDS, PAUSE_SECONDS = (5, 4) if EVENTS >= 1000 else (1.5, 0.5)


@pytest.fixture(scope="module")
def workflow_and_proxy(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Workflow, FaultProxy]]:
    with behind_a_proxy(tmp_path_factory.mktemp("soak"), WAIT_SCALE, SEED) as (local, proxy):
        slow: dict[str, str | float] = {"SlowMark": SLOW_MARK.decode(), "SlowSeconds": 1}
        workflow = Workflow(local, deploy(local, "soak", slow))
        workflow.executions = TimedStateMachine(
            local.client("stepfunctions"), workflow.stack.state_machine_arn
        )
        # For so long, messages are hidden if the function that received them dies: 210 s on AWS.
        local.client("sqs").set_queue_attributes(
            QueueUrl=workflow.stack.retry_events_queue_url,
            Attributes={"VisibilityTimeout": str(int(120 * WAIT_SCALE))},
        )
        # For so long, messages of an event that another one merges wait for its execution.
        functions, name = local.client("lambda"), workflow.resource("RetryEventsFunction")
        variables = functions.get_function_configuration(FunctionName=name)["Environment"]
        variables["Variables"]["EXECUTION_SECONDS"] = str(300 * WAIT_SCALE)
        functions.update_function_configuration(FunctionName=name, Environment=variables)
        yield workflow, proxy


@contextmanager
def meanwhile(action: Callable[[], None], pause: float) -> Iterator[None]:
    """Repeat an action in the background, and fail if it fails."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause):
            action()

    with ThreadPoolExecutor(1) as pool:
        repeated = pool.submit(repeat)
        try:
            yield
        finally:
            over.set()
        repeated.result()


class Watch:
    """Checks that no output ever goes back to an older sequencer."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        self._seen: dict[str, str] = defaultdict(str)
        self.reads = 0

    def read(self) -> None:
        s3, bucket = self._workflow.s3, self._workflow.stack.output_bucket
        for number in range(KEYS):
            key = f"out-{number}.png"
            try:
                sequencer = s3.head_object(Bucket=bucket, Key=key)["Metadata"]["sequencer"]
            except ClientError as error:
                assert error.response["Error"]["Code"] == "404"  # noqa: PT017 - none yet
                continue
            assert sequencer >= self._seen[key], f"{key} went backwards"
            self._seen[key] = sequencer
            self.reads += 1


class Outages:
    """Lets one or two services fail at a time, one after the other, and then none."""

    def __init__(self, proxy: FaultProxy, chance: random.Random) -> None:
        self._proxy = proxy
        self._left = [*chance.sample(OUTAGES, len(OUTAGES)), FIRST_OUTAGE]
        self.had: list[Outage] = []
        proxy.weights = dict(USUAL)

    def next(self) -> None:
        """Have the next outage, if any is left."""
        if self._left:
            services, start = self._left.pop(), time.time()
            self._proxy.weights = USUAL | dict.fromkeys(services, DOWN)
            time.sleep(OUTAGE_SECONDS)
            self._proxy.weights = dict(USUAL)
            self.had.append((start, time.time(), " and ".join(services)))

    def wait(self) -> None:
        """Wait until there have been all."""
        wait_until(lambda: len(self.had) > len(OUTAGES), SECONDS, "the outages")


class Schedule:
    """Sweeps as the schedule does, in a tenth of its times."""

    PERIOD = 5 * 60 * WAIT_SCALE

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow

    def sweep(self, skip_time: bool = False) -> None:
        """Age the records that are old enough, or all of them, and sweep."""
        for record in self._workflow.unfinished():
            if "in_progress_since" not in record:
                continue
            passed = datetime.now(UTC) - datetime.fromisoformat(record["in_progress_since"])
            if skip_time or passed.total_seconds() > 600 * WAIT_SCALE:
                with suppress(ClientError):  # it has just ended
                    self._workflow.age(record["id"], minutes=11)
        self._workflow.sweep()  # it may fail, in an outage


class Disorder:
    """Uploads to the same keys again and again, delivers events twice and late, and kills."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        self.stopped: list[str] = []
        self.delivered_again = 0

    def deliver_all(self, chance: random.Random) -> None:
        """Deliver so many events; one upload in 50 is not an image."""
        uploads = [number % KEYS for number in range(EVENTS // 2)]
        chance.shuffle(uploads)
        executions = self._workflow.executions
        known: list[Any] = []
        for step, number in enumerate(uploads):
            wait_until(lambda: len(executions.arns("RUNNING")) < AT_ONCE, SECONDS, "executions")
            # Each upload has a colour of its own.
            colour = (step % 256, step // 256, number)
            content = NO_IMAGE if chance.random() < 0.02 else picture(colour)
            mark = SLOW_MARK if chance.random() < 0.2 else b""
            self._workflow.upload(f"{number}.png", content + mark)
            if step % 10 == 0:
                self._workflow.events(f"{number}.png", 1)
                arrived = executions.arrived().values()
                known = [event for of_key in arrived for event in of_key]
            executions.start(chance.choice(known))  # of any key, old or new
            time.sleep(chance.choice([0, 0, 0.05, 0.3]))

    def kill(self, chance: random.Random, functions: list[str]) -> None:
        """Kill a function's process, or stop an execution."""
        running = self._workflow.executions.arns("RUNNING")
        if chance.random() < 0.3 and running:
            self._stop(chance.choice(sorted(running)))
        elif workers := [each for name in functions for each in self._workflow.workers(name)]:
            chance.choice(workers).kill()

    def _stop(self, arn: str) -> None:
        """Stop an execution.

        AWS runs an asynchronous Express execution at least once, ministack at most once. So if it
        was stopped before it had written or read its key, its event is delivered again.
        https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
        """
        executions = self._workflow.executions
        try:
            executions.stop(arn)
        except ClientError:
            return  # it has just ended
        stopped = executions.describe(arn)
        self.stopped.append(arn)
        if not {"Invert Image", "Count Poll"} & set(stopped.path):
            executions.start(stopped.event)
            self.delivered_again += 1


def wait_until_healed(workflow: Workflow, schedule: Schedule) -> None:
    """Wait until nothing runs, waits to be retried, or is in progress without an execution."""
    deadline = time.monotonic() + SECONDS
    while True:
        wait_until(lambda: not workflow.failed_events(), SECONDS, "the retries")
        workflow.executions.wait_for(0, SECONDS)
        if not workflow.failed_events():  # an execution that has just ended may have failed
            if not workflow.unfinished():
                return
            schedule.sweep(skip_time=True)  # nothing else would happen until the next one
        assert time.monotonic() < deadline, workflow.unfinished()


def test_all_heals_by_itself_after_disorder_faults_outages_and_kills(
    workflow_and_proxy: tuple[Workflow, FaultProxy],
) -> None:
    print(f"SOAK_SEED={SEED}, {EVENTS} events, {KEYS} keys")  # noqa: T201 - shown on failure
    workflow, proxy = workflow_and_proxy
    machine = workflow.executions
    assert isinstance(machine, TimedStateMachine)
    began, chance = time.time(), random.Random(SEED)  # noqa: S311
    functions = [workflow.stack.function_name, workflow.resource("RetryEventsFunction")]
    disorder, watch, schedule = Disorder(workflow), Watch(workflow), Schedule(workflow)
    outages = Outages(proxy, random.Random(SEED))  # noqa: S311
    with (
        workflow.limited(CAPACITY),
        meanwhile(watch.read, 0.5),
        meanwhile(schedule.sweep, Schedule.PERIOD),
    ):
        with (
            meanwhile(lambda: disorder.kill(chance, functions), 2),
            meanwhile(outages.next, PAUSE_SECONDS),
        ):
            disorder.deliver_all(random.Random(SEED))  # noqa: S311
            outages.wait()
        delivered = time.time()
        wait_until_healed(workflow, schedule)
    healed = time.time()

    workflow.assert_quiet()
    ended = [machine.describe(each.arn) for each in machine.all()]
    outcomes = Counter(str(each.outcome or each.status) for each in ended)
    print(f"{dict(outcomes)}; {len(disorder.stopped)} aborted, {disorder.delivered_again} again")  # noqa: T201
    kinds = {
        kind: sum(n for (_, each), n in proxy.faults.items() if each == kind) for kind in KINDS
    }
    throttled = machine.errors["Lambda.TooManyRequestsException"]
    print(f"calls {dict(kinds)}, {throttled} throttled, {watch.reads} reads")  # noqa: T201
    print(f"{delivered - began:.0f} s of disorder, healed {healed - delivered:.0f} s later")  # noqa: T201
    check(workflow, ended, workflow.parked(), set(disorder.stopped))
    backlog = Backlog(machine, ended)
    title = f"{EVENTS} events, {KEYS} keys, seed {SEED}"
    name = f"soak-{EVENTS}-events-seed-{SEED}.png"
    backlog.plot(PROJECT / "out" / name, title, outages.had)
    assert backlog.count(backlog.ended)[1:] == [0, 0, 0, 0]
    assert disorder.stopped
    assert throttled
    assert watch.reads > KEYS
    assert all(kinds.values())


def _sequencer(event: Any) -> str:
    sequencer: str = event["detail"]["object"]["sequencer"]
    return sequencer


def _key(event: Any) -> str:
    key: str = event["detail"]["object"]["key"]
    return key


def check(workflow: Workflow, ended: list[Execution], parked: list[Any], stopped: set[str]) -> None:
    """Check that nothing is lost, parked or processed twice, and that all outputs are right."""
    strange = [each for each in ended if each.outcome not in ENDS and each.arn not in stopped]
    assert strange == []
    processed = Counter(
        (_key(each.event), _sequencer(each.event)) for each in ended if each.outcome == "Processed"
    )
    again: Counter[str] = Counter()
    for (key, _), count in processed.items():
        again[key] += count - 1
    # The lease is a tenth here, and the time of a function that hangs is not. So the lock of a live
    # holder may be broken, and then both end as Processed. Otherwise an event is processed once.
    states = [(_key(each.event), state) for each in ended for state in each.path]
    assert again <= Counter(key for key, state in states if state == "Break Lock")
    assert {message["reason"]["Error"] for message in parked} <= {"InvalidImage"}
    rejected = {_sequencer(message["event"]) for message in parked}
    for number in range(KEYS):
        key = f"{number}.png"
        own = [each for each in ended if _key(each.event) == key]
        newest = max(_sequencer(each.event) for each in own)
        what_happened = sorted((_sequencer(each.event), str(each.outcome)) for each in own)
        source = workflow.s3.get_object(Bucket=workflow.stack.input_bucket, Key=key)["Body"].read()
        if source == NO_IMAGE:
            assert newest in rejected, f"{key}: {what_happened}"
            continue
        output = workflow.output(key)
        assert output, f"{key}: {what_happened}"
        inverse = tuple(255 - band for band in colour_of(source))
        assert colour_of(output) == inverse, f"{key}: {what_happened}"
