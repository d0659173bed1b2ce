"""Many uploads at once: the function's capacity is exceeded, and all are processed by themselves.

`make test` uploads a few objects, `make soak` 200 (SOAK_BURST), and once more without a limit. Then
the local AWS starts a process for each invocation, and the tasks time out.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from inorder import local_aws
from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from tests.conftest import picture
from tests.end_to_end.conftest import Workflow

BURST = int(os.environ.get("SOAK_BURST", "60"))
LIMIT = 10
SECONDS = 900


@pytest.fixture(scope="module")
def workflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workflow]:
    # In real time, as the function that retries knows no other.
    with local_aws.running(tmp_path_factory.mktemp("burst")) as local:
        yield Workflow(local, deploy(local, "burst", {"SlowSeconds": 0.5}))


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("limit", [LIMIT, None] if BURST >= 200 else [LIMIT])
def test_a_burst_is_processed_and_nothing_is_parked(workflow: Workflow, limit: int | None) -> None:
    colours = {f"{limit}-{n}.png": (n % 256, n // 256, 0) for n in range(BURST)}

    def upload(key: str) -> None:
        workflow.upload(key, picture(colours[key]))

    with workflow.limited(limit) if limit else nullcontext(), ThreadPoolExecutor(8) as pool:
        before, began = len(workflow.executions.arns()), time.monotonic()
        list(pool.map(upload, colours))
        wait_until(lambda: len(workflow.executions.arns()) >= before + BURST, SECONDS, "all", 1)
        workflow.wait_for_retries(SECONDS)
        seconds = time.monotonic() - began
    ended = [each for each in workflow.executions.all() if each.is_of(f"{limit}-")]
    outcomes = Counter(str(each.outcome) for each in ended)
    print(f"{BURST} uploads, limit {limit}: {seconds:.0f} s, {dict(outcomes)}")  # noqa: T201
    assert outcomes["Processed"] == BURST
    assert set(outcomes) <= {"Processed", "Retrying"}
    # Without a limit, it depends on the machine whether a task times out.
    assert outcomes["Retrying"] or not limit
    assert workflow.parked() == []
    for key, colour in colours.items():
        assert workflow.colour(key) == tuple(255 - band for band in colour)
    workflow.assert_quiet()
