"""Long work on a local AWS: a state machine of seconds, or of three minutes with NIGHT=1.

The local AWS enforces the functions' roles. They call it over plain HTTP, which the TLS-only
policies refuse, so these are removed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inorder import PROJECT, local_aws
from inorder.aws.executions import LocalStateMachine, wait_until
from inorder.aws.stack import sam_deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import SECONDS, output_key
from tests.stack.test_examples import outputs_of
from tests.stack.test_least_privilege import as_if_over_tls

WORK_SECONDS = 180 if os.environ.get("NIGHT") else 4
MOST_SECONDS = SECONDS + 5 * WORK_SECONDS


class LongWork:
    """The stack, with buckets of its own and the work of the example."""

    def __init__(self, local: LocalAws, name: str, worker: str, seconds: int) -> None:
        self.local, self.s3 = local, local.client("s3")
        self.input, self.output = f"{name}-input", f"{name}-output"
        for bucket in (self.input, self.output):
            self.s3.create_bucket(Bucket=bucket)
        # What was ever written can be read, so that no stale output escapes.
        self.s3.put_bucket_versioning(
            Bucket=self.output, VersioningConfiguration={"Status": "Enabled"}
        )
        self.s3.put_bucket_notification_configuration(
            Bucket=self.input, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
        given: dict[str, str | float] = {"InputBucketName": self.input, "Seconds": seconds}
        sam_deploy(local, f"{name}-work", given, PROJECT / "examples/long_work.yaml")
        work = {worker: outputs_of(local, f"{name}-work")[worker]}
        buckets = {"InputBucketName": self.input, "OutputBucketName": self.output}
        sam_deploy(local, name, buckets | work, PROJECT / "stacks/long_work/template.yaml")
        self.outputs = outputs_of(local, name)
        self.s3.delete_bucket_policy(Bucket=self.outputs["StagingBucketName"])
        local.client("sqs").set_queue_attributes(
            QueueUrl=self.outputs["LongWorkParkedQueueUrl"], Attributes={"Policy": ""}
        )
        self.executions = LocalStateMachine(
            local.client("stepfunctions"), self.outputs["LongWorkStateMachineArn"]
        )
        resources = local.session.resource("dynamodb", endpoint_url=local.endpoint_url)
        self.table = resources.Table(self.outputs["LongWorkTableName"])

    def upload(self, key: str, content: str) -> None:
        self.s3.put_object(Bucket=self.input, Key=key, Body=content)

    def record(self, key: str) -> dict[str, Any]:
        found = self.table.get_item(Key={"id": f"{self.input}/{key}"})
        return dict(found.get("Item", {}))

    def wait(self, key: str, what: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        wait_until(lambda: holds(self.record(key)), MOST_SECONDS, what, poll_seconds=0.02)

    def lock(self, key: str, other_than: str = "") -> str:
        """Wait until a key is locked, and give the execution that holds its lock."""
        self.wait(key, "a lock", lambda r: r.get("lock_token", other_than) != other_than)
        return str(self.record(key)["lock_token"])

    def taken_over(self, key: str, dead: str) -> tuple[str, float]:
        """Wait for the holder after a dead one, and give the seconds since that died."""
        holder, now = self.lock(key, other_than=dead), time.time()
        stopped = self.executions.client.describe_execution(executionArn=dead)["stopDate"]
        return holder, now - stopped.timestamp()

    def finish(self, key: str) -> None:
        self.wait(key, "the end", lambda record: record.get("status") in {"DONE", "FAILED"})

    def written(self, key: str) -> list[str]:
        """List the first lines of all outputs that a key has ever had, the oldest first."""
        versions = self.s3.list_object_versions(Bucket=self.output, Prefix=output_key(key))
        found = [each["VersionId"] for each in reversed(versions.get("Versions", []))]
        place = {"Bucket": self.output, "Key": output_key(key)}
        bodies = (self.s3.get_object(**place, VersionId=each)["Body"].read() for each in found)
        return [body.decode().partition("\n")[0] for body in bodies]

    def parked(self) -> list[dict[str, Any]]:
        url = self.outputs["LongWorkParkedQueueUrl"]
        answer = self.local.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        return [json.loads(each["Body"]) for each in answer.get("Messages", [])]

    def staged(self) -> list[str]:
        listed = self.s3.list_objects_v2(Bucket=self.outputs["StagingBucketName"])
        return [each["Key"] for each in listed.get("Contents", [])]

    def sweep(self) -> None:
        function = self.outputs["TakeOverFunctionName"]
        answer = self.local.client("lambda").invoke(FunctionName=function, Payload=b"{}")
        assert "FunctionError" not in answer, answer["Payload"].read()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """Start a local AWS that enforces the roles of functions."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AUTH", "true")  # the server inherits it
        with local_aws.running(tmp_path_factory.mktemp("local-aws")) as started:
            started.session.events.register("before-send", as_if_over_tls)
            yield started


