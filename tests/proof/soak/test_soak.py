"""Many events in disorder, with faults, outages and kills, in real processes: all heals by itself.

Meanwhile the stack gets another policy, and its own back, and a flood of objects arrives that
cannot be processed.

`make test` delivers a few events, `make soak` a thousand. The environment gives the numbers and the
seed (SOAK_EVENTS, SOAK_KEYS, SOAK_SEED), and a failure names the seed. The same seed gives the same
uploads and outages, but not the same timing.

Nobody runs a command, other than to change the policy. All times are about a tenth of the real
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
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from inorder import PROJECT
from inorder.aws.executions import LocalStateMachine, wait_until
from inorder.aws.stack import Stack, describe, sam_deploy
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
# Of these policies, each records every event that it has, so that none is lost by a change.
POLICY, OTHER_POLICY = "latest-wins", "every-version"
# From one part to the next; the second and fourth last at least as long as a change of policy.
# Few events come between the changes, as `every-version` supersedes none.
PARTS = [0, 0.4, 0.45, 0.55, 0.6, 1]
FLOOD = 36 if EVENTS >= 1000 else 4  # objects at once; half of them take longer than they may
# An object that makes the function run out of its time is parked after so many: docs/operate.md.
INVOCATIONS_AT_MOST = 26
# `every-version` parks what is overwritten before it is read, in a bucket without versions.
REJECTIONS = {"InvalidImage", "TooSlow", "SourceChanged"}
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


class Machines(LocalStateMachine):
    """The state machines of both policies. It starts executions of the present one."""

    def __init__(self, client: Any, arn: str) -> None:
        super().__init__(client, arn)
        arns = (arn, arn.replace(POLICY, OTHER_POLICY))
        self._machines = [LocalStateMachine(client, each) for each in arns]

    def arns(self, status: str | None = None) -> list[str]:
        return [arn for each in self._machines for arn in each.arns(status)]

    def _listed(
        self, since: datetime | None, few: bool = False
    ) -> Iterator[tuple[str, str, datetime]]:
        for each in self._machines:
            yield from each._listed(since, few)


@pytest.fixture(scope="module")
def workflow_proxy_and_change(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Workflow, FaultProxy, Callable[[str], None]]]:
    template = quicker_template(tmp_path_factory.mktemp("quicker"))
    with behind_a_proxy(tmp_path_factory.mktemp("soak"), WAIT_SCALE, SEED) as (local, proxy):

        def deploy(policy: str) -> Stack:
            slow: dict[str, str | float] = {"SlowMark": SLOW_MARK.decode(), "SlowSeconds": 1}
            sam_deploy(local, "soak", slow | {"Policy": policy}, template)
            return describe(local.client("cloudformation"), "soak")

        def change(policy: str) -> None:
            machines.arn = deploy(policy).state_machine_arn

        workflow = Workflow(local, deploy(POLICY))
        states = local.client("stepfunctions")
        workflow.executions = machines = Machines(states, workflow.stack.state_machine_arn)
        yield workflow, proxy, change


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
            with suppress(ClientError):  # it has just ended
                workflow.age(record["id"], minutes=11)
    workflow.sweep()  # it may fail, in an outage


class Disorder:
    """Uploads to the same keys again and again, delivers events twice and late, and kills."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        self.stopped: list[str] = []
        self.delivered_again = self.killed = 0

    def deliver_all(self, chance: random.Random, meanwhile: list[Callable[[], None]]) -> None:
        """Deliver so many events, and let one thing after the other happen meanwhile."""
        uploads = [number % KEYS for number in range(EVENTS // 2)]
        chance.shuffle(uploads)
        steps = list(enumerate(uploads))
        parts = [int(len(steps) * part) for part in PARTS]
        with ThreadPoolExecutor(1) as pool:
            for action, (first, end) in zip(meanwhile, pairwise(parts), strict=True):
                happening = pool.submit(action)
                self._deliver(chance, steps[first:end])
                happening.result()

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


def test_all_heals_by_itself_after_disorder_faults_outages_kills_a_flood_and_other_policies(
    workflow_proxy_and_change: tuple[Workflow, FaultProxy, Callable[[str], None]],
) -> None:
    print(f"SOAK_SEED={SEED}, {EVENTS} events, {KEYS} keys")  # noqa: T201 - shown on failure
    workflow, proxy, change = workflow_proxy_and_change
    machine = workflow.executions
    began, chance = time.time(), random.Random(SEED)  # noqa: S311
    functions = [workflow.stack.function_name, workflow.resource("RetryEventsFunction")]
    disorder, watch = Disorder(workflow), Watch(workflow)
    proxy.weights = dict(USUAL)
    what_happens = [
        lambda: None,
        lambda: change(OTHER_POLICY),
        disorder.flood,
        lambda: change(POLICY),
        lambda: None,
    ]
    with (
        workflow.limited(CAPACITY),
        meanwhile(watch.read, 0.5),
        meanwhile(lambda: sweep(workflow), 5 * 60 * WAIT_SCALE),
    ):
        with meanwhile(lambda: disorder.kill(chance, functions), 2), ThreadPoolExecutor(1) as pool:
            outages = pool.submit(have_outages, proxy, random.Random(SEED))  # noqa: S311
            disorder.deliver_all(random.Random(SEED), what_happens)  # noqa: S311
            outages.result()
        delivered = time.time()
        wait_until_healed(workflow)
    healed = time.time()

    workflow.assert_quiet()
    ended = [machine.describe(each.arn) for each in machine.all()]
    outcomes = Counter(str(each.outcome or each.status) for each in ended)
    ended_by_force = f"{len(disorder.stopped)} aborted, {disorder.delivered_again} again"
    print(f"{dict(outcomes)}; {ended_by_force}, {disorder.killed} killed")  # noqa: T201
    kinds = {
        kind: sum(n for (_, each), n in proxy.faults.items() if each == kind) for kind in KINDS
    }
    throttled = sum(error == THROTTLED for each in ended for error in errors(each))
    print(f"calls {dict(kinds)}, {throttled} throttled, {watch.reads} reads")  # noqa: T201
    print(f"{delivered - began:.0f} s of disorder, healed {healed - delivered:.0f} s later")  # noqa: T201
    parked = workflow.parked()
    check(workflow, ended, parked)
    check_flood(ended, parked)
    assert disorder.stopped
    assert disorder.killed
    assert throttled
    assert watch.reads > KEYS
    assert all(kinds.values())


def event_of(event: Any) -> tuple[str, str]:
    described = s3_object(event)
    return described["key"], described["sequencer"]


def errors(execution: Execution) -> list[str]:
    return [str(each.error) for step in execution.steps for each in step.attempts if each.error]


def invocations_of(execution: Execution) -> int:
    """Count how often an execution has invoked the function, which may not refuse."""
    work = [step for step in execution.steps if step.state == "Invert Image"]
    return sum(each.error != THROTTLED for step in work for each in step.attempts)


def _is_by_the_other_policy(execution: Execution) -> bool:
    return f"_{OTHER_POLICY}:" in execution.arn


def check(workflow: Workflow, ended: list[Execution], parked: list[Any]) -> None:
    """Check that nothing is lost, parked or processed twice, and that all outputs are right."""
    begun = [each for each in ended if each.path and each.status != "ABORTED"]
    assert [each for each in begun if each.outcome not in ENDS] == []
    assert {message["reason"]["Error"] for message in parked} <= REJECTIONS
    assert any(map(_is_by_the_other_policy, ended))
    rejected = {event_of(message["event"]) for message in parked}
    runs, newest = by_event(ended), dict(sorted(event_of(each.event) for each in ended))
    written = [each for each in ended if each.outcome == "Processed"]
    check_once(ended, written)
    for (key, sequencer), own in runs.items():
        # An event that was rejected while SQS was out is parked without another execution.
        is_open = FINISHED.isdisjoint(str(each.outcome) for each in own)
        if not is_open or (key, sequencer) in rejected:
            continue
        last = max(own, key=lambda each: each.stopped or datetime.now(UTC))
        happened = [(each.id, each.outcome, each.started, each.stopped) for each in own]
        assert last.outcome != "Retrying", f"{key}: {sequencer} is lost: {happened}"
        # Its execution has died, and a newer event of its key decides the output. The other policy
        # finishes each event that it alone has had, and the newest one of a key.
        newer = (event_of(each.event) for each in written)
        assert any(other == key and each > sequencer for other, each in newer)
        by_other = [*map(_is_by_the_other_policy, own)]
        assert not all(by_other)
        assert not any(by_other) or sequencer != newest[key]
    outputs = workflow.outputs()
    assert {_output_key(each) for each in written} <= set(outputs)
    for key in (f"{number}.png" for number in range(KEYS)):
        happened_to = sorted(
            (sequencer, str(each.outcome))
            for (of, sequencer), own in runs.items()
            for each in own
            if of == key
        )
        source = workflow.s3.get_object(Bucket=workflow.stack.input_bucket, Key=key)["Body"].read()
        if source.startswith(NO_IMAGE):
            assert (key, newest[key]) in rejected, f"{key}: {happened_to}"
            continue
        of_newest = [each for each in written if event_of(each.event) == (key, newest[key])]
        made = {outputs[_output_key(each)] for each in of_newest}
        inverse = tuple(255 - band for band in colour_of(source))
        assert made == {inverse}, f"{key}: {happened_to}"


def by_event(ended: list[Execution]) -> dict[tuple[str, str], list[Execution]]:
    runs = defaultdict(list)
    for each in ended:
        runs[event_of(each.event)].append(each)
    return runs


def check_once(ended: list[Execution], written: list[Execution]) -> None:
    """Check that an event is processed once by each policy that has had it.

    The lease is a tenth here, and the time of a function that hangs is not. So the lock of a live
    holder may be broken, and then both end as Processed.
    """
    processed = Counter((*event_of(each.event), _is_by_the_other_policy(each)) for each in written)
    again: Counter[str] = Counter()
    for (key, _, _), count in processed.items():
        again[key] += count - 1
    broken = [event_of(each.event)[0] for each in ended for state in each.path if state == BREAK]
    assert again <= Counter(broken)


def check_flood(ended: list[Execution], parked: list[Any]) -> None:
    """Check that each object of the flood is parked, and how often the function was invoked."""
    runs = by_event([each for each in ended if s3_object(each.event)["key"].startswith("bomb")])
    reasons = {event_of(each["event"])[0]: each["reason"]["Error"] for each in parked}
    assert {reasons[key] for key, _ in runs} == {"InvalidImage", "TooSlow"}
    assert len({key for key, _ in runs}) == FLOOD
    invocations = {event: sum(map(invocations_of, own)) for event, own in runs.items()}
    print(f"invocations of the flood {Counter(invocations.values())}")  # noqa: T201
    for event, own in runs.items():
        faults = sum(len(errors(each)) for each in own)
        faults += sum(each.status == "ABORTED" for each in own)
        # As in check(): the lock of a living holder may be broken here, and each policy has records
        # of its own.
        breaks = sum(each.path.count(BREAK) for each in own)
        once_each = len({_is_by_the_other_policy(each) for each in own})
        at_most = min(once_each + faults + breaks, INVOCATIONS_AT_MOST)
        happened = [(each.outcome, each.path, errors(each)) for each in own]
        assert invocations[event] <= at_most, f"{event}: {happened}"


def _output_key(execution: Execution) -> str:
    """Name the output of a processed event, of which `every-version` makes one each."""
    key, sequencer = event_of(execution.event)
    return f"out-{key}/{sequencer}" if _is_by_the_other_policy(execution) else f"out-{key}"
