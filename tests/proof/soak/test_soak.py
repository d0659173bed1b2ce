"""Many events in disorder, with faults and kills, in real processes: the promise holds at the end.

`make test` delivers a few events, `make soak` a thousand. The environment gives the numbers and the
seed (SOAK_EVENTS, SOAK_KEYS, SOAK_SEED), and a failure names the seed. The same seed gives the same
uploads, deliveries and kills, but not the same timing.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from inorder import local_aws
from inorder.aws.executions import Execution, wait_until
from inorder.aws.stack import deploy
from tests.conftest import WAIT_SCALE, colour_of, picture
from tests.end_to_end.conftest import Workflow
from tests.proof.soak.fault_proxy import FaultProxy, fault_proxy

EVENTS = int(os.environ.get("SOAK_EVENTS", "120"))
KEYS = int(os.environ.get("SOAK_KEYS", "8"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
AT_ONCE = 6
SECONDS = 120 + EVENTS
NAMED = {"Processed", "Duplicate", "Superseded", "Parked"}


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultProxy]:
    with fault_proxy(SEED) as running:
        yield running


@pytest.fixture(scope="module")
def workflow(tmp_path_factory: pytest.TempPathFactory, proxy: FaultProxy) -> Iterator[Workflow]:
    # Only the functions' calls to S3 go through the proxy.
    endpoint = {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{proxy.server_address[1]}"}
    folder = tmp_path_factory.mktemp("soak")
    with local_aws.running(folder, wait_scale=WAIT_SCALE, settings=endpoint) as local:
        proxy.target = local.port
        slow = {"SlowProbability": 0.2, "SlowSeconds": 1}
        yield Workflow(local, deploy(local, "soak", slow))


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


def deliver_all(workflow: Workflow, chance: random.Random) -> None:
    """Upload to the same keys again and again, and deliver events again, late and in any order."""
    uploads = [number % KEYS for number in range(EVENTS // 2)]
    chance.shuffle(uploads)
    s3, bucket = workflow.s3, workflow.stack.input_bucket
    known: list[Any] = []
    for step, number in enumerate(uploads):
        wait_until(
            lambda: len(workflow.executions.arns("RUNNING")) < 2 * AT_ONCE, SECONDS, "executions"
        )
        # Each upload has a colour of its own.
        colour = (step % 256, step // 256, number)
        s3.put_object(Bucket=bucket, Key=f"{number}.png", Body=picture(colour))
        known.extend(workflow.events(f"{number}.png", 1)[-1:])
        workflow.executions.start(chance.choice(known))  # of any key, old or new
        time.sleep(chance.choice([0, 0, 0.05, 0.3]))


def kill(workflow: Workflow, chance: random.Random, stopped: list[str]) -> None:
    """Kill a function's process, or stop an execution."""
    running = workflow.executions.arns("RUNNING")
    if chance.random() < 0.3 and running:
        arn = chance.choice(sorted(running))
        try:
            workflow.executions.stop(arn)
        except ClientError:
            return  # it has just ended
        stopped.append(arn)
    elif workers := workflow.workers():
        chance.choice(workers).kill()


def test_the_promise_holds_after_disorder_faults_and_kills(
    workflow: Workflow, proxy: FaultProxy
) -> None:
    print(f"SOAK_SEED={SEED}, {EVENTS} events, {KEYS} keys")  # noqa: T201 - shown on failure
    chance = random.Random(SEED)  # noqa: S311
    stopped: list[str] = []
    watch = Watch(workflow)
    with meanwhile(watch.read, 0.2):
        with meanwhile(lambda: kill(workflow, chance, stopped), 2):
            deliver_all(workflow, random.Random(SEED))  # noqa: S311
        workflow.executions.wait_for(EVENTS, SECONDS)
        # A stopped execution has no outcome. Its event is delivered again, as by a redrive.
        for arn in stopped:
            workflow.executions.start(workflow.executions.describe(arn).event)
        ended = workflow.executions.wait_for(EVENTS + len(stopped), SECONDS)

    assert len(ended) == EVENTS + len(stopped)
    unnamed = [each for each in ended if each.outcome not in NAMED and each.arn not in stopped]
    assert unnamed == []
    workflow.assert_quiet()
    outcomes = dict(Counter(each.outcome for each in ended))
    faults = dict(proxy.faults)
    print(f"{outcomes}, {len(stopped)} aborted, faults {faults}, {watch.reads} reads")  # noqa: T201
    assert set(faults) == {"pass", "slow", "refuse", "lose the answer"}
    assert stopped
    assert watch.reads > KEYS

    check_outputs(workflow, ended, {_sequencer(message["event"]) for message in redrive(workflow)})
    proxy.weights = [1, 0, 0, 0]
    workflow.executions.wait_for(0, SECONDS)
    while redrive(workflow):
        workflow.executions.wait_for(0, SECONDS)
    check_outputs(workflow, ended, set())
    workflow.assert_quiet()


def redrive(workflow: Workflow) -> list[dict[str, Any]]:
    """Deliver all parked events again, and return their messages."""
    messages = workflow.parked()
    for message in messages:
        workflow.executions.start(message["event"])
    return messages


def _sequencer(event: Any) -> str:
    sequencer: str = event["detail"]["object"]["sequencer"]
    return sequencer


def check_outputs(workflow: Workflow, ended: list[Execution], parked: set[str]) -> None:
    """Check that each key's output is that of its newest event, unless that event is parked."""
    s3 = workflow.s3
    for number in range(KEYS):
        key = f"{number}.png"
        own = [each for each in ended if each.event["detail"]["object"]["key"] == key]
        newest = max(_sequencer(each.event) for each in own)
        if newest in parked:
            continue
        what_happened = sorted((_sequencer(each.event), str(each.outcome)) for each in own)
        output = workflow.output(key)
        assert output, f"{key}: {what_happened}"
        source = s3.get_object(Bucket=workflow.stack.input_bucket, Key=key)["Body"].read()
        inverse = tuple(255 - band for band in colour_of(source))
        assert colour_of(output) == inverse, f"{key}: {what_happened}"
