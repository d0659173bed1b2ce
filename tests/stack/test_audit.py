"""Audits of a deployed stack: events are lost and outputs changed on purpose, and repaired."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import RED, SECONDS, Workflow, inorder_on

KEYS = 500
COLOURS = [(red, green, 77) for red in range(0, 250, 25) for green in range(0, 250, 50)]


@pytest.fixture(scope="module")
def audited(local: LocalAws) -> Workflow:
    """Give a stack that no other test uses: an audit reads all that is there."""
    return Workflow(local, deploy(local, "audited", {"HealMinutes": 0}))


def content(number: int) -> bytes:
    return picture(COLOURS[number % len(COLOURS)])


def in_parallel(do: Any, keys: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(do, keys))


def test_an_audit_finds_what_was_lost_and_changed_and_a_repair_mends_it(
    audited: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    inorder = inorder_on(audited, monkeypatch)
    s3, bucket = audited.s3, audited.stack.output_bucket
    choose = random.Random(25)  # noqa: S311 - not for a secret
    keys = [f"folder-{number % 7}/{number}.png" for number in range(KEYS)]
    shuffled = choose.sample(keys, KEYS)
    lost, overwritten, deleted, without, replaced, orphans = (
        shuffled[start : start + 8] for start in range(0, 48, 8)
    )

    in_parallel(lambda key: audited.upload(key, content(hash(key))), set(keys) - set(lost))
    audited.executions.wait_for(KEYS - len(lost), 5 * SECONDS)
    audited.wait_for_retries()
    audited.disable_rules()
    in_parallel(lambda key: audited.upload(key, content(1)), [*lost, *overwritten])
    in_parallel(audited.delete, deleted)
    in_parallel(lambda key: s3.delete_object(Bucket=bucket, Key=output(key)), without)
    for key in replaced:
        s3.put_object(Bucket=bucket, Key=output(key), Body=b"by hand")
    for key in orphans:  # an output of an event that S3 has never sent
        s3.copy_object(
            Bucket=bucket, Key=output(f"{key}.gone"), CopySource=f"{bucket}/{output(key)}"
        )

    found = inorder("audit", "--grace", "0.1", "--json")

    verdicts = {each["key"]: each["verdict"] for each in map(json.loads, found.stdout.splitlines())}
    expected = dict.fromkeys([*lost, *without], "missing") | dict.fromkeys(overwritten, "stale")
    expected |= dict.fromkeys([*deleted, *(f"{key}.gone" for key in orphans)], "orphaned")
    expected |= dict.fromkeys(replaced, "foreign")
    # The replaced ones that were deleted or overwritten as well do not occur: the keys differ.
    assert verdicts == expected
    assert found.exit_code == 1

    repaired = inorder("audit", "--grace", "0.1", "--repair", "--yes")
    assert "32 of 32 are right now" in repaired.stderr, repaired.output
    assert repaired.exit_code == 1
    assert "foreign" in repaired.stdout
    assert inorder("audit", "--grace", "0.1", "--repair", "--foreign", "--yes").exit_code == 0

    after = inorder("audit", "--grace", "0.1", "--json")
    assert (after.exit_code, after.stdout) == (0, "")


def output(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}out-{name}"


_ = (os, signal, subprocess, sys, threading, Counter, wait_until, RED)
