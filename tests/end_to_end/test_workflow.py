"""The promise, case by case, from an upload to S3 through to the output."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from tests.conftest import colour_of, picture
from tests.end_to_end.conftest import SECONDS, Workflow

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
CYAN, MAGENTA, YELLOW = (0, 255, 255), (255, 0, 255), (255, 255, 0)  # their inverses


def colour(workflow: Workflow, key: str) -> tuple[int, int, int] | None:
    content = workflow.output(key)
    return None if content is None else colour_of(content)


def outcomes(executions: list[Any]) -> list[str | None]:
    return [execution.outcome for execution in executions]


def test_an_upload_is_inverted(workflow: Workflow) -> None:
    workflow.upload("one.png", picture(RED))
    assert outcomes(workflow.of_key("one.png", 1)) == ["Processed"]
    assert colour(workflow, "one.png") == CYAN
    record = workflow.record("one.png")
    assert record["status"] == "DONE"
    assert record["sequencer"] == record["newest"]
    assert float(record["expires_at"]) > time.time() + 6 * 86_400
    assert "lock_token" not in record
    assert "execution" not in record


def test_a_newer_event_during_a_slow_older_one(slow_workflow: Workflow) -> None:
    slow_workflow.upload("during.png", picture(RED))
    slow_workflow.wait_for_lock("during.png")
    slow_workflow.upload("during.png", picture(GREEN))
    older, newer = slow_workflow.of_key("during.png", 2)
    # The older one may be processed or find its source overwritten; the newer one wins either way.
    assert older.outcome in {"Processed", "Superseded"}
    assert newer.outcome == "Processed"
    assert "Wait For Lock" in slow_workflow.executions.describe(newer.arn).path
    assert colour(slow_workflow, "during.png") == MAGENTA
    slow_workflow.assert_quiet()


def test_an_older_event_waiting_behind_the_holder_gives_up_for_a_newer_one(
    slow_workflow: Workflow,
) -> None:
    slow_workflow.upload("queue.png", picture(RED))
    slow_workflow.wait_for_lock("queue.png")
    slow_workflow.upload("queue.png", picture(GREEN))
    wait_until(lambda: len(slow_workflow.events("queue.png", 2)) == 2, SECONDS, "the second event")
    slow_workflow.upload("queue.png", picture(BLUE))
    _, middle, newest = slow_workflow.of_key("queue.png", 3)
    assert (middle.outcome, newest.outcome) == ("Superseded", "Processed")
    assert colour(slow_workflow, "queue.png") == YELLOW


def test_ten_copies_of_one_event_at_once(slow_workflow: Workflow) -> None:
    slow_workflow.upload("copies.png", picture(RED))
    [event] = slow_workflow.events("copies.png", 1)
    for _ in range(9):
        slow_workflow.deliver(event)
    counted = Counter(outcomes(slow_workflow.of_key("copies.png", 10)))
    assert counted == {"Processed": 1, "Duplicate": 9}
    slow_workflow.assert_quiet()


def test_a_duplicate_afterwards(workflow: Workflow) -> None:
    workflow.upload("again.png", picture(RED))
    workflow.of_key("again.png", 1)
    [event] = workflow.events("again.png", 1)
    [duplicate] = workflow.wait(workflow.deliver(event))
    assert duplicate.outcome == "Duplicate"
    assert "Invert Image" not in workflow.executions.describe(duplicate.arn).path


def test_an_older_event_afterwards(workflow: Workflow) -> None:
    workflow.upload("late.png", picture(RED))
    workflow.of_key("late.png", 1)
    workflow.upload("late.png", picture(GREEN))
    workflow.of_key("late.png", 2)
    older, _ = workflow.events("late.png", 2)
    [late] = workflow.wait(workflow.deliver(older))
    assert late.outcome == "Superseded"
    assert colour(workflow, "late.png") == MAGENTA


def test_a_newer_event_that_comes_first(workflow: Workflow) -> None:
    # The older event is held back: its first delivery comes after the newer one's.
    workflow.upload("first.png", picture(GREEN))
    [event] = workflow.events("first.png", 1)
    workflow.of_key("first.png", 1)
    sequencer = event["detail"]["object"]["sequencer"]
    older = copy.deepcopy(event)
    older["detail"]["object"]["sequencer"] = f"{int(sequencer, 16) - 1:018X}"
    [late] = workflow.wait(workflow.deliver(older))
    assert late.outcome == "Superseded"
    assert colour(workflow, "first.png") == MAGENTA


def test_a_bad_image_is_parked_and_its_event_is_no_duplicate(workflow: Workflow) -> None:
    workflow.parked()
    workflow.upload("bad.png", b"no image")
    [failed] = workflow.of_key("bad.png", 1)
    assert failed.outcome == "Parked"
    assert "InvalidImage" in str(failed.cause)
    [event] = workflow.events("bad.png", 1)
    [again] = workflow.wait(workflow.deliver(event))
    assert again.outcome == "Parked"
    assert "Invert Image" in workflow.executions.describe(again.arn).path
    messages = workflow.parked()
    assert [message["event"] for message in messages] == [event, event]
    assert [message["reason"]["Error"] for message in messages] == ["InvalidImage"] * 2
    assert workflow.record("bad.png")["status"] == "FAILED"

    workflow.upload("bad.png", picture(RED))
    assert workflow.of_key("bad.png", 3)[-1].outcome == "Processed"
    [late] = workflow.wait(workflow.deliver(event))
    assert late.outcome == "Superseded"
    assert colour(workflow, "bad.png") == CYAN
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
def test_the_functions_process_killed_once(slow_workflow: Workflow) -> None:
    slow_workflow.upload("killed.png", picture(RED))
    wait_for_work(slow_workflow, set())
    kill_worker(slow_workflow)
    assert outcomes(slow_workflow.of_key("killed.png", 1)) == ["Processed"]
    assert colour(slow_workflow, "killed.png") == CYAN
    slow_workflow.assert_quiet()


@pytest.mark.usefixtures("no_idle_workers")
def test_the_functions_process_killed_each_time_then_the_event_again(
    slow_workflow: Workflow,
) -> None:
    slow_workflow.parked()
    slow_workflow.upload("killed-twice.png", picture(RED))
    killed: set[int] = set()
    for _ in range(2):
        wait_for_work(slow_workflow, killed)
        killed.add(kill_worker(slow_workflow, killed))
    [failed] = slow_workflow.of_key("killed-twice.png", 1)
    assert failed.outcome == "Parked"
    [message] = slow_workflow.parked()
    assert message["event"] == failed.event
    slow_workflow.assert_quiet()

    [again] = slow_workflow.wait(slow_workflow.deliver(failed.event))
    assert again.outcome == "Processed"
    assert colour(slow_workflow, "killed-twice.png") == CYAN


@pytest.mark.usefixtures("no_idle_workers")
def test_the_function_timing_out_once(slow_workflow: Workflow) -> None:
    slow_workflow.upload("timeout.png", picture(RED))
    wait_for_work(slow_workflow, set())
    [worker] = slow_workflow.workers()
    worker.suspend()  # until Lambda ends it, after the 15 s of the function's timeout
    [execution] = slow_workflow.of_key("timeout.png", 1)
    assert execution.outcome == "Processed"
    assert not worker.is_running()
    assert colour(slow_workflow, "timeout.png") == CYAN
    slow_workflow.assert_quiet()


@pytest.fixture
def patient_lambda(slow_workflow: Workflow) -> Iterator[None]:
    """Keep Lambda from ending a function that stalls, for as long as a test may take."""
    functions = slow_workflow.local.client("lambda")
    name = slow_workflow.stack.function_name
    alias = functions.get_alias(FunctionName=name, Name="live")
    functions.update_function_configuration(FunctionName=name, Timeout=600)
    version = functions.publish_version(FunctionName=name)["Version"]
    functions.update_alias(FunctionName=name, Name="live", FunctionVersion=version)
    yield
    functions.update_alias(FunctionName=name, Name="live", FunctionVersion=alias["FunctionVersion"])


@pytest.mark.usefixtures("patient_lambda", "no_idle_workers")
def test_the_execution_killed_and_its_function_waking_up_late(slow_workflow: Workflow) -> None:
    slow_workflow.upload("stuck.png", picture(RED))
    token = slow_workflow.wait_for_lock("stuck.png")
    [execution] = slow_workflow.executions.arns("RUNNING")
    wait_for_work(slow_workflow, set())
    [holder] = slow_workflow.workers()
    holder.suspend()
    slow_workflow.executions.stop(execution)
    try:
        slow_workflow.upload("stuck.png", picture(GREEN))
        assert slow_workflow.record("stuck.png")["lock_token"] == token
        slow_workflow.wait_for_lock("stuck.png", other_than=token)
        _, newer = slow_workflow.of_key("stuck.png", 2)
        path = slow_workflow.executions.describe(newer.arn).path
        assert newer.outcome == "Processed"
        assert path.count("Break Lock") == 1
        assert path.count("Wait For Lock") == 28
        assert colour(slow_workflow, "stuck.png") == MAGENTA
        assert slow_workflow.logged("stuck.png") == ["Processed"]
    finally:
        holder.resume()
    wait_until(
        lambda: len(slow_workflow.logged("stuck.png")) == 2, SECONDS, "the late holder to wake up"
    )
    assert slow_workflow.logged("stuck.png") == ["Processed", "Superseded"]
    assert colour(slow_workflow, "stuck.png") == MAGENTA
    slow_workflow.assert_quiet()


def test_the_queue_unavailable_for_a_while(workflow: Workflow) -> None:
    workflow.parked()
    sqs, url = workflow.local.client("sqs"), workflow.stack.parked_events_queue_url
    sqs.delete_queue(QueueUrl=url)
    try:
        execution = workflow.deliver({"no": "event"})
        time.sleep(1)  # of the nine for which the queue is tried, as waits are scaled here
        assert workflow.executions.arns("RUNNING") == [execution]
    finally:
        sqs.create_queue(QueueName=url.rpartition("/")[2])
    [ended] = workflow.wait(execution)
    assert ended.outcome == "InvalidEvent"
    [message] = workflow.parked()
    assert message["event"] == {"no": "event"}


def test_thirty_quick_overwrites_of_one_key(workflow: Workflow) -> None:
    for number in range(30):
        workflow.upload("hot.png", picture((number, 0, 0)))
    executions = workflow.of_key("hot.png", 30)
    counted = Counter(outcomes(executions))
    assert set(counted) <= {"Processed", "Superseded"}
    assert counted["Processed"] <= 3
    assert executions[-1].outcome == "Processed"
    assert colour(workflow, "hot.png") == (255 - 29, 255, 255)
    workflow.assert_quiet()


@pytest.mark.parametrize(
    "key",
    [
        "with space.png",
        "a+b.png",
        "a b+c.png",
        "100%.png",
        "a%2Bb.png",
        'it\'s "quoted".png',
        "{}-{0}-\\.png",
        "$.path.png",
        "ünïcödé-日本-🙂.png",
        "deep/er/and#hash?.png",
        "x" * 996 + ".png",
    ],
    ids=lambda key: key[:20],
)
def test_unusual_keys_are_used_as_they_are(workflow: Workflow, key: str) -> None:
    workflow.upload(key, picture(RED))
    assert outcomes(workflow.of_key(key, 1)) == ["Processed"]
    assert colour(workflow, key) == CYAN
    assert workflow.record(key)["status"] == "DONE"


def test_keys_that_differ_in_encoding_only_do_not_meet(workflow: Workflow) -> None:
    workflow.upload("x y.png", picture(RED))
    workflow.upload("x+y.png", picture(GREEN))
    workflow.upload("x%20y.png", picture(BLUE))
    for key, inverse in {"x y.png": CYAN, "x+y.png": MAGENTA, "x%20y.png": YELLOW}.items():
        workflow.of_key(key, 1)
        assert colour(workflow, key) == inverse


@pytest.mark.parametrize("lacking", ["sequencer", "etag", "key", "bucket", "detail", "everything"])
def test_an_event_that_lacks_something_is_parked(workflow: Workflow, lacking: str) -> None:
    workflow.parked()
    event: dict[str, Any] = {
        "source": "aws.s3",
        "detail-type": "Object Created",
        "detail": {
            "bucket": {"name": workflow.stack.input_bucket},
            "object": {"key": "x.png", "etag": "0", "sequencer": "0A"},
        },
    }
    if lacking == "everything":
        event = {}
    elif lacking == "detail":
        del event["detail"]
    elif lacking == "bucket":
        del event["detail"]["bucket"]
    else:
        del event["detail"]["object"][lacking]
    [execution] = workflow.wait(workflow.deliver(event))
    assert execution.outcome == "InvalidEvent"
    assert "sequencer" in str(execution.cause)
    [message] = workflow.parked()
    assert message["event"] == event
    assert message["reason"]["Error"] == "InvalidEvent"
