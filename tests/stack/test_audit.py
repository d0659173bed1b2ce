"""Audits of a deployed stack: events are lost and outputs changed on purpose, and repaired."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.events import created
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import GREEN, RED, SECONDS, Inorder, Workflow, inorder_on

KEYS, CHOSEN = 500, 8  # keys, and how many of them each thing happens to


@pytest.fixture(scope="module")
def audited(local: LocalAws) -> Workflow:
    """Give a stack that no other test uses: an audit reads all that is there."""
    return Workflow(local, deploy(local, "audited", {"HealMinutes": 0}))


@pytest.fixture
def inorder(audited: Workflow, monkeypatch: pytest.MonkeyPatch) -> Inorder:
    return inorder_on(audited, monkeypatch)


def each_of(keys: Iterable[str], do: Callable[[str], Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(do, keys))


def output_of(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}out-{name}"


def count_outputs(audited: Workflow, prefix: str) -> int:
    pages = audited.s3.get_paginator("list_objects_v2").paginate(
        Bucket=audited.stack.output_bucket, Prefix=prefix
    )
    return sum(page["KeyCount"] for page in pages)


def wait_for_outputs(audited: Workflow, prefix: str, number: int) -> None:
    wait_until(
        lambda: count_outputs(audited, prefix) == number and not audited.executions.arns("RUNNING"),
        5 * SECONDS,
        f"{number} outputs",
        poll_seconds=1,
    )


def verdicts(found: Any) -> dict[str, str]:
    return {each["key"]: each["verdict"] for each in map(json.loads, found.stdout.splitlines())}


def test_an_audit_names_what_was_lost_and_changed_and_a_repair_mends_it(
    audited: Workflow, inorder: Inorder
) -> None:
    s3, bucket = audited.s3, audited.stack.output_bucket
    keys = [f"all/{number % 7}/{number}.png" for number in range(KEYS)]
    shuffled = random.Random(25).sample(keys, KEYS)  # noqa: S311 - not for a secret
    lost, overwritten, deleted, without, replaced, copied, killed = (
        shuffled[start : start + CHOSEN] for start in range(0, 7 * CHOSEN, CHOSEN)
    )
    unknown = [f"{key}.gone" for key in copied]

    each_of({*keys} - {*lost, *killed}, lambda key: audited.upload(key, picture(RED)))
    wait_for_outputs(audited, "all/", KEYS - 2 * CHOSEN)
    with audited.without_events():
        each_of([*lost, *overwritten], lambda key: audited.upload(key, picture(GREEN)))
        each_of(deleted, audited.delete)
        each_of(without, lambda key: s3.delete_object(Bucket=bucket, Key=output_of(key)))
        for key in replaced:
            s3.put_object(Bucket=bucket, Key=output_of(key), Body=b"by hand")
        for key, gone in zip(copied, unknown, strict=True):
            source = f"{bucket}/{output_of(key)}"
            s3.copy_object(Bucket=bucket, Key=output_of(gone), CopySource=source)
        for key in killed:  # the execution dies before its first write
            audited.upload(key, picture(GREEN))
            etag = s3.head_object(Bucket=audited.stack.input_bucket, Key=key)["ETag"].strip('"')
            event = created(key, bucket=audited.stack.input_bucket, etag=etag)
            audited.executions.stop(audited.deliver(event))
            assert audited.record(key) == {}

    found = inorder("audit", "--prefix", "all/", "--grace", "0.1", "--json")
    assert verdicts(found) == (
        dict.fromkeys([*lost, *without, *killed], "missing")
        | dict.fromkeys(overwritten, "stale")
        | dict.fromkeys([*deleted, *unknown], "orphaned")
        | dict.fromkeys(replaced, "foreign")
    )
    assert found.exit_code == 1

    repair = ("audit", "--prefix", "all/", "--grace", "0.1", "--repair", "--yes")
    repaired = inorder(*repair)
    assert f"{6 * CHOSEN} of {6 * CHOSEN} are right now." in repaired.stderr
    assert (repaired.exit_code, "foreign" in repaired.stdout) == (1, True)
    assert inorder(*repair, "--foreign").exit_code == 0
    after = inorder("audit", "--prefix", "all/", "--grace", "0.1", "--json")
    assert (after.exit_code, after.stdout) == (0, "")
    assert audited.colour(overwritten[0]) == (255, 0, 255)
    assert audited.output(deleted[0]) is None

    [listed] = inorder("executions", "--key", lost[0], "--json").stdout.splitlines()
    assert json.loads(listed)["is_repair"]
    assert "That is right" in inorder("why", lost[0]).stdout
