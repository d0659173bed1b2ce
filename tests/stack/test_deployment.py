"""Stacks are deployed with all options and other sources, updated in place, and deleted."""

import sys

from inorder.aws.executions import wait_until
from inorder.aws.inspection import machine_of
from inorder.aws.stack import Connection, deploy
from inorder.local_aws import LocalAws
from inorder.model.execution import Filter
from inorder.new_policy import longest_stack_name
from tests.conftest import picture
from tests.stack.conftest import CYAN, GREEN, MAGENTA, RED, RETRY_SECONDS, SECONDS, Workflow, ran

NAME = "s" * longest_stack_name()
# It is refused for a bucket that keeps no versions; the local AWS names none in its events.
EVERY_VERSION = {"Policy": "every-version", "InputBucketVersioning": "Enabled"}
OPTIONS: dict[str, str | float] = {
    "KeyPrefix": "in/",
    "KeySuffix": ".png",
    "HandleDeletions": "false",
    "RecordRetentionDays": 30,
    "RetryHours": 1,
    "ExecutionLogLevel": "ERROR",
    "ExecutionLogData": "false",
    "LogRetentionDays": 30,
    "FunctionMemorySize": 3000,
    "PermissionsBoundaryArn": "arn:aws:iam::aws:policy/PowerUserAccess",
}


def deployed(local: LocalAws, name: str, **parameters: str | float) -> Workflow:
    return Workflow(local, deploy(local, name, parameters))


def test_all_options_count_and_a_deleted_stack_leaves_its_data(local: LocalAws) -> None:
    options = OPTIONS | {
        "KmsKeyArn": local.client("kms").create_key()["KeyMetadata"]["Arn"],
        "AlarmTopicArn": local.client("sns").create_topic(Name="alarms")["TopicArn"],
    }
    workflow = deployed(local, NAME, MaximumPixels=1, **options)
    assert workflow.stack.state_machine_arn.endswith(f":{NAME}_latest-wins")
    workflow.upload("in/too-large.png", picture(GREEN))
    [ended] = workflow.of_key("in/too-large.png", 1)
    assert ended.outcome == "Parked"

    workflow = deployed(local, NAME, MaximumPixels=1000, **options)
    workflow.upload("in/x.png", picture(GREEN))
    [ended] = workflow.of_key("in/x.png", 1)
    assert ended.outcome == "Processed"

    command = [sys.executable, "-m", "samcli", "delete", "--stack-name", NAME]
    command += ["--no-prompts", "--region", "us-east-1"]
    ran(*command, variables=local.environment | {"SAM_CLI_TELEMETRY": "0"})
    machines = local.client("stepfunctions").list_state_machines()["stateMachines"]
    assert not [machine for machine in machines if machine["name"].startswith(NAME)]
    source = {"Bucket": workflow.stack.input_bucket, "Key": "in/x.png"}
    assert workflow.s3.get_object(**source)["Body"].read() == picture(GREEN)
    assert workflow.output("in/x.png") is not None
    assert workflow.record("in/x.png")["status"] == "DONE"
    [parked] = workflow.parked()
    assert parked["object_key"].endswith("/too-large.png")


def test_running_waiting_and_parked_events_survive_changes_of_policy(local: LocalAws) -> None:
    """AWS ends executions whose state machine is deleted, and the local AWS does not."""
    before = deployed(local, "update", SlowSeconds=10, SlowMark="slow")
    before.upload("finished.png", picture(RED))
    [finished] = [execution.event for execution in before.of_key("finished.png", 1)]
    before.upload("parked.png", b"no picture")
    before.of_key("parked.png", 1)
    with before.limited(0):
        before.upload("retried.png", picture(RED))
        wait_until(lambda: before.failed_events() > 0, SECONDS, "the retry queue to have the event")
    before.upload("running.png", picture(RED) + b"slow")
    before.wait_for_lock("running.png")

    during = deployed(local, "update", RetryHours=2, **EVERY_VERSION)
    assert during.stack.state_machine_arn != before.stack.state_machine_arn
    kept_ones = ("input_bucket", "output_bucket", "key_table")
    for kept in (*kept_ones, "retry_events_queue_url", "parked_events_queue_url"):
        assert getattr(during.stack, kept) == getattr(before.stack, kept)
    machine = machine_of(Connection("update", local))
    assert machine.select(Filter(key="finished.png"))  # it ran under the policy before
    assert before.of_key("running.png", 1)[0].outcome == "Processed"
    assert before.colour("running.png") == CYAN
    # On a busy machine the event may come back before the change: either policy may take it.
    wait_until(
        lambda: any(key.startswith("out-retried.png") for key in during.outputs()),
        RETRY_SECONDS,
        "the output of the retried event",
    )
    during.wait_for_retries()
    if "in_progress_since" in during.record("retried.png"):
        during.age(during.record_id("retried.png"))
        assert during.sweep() == ""  # it finishes the record of the policy before

    after = deployed(local, "update", Policy="latest-wins", SlowSeconds=0)
    assert after.stack.state_machine_arn == before.stack.state_machine_arn
    assert after.run(finished).outcome == "Duplicate"
    after.upload("finished.png", picture(GREEN))
    assert after.of_key("finished.png", 3)[-1].outcome == "Processed"
    assert after.colour("finished.png") == MAGENTA
    after.wait_for_retries()
    after.assert_quiet()
    [message] = after.parked()
    assert message["event"]["detail"]["object"]["key"] == "parked.png"
