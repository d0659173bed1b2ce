"""The schedule of a deployed stack heals keys whose executions were aborted."""

from __future__ import annotations

from typing import Any

import pytest

from inorder.aws.executions import wait_until
from tests.conftest import picture
from tests.end_to_end.conftest import CYAN, GREEN, MAGENTA, RED, SECONDS, Workflow

KEYS = ("held.png", "waited.png")


@pytest.fixture
def rule(slow_workflow: Workflow) -> dict[str, Any]:
    """Give the rule of the schedule, as it is deployed."""
    name = slow_workflow.resource("HealKeysFunctionSweep").rpartition("/")[2]
    found: dict[str, Any] = slow_workflow.local.client("events").describe_rule(Name=name)
    return found


def test_the_schedule_heals_the_keys_of_a_holder_and_of_a_waiter(
    slow_workflow: Workflow, rule: dict[str, Any]
) -> None:
    for key in KEYS:
        slow_workflow.die_holding(key, picture(RED))
    slow_workflow.upload_behind("waited.png", picture(GREEN))
    [waiter] = slow_workflow.executions.arns("RUNNING")
    slow_workflow.executions.stop(waiter)
    for key in KEYS:
        slow_workflow.age(slow_workflow.record_id(key))

    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(15 minutes)", "ENABLED")
    events = slow_workflow.local.client("events")
    schedule = {"Name": rule["Name"], "State": "ENABLED"}
    events.put_rule(**schedule, ScheduleExpression="rate(1 minute)")
    try:
        wait_until(
            lambda: all(slow_workflow.record(key)["status"] == "DONE" for key in KEYS),
            150,
            "a sweep, and the ends of the executions that it starts",
        )
    finally:
        events.put_rule(**schedule, ScheduleExpression=rule["ScheduleExpression"])
    wait_until(lambda: not slow_workflow.executions.arns("RUNNING"), SECONDS, "their ends")
    slow_workflow.assert_quiet()
    assert [slow_workflow.colour(key) for key in KEYS] == [CYAN, MAGENTA]


def test_a_sweep_leaves_a_busy_key_alone(slow_workflow: Workflow) -> None:
    slow_workflow.upload("lives.png", picture(RED))
    slow_workflow.wait_for_lock("lives.png")
    assert slow_workflow.sweep() == ""
    assert [each.outcome for each in slow_workflow.of_key("lives.png", 1)] == ["Processed"]
