"""Many events in disorder, with faults, outages and kills, in real processes: all heals by itself.

Meanwhile a flood of objects arrives that cannot be processed.

`make test` delivers a few events, `make soak` a thousand. The environment gives the numbers and the
seed (SOAK_EVENTS, SOAK_KEYS, SOAK_SEED), and a failure names the seed. The same seed gives the same
uploads and outages, but not the same timing.

Nobody runs a command. All times are about a tenth of the real ones, in the state machines and in
all that is deployed. The test invokes the schedule's function itself, and lets the records look ten
times as old.
"""

from __future__ import annotations

import os
import random
import shutil
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
from inorder.aws.executions import wait_until
from inorder.aws.stack import describe, sam_deploy
from inorder.model.execution import Execution
from inorder.model.outcomes import FINISHED, NOT_PARKED, PARKED, RETRYING
from inorder_fence.records import s3_object
from tests.conftest import WAIT_SCALE, colour_of, picture
from tests.proof.soak.fault_proxy import KINDS, FaultProxy, behind_a_proxy
from tests.stack.conftest import Workflow
from tests.unit.test_bounded_work import bomb
from tests.unit.test_inversion import bomb_png

EVENTS = int(os.environ.get("SOAK_EVENTS", "80"))
KEYS = int(os.environ.get("SOAK_KEYS", "6"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
AT_ONCE = 40  # executions, before the test waits
SECONDS = 180 + EVENTS
CAPACITY = 4 if EVENTS >= 1000 else 2  # invocations at a time; Lambda refuses further ones
FLOOD = 36 if EVENTS >= 1000 else 4  # objects at once; half of them take longer than they may
OUTAGE_SECONDS, PAUSE_SECONDS = (5, 4) if EVENTS >= 1000 else (1.5, 0.5)
NO_IMAGE, SLOW_MARK = b"no image", b"slow"

# Of each service's calls, so many of a hundred have a fault of `KINDS`, in this order.
USUAL = {
    "s3": [82, 8, 6, 4, 0, 0],
    "dynamodb": [94, 2, 1, 1, 0, 2],
    **{each: [96, 2, 1, 1, 0, 0] for each in ("sqs", "states", "lambda", "events")},
}
DOWN = [0, 0, 60, 10, 20, 10]
# This one comes first: a fault from an outage of a third service could not be recorded or sent.
FIRST_OUTAGE = "sqs+events"
OUTAGES = [
    "s3",
    "dynamodb",
    "sqs",
    "lambda",
    "states",
    "s3+dynamodb",
    "dynamodb+sqs",
    "lambda+states",
]
# What the shipped files say in seconds, and what is deployed instead.
SHORTER = (
    ("template.yaml", "VisibilityTimeout: 211 ", f"VisibilityTimeout: {120 * WAIT_SCALE:.0f} "),
    ("template.yaml", '_SECONDS: "300"', f'_SECONDS: "{100 * WAIT_SCALE:.0f}"'),
    ("functions/invert_image/app.py", "WORK_SECONDS = 9", "WORK_SECONDS = 2"),
    ("functions/retry_events/retries.py", "= 5, 1.5, 900", "= 1, 1.5, 90"),
    ("functions/retry_events/streams.py", "AGAIN_SECONDS = 60", "AGAIN_SECONDS = 7"),
    ("functions/retry_events/streams.py", "WAIT_SECONDS = 900", "WAIT_SECONDS = 90"),
)


@pytest.fixture(scope="module")
def workflow_and_proxy(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Workflow, FaultProxy]]:
    """Deploy a copy of the template, with all that it deploys, of which nothing lasts long."""
    folder = tmp_path_factory.mktemp("quicker")
    for name in ("functions", "statemachine"):
        shutil.copytree(PROJECT / name, folder / name)
    shutil.copy(PROJECT / "template.yaml", folder)
    for name, shipped, instead in SHORTER:
        text = (folder / name).read_text()
        assert shipped in text
        (folder / name).write_text(text.replace(shipped, instead))
    with behind_a_proxy(tmp_path_factory.mktemp("soak"), WAIT_SCALE, SEED) as (local, proxy):
        slow: dict[str, str | float] = {"SlowMark": SLOW_MARK.decode(), "SlowSeconds": 1}
        sam_deploy(local, "soak", slow, folder / "template.yaml")
        yield Workflow(local, describe(local.client("cloudformation"), "soak")), proxy


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


class Disorder:
    """Uploads to the same keys again and again, delivers events twice and late, and kills."""

    def __init__(self, workflow: Workflow, proxy: FaultProxy) -> None:
        self._workflow, self._proxy = workflow, proxy
        self._seen: dict[str, str] = defaultdict(str)  # the sequencers of the outputs
        self.counts = Counter[str]()

    def watch(self) -> None:
        """Check that no output goes back to an older sequencer."""
        for key in (f"out-{number}.png" for number in range(KEYS)):
            with suppress(ClientError):  # there is none yet
                bucket = self._workflow.stack.output_bucket
                metadata = self._workflow.s3.head_object(Bucket=bucket, Key=key)["Metadata"]
                assert metadata["sequencer"] >= self._seen[key], f"{key} went backwards"
                self._seen[key] = metadata["sequencer"]
                self.counts["reads"] += 1

    def have_outages(self) -> None:
        """Let one or two services fail at a time, one after the other, and then none."""
        order = random.Random(SEED).sample(OUTAGES, len(OUTAGES))  # noqa: S311
        for services in (FIRST_OUTAGE, *order):
            time.sleep(PAUSE_SECONDS)
            self._proxy.weights = USUAL | dict.fromkeys(services.split("+"), DOWN)
            time.sleep(OUTAGE_SECONDS)
            self._proxy.weights = dict(USUAL)

    def deliver(self) -> None:
        """Upload, and deliver as many events again; the flood comes in the middle of them."""
        workflow, chance = self._workflow, random.Random(SEED)  # noqa: S311
        uploads = [number % KEYS for number in range(EVENTS // 2)]
        chance.shuffle(uploads)
        known: list[Any] = []
        running = workflow.executions.arns
        for step, number in enumerate(uploads):
            wait_until(lambda: len(running("RUNNING")) < AT_ONCE, SECONDS, "executions")
            if step == len(uploads) // 2:
                for each in range(FLOOD):
                    workflow.upload(f"bomb-{each}.jpg", bomb_png() if each % 2 else bomb(1500))
            # Each upload has a colour of its own; one in 50 is not an image.
            colour = (step % 256, step // 256, number)
            content = NO_IMAGE if chance.random() < 0.02 else picture(colour)
            workflow.upload(f"{number}.png", content + SLOW_MARK * (chance.random() < 0.2))
            if step % 10 == 0:
                workflow.events(f"{number}.png", 1)
                known = [each for key in workflow.executions.arrived().values() for each in key]
            workflow.deliver(chance.choice(known))  # of any key, old or new
            time.sleep(chance.choice([0, 0, 0.05, 0.3]))

    def kill(self) -> None:
        """Kill a function's process, or stop an execution.

        AWS runs an asynchronous Express execution at least once, ministack at most once. So if it
        was stopped before it had written or read its key, its event is delivered again.
        https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
        """
        workflow, machine = self._workflow, self._workflow.executions
        functions = workflow.stack.function_name, workflow.resource("RetryEventsFunction")
        workers = [each for name in functions for each in workflow.workers(name)]
        running = machine.arns("RUNNING")
        if running and random.random() < 0.3:  # noqa: S311
            with suppress(ClientError):  # it has just ended
                machine.stop(arn := random.choice(running))  # noqa: S311
                self.counts["stopped"] += 1
                stopped = machine.describe(arn)
                if not {"Invert Image", "Count Poll"} & set(stopped.path):
                    machine.start(stopped.event)
        elif workers:
            random.choice(workers).kill()  # noqa: S311
            self.counts["killed"] += 1


def sweep(workflow: Workflow, skip_time: bool = False) -> None:
    """Sweep as the schedule does, in a tenth of its times, or as if more time had passed."""
    for record in workflow.unfinished():
        with suppress(ClientError, KeyError):  # it is not in the index, or has just ended
            passed = datetime.now(UTC) - datetime.fromisoformat(record["in_progress_since"])
            if skip_time or passed.total_seconds() > 600 * WAIT_SCALE:
                workflow.age(record["id"])
    workflow.sweep()  # it may fail, in an outage


def wait_until_healed(workflow: Workflow) -> None:
    """Wait until nothing runs, waits to be retried, or is in progress without an execution.

    A claim that came late may have left a lock that nobody has, and that no event waits for. The
    key's next event breaks it after a lease.
    """
    busy = workflow.executions.arns
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        wait_until(
            lambda: not workflow.failed_events() and not busy("RUNNING"), SECONDS, "the retries"
        )
        if not (left := workflow.unfinished()):
            break
        for key in (each["id"] for each in left if "in_progress_since" not in each):
            bucket, _, name = key.partition("/")
            workflow.upload(name, workflow.s3.get_object(Bucket=bucket, Key=name)["Body"].read())
        sweep(workflow, skip_time=True)  # nothing else would happen until the next one
    workflow.assert_quiet()


def test_all_heals_by_itself_after_disorder_faults_outages_kills_and_a_flood(
    workflow_and_proxy: tuple[Workflow, FaultProxy],
) -> None:
    print(f"SOAK_SEED={SEED}, {EVENTS} events, {KEYS} keys")  # noqa: T201 - shown on failure
    workflow, proxy = workflow_and_proxy
    disorder = Disorder(workflow, proxy)
    proxy.weights = dict(USUAL)
    with (
        workflow.limited(CAPACITY),
        meanwhile(disorder.watch, 0.5),
        meanwhile(lambda: sweep(workflow), 5 * 60 * WAIT_SCALE),
    ):
        with meanwhile(disorder.kill, 2), ThreadPoolExecutor(1) as pool:
            outages = pool.submit(disorder.have_outages)
            disorder.deliver()
            outages.result()
        wait_until_healed(workflow)
    ended = [workflow.executions.describe(each.arn) for each in workflow.executions.all()]
    attempts = [each for run in ended for step in run.steps for each in step.attempts]
    print(Counter(str(each.outcome or each.status) for each in ended), disorder.counts)  # noqa: T201
    assert disorder.counts.keys() == {"reads", "stopped", "killed"}
    assert proxy.faults.keys() == set(KINDS)
    assert "Lambda.TooManyRequestsException" in {each.error for each in attempts}
    check(workflow, ended)


def event_of(event: Any) -> tuple[str, str]:
    described = s3_object(event)
    return described["key"], described["sequencer"]


def check(workflow: Workflow, ended: list[Execution]) -> None:
    """Check that nothing is lost, parked or processed twice, and that all outputs are right."""
    begun = [each for each in ended if each.path and each.status != "ABORTED"]
    assert {each.outcome for each in begun} <= FINISHED | PARKED | {RETRYING, NOT_PARKED}
    rejected = {event_of(each["event"]): each["reason"]["Error"] for each in workflow.parked()}
    assert set(rejected.values()) == {"InvalidImage", "TooSlow"}
    runs = defaultdict[tuple[str, str], list[Execution]](list)
    again = Counter[str]()
    for each in sorted(ended, key=lambda each: each.stopped or datetime.now(UTC)):
        runs[event_of(each.event)].append(each)
        # The lease is a tenth here, and the time of a function that hangs is not. So the lock of a
        # live holder may be broken, and then both end as Processed.
        again[event_of(each.event)[0]] -= each.path.count("Break Lock")
    newest = dict(sorted(runs))
    assert {key for key, _ in rejected} >= {f"bomb-{number}.jpg" for number in range(FLOOD)}
    for (key, sequencer), own in runs.items():
        outcomes = [each.outcome for each in own]
        again[key] += max(outcomes.count("Processed") - 1, 0)
        # An event that was rejected while SQS was out is parked without another execution.
        if (FINISHED | PARKED).isdisjoint(map(str, outcomes)) and (key, sequencer) not in rejected:
            # Its execution has died, and a newer event of its key decides the output.
            assert outcomes[-1] != RETRYING, f"{key}: {sequencer} is lost: {outcomes}"
            newer = [run for event in runs if event > (key, sequencer) for run in runs[event]]
            assert any(run.outcome == "Processed" for run in newer if event_of(run.event)[0] == key)
    assert max(again.values()) <= 0
    outputs = workflow.outputs()
    for key in (f"{number}.png" for number in range(KEYS)):
        source = workflow.s3.get_object(Bucket=workflow.stack.input_bucket, Key=key)["Body"].read()
        if source.startswith(NO_IMAGE):
            assert (key, newest[key]) in rejected
        else:  # each upload has a colour of its own
            inverse = tuple(255 - band for band in colour_of(source))
            assert outputs.get(f"out-{key}") == inverse, f"{key}: {runs[key, newest[key]]}"
