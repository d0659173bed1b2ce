"""Audits of a deployed stack: events are lost and outputs changed on purpose, and repaired."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from inorder import PROJECT
from inorder.aws.executions import LocalStateMachine, wait_until
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from inorder_fence.fenced_output import output_key
from tests.conftest import picture
from tests.stack.conftest import GREEN, MAGENTA, RED, SECONDS, Inorder, Workflow
from tests.stack.test_examples import outputs_of

# Any key that S3 allows is used as it is; some of these differ in their encoding only.
OUTDATED = 1000 if os.environ.get("NIGHT") else 24  # outputs
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


@contextmanager
def uploads(workflow: Workflow, keys: Iterable[str]) -> Iterator[None]:
    """Overwrite keys meanwhile, each time with another picture."""
    ends = Event()

    def upload() -> None:
        for number, key in enumerate(cycle(keys), 1):
            workflow.upload(key, picture((number % 256, number // 256, 9)))
            if ends.wait(0.5):
                return

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(upload)
        try:
            yield
        finally:
            ends.set()
            done.result()


def deploy_mended_code(workflow: Workflow, folder: Path) -> None:
    for name in ("functions", "statemachine"):
        shutil.copytree(PROJECT / name, folder / name)
    app = folder / "functions" / "invert_image" / "app.py"
    text, mended = app.read_text(), 'VERSION = "2"'
    app.write_text(text.replace('VERSION = "1"', mended))
    assert mended in app.read_text()
    template = shutil.copy(PROJECT / "template.yaml", folder)
    sam_deploy(workflow.local, workflow.stack.name, {}, Path(template))


def histories(workflow: Workflow, prefix: str) -> dict[str, list[dict[str, str]]]:
    """Give the metadata of all that each output was, oldest first."""
    s3, place = workflow.s3, {"Bucket": workflow.stack.output_bucket}
    found: dict[str, list[dict[str, str]]] = {}
    pages = s3.get_paginator("list_object_versions").paginate(**place, Prefix=prefix)
    for version in (each for page in pages for each in page["Versions"]):
        named = {"Key": version["Key"], "VersionId": version["VersionId"]}
        found.setdefault(version["Key"], []).insert(0, s3.head_object(**place, **named)["Metadata"])
    return found


def verdicts(found: Any) -> dict[str, str]:
    return {each["key"]: each["verdict"] for each in map(json.loads, found.stdout.splitlines())}


def audited_in_cloud(workflow: Workflow, prefix: str) -> dict[str, str]:
    """Audit in the cloud, as docs/operate.md says, and give the verdicts of what is not right."""
    outputs, states = outputs_of(workflow.local, "audited-audit"), workflow.executions.client
    machine = LocalStateMachine(states, outputs["AuditStateMachineArn"])
    ended = machine.run({"prefix": prefix}, 5 * SECONDS)
    assert ended.status == "SUCCEEDED"
    reading = workflow.local.client("logs").get_paginator("filter_log_events")
    pages = reading.paginate(logGroupName=outputs["AuditLogGroupName"])
    texts = (event["message"] for page in pages for event in page["events"])
    lines = [json.loads(text) for text in texts if "OutputNotRight" in text]
    found = [each["finding"] for each in lines if ended.arn.endswith(f":{each['audit']}")]
    return {each["key"]: each["verdict"] for each in found}


def test_audits_name_what_was_lost_and_changed_and_repairs_mend_it(
    workflow: Workflow, inorder: Inorder
) -> None:
    parameters = {"StackName": "audited", "AuditRepairs": "true"}
    sam_deploy(workflow.local, "audited-audit", parameters, PROJECT / "stacks/audit/template.yaml")
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

    audit = ("audit", "--prefix", "all/", "--grace", "0.1")
    remain = {replaced: "foreign", "all/no-image.png": "parked"}
    wrong = {lost: "missing", overwritten: "stale", deleted: "orphaned", without: "missing"}
    found = inorder(*audit, "--json")
    assert (found.exit_code, verdicts(found)) == (1, wrong | remain)
    assert "InvalidImage" in found.stdout
    assert "1 right" in inorder(*audit).stdout
    assert audited_in_cloud(workflow, "all/") == wrong | remain
    workflow.wait_for_retries()
    assert audited_in_cloud(workflow, "all/") == remain
    assert [workflow.colour(key) for key in (lost, overwritten)] == [MAGENTA] * 2
    assert workflow.output(deleted) is None

    repaired = inorder(*audit, "--repair", "--yes", "--foreign")
    assert (repaired.exit_code, "1 of 1 are right now." in repaired.stderr) == (1, True)
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


def test_what_older_code_made_is_made_again_once_and_in_order_beside_uploads(
    workflow: Workflow, inorder: Inorder, tmp_path: Path
) -> None:
    keys = [f"made/{number:04}.png" for number in range(OUTDATED)]
    audit = ("audit", "--outdated", "2", "--prefix", "made/", "--grace", "1")
    workflow.s3.put_bucket_versioning(
        Bucket=workflow.stack.output_bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    for end in range(24, len(keys) + 24, 24):  # a thousand at once would wait for each other
        each_of(keys[end - 24 : end], lambda key: workflow.upload(key, picture(RED)))
        wait_for_outputs(workflow, "made/", min(end, len(keys)))
    early = inorder(*audit, "--repair", "--yes")  # before the deployment
    assert (early.exit_code, "This is version '1'." in early.stderr) == (1, True)
    with uploads(workflow, keys[::3]):
        deploy_mended_code(workflow, tmp_path)
        repaired = inorder(*audit, "--repair", "--yes")
    assert repaired.exit_code == 0, repaired.output
    workflow.wait_for_retries()
    assert inorder(*audit).stdout.startswith(f"{len(keys):,} outputs: {len(keys):,} right")
    made = histories(workflow, "made/")
    assert len(made) == len(keys)
    for history in made.values():
        versions = [each["code-version"] for each in history]
        assert (versions, versions[-1]) == (sorted(versions), "2")
        assert all(one["sequencer"] < other["sequencer"] for one, other in pairwise(history))
        events = [(each["source-etag"], each["code-version"]) for each in history]
        assert len(events) == len(set(events))
