"""Functions and executions that stall or die, and what finds their events again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from tests.conftest import WAIT_SCALE, picture
from tests.proof.soak.fault_proxy import FaultProxy, behind_a_proxy
from tests.stack.conftest import CYAN, GREEN, MAGENTA, RED, SECONDS, Workflow, inorder_on

NEVER_SECONDS = 600  # after which Lambda would end a function that stalls


class Mortal(Workflow):
    """A stack behind a proxy that stops calls."""

    proxy: FaultProxy

    def write_of(self, key: str) -> str:
        """Name the call that writes a key's output."""
        return f"PUT /{self.stack.output_bucket}/out-{key}"

    def end_workers(self) -> None:
        """End the idle processes of the function, so that the next one is the one at work."""
        for worker in self.workers():
            worker.kill()
        wait_until(lambda: not self.workers(), SECONDS, "the function's processes to end")

    def die_holding(self, key: str) -> None:
        """Upload an object, and abort the execution that has locked its key."""
        with self.proxy.holding("Invert Image", "hang") as hold:
            self.upload(key, picture(RED))
            assert hold.reached.wait(SECONDS)
            self.executions.stop(self.record(key)["execution"])

    def upload_behind(self, key: str) -> None:
        """Upload an object to a key that is locked, and wait until its event is recorded."""
        older = self.record(key)["sequencer"]
        self.upload(key, picture(GREEN))
        wait_until(lambda: self.record(key)["sequencer"] != older, SECONDS, "the event's record")

    def logged(self, key: str, count: int) -> list[str]:
        """Wait for outcomes that the function logs for a key, and list them in order of time."""
        functions, logs = self.local.client("lambda"), self.local.client("logs")
        function = functions.get_function_configuration(FunctionName=self.stack.function_name)
        group = function["LoggingConfig"]["LogGroup"]
        found: list[str] = []

        def are_there() -> bool:
            pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
            messages = [event["message"] for page in pages for event in page["events"]]
            lines = [json.loads(message) for message in messages if message.startswith("{")]
            found[:] = [line["message"] for line in lines if line.get("source_key") == key]
            return len(found) >= count

        wait_until(are_there, SECONDS, f"{count} lines of the log")
        return found


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    with behind_a_proxy(tmp_path_factory.mktemp("local-aws"), WAIT_SCALE) as (local, proxy):
        mortal = Mortal(local, deploy(local, "mortal", {}))
        mortal.proxy = proxy
        local.client("lambda").update_function_configuration(
            FunctionName=mortal.stack.function_name, Timeout=NEVER_SECONDS
        )
        yield mortal


def test_a_newer_event_waits_for_an_older_one_which_starts_it(mortal: Mortal) -> None:
    key = "during.png"
    with mortal.proxy.holding("Invert Image", "hold the answer") as hold:
        mortal.upload(key, picture(RED))
        assert hold.reached.wait(SECONDS)
        mortal.upload_behind(key)
    older, *newer = mortal.of_key(key, 3)
    assert older.outcome == "Processed"
    assert older.path[-3] == "Start Newest Event"
    [started] = [each for each in newer if each.is_started_by_holder]
    [waiter] = [each for each in newer if not each.is_started_by_holder]
    assert "Wait For Lock" in waiter.path
    # Its poll may come first.
    assert {started.outcome, waiter.outcome} == {"Processed", "Duplicate"}
    assert mortal.colour(key) == MAGENTA
    mortal.assert_quiet()


def test_an_event_whose_function_process_is_killed_each_time_comes_back_by_itself(
    mortal: Mortal,
) -> None:
    def kill_worker() -> None:
        [worker] = mortal.workers()
        worker.kill()

    key = "killed-twice.png"
    mortal.end_workers()
    with mortal.proxy.holding(mortal.write_of(key), "hang") as first:
        mortal.upload(key, picture(RED))
        assert first.reached.wait(SECONDS)
        with mortal.proxy.holding(mortal.write_of(key), "hang") as second:
            kill_worker()
            assert second.reached.wait(SECONDS)
            kill_worker()
    outcomes = Counter(each.outcome for each in mortal.of_key(key, 2))
    assert outcomes == {"Retrying": 1, "Processed": 1}
    assert mortal.colour(key) == CYAN
    assert mortal.parked() == []
    mortal.assert_quiet()


