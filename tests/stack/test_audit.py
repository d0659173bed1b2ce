"""Audits of a deployed stack: events are lost and outputs changed on purpose, and repaired."""

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inorder.audit.comparing import Scope
from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder_fence.fenced_output import OutputState, compare_sequencers, output_key
from tests.conftest import picture
from tests.stack.conftest import CYAN, GREEN, MAGENTA, RED, SECONDS, Inorder, Workflow
from tests.support.events import created

# Any key that S3 allows is used as it is; some of these differ in their encoding only.
STRANGE = ["x y", "x+y", "x%20y", "{}-{0}-\\/$.path", 'it\'s "a"/100%?a=b&c#d', "x" * 1000]


@pytest.fixture(scope="module")
def workflow(local: LocalAws) -> Workflow:
    """Give a stack that no other test uses: an audit reads all that is there."""
    return Workflow(local, deploy(local, "audited", {}))


def at_once(keys: Iterable[str], do: Callable[[str], Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(do, keys))


def wait_for_outputs(workflow: Workflow, prefix: str, number: int) -> None:
    def are_there() -> bool:
        listed = workflow.s3.list_objects_v2(Bucket=workflow.stack.output_bucket, Prefix=prefix)
        return listed["KeyCount"] == number and not workflow.executions.arns("RUNNING")

    wait_until(are_there, 5 * SECONDS + number, f"{number} outputs", poll_seconds=1)


def output_state(workflow: Workflow, key: str) -> OutputState:
    head = workflow.s3.head_object(Bucket=workflow.stack.output_bucket, Key=output_key(key))
    return OutputState(head["ETag"], head["Metadata"], head["LastModified"])


def verdicts(audited: Any) -> dict[str, str]:
    return {line["key"]: line["verdict"] for line in map(json.loads, audited.stdout.splitlines())}


def test_audits_name_lost_and_changed_outputs_and_repairs_mend_them(
    workflow: Workflow, inorder: Inorder
) -> None:
    s3, bucket = workflow.s3, workflow.stack.output_bucket
    lost, overwritten, deleted, without, replaced, right = (f"all/{name}.png" for name in STRANGE)
    at_once(
        [overwritten, deleted, without, replaced, right],
        lambda key: workflow.upload(key, picture(RED)),
    )
    workflow.upload("all/no-image.png", b"no image")
    wait_for_outputs(workflow, "all/", 5)
    with workflow.without_events():
        at_once([lost, overwritten], lambda key: workflow.upload(key, picture(GREEN)))
        s3.put_object(Bucket=workflow.stack.input_bucket, Key="all/", Body=b"")
        workflow.delete(deleted)
        s3.delete_object(Bucket=bucket, Key=output_key(without))
        s3.put_object(Bucket=bucket, Key=output_key(replaced), Body=b"by hand")

    workflow.wait_for_retries()  # the retry queue's function parks what is no image
    audit = ("audit", "--prefix", "all/", "--grace", "0.1")
    remain = {replaced: "foreign", "all/no-image.png": "parked"}
    wrong = {lost: "missing", overwritten: "stale", deleted: "orphaned", without: "missing"}
    audited = inorder(*audit, "--json")
    assert (audited.exit_code, verdicts(audited)) == (3, wrong | remain)
    assert "InvalidImage" in audited.stdout
    assert " look wrong: read again in 0.1 s (--grace)" in audited.stderr
    assert "1 right" in inorder(*audit).stdout
    refused = inorder(*audit, "--repair", input="n")
    assert (refused.exit_code, "--repair --foreign" in refused.stderr) == (3, True)

    repaired = inorder(*audit, "--repair", "--yes", "--foreign")
    assert (repaired.exit_code, "Repaired: 5 of 5." in repaired.stderr) == (3, True)
    assert [workflow.colour(key) for key in (lost, overwritten)] == [MAGENTA] * 2
    assert workflow.output(deleted) is None
    workflow.delete("all/no-image.png")
    assert inorder(*audit, "--json").exit_code == 0
    assert inorder("audit", "--prefix", "none/").stderr.startswith("Error: There is no such key")


def test_old_outputs_are_rewritten_in_order_while_uploads_continue(
    workflow: Workflow, inorder: Inorder
) -> None:
    keys = [f"old/{n}.png" for n in range(30)]
    at_once(keys, lambda key: workflow.upload(key, picture(RED)))
    wait_for_outputs(workflow, "old/", 30)
    before = {key: output_state(workflow, key) for key in keys}
    time.sleep(1.1)  # S3 shows seconds
    now = datetime.now(UTC).isoformat(timespec="seconds")
    old = ("audit", "--prefix", "old/", "--older-than", now)
    with ThreadPoolExecutor(1) as pool:
        green = picture(GREEN)
        uploads = pool.submit(at_once, keys[:10], lambda key: workflow.upload(key, green))
        inorder(*old, "--grace", "0.1", "--repair", "--yes")
        uploads.result()
    waited = inorder(*old, "--wait", "--grace", "1")
    assert (waited.exit_code, waited.stdout) == (0, "30 outputs: 30 right\n")
    for key in keys:
        after = output_state(workflow, key)
        newer = compare_sequencers(after.metadata["sequencer"], before[key].metadata["sequencer"])
        assert newer == 1
        assert after.written != before[key].written
    assert [workflow.colour(key) for key in keys] == [MAGENTA] * 10 + [CYAN] * 20


def test_an_audit_covers_the_keys_of_the_rules_pattern(local: LocalAws) -> None:
    events = local.client("events")
    texts = st.text("ab/.?[\N{SNOWMAN}", max_size=4)

    @settings(max_examples=100, deadline=None)
    @given(key=texts.filter(bool), begins=texts, ends=texts)
    @example(key="scan.pdf", begins="scan.pdf", ends=".pdf")
    @example(key="ababa", begins="aba", ends="aba")
    def compare(key: str, begins: str, ends: str) -> None:
        pattern = {"detail": {"object": {"key": [{"wildcard": f"{begins}*{ends}"}]}}}
        event = created(key) | {"id": "1", "account": "1", "region": "r", "resources": []}
        answer = events.test_event_pattern(
            EventPattern=json.dumps(pattern), Event=json.dumps(event)
        )
        scope = Scope("in", "out", "", "newest", handles_deletions=True)
        scope = replace(scope, key_prefix=begins, key_suffix=ends)
        assert scope.covers(key) == answer["Result"]

    compare()


def test_a_backfill_starts_events_for_objects_without_outputs(
    workflow: Workflow, inorder: Inorder
) -> None:
    with workflow.without_events():
        at_once(
            (f"before/{n}.png" for n in range(8)), lambda key: workflow.upload(key, picture(RED))
        )
    backfill = inorder("backfill", "--prefix", "before/", "--grace", "0.1", "--yes")
    assert (backfill.exit_code, "Repaired: 8 of 8." in backfill.stderr) == (0, True)
    wait_for_outputs(workflow, "before/", 8)
