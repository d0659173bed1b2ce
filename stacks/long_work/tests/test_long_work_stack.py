"""Long work on a local AWS: a state machine of seconds, or of three minutes with NIGHT=1."""

import json
import os
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from inorder.aws.executions import StandardStateMachine, wait_until
from inorder.aws.stack import Connection
from inorder.commands.main import main
from inorder.console.answers import Answers
from inorder.demo import long_work
from inorder.local_aws import LocalAws
from inorder_fence.fenced_output import output_key
from tests.conftest import WAIT_SCALE
from tests.stack.conftest import SECONDS
from tests.stack.test_examples import outputs_of

WORK_SECONDS = 180 if os.environ.get("NIGHT") else 4
MOST_SECONDS = SECONDS + 5 * WORK_SECONDS
WORK = """
import boto3
s3 = boto3.client("s3")

def handler(given, _context):
    detail, staged = given["event"]["detail"], given["staged"]
    source = s3.get_object(Bucket=detail["bucket"]["name"], Key=detail["object"]["key"])
    content = source["Body"].read()
    if content.startswith(b"reject"):
        return {"outcome": "Rejected", "error": "NoText", "cause": "It says so."}
    if content.startswith(b"fail once") and "retry" not in given["event"]:
        raise RuntimeError("It says so.")
    content = content.upper() + b"#" + given["stamp"].encode()
    s3.put_object(Bucket=staged["bucket"], Key=staged["key"], Body=content)
"""
STACK = "inorder-long-work"


class LongWork:
    """The stack with buckets of its own, and a state machine that waits and then does the work."""

    input, output = f"{STACK}-input", f"{STACK}-output"

    def __init__(self, local: LocalAws) -> None:
        self.local, self.s3 = local, local.client("s3")
        self.work = long_work.make_work(local, WORK, round(WORK_SECONDS / WAIT_SCALE))
        long_work.deploy(local, STACK, self.work)
        # What was ever written can be read, so that no stale output escapes.
        enabled: Any = {"Status": "Enabled"}
        self.s3.put_bucket_versioning(Bucket=self.output, VersioningConfiguration=enabled)
        self.outputs = outputs_of(local, STACK)
        states, machine = local.client("stepfunctions"), self.outputs["StateMachineArn"]
        self.executions = StandardStateMachine(states, machine)
        self.table = Connection(STACK, local).table

    def upload(self, key: str, content: str) -> None:
        self.s3.put_object(Bucket=self.input, Key=key, Body=content)

    def record(self, key: str) -> dict[str, Any]:
        found = self.table.get_item(Key={"id": f"{self.input}/{key}"})
        return dict(found.get("Item", {}))

    def lock(self, key: str, other_than: str = "") -> str:
        """Wait until a key is locked, and give the execution that holds its lock."""
        found = [""]

        def is_locked() -> bool:
            found[0] = str(self.record(key).get("lock_token", ""))
            return found[0] not in {"", other_than}

        wait_until(is_locked, MOST_SECONDS, "a lock", poll_seconds=0.02)
        return found[0]

    def taken_over(self, key: str, dead: str) -> tuple[str, float]:
        """Wait for the holder after a dead one, and give the seconds since that died."""
        holder, now = self.lock(key, other_than=dead), time.time()
        stopped = self.executions.client.describe_execution(executionArn=dead)["stopDate"]
        return holder, now - stopped.timestamp()

    def finish(self, key: str) -> str:
        """Wait until an event is done or parked, and give the status."""
        ends = {"DONE", "FAILED"}
        wait_until(lambda: self.record(key).get("status") in ends, MOST_SECONDS, "the end")
        return str(self.record(key)["status"])

    def written(self, key: str) -> list[str]:
        """List all outputs that a key has ever had, without their stamps, the oldest first."""
        versions = self.s3.list_object_versions(Bucket=self.output, Prefix=output_key(key))
        found = [each["VersionId"] for each in reversed(versions.get("Versions", []))]
        place = {"Bucket": self.output, "Key": output_key(key)}
        bodies = (self.s3.get_object(**place, VersionId=each)["Body"].read() for each in found)
        return [body.decode().partition("#")[0] for body in bodies]

    def told(self, *command: str) -> str:
        """Run a command of inorder's, as a user does, and give what it prints."""
        given = (*command, "--stack-name", STACK)
        return CliRunner(env=self.local.environment).invoke(main, given).output

    def sweep(self) -> None:
        function = self.outputs["TakeOverFunctionName"]
        answer = self.local.client("lambda").invoke(FunctionName=function, Payload=b"{}")
        assert "FunctionError" not in answer, answer["Payload"].read()


@pytest.fixture(scope="module")
def stack(local: LocalAws) -> LongWork:
    return LongWork(local)


