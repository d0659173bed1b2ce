"""One event through one policy, on a local AWS of its own, to see which states it passes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError

from inorder import local_aws
from inorder.engines import Ended, LocalStateMachine
from inorder.stack import deploy

PATIENCE_SECONDS = 300  # no Express execution is older


def run_event(
    event: Any, policy: str, content: bytes, folder: Path, say: Callable[[str], None]
) -> Ended:
    """Run an event through a policy, deployed to a local AWS of its own.

    An event of S3 needs its object. So the object is put into the stack's input bucket, and the
    event is told of it. For a deletion the object is created, processed by the same policy, and
    deleted, so that there is an output to remove.

    Parameters
    ----------
    event : object
        Any JSON.
    policy : str
        Value of the template's parameter Policy.
    content : bytes
        Of the object.
    folder : Path
        For the local AWS's own files, which are removed again.
    say : callable
        Is told what is going on, and what is changed in the event.

    Raises
    ------
    click.ClickException
        It cannot be deployed, or S3 does not take the object.
    TimeoutError
        The execution does not end.

    Returns
    -------
    Ended
        The execution, with the states that it passed.
    """
    say("Starting a local AWS ...")
    with local_aws.running(folder) as local:
        say(f"Deploying template.yaml with Policy={policy} ...")
        versioning = "Enabled" if "version-id" in _s3_object(event) else "Disabled"
        stack = deploy(local, "run", {"Policy": policy, "InputBucketVersioning": versioning})
        # The upload would start an execution of its own, and the one shown be a duplicate.
        events = local.client("events")
        for rule in events.list_rules()["Rules"]:
            events.disable_rule(Name=rule["Name"])
        machine = LocalStateMachine(local.client("stepfunctions"), stack.state_machine_arn)
        process = partial(machine.run, seconds=PATIENCE_SECONDS)
        if _s3_object(event):
            bucket, s3 = stack.input_bucket, local.client("s3")
            try:
                event = with_object(event, content, s3, bucket, process, say)
            except (ClientError, BotoCoreError, UnicodeError) as error:
                raise click.ClickException(f"S3 refuses the event's object: {error}") from None
        else:
            say("This tells of no S3 object that was created or deleted: run as it is.")
        return process(event)


def _s3_object(event: Any) -> dict[str, Any]:
    """Give ``detail.object`` if an event tells that an object was created or deleted."""
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
    """Make the object that an event tells of, and give the event as S3 would tell of this one.

    What the event lacks it goes on lacking.

    Parameters
    ----------
    event : object
        Of an object that is created or deleted.
    content : bytes
        Of the object.
    s3 : S3Client
        Of the AWS, local or in process, that has the bucket.
    bucket : str
        Where the object is put.
    process : callable
        Runs the event of the creation of an object that is to be deleted.
    say : callable
        Is told what is done and changed.
    """
    key = _s3_object(event)["key"]
    named = {"Bucket": bucket, "Key": key}
    created = s3.put_object(Body=content, **named)
    facts = {"etag": created["ETag"].strip('"'), "version-id": created.get("VersionId")}
    if event["detail-type"] == "Object Deleted":
        say("Creating the object, running the event of that, and deleting the object ...")
        creation = _telling(event, bucket, facts | {"sequencer": "0"})
        creation["detail-type"] = "Object Created"
        _s3_object(creation)["etag"] = facts["etag"]
        creation["detail"].pop("deletion-type", None)
        say(f"The creation ended as {process(creation).outcome}.")
        if event["detail"].get("deletion-type") == "Permanently Deleted" and facts["version-id"]:
            s3.delete_object(VersionId=facts["version-id"], **named)
        else:
            facts["version-id"] = s3.delete_object(**named).get("VersionId")
        del facts["etag"]  # that of a deletion is not the object's
    changed = _telling(event, bucket, facts)
    for name, before, after in [
        ("bucket.name", event["detail"]["bucket"]["name"], bucket),
        *((f"object.{name}", _s3_object(event).get(name), facts[name]) for name in facts),
    ]:
        if before not in (None, after):
            say(f"detail.{name}: {before} -> {after}")
    return changed


def _telling(event: Any, bucket: str, facts: dict[str, Any]) -> Any:
    """Copy an event, with a bucket's name, and facts of the object in the place of its own."""
    told = copy.deepcopy(event)
    told["detail"]["bucket"]["name"] = bucket
    described = _s3_object(told)
    described |= {name: fact for name, fact in facts.items() if name in described}
    return told
