"""The policy latest-wins from an upload to its output, while processes die or stall.

Only what needs S3's own events, EventBridge, or functions that are processes is shown here.
tests/policies shows the promise in every other case.
"""

from __future__ import annotations

import time
from collections import Counter

import psutil
import pytest

from inorder.aws.executions import wait_until
from tests.conftest import picture
from tests.end_to_end.conftest import CYAN, GREEN, MAGENTA, RED, SECONDS, Workflow


def outcomes(workflow: Workflow, key: str, count: int) -> list[str | None]:
    return [execution.outcome for execution in workflow.of_key(key, count)]


def test_an_uploaded_image_is_inverted_and_the_key_is_released(workflow: Workflow) -> None:
    workflow.upload("one.png", picture(RED))
    assert outcomes(workflow, "one.png", 1) == ["Processed"]
    assert workflow.colour("one.png") == CYAN
    record = workflow.record("one.png")
    assert record["status"] == "DONE"
    assert float(record["expires_at"]) > time.time() + 6 * 86_400
    assert not {"lock_token", "execution"} & set(record)


def test_a_newer_event_waits_for_a_slow_older_one_which_starts_it(slow_workflow: Workflow) -> None:
    slow_workflow.upload("during.png", picture(RED))
    slow_workflow.wait_for_lock("during.png")
    slow_workflow.upload("during.png", picture(GREEN))
    older, *newer = slow_workflow.of_key("during.png", 3)
    # The older one may be processed or find its object replaced; the newer one wins either way.
    assert older.outcome in {"Processed", "Superseded"}
    assert older.path[-3] == "Start Newest Event"
    [started] = [each for each in newer if each.is_started_by_holder]
    [waiter] = [each for each in newer if not each.is_started_by_holder]
    assert "Wait For Lock" in waiter.path
    # Its poll may come first.
    assert {started.outcome, waiter.outcome} == {"Processed", "Duplicate"}
    assert slow_workflow.colour("during.png") == MAGENTA
    slow_workflow.assert_quiet()


def test_thirty_quick_overwrites_of_one_key_end_with_the_newest(workflow: Workflow) -> None:
    for number in range(30):
        workflow.upload("hot.png", picture((number, 0, 0)))
    ended = workflow.of_key("hot.png", 30)
    counted = Counter(each.outcome for each in ended)
    assert set(counted) <= {"Processed", "Superseded", "Duplicate"}
    # A holder starts one event; the execution that waited with it is then a duplicate.
    assert counted["Duplicate"] <= sum(each.is_started_by_holder for each in ended)
    of_newest = [each.outcome for each in ended if each.sequencer == ended[-1].sequencer]
    assert of_newest.count("Processed") == 1
    assert workflow.colour("hot.png") == (255 - 29, 255, 255)
    workflow.assert_quiet()


def kill_worker(workflow: Workflow, among: set[int] | None = None) -> int:
    """Kill the process of the one function invocation that is working."""
    [worker] = [each for each in workflow.workers() if among is None or each.pid not in among]
    worker.kill()
    return int(worker.pid)


@pytest.fixture
def no_idle_workers(slow_workflow: Workflow) -> None:
    """End the idle processes of the function, so that the next one is the one at work."""
    slow_workflow.assert_quiet()
    for worker in slow_workflow.workers():
        worker.kill()
    wait_until(lambda: not slow_workflow.workers(), SECONDS, "the function's processes to end")


def wait_for_work(workflow: Workflow, killed: set[int]) -> None:
    wait_until(
        lambda: bool({each.pid for each in workflow.workers()} - killed),
        SECONDS,
        "a function process",
    )
    time.sleep(1.5)  # it has read the source by then, and is still slow


@pytest.mark.usefixtures("no_idle_workers")
def test_an_event_whose_function_process_is_killed_each_time_comes_back_by_itself(
    slow_workflow: Workflow,
) -> None:
    slow_workflow.parked()
    slow_workflow.upload("killed-twice.png", picture(RED))
    killed: set[int] = set()
    for _ in range(2):
        wait_for_work(slow_workflow, killed)
        killed.add(kill_worker(slow_workflow, killed))
    ended = outcomes(slow_workflow, "killed-twice.png", 2)
    assert Counter(ended) == {"Retrying": 1, "Processed": 1}
    assert slow_workflow.colour("killed-twice.png") == CYAN
    assert slow_workflow.parked() == []
    slow_workflow.assert_quiet()


@pytest.mark.usefixtures("no_idle_workers")
def test_a_function_that_stalls_once_times_out_and_is_retried(slow_workflow: Workflow) -> None:
    for number in range(5):  # on a slow machine, the work may be over before the test stops it
        key = f"timeout-{number}.png"
        slow_workflow.upload(key, picture(RED))
        wait_for_work(slow_workflow, set())
        worker = max(slow_workflow.workers(), key=psutil.Process.create_time)  # others are idle
        worker.suspend()  # until Lambda ends it, after the 15 s of the function's timeout
        assert outcomes(slow_workflow, key, 1) == ["Processed"]
        assert slow_workflow.colour(key) == CYAN
        if not worker.is_running():
            break
        worker.resume()
    assert not worker.is_running()
    slow_workflow.assert_quiet()


KEYS = [
    *("with space.png", "a+b.png", "a b+c.png", "100%.png", "a%2Bb.png", 'it\'s "quoted".png'),
    *("{}-{0}-\\.png", "$.path.png", "ünïcödé-日本-🙂.png", "deep/er/and#hash?.png"),
    *("x" * 996 + ".png", "x y.png", "x+y.png", "x%20y.png"),  # some differ in encoding only
]


def test_an_unusual_key_is_used_as_it_is(workflow: Workflow) -> None:
    for number, key in enumerate(KEYS):
        workflow.upload(key, picture((number, 0, 0)))
    for number, key in enumerate(KEYS):
        assert outcomes(workflow, key, 1) == ["Processed"], key
        assert workflow.colour(key) == (255 - number, 255, 255), key
        assert workflow.record(key)["status"] == "DONE", key
