"""Audits of a deployed stack: events are lost and outputs changed on purpose, and repaired."""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder_fence.fenced_output import output_key
from tests.conftest import picture
from tests.stack.conftest import GREEN, MAGENTA, RED, SECONDS, Inorder, Workflow

# Any key that S3 allows is used as it is; some of these differ in their encoding only.
STRANGE = ["x y", "x+y", "x%20y", "{}-{0}-\\/$.path", 'it\'s "a"/100%?a=b&c#d', "x" * 1000]


@pytest.fixture(scope="module")
def workflow(local: LocalAws) -> Workflow:
    """Give a stack that no other test uses: an audit reads all that is there."""
    return Workflow(local, deploy(local, "audited", {"HealMinutes": 0}))


def each_of(keys: Iterable[str], do: Callable[[str], Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(do, keys))


def wait_for_outputs(workflow: Workflow, prefix: str, number: int) -> None:
    def are_there() -> bool:
        found = workflow.s3.list_objects_v2(Bucket=workflow.stack.output_bucket, Prefix=prefix)
        return found["KeyCount"] == number and not workflow.executions.arns("RUNNING")

    wait_until(are_there, 5 * SECONDS + number, f"{number} outputs", poll_seconds=1)


def verdicts(found: Any) -> dict[str, str]:
    return {each["key"]: each["verdict"] for each in map(json.loads, found.stdout.splitlines())}


def test_audits_name_what_was_lost_and_changed_and_repairs_mend_it(
    workflow: Workflow, inorder: Inorder
) -> None:
    s3, bucket = workflow.s3, workflow.stack.output_bucket
    lost, overwritten, deleted, without, replaced, right = (f"all/{name}.png" for name in STRANGE)
    each_of(
        [overwritten, deleted, without, replaced, right],
        lambda key: workflow.upload(key, picture(RED)),
    )
    workflow.upload("all/no-image.png", b"no image")
    wait_for_outputs(workflow, "all/", 5)
    with workflow.without_events():
        each_of([lost, overwritten], lambda key: workflow.upload(key, picture(GREEN)))
        s3.put_object(Bucket=workflow.stack.input_bucket, Key="all/", Body=b"")
        workflow.delete(deleted)
        s3.delete_object(Bucket=bucket, Key=output_key(without))
        s3.put_object(Bucket=bucket, Key=output_key(replaced), Body=b"by hand")

    workflow.wait_for_retries()  # the retry queue's function parks what is no image
    audit = ("audit", "--prefix", "all/", "--grace", "0.1")
    remain = {replaced: "foreign", "all/no-image.png": "parked"}
    wrong = {lost: "missing", overwritten: "stale", deleted: "orphaned", without: "missing"}
    found = inorder(*audit, "--json")
    assert (found.exit_code, verdicts(found)) == (1, wrong | remain)
    assert "InvalidImage" in found.stdout
    assert "1 right" in inorder(*audit).stdout

    repaired = inorder(*audit, "--repair", "--yes", "--foreign")
    assert (repaired.exit_code, "5 of 5 are right now." in repaired.stderr) == (1, True)
    assert [workflow.colour(key) for key in (lost, overwritten)] == [MAGENTA] * 2
    assert workflow.output(deleted) is None
    workflow.delete("all/no-image.png")
    assert inorder(*audit, "--json").exit_code == 0
    assert inorder("audit", "--prefix", "none/").stderr.startswith("Error: There is no such key")


def test_a_backfill_starts_an_event_for_each_object_without_an_output(
    workflow: Workflow, inorder: Inorder
) -> None:
    with workflow.without_events():
        each_of(
            (f"before/{n}.png" for n in range(8)), lambda key: workflow.upload(key, picture(RED))
        )
    backfill = inorder("backfill", "--prefix", "before/", "--grace", "0.1", "--yes")
    assert (backfill.exit_code, "8 of 8 are right now." in backfill.stderr) == (0, True)
    wait_for_outputs(workflow, "before/", 8)