def test_a_function_that_wakes_up_after_its_execution_was_aborted_changes_nothing(
    mortal: Mortal,
) -> None:
    key = "late.png"
    mortal.end_workers()
    with mortal.proxy.holding(mortal.write_of(key), "hang") as hold:
        mortal.upload(key, picture(RED))
        assert hold.reached.wait(SECONDS)
        [holder] = mortal.workers()
        holder.suspend()
    token = mortal.wait_for_lock(key)
    mortal.executions.stop(mortal.record(key)["execution"])
    try:
        mortal.upload(key, picture(GREEN))
        assert mortal.record(key)["lock_token"] == token
        mortal.wait_for_lock(key, other_than=token)
        _, newer = mortal.of_key(key, 2)
        assert newer.outcome == "Processed"
        assert newer.path.count("Break Lock") == 1
        assert len([state for state in newer.path if state.startswith("Wait ")]) == 12
        assert mortal.colour(key) == MAGENTA
        assert mortal.logged(key, 1) == ["Processed"]
        assert holder.status() == psutil.STATUS_STOPPED
    finally:
        holder.resume()
    assert mortal.logged(key, 2) == ["Processed", "Superseded"]
    assert mortal.colour(key) == MAGENTA
    mortal.assert_quiet()


def test_stuck_keys_are_listed_and_processed(
    mortal: Mortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    inorder = inorder_on(mortal, monkeypatch)
    keys = {"holder[/].png": CYAN, "waiter.png": MAGENTA}
    for key in keys:
        mortal.die_holding(key)
    mortal.upload_behind("waiter.png")
    [waiter] = mortal.executions.arns("RUNNING")
    mortal.executions.stop(waiter)
    assert inorder("stuck").stderr == "No key is stuck.\n"  # they could still live
    for key in keys:
        mortal.age(mortal.record_id(key))
    stuck = {key: mortal.record(key) for key in keys}
    result = inorder("stuck")
    assert result.exit_code == 0, result.output
    for key, record in stuck.items():
        [row] = [line for line in result.stdout.splitlines() if f"/{key} " in line]
        assert record["sequencer"] in row
        assert " 0:11:" in row
        assert mortal.record(key) == record

    before = {key: len(mortal.of_key(key, 1)) for key in keys}
    result = inorder("stuck", "--redrive", "--seconds", "600")
    assert result.exit_code == 0, result.output
    assert sorted(line for line in result.stdout.splitlines() if "Sent" in line) == sorted(
        f"Sent to the retry queue: {mortal.record_id(key)}" for key in keys
    )
    for key, record in stuck.items():
        [again] = [each for each in mortal.of_key(key, before[key] + 1) if "retry" in each.event]
        assert again.outcome == "Processed"
        assert json.loads(record["event"]).items() <= again.event.items()
        assert mortal.colour(key) == keys[key]
    mortal.assert_quiet()
    assert inorder("stuck", "--redrive").stderr == "No key is stuck.\n"


def test_the_schedule_heals_the_key_of_a_dead_holder(mortal: Mortal) -> None:
    events, key = mortal.local.client("events"), "held.png"
    rule = events.describe_rule(Name=mortal.resource("HealKeysFunctionSweep").rpartition("/")[2])
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(15 minutes)", "ENABLED")
    mortal.die_holding(key)
    mortal.age(mortal.record_id(key))
    # The minute is that since the rule was deployed.
    events.put_rule(Name=rule["Name"], State="ENABLED", ScheduleExpression="rate(1 minute)")
    wait_until(lambda: mortal.record(key)["status"] == "DONE", 2 * SECONDS, "a sweep")
    mortal.of_key(key, 2)
    mortal.assert_quiet()
    assert mortal.colour(key) == CYAN
