"""Events wait in a pause, and until their object is quiet; only the newest ones are worked on."""

from collections import Counter

import pytest

from inorder.aws import waiting
from inorder.aws.executions import wait_until
from inorder.aws.stack import Connection, deploy
from inorder.local_aws import LocalAws
from inorder_fence.records import s3_object
from tests.conftest import picture
from tests.stack.conftest import (
    CYAN,
    GREEN,
    MAGENTA,
    RED,
    RETRY_SECONDS,
    SECONDS,
    Inorder,
    Workflow,
)

# What JSON and templates escape.
KEYS = ['"quotes" \\u0041.png', "back\\slash\\.png", "line\nend.png", "é😀<a>.png"]
# SQS refuses it from the rule, so the function sends it; the local AWS takes it from both.
REFUSED = "\ufffe.png"
OVERWRITES = 5
EVENTS = len(KEYS) * OVERWRITES + 2
QUIET: dict[str, str | float] = {"Paused": "false", "QuietSeconds": 5}


@pytest.fixture(scope="module")
def workflow(local: LocalAws) -> Workflow:
    return Workflow(local, deploy(local, "paused", {"Paused": "true"}))


def overwrite(workflow: Workflow, *keys: str) -> None:
    """Upload each key several times, the last time with another picture."""
    for number in range(OVERWRITES):
        for key in keys:
            workflow.upload(key, picture(GREEN if number == OVERWRITES - 1 else RED))


def outcomes(workflow: Workflow, *keys: str) -> Counter[str]:
    """Wait until each event of these keys has ended, and count how."""
    aws = Connection(workflow.stack.name, workflow.local)

    def count() -> Counter[str]:
        executions = workflow.executions.all()
        of_keys = [
            execution for execution in executions if s3_object(execution.event).get("key") in keys
        ]
        running = sum(execution.status == "RUNNING" for execution in of_keys)
        ended = (workflow.executions.describe(execution.arn).outcome for execution in of_keys)
        return Counter({"Running": 1}) if running else Counter(map(str, ended))

    def are_over() -> bool:
        done = count()
        own = done["Processed"] + done["Superseded"] + done["Duplicate"]
        is_empty = not workflow.failed_events() and not waiting.count(aws)
        return own >= len(keys) * OVERWRITES and is_empty

    wait_until(are_over, RETRY_SECONDS, "the events that waited", poll_seconds=1)
    return count()


def test_events_wait_in_a_pause_and_a_deployment_resumes_them(
    workflow: Workflow, inorder: Inorder
) -> None:
    aws = Connection(workflow.stack.name, workflow.local)
    overwrite(workflow, *KEYS)
    workflow.upload(REFUSED, picture(GREEN))
    wait_until(lambda: waiting.count(aws) == EVENTS, SECONDS, f"{EVENTS} events that wait")
    assert workflow.sweep() == ""
    assert workflow.executions.all() == []
    paused = f"The stack is paused: {EVENTS} events wait"
    assert paused in inorder("doctor").stdout
    assert paused in inorder("executions").stderr
    audited = inorder("audit", "--grace", "0", "--no-cache")
    assert f"{len(KEYS) + 1} outputs: {len(KEYS) + 1} waiting" in audited.stdout
    for refused in (["audit", "--repair", "--yes"], ["audit", "--wait"], ["backfill", "--yes"]):
        result = inorder(*refused)
        assert result.exit_code == 1
        assert paused in result.stderr
    assert workflow.executions.all() == []

    resumed = Workflow(workflow.local, deploy(workflow.local, workflow.stack.name, QUIET))
    done = outcomes(resumed, *KEYS)
    # Catching up costs the work of the newest events only.
    assert done["Processed"] == len(KEYS)
    assert {resumed.colour(key) for key in (*KEYS, REFUSED)} == {MAGENTA}
    events = [event for key in KEYS for event in resumed.executions.arrived(key)[key]]
    assert all("retry" not in event or event["retry"]["attempt"] == 1 for event in events)
    assert inorder("doctor").exit_code == 0
    assert resumed.parked() == []
    resumed.assert_quiet()


def test_an_object_is_worked_on_once_when_it_is_quiet(workflow: Workflow) -> None:
    workflow.upload("before.png", picture(RED))
    overwrite(workflow, "often.png")
    done = outcomes(workflow, "often.png")
    assert done["Processed"] == 1
    assert workflow.colour("often.png") == MAGENTA
    wait_until(lambda: workflow.colour("before.png") == CYAN, SECONDS, "the first output")
    assert workflow.parked() == []