def test_five_overwrites_a_dead_holder_and_failing_work_leave_the_newest_output_only(
    local: LocalAws,
) -> None:
    stack, key = LongWork(local, "by-machine", "WorkStateMachineArn", WORK_SECONDS), "a b/ü.txt"
    stack.sweep()  # so that the function is warm
    stack.upload(key, "first")
    dead = stack.lock(key)
    for each in ("second", "third", "fourth", "fifth", "fail once: sixth"):
        stack.upload(key, each)
    wait_until(lambda: len(stack.executions.arns("SUCCEEDED")) == 5, SECONDS, "five that wait")
    stack.executions.stop(dead)
    failing, stopped = stack.taken_over(key, dead)
    _, failed = stack.taken_over(key, failing)
    stack.finish(key)
    print(f"Taken over {stopped:.2f} s after a stop and {failed:.2f} s after a fault.")  # noqa: T201
    assert stack.written(key) == ["FAIL ONCE: SIXTH"]
    ended = [each for each in stack.executions.all() if each.status == "SUCCEEDED"]
    assert sorted(str(each.outcome) for each in ended) == ["Processed", *["Waiting"] * 5]
    assert (stack.parked(), stack.record(key)["status"]) == ([], "DONE")
    # The local AWS does not stop the work of an execution that is stopped: it stages in vain.
    assert stack.staged() in ([], [f"staged/{dead.rpartition(':')[2]}"])


@pytest.fixture(scope="module")
def by_function(local: LocalAws) -> LongWork:
    return LongWork(local, "by-function", "WorkFunctionArn", 0)


def test_what_the_work_rejects_or_does_not_stamp_is_parked_and_a_deletion_removes_the_output(
    by_function: LongWork,
) -> None:
    stack, parked = by_function, list[dict[str, Any]]()
    for content, error in (("reject", "NoText"), ("no stamp", "NotStamped")):
        stack.upload(error, content)
        stack.finish(error)
        parked += stack.parked()
        assert parked[-1]["reason"]["Error"] == "Rejected"
        assert json.loads(parked[-1]["reason"]["Cause"])["error"] == error
        assert parked[-1]["event"]["detail"]["object"]["key"] == error
        assert stack.record(error)["status"] == "FAILED"
    stack.upload("x", "text")
    stack.finish("x")
    assert stack.written("x") == ["TEXT"]
    stack.s3.delete_object(Bucket=stack.input, Key="x")

    def is_removed() -> bool:
        return "Contents" not in stack.s3.list_objects_v2(Bucket=stack.output)

    wait_until(is_removed, SECONDS, "the output to be removed")
    assert stack.staged() == []


def test_without_a_status_event_a_sweep_takes_over(by_function: LongWork) -> None:
    stack = by_function
    events = stack.local.client("events")
    for rule in events.list_rules()["Rules"]:
        if "aws.states" in rule.get("EventPattern", ""):
            events.disable_rule(Name=rule["Name"])
    stack.upload("y", "fail once: y")
    dead = stack.lock("y")
    wait_until(lambda: dead in stack.executions.arns("FAILED"), SECONDS, "the failure")
    stack.sweep()
    assert stack.record("y")["lock_token"] == dead  # it is too young to be asked about
    earlier = datetime.now(UTC) - timedelta(minutes=11)
    stack.table.update_item(
        Key={"id": f"{stack.input}/y"},
        UpdateExpression="SET in_progress_since = :earlier",
        ExpressionAttributeValues={":earlier": earlier.isoformat()},
    )
    stack.sweep()
    stack.finish("y")
    assert stack.written("y") == ["FAIL ONCE: Y"]
