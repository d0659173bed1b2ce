"""Audits of a deployed stack: events are lost and outputs changed on purpose, and repaired."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from threading import Event
from typing import Any

import pytest
from click.testing import Result

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from inorder.model.execution import Filter
from tests.conftest import picture
from tests.stack.conftest import GREEN, MAGENTA, RED, SECONDS, Inorder, Workflow, output_key

IS_SOAK = "SOAK_EVENTS" in os.environ
KEYS = 500 if IS_SOAK else 80
CHOSEN = KEYS // 10  # of each kind of what is wrong
BEFORE = 1000 if IS_SOAK else 60  # objects that were there before the stack
CONCURRENCY = 5  # the default


@pytest.fixture(scope="module")
def workflow(local: LocalAws) -> Workflow:
    """Give a stack that no other test uses: an audit reads all that is there."""
    return Workflow(local, deploy(local, "audited", {"HealMinutes": 0}))


def each_of(keys: Iterable[str], do: Callable[[str], Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(do, keys))


def count_outputs(workflow: Workflow, prefix: str) -> int:
    pages = workflow.s3.get_paginator("list_objects_v2").paginate(
        Bucket=workflow.stack.output_bucket, Prefix=prefix
    )
    return sum(page["KeyCount"] for page in pages)


def wait_for_outputs(workflow: Workflow, prefix: str, number: int) -> None:
    wait_until(
        lambda: (
            count_outputs(workflow, prefix) == number and not workflow.executions.arns("RUNNING")
        ),
        5 * SECONDS,
        f"{number} outputs",
        poll_seconds=1,
    )


def verdicts(found: Any) -> dict[str, str]:
    return {each["key"]: each["verdict"] for each in map(json.loads, found.stdout.splitlines())}


def test_an_audit_names_what_was_lost_and_changed_and_a_repair_mends_it(
    workflow: Workflow, inorder: Inorder
) -> None:
    s3, bucket = workflow.s3, workflow.stack.output_bucket
    keys = [f"all/{number % 7}/{number}.png" for number in range(KEYS)]
    shuffled = random.Random(25).sample(keys, KEYS)  # noqa: S311 - not for a secret
    lost, overwritten, deleted, without, replaced = (
        shuffled[start : start + CHOSEN] for start in range(0, 5 * CHOSEN, CHOSEN)
    )

    each_of({*keys} - {*lost}, lambda key: workflow.upload(key, picture(RED)))
    workflow.upload("all/no-image.png", b"no image")
    wait_for_outputs(workflow, "all/", KEYS - CHOSEN)
    with workflow.without_events():
        each_of([*lost, *overwritten], lambda key: workflow.upload(key, picture(GREEN)))
        each_of(deleted, workflow.delete)
        each_of(without, lambda key: s3.delete_object(Bucket=bucket, Key=output_key(key)))
        for key in replaced:
            s3.put_object(Bucket=bucket, Key=output_key(key), Body=b"by hand")

    found = inorder("audit", "--prefix", "all/", "--grace", "0.1", "--json")
    assert verdicts(found) == (
        dict.fromkeys([*lost, *without], "missing")
        | dict.fromkeys(overwritten, "stale")
        | dict.fromkeys(deleted, "orphaned")
        | dict.fromkeys(replaced, "foreign")
        | {"all/no-image.png": "parked"}
    )
    assert found.exit_code == 1

    repair = ("audit", "--prefix", "all/", "--grace", "0.1", "--repair", "--yes")
    repaired = inorder(*repair)
    assert f"{4 * CHOSEN} of {4 * CHOSEN} are right now." in repaired.stderr
    assert (repaired.exit_code, "foreign" in repaired.stdout) == (1, True)
    inorder(*repair, "--foreign")
    after = inorder("audit", "--prefix", "all/", "--grace", "0.1", "--json")
    assert verdicts(after) == {"all/no-image.png": "parked"}
    assert "InvalidImage" in after.stdout
    workflow.delete("all/no-image.png")
    assert inorder("audit", "--prefix", "all/", "--grace", "0.1", "--json").exit_code == 0
    assert workflow.colour(overwritten[0]) == MAGENTA
    assert workflow.output(deleted[0]) is None


def test_an_audit_during_a_storm_of_uploads_raises_no_false_alarm(
    workflow: Workflow, inorder: Inorder
) -> None:
    keys = [f"storm/{number}.png" for number in range(10)]
    ends = Event()

    def storm(key: str) -> None:
        for colour in cycle((RED, GREEN)):
            workflow.upload(key, picture(colour))
            if ends.wait(0.5):
                return

    with ThreadPoolExecutor(len(keys)) as pool:
        storms = [pool.submit(storm, key) for key in keys]
        try:
            # An event takes less than a second here; on AWS, the default leaves it a minute.
            found: list[Result] = []
            while len(found) < 10 and not any("waiting" in each.stdout for each in found):
                found.append(inorder("audit", "--prefix", "storm/", "--grace", "3"))
        finally:
            ends.set()
    assert [each.result() for each in storms] == [None] * len(keys)
    assert {each.exit_code for each in found} == {0}, [each.output for each in found]
    assert any("waiting" in each.stdout for each in found)
    wait_for_outputs(workflow, "storm/", len(keys))


def test_a_backfill_that_is_stopped_goes_on_where_it_was(
    workflow: Workflow, inorder: Inorder
) -> None:
    with workflow.without_events():
        each_of(
            [f"before/{number}.png" for number in range(BEFORE)],
            lambda key: workflow.upload(key, picture(RED)),
        )
    command = [sys.executable, "-m", "inorder.commands.main", "backfill", "--prefix", "before/"]
    command += ["--grace", "0", "--yes", "--stack-name", workflow.stack.name]
    command += ["--concurrency", "1"]  # so that it is not done when it is stopped
    environment = os.environ | workflow.local.environment
    with subprocess.Popen(command, env=environment) as process:  # noqa: S603 - our own command
        wait_until(
            lambda: count_outputs(workflow, "before/") > BEFORE // 5, SECONDS, "some outputs"
        )
        process.terminate()  # as Ctrl-C, which a background process may ignore
    assert process.returncode == 128 + signal.SIGTERM
    left = BEFORE - count_outputs(workflow, "before/")
    assert left > BEFORE // 5

    again = inorder("backfill", "--prefix", "before/", "--grace", "0.1", "--yes")
    assert again.exit_code == 0, again.output
    assert count_outputs(workflow, "before/") == BEFORE
    ended = workflow.executions.select(Filter(prefix="before/"))
    assert len(ended) <= BEFORE + CONCURRENCY  # what ran as it was stopped may run again


def audited_in_cloud(workflow: Workflow, prefix: str) -> dict[str, str]:
    """Audit in the cloud, as docs/operate.md says, and give the verdicts of what is not right."""
    states, logs = workflow.local.client("stepfunctions"), workflow.local.client("logs")
    described = workflow.local.client("cloudformation").describe_stacks(StackName="audited-audit")
    outputs = {each["OutputKey"]: each["OutputValue"] for each in described["Stacks"][0]["Outputs"]}
    arn = states.start_execution(
        stateMachineArn=outputs["AuditStateMachineArn"], input=json.dumps({"prefix": prefix})
    )["executionArn"]
    wait_until(
        lambda: states.describe_execution(executionArn=arn)["status"] != "RUNNING",
        5 * SECONDS,
        "the end of the audit",
    )
    assert states.describe_execution(executionArn=arn)["status"] == "SUCCEEDED"
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=outputs["AuditLogGroupName"]
    )
    texts = (event["message"] for page in pages for event in page["events"])
    lines = [json.loads(text) for text in texts if text.startswith("{")]
    own = [each for each in lines if each.get("audit") == arn.rpartition(":")[2]]
    return {each["finding"]["key"]: each["finding"]["verdict"] for each in own if "finding" in each}


def test_an_audit_in_the_cloud_names_and_repairs_the_same(
    workflow: Workflow, inorder: Inorder
) -> None:
    parameters = {"StackName": "audited", "AuditRepairs": "true"}
    sam_deploy(workflow.local, "audited-audit", parameters, PROJECT / "stacks/audit/template.yaml")
    keys = [f"cloud/{number}.png" for number in range(6)]
    each_of(keys[1:], lambda key: workflow.upload(key, picture(RED)))
    wait_for_outputs(workflow, "cloud/", 5)
    with workflow.without_events():
        each_of(keys[:2], lambda key: workflow.upload(key, picture(GREEN)))
        workflow.s3.put_object(Bucket=workflow.stack.input_bucket, Key="cloud/", Body=b"")
        workflow.delete(keys[2])
    workflow.s3.put_object(Bucket=workflow.stack.output_bucket, Key=output_key(keys[3]), Body=b"x")

    found = {keys[0]: "missing", keys[1]: "stale", keys[2]: "orphaned", keys[3]: "foreign"}
    assert audited_in_cloud(workflow, "cloud/") == found
    workflow.wait_for_retries()
    assert audited_in_cloud(workflow, "cloud/") == {keys[3]: "foreign"}
    assert [workflow.colour(key) for key in keys[:2]] == [MAGENTA] * 2
    nothing = inorder("audit", "--prefix", "none/")
    assert (nothing.exit_code, "There is no such key" in nothing.stderr) == (1, True)
