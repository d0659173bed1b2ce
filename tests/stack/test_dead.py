"""Functions and executions that stall or die, and what finds their events again."""

from __future__ import annotations

import json
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

    def die_holding(self, key: str) -> None:
        """Upload an object, and abort the execution that has locked its key."""
        with self.proxy.holding("Invert Image", "hang") as hold:
            self.upload(key, picture(RED))
            assert hold.reached.wait(SECONDS)
            self.executions.stop(self.record(key)["execution"])

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


def test_a_function_that_wakes_up_after_its_execution_was_aborted_changes_nothing(
    mortal: Mortal,
) -> None:
    key = "late.png"
    for idle in mortal.workers():  # so that the next one is the one at work
        idle.kill()
    wait_until(lambda: not mortal.workers(), SECONDS, "the function's processes to end")
    write = f"PUT /{mortal.stack.output_bucket}/out-{key}"
    with mortal.proxy.holding(write, "hang") as hold:
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


def test_a_stuck_key_is_listed_and_its_event_started_again(
    mortal: Mortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    inorder, key = inorder_on(mortal, monkeypatch), "holder[/].png"
    mortal.die_holding(key)
    assert inorder("stuck").stderr == "No key is stuck.\n"  # its execution could still live
    mortal.age(mortal.record_id(key))
    record = mortal.record(key)
    result = inorder("stuck")
    assert result.exit_code == 0, result.output
    [row] = [line for line in result.stdout.splitlines() if f"/{key} " in line]
    assert record["sequencer"] in row
    assert " 0:11:" in row
    assert mortal.record(key) == record

    result = inorder("stuck", "--redrive", "--seconds", "600")
    assert result.exit_code == 0, result.output
    assert f"Sent to the retry queue: {mortal.record_id(key)}" in result.stdout.splitlines()
    _, again = sorted(mortal.of_key(key, 2), key=lambda each: "retry" in each.event)
    assert again.outcome == "Processed"
    assert json.loads(record["event"]).items() <= again.event.items()
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
