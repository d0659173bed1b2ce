"""One event through one policy, on a local AWS of its own, to show which states it passes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from inorder import local_aws
from inorder.asl.definition import EXPRESS_SECONDS
from inorder.aws.executions import LocalStateMachine
from inorder.aws.stack import deploy
from inorder.errors import Failure
from inorder.model.execution import Execution


def run_event(
    event: Any, policy: str, content: bytes, folder: Path, say: Callable[[str], None]
) -> Execution:
    """Start an execution of a policy, deployed to a local AWS of its own, and wait for its end.

    An event of S3 needs its object. So the object is put into the stack's input bucket, and the
    event is changed to name that object. For a deletion the object is created, processed by the
    same policy, and deleted, so that there is an output to remove. An object that S3 does not take
    is a Failure, an execution that does not end a TimeoutError.
    """
    say("Starting a local AWS ...")
    with local_aws.running(folder) as local:
        say(f"Deploying template.yaml with Policy={policy} ...")
        versioning = "Enabled" if "version-id" in _s3_object(event) else "Disabled"
        stack = deploy(local, "run", {"Policy": policy, "InputBucketVersioning": versioning})
        # The upload would start an execution too, and the one that is shown be a duplicate.
        events = local.client("events")
        for rule in events.list_rules()["Rules"]:
            events.disable_rule(Name=rule["Name"])
        machine = LocalStateMachine(local.client("stepfunctions"), stack.state_machine_arn)
        process = partial(machine.run, seconds=EXPRESS_SECONDS)
        if _s3_object(event):
            bucket, s3 = stack.input_bucket, local.client("s3")
            try:
                event = with_object(event, content, s3, bucket, process, say)
            except (ClientError, BotoCoreError, UnicodeError) as error:
                raise Failure(f"S3 refuses the event's object: {error}") from None
        else:
            say("This is not an event of an S3 object created or deleted, so it is not changed.")
        return process(event)


def _s3_object(event: Any) -> dict[str, Any]:
    """Give ``detail.object`` of the event of an object created or deleted; else an empty dict."""
    try:
        created_or_deleted = event["detail-type"] in {"Object Created", "Object Deleted"}
        named = isinstance(event["detail"]["bucket"]["name"], str)
        described: dict[str, Any] = event["detail"]["object"]
        whole = created_or_deleted and named and isinstance(described["key"], str)
        return described if whole and event["source"] == "aws.s3" else {}
    except (KeyError, TypeError):
        return {}


def with_object(
    event: Any,
    content: bytes,
    s3: Any,
    bucket: str,
    process: Callable[[Any], Any],
    say: Callable[[str], None],
) -> Any:
    """Make the object that an event names, and give the event as S3 would send it for that one.

    A field that the event lacks is not added. Before an object is deleted, the event of its
    creation is processed.
    """
    key = _s3_object(event)["key"]
    named = {"Bucket": bucket, "Key": key}
    created = s3.put_object(Body=content, **named)
    facts = {"etag": created["ETag"].strip('"'), "version-id": created.get("VersionId")}
    if event["detail-type"] == "Object Deleted":
        say("Creating the object, processing that event, and deleting the object ...")
        creation = _changed(event, bucket, facts | {"sequencer": "0"})
        creation["detail-type"] = "Object Created"
        _s3_object(creation)["etag"] = facts["etag"]
        creation["detail"].pop("deletion-type", None)
        say(f"The creation ended as {process(creation).outcome}.")
        if event["detail"].get("deletion-type") == "Permanently Deleted" and facts["version-id"]:
            s3.delete_object(VersionId=facts["version-id"], **named)
        else:
            facts["version-id"] = s3.delete_object(**named).get("VersionId")
        del facts["etag"]  # a deletion's is not the object's
    say(f"The event names an object that was made for it: {key} in {bucket}.")
    return _changed(event, bucket, facts)


def _changed(event: Any, bucket: str, facts: dict[str, Any]) -> Any:
    """Copy an event, with another bucket's name, and the facts of another object."""
    changed = copy.deepcopy(event)
    changed["detail"]["bucket"]["name"] = bucket
    described = _s3_object(changed)
    described |= {name: fact for name, fact in facts.items() if name in described}
    return changed
