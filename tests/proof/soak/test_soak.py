"""Many events in disorder, with faults, outages and kills, in real processes: all heals by itself.

Meanwhile a flood of objects arrives that cannot be processed.

`make test` delivers a few events, `make soak` a thousand. The environment gives the numbers and the
seed (SOAK_EVENTS, SOAK_KEYS, SOAK_SEED), and a failure names the seed. The same seed gives the same
uploads and outages, but not the same timing.

Nobody runs a command. All times are about a tenth of the real
ones, in the state machines and in all that is deployed. The test invokes the schedule's function
itself, and lets the records look ten times as old.
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
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import describe, sam_deploy
from inorder.model.execution import Execution
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
CAPACITY = 4 if EVENTS >= 1000 else 2  # invocations at a time; Lambda refuses further ones
SECONDS = 180 + EVENTS
FINISHED = {"Processed", "Duplicate", "Superseded", "Parked"}
ENDS = FINISHED | {"Retrying", "NotParked"}
THROTTLED, BREAK = "Lambda.TooManyRequestsException", "Break Lock"

# Of each service's calls, so many of a hundred pass, are slow, are refused, lose their answer,
# hang, or have their effect after others.
USUAL = {
    "s3": [82, 8, 6, 4, 0, 0],
    "dynamodb": [94, 2, 1, 1, 0, 2],
    "sqs": [96, 2, 1, 1, 0, 0],
    "states": [96, 2, 1, 1, 0, 0],
    "lambda": [97, 0, 2, 1, 0, 0],
    "events": [97, 0, 2, 1, 0, 0],
}
DOWN = [0, 0, 60, 10, 20, 10]
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
FLOOD = 36 if EVENTS >= 1000 else 4  # objects at once; half of them take longer than they may
REJECTIONS = {"InvalidImage", "TooSlow"}
NO_IMAGE, SLOW_MARK = b"no image", b"slow"
OUTAGE_SECONDS, PAUSE_SECONDS = (5, 4) if EVENTS >= 1000 else (1.5, 0.5)


# What the shipped files say in seconds, and what is deployed instead.
SHORTER = {
    "template.yaml": {
        "VisibilityTimeout: 210 ": f"VisibilityTimeout: {120 * WAIT_SCALE:.0f} ",
        'EXECUTION_SECONDS: "300"': f'EXECUTION_SECONDS: "{100 * WAIT_SCALE:.0f}"',
    },
    "functions/invert_image/app.py": {"WORK_SECONDS = 9": "WORK_SECONDS = 2"},
    "functions/retry_events/retries.py": {
        "LONGEST_SECONDS = 5, 1.5, 900": "LONGEST_SECONDS = 1, 1.5, 90"
    },
    "functions/retry_events/streams.py": {
        "AGAIN_SECONDS = 60": "AGAIN_SECONDS = 7",
        "LONGEST_WAIT_SECONDS = 900": "LONGEST_WAIT_SECONDS = 90",
    },
}


def quicker_template(folder: Path) -> Path:
    """Copy the template, with all that it deploys, and let nothing of it last long."""
    for name in ("functions", "statemachine"):
        shutil.copytree(PROJECT / name, folder / name)
    shutil.copy(PROJECT / "template.yaml", folder)
    for name, changes in SHORTER.items():
        text = (folder / name).read_text()
        for shipped, instead in changes.items():
            assert shipped in text
            text = text.replace(shipped, instead)
        (folder / name).write_text(text)
    return folder / "template.yaml"


@pytest.fixture(scope="module")
def workflow_and_proxy(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Workflow, FaultProxy]]:
    template = quicker_template(tmp_path_factory.mktemp("quicker"))
    with behind_a_proxy(tmp_path_factory.mktemp("soak"), WAIT_SCALE, SEED) as (local, proxy):
        slow: dict[str, str | float] = {"SlowMark": SLOW_MARK.decode(), "SlowSeconds": 1}
        sam_deploy(local, "soak", slow, template)
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


def have_outages(proxy: FaultProxy, chance: random.Random) -> None:
    """Let one or two services fail at a time, one after the other, and then none."""
    for services in (FIRST_OUTAGE, *chance.sample(OUTAGES, len(OUTAGES))):
        time.sleep(PAUSE_SECONDS)
        proxy.weights = USUAL | dict.fromkeys(services, DOWN)
        time.sleep(OUTAGE_SECONDS)
        proxy.weights = dict(USUAL)


def sweep(workflow: Workflow, skip_time: bool = False) -> None:
    """Sweep as the schedule does, in a tenth of its times, or as if more time had passed."""
    for record in workflow.unfinished():
        if "in_progress_since" not in record:
            continue
        passed = datetime.now(UTC) - datetime.fromisoformat(record["in_progress_since"])
        if skip_time or passed.total_seconds() > 600 * WAIT_SCALE:
            with suppress(ClientError, KeyError):  # it has just ended
                workflow.age(record["id"])
    workflow.sweep()  # it may fail, in an outage


class Disorder:
    """Uploads to the same keys again and again, delivers events twice and late, and kills."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        self.stopped: list[str] = []
        self.delivered_again = self.killed = 0

    def deliver_all(self, chance: random.Random) -> None:
        """Deliver so many events; the flood comes in the middle of them."""
        uploads = [number % KEYS for number in range(EVENTS // 2)]
        chance.shuffle(uploads)
        steps = list(enumerate(uploads))
        half = len(steps) // 2
        self._deliver(chance, steps[:half])
        with ThreadPoolExecutor(1) as pool:
            flooding = pool.submit(self.flood)
            self._deliver(chance, steps[half:])
            flooding.result()

    def flood(self) -> None:
        """Upload objects that cannot be processed, all at once."""
        contents = [bomb(scans=1500), bomb_png()]
        with ThreadPoolExecutor(8) as pool:
            for number in range(FLOOD):
                pool.submit(self._workflow.upload, f"bomb-{number}.jpg", contents[number % 2])

    def _deliver(self, chance: random.Random, steps: list[tuple[int, int]]) -> None:
        """Upload, and deliver as many events again; one upload in 50 is not an image."""
        executions = self._workflow.executions
        known: list[Any] = []
        for step, number in steps:
            wait_until(lambda: len(executions.arns("RUNNING")) < AT_ONCE, SECONDS, "executions")
            # Each upload has a colour of its own.
            colour = (step % 256, step // 256, number)
            content = NO_IMAGE if chance.random() < 0.02 else picture(colour)
            mark = SLOW_MARK if chance.random() < 0.2 else b""
            self._workflow.upload(f"{number}.png", content + mark)
            if not known or step % 10 == 0:
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
            self.killed += 1

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


def wait_until_healed(workflow: Workflow) -> None:
    """Wait until nothing runs, waits to be retried, or is in progress without an execution.

    A claim that came late may have left a lock that nobody has, and that no event waits for. The
    key's next event breaks it after a lease.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        wait_until(lambda: not workflow.failed_events(), SECONDS, "the retries")
        workflow.executions.wait_for(0, SECONDS)
        if not workflow.failed_events():  # an execution that has just ended may have failed
            if not (left := workflow.unfinished()):
                return
            for record in left:
                if "in_progress_since" not in record:
                    key = record["id"].partition("/")[2]
                    source = workflow.s3.get_object(Bucket=workflow.stack.input_bucket, Key=key)
                    workflow.upload(key, source["Body"].read())  # its next event
            sweep(workflow, skip_time=True)  # nothing else would happen until the next one
        assert time.monotonic() < deadline, workflow.unfinished()


def test_all_heals_by_itself_after_disorder_faults_outages_kills_and_a_flood(
    workflow_and_proxy: tuple[Workflow, FaultProxy],
) -> None:
    print(f"SOAK_SEED={SEED}, {EVENTS} events, {KEYS} keys")  # noqa: T201 - shown on failure
    workflow, proxy = workflow_and_proxy
    machine = workflow.executions
    began, chance = time.time(), random.Random(SEED)  # noqa: S311
    functions = [workflow.stack.function_name, workflow.resource("RetryEventsFunction")]
    disorder, watch = Disorder(workflow), Watch(workflow)
    proxy.weights = dict(USUAL)
    with (
        workflow.limited(CAPACITY),
        meanwhile(watch.read, 0.5),
        meanwhile(lambda: sweep(workflow), 5 * 60 * WAIT_SCALE),
    ):
        with meanwhile(lambda: disorder.kill(chance, functions), 2), ThreadPoolExecutor(1) as pool:
            outages = pool.submit(have_outages, proxy, random.Random(SEED))  # noqa: S311
            disorder.deliver_all(random.Random(SEED))  # noqa: S311
            outages.result()
        delivered = time.time()
        wait_until_healed(workflow)
    healed = time.time()

    workflow.assert_quiet()
    ended = [machine.describe(each.arn) for each in machine.all()]
    outcomes = Counter(str(each.outcome or each.status) for each in ended)
    ended_by_force = f"{len(disorder.stopped)} aborted, {disorder.delivered_again} again"
    print(f"{dict(outcomes)}; {ended_by_force}, {disorder.killed} killed")  # noqa: T201
    throttled = sum(error == THROTTLED for each in ended for error in errors(each))
    print(f"calls {dict(proxy.faults)}, {throttled} throttled, {watch.reads} reads")  # noqa: T201
    print(f"{delivered - began:.0f} s of disorder, healed {healed - delivered:.0f} s later")  # noqa: T201
    parked = workflow.parked()
    check(workflow, ended, parked)
    check_flood(ended, parked)
    assert disorder.stopped
    assert disorder.killed
    assert throttled
    assert watch.reads > KEYS
    assert proxy.faults.keys() == set(KINDS)


def event_of(event: Any) -> tuple[str, str]:
    described = s3_object(event)
    return described["key"], described["sequencer"]


def errors(execution: Execution) -> list[str]:
    return [str(each.error) for step in execution.steps for each in step.attempts if each.error]


def check(workflow: Workflow, ended: list[Execution], parked: list[Any]) -> None:
    """Check that nothing is lost, parked or processed twice, and that all outputs are right."""
    begun = [each for each in ended if each.path and each.status != "ABORTED"]
    assert [each for each in begun if each.outcome not in ENDS] == []
    assert {message["reason"]["Error"] for message in parked} <= REJECTIONS
    rejected = {event_of(message["event"]) for message in parked}
    runs = defaultdict(list)
    for each in ended:
        runs[event_of(each.event)].append(each)
    newest = dict(sorted(runs))
    written = [each for each in ended if each.outcome == "Processed"]
    check_once(written, ended)
    for (key, sequencer), own in runs.items():
        # An event that was rejected while SQS was out is parked without another execution.
        is_open = FINISHED.isdisjoint(str(each.outcome) for each in own)
        if not is_open or (key, sequencer) in rejected:
            continue
        last = max(own, key=lambda each: each.stopped or datetime.now(UTC))
        happened = [(each.id, each.outcome, each.started, each.stopped) for each in own]
        assert last.outcome != "Retrying", f"{key}: {sequencer} is lost: {happened}"
        # Its execution has died, and a newer event of its key decides the output.
        newer = (event_of(each.event) for each in written)
        assert any(other == key and each > sequencer for other, each in newer)
    outputs = workflow.outputs()
    for key in (f"{number}.png" for number in range(KEYS)):
        happened_to = [
            (each.sequencer, each.outcome)
            for of, own in runs.items()
            if of[0] == key
            for each in own
        ]
        source = workflow.s3.get_object(Bucket=workflow.stack.input_bucket, Key=key)["Body"].read()
        if source.startswith(NO_IMAGE):
            assert (key, newest[key]) in rejected, f"{key}: {happened_to}"
        else:  # each upload has a colour of its own
            inverse = tuple(255 - band for band in colour_of(source))
            assert outputs.get(f"out-{key}") == inverse, f"{key}: {happened_to}"


def check_once(written: list[Execution], ended: list[Execution]) -> None:
    """Check that an event is processed once.

    The lease is a tenth here, and the time of a function that hangs is not. So the lock of a live
    holder may be broken, and then both end as Processed.
    """
    again: Counter[str] = Counter()
    for (key, _), count in Counter(event_of(each.event) for each in written).items():
        again[key] += count - 1
    broken = [event_of(each.event)[0] for each in ended for state in each.path if state == BREAK]
    assert again <= Counter(broken)


def check_flood(ended: list[Execution], parked: list[Any]) -> None:
    """Check that each object of the flood is parked."""
    flood = {s3_object(each.event)["key"] for each in ended} - {f"{n}.png" for n in range(KEYS)}
    assert len(flood) == FLOOD
    reasons = {event_of(each["event"])[0]: each["reason"]["Error"] for each in parked}
    assert {reasons[key] for key in flood} == {"InvalidImage", "TooSlow"}
