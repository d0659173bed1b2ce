"""A stack of the previous release is updated to this version, and loses nothing.

release-0.1.0.zip has that release's template, state machines and functions.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy, describe, sam_deploy
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import BLUE, CYAN, GREEN, MAGENTA, RED, SECONDS, YELLOW, Workflow

PREVIOUS = Path(__file__).with_name("release-0.1.0.zip")


def test_an_update_of_the_previous_release_keeps_what_is_finished_waiting_or_parked(
    local: LocalAws, tmp_path: Path
) -> None:
    shutil.unpack_archive(PREVIOUS, tmp_path)
    sam_deploy(
        local, "upgrade", {"SlowSeconds": 2, "SlowProbability": 1}, tmp_path / "template.yaml"
    )
    old = Workflow(local, describe(local.client("cloudformation"), "upgrade"))
    old.upload("finished.png", picture(RED))
    [finished] = [each.event for each in old.of_key("finished.png", 1)]
    old.upload("parked.png", b"no picture")
    old.of_key("parked.png", 1)
    old.upload("overtaken.png", picture(RED))
    [overtaken] = old.events("overtaken.png", 1)
    old.upload("overtaken.png", picture(GREEN))
    old.of_key("overtaken.png", 2)
    old.upload("dead.png", picture(GREEN))
    dead_lock = old.wait_for_lock("dead.png")  # for two seconds
    old.executions.stop(old.record("dead.png")["execution"])
    with old.limited(0):
        old.upload("retried.png", picture(BLUE))
        wait_until(lambda: old.failed_events() > 0, SECONDS, "the retry queue to have the event")

    new = Workflow(local, deploy(local, "upgrade", {"SlowSeconds": 0}))
    for kept in ("input_bucket", "output_bucket", "key_table", "parked_events_queue_url"):
        assert getattr(new.stack, kept) == getattr(old.stack, kept)
    assert new.colour("finished.png") == CYAN
    assert new.run(finished).output["outcome"] == "Duplicate"
    assert new.run(overtaken).output["outcome"] == "Superseded"
    wait_until(
        lambda: new.colour("retried.png") == YELLOW, SECONDS + 210, "the retried event's output"
    )
    assert new.record("dead.png")["lock_token"] == dead_lock
    new.age(new.record_id("dead.png"))
    new.sweep()
    wait_until(lambda: new.colour("dead.png") == MAGENTA, SECONDS + 210, "the dead event's output")
    new.wait_for_retries()
    new.upload("finished.png", picture(GREEN))
    wait_until(lambda: new.colour("finished.png") == MAGENTA, SECONDS, "an output after the update")
    new.wait_for_retries()
    new.assert_quiet()
    [message] = new.parked()
    assert message["event"]["detail"]["object"]["key"] == "parked.png"