def test_five_overwrites_a_dead_holder_and_failing_work_leave_the_newest_output_only(
    stack: LongWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "a b/ü.txt"
    stack.sweep()  # so that the function is warm
    stack.upload(key, "first")
    dead = stack.lock(key)
    for each in ("second", "third", "fourth", "fifth", "fail once: sixth"):
        stack.upload(key, each)
    wait_until(lambda: len(stack.executions.arns("SUCCEEDED")) == 5, SECONDS, "five that wait")
    why = stack.told("why", key).splitlines()
    said = (": Waiting. Execution ", ": Superseded. The newer event ")
    assert sum(any(each in line for each in said) for line in why) == 5
    assert [" has held the lock for " in why[-3], "waits for the lock" in why[-1]] == [True, True]
    assert dead in {each.arn for each in stack.executions.select() if each.status == "RUNNING"}
    stack.executions.stop(dead)
    failing, stopped = stack.taken_over(key, dead)
    _, failed = stack.taken_over(key, failing)
    assert stack.finish(key) == "DONE"
    print(f"Taken over {stopped:.2f} s after a stop and {failed:.2f} s after a fault.")  # noqa: T201
    assert stack.written(key) == ["FAIL ONCE: SIXTH"]
    ended = [each for each in stack.executions.all() if each.status == "SUCCEEDED"]
    outcomes = Counter(str(each.outcome) for each in ended)
    # Those that wait; and those that came after a newer one, which EventBridge may deliver first.
    assert outcomes["Waiting"] + outcomes["Superseded"] == 5
    assert outcomes["Processed"] == 1
    story = stack.told("why", key)
    for part in (
        *(": Superseded. It was ended in ", ": Retrying. Runtime.HandlerError: "),
        *(" tried again at ", "(attempt 2): Processed. The output was written", "That is right: "),
    ):
        assert part in story
    listed = stack.told("executions", "--outcome", "Waiting", "--json").splitlines()
    assert len(listed) == outcomes["Waiting"]
    later = datetime.now(UTC) + timedelta(days=1)
    assert dead in {each.arn for each in stack.executions.changed(later)}  # it has ended since
    answers = Answers(Connection(STACK, stack.local), stack.executions)
    assert "\n".join(answers.story(key)["sentences"]) + "\n" == story
    monkeypatch.setattr(StandardStateMachine, "search_seconds", -1)
    assert "were not searched" in stack.told("why", key)
    # The local AWS does not stop the work of an execution that is stopped: it stages in vain.
    listed = stack.s3.list_objects_v2(Bucket=stack.outputs["StagingBucketName"])
    staged = [each["Key"] for each in listed.get("Contents", [])]
    assert staged in ([], [f"staged/{dead.rpartition(':')[2]}"])


def test_with_the_switch_a_newer_event_stops_the_work_that_it_outdates(stack: LongWork) -> None:
    long_work.deploy(stack.local, STACK, stack.work, StopsOutdatedWork="true")
    stack.upload("z", "first")
    outdated = stack.lock("z")
    stack.upload("z", "second")
    stack.taken_over("z", outdated)
    assert stack.executions.client.describe_execution(executionArn=outdated)["error"] == "Outdated"
    assert stack.record("z")["stops"] == 1
    assert stack.finish("z") == "DONE"
    assert stack.written("z") == ["SECOND"]
    assert ": Superseded. " in stack.told("why", "z")
    audit = ("audit", "--prefix", "z", "--grace", "0", "--repair", "--yes")
    assert "1 outputs: 1 right" in stack.told(*audit)
    stack.s3.delete_object(Bucket=stack.output, Key=output_key("z"))
    assert "Long work is not repaired from here: upload" in stack.told(*audit)


def test_without_a_status_event_a_sweep_takes_over(stack: LongWork) -> None:
    events = stack.local.client("events")
    for rule in events.list_rules()["Rules"]:
        if stack.outputs["StateMachineArn"] in rule.get("EventPattern", ""):
            events.disable_rule(Name=rule["Name"])
    stack.upload("y", "reject")
    dead = stack.lock("y")
    wait_until(lambda: dead in stack.executions.arns("FAILED"), MOST_SECONDS, "the failure")
    stack.sweep()
    assert stack.record("y")["lock_token"] == dead  # it is too young to be asked about
    stack.table.update_item(
        Key={"id": f"{stack.input}/y"},
        UpdateExpression="SET in_progress_since = :earlier",
        ExpressionAttributeValues={":earlier": "2026-01-01T00:00:00Z"},
    )
    stack.sweep()
    assert stack.finish("y") == "FAILED"
    assert ": Parked. RejectedByWork: NoText: It says so." in stack.told("why", "y")
    assert "long-work-input/y" in stack.told("parked")
    assert "is for long work: stacks/" in stack.told("retrying")
    assert "1 parked" in stack.told("audit", "--grace", "0")
    url = stack.outputs["ParkedEventsQueueUrl"]
    [message] = stack.local.client("sqs").receive_message(QueueUrl=url)["Messages"]
    parked = json.loads(message["Body"])
    assert parked["event"]["detail"]["object"]["key"] == "y"
    assert "It says so." in parked["reason"]["Cause"]
