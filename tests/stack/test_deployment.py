"""A stack with the longest name that CloudFormation allows and all options, until its deletion."""

from __future__ import annotations

import os
import subprocess
import sys

from inorder import PROJECT
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import GREEN, Workflow

NAME = "s" * 128
OPTIONS: dict[str, str | float] = {
    "AdaptRecords": "true",
    "Alarms": "all",
    "Dashboard": "true",
    "Tracing": "true",
    "KeyPrefix": "in/",
    "KeySuffix": ".png",
    "HandleDeletions": "false",
    "RecordsSourceArns": "arn:aws:s3:::other",
    "RecordRetentionDays": 30,
    "RetryHours": 1,
    "HealMinutes": 30,
    "LogRetentionDays": 30,
    "FunctionMemorySize": 3000,
    "PermissionsBoundaryArn": "arn:aws:iam::aws:policy/PowerUserAccess",
}


def deployed(local: LocalAws, address: str, pixels: int) -> Workflow:
    key = local.client("kms").create_key()["KeyMetadata"]["Arn"]
    parameters = OPTIONS | {"AlarmEmail": address, "MaximumPixels": pixels, "KmsKeyArn": key}
    return Workflow(local, deploy(local, NAME, parameters))


def test_changed_parameters_count_and_a_deleted_stack_leaves_its_data(local: LocalAws) -> None:
    workflow = deployed(local, "one@example.com", pixels=1)
    workflow.upload("in/too-large.png", picture(GREEN))
    [ended] = workflow.of_key("in/too-large.png", 1)
    assert ended.outcome == "Parked"

    workflow = deployed(local, "another@example.com", pixels=1000)
    topic = workflow.resource("AlarmTopic")
    subscribed = local.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [each["Endpoint"] for each in subscribed] == ["another@example.com"]
    workflow.upload("in/x.png", picture(GREEN))
    [ended] = workflow.of_key("in/x.png", 1)
    assert ended.outcome == "Processed"

    command = [sys.executable, "-m", "samcli", "delete", "--stack-name", NAME]
    command += ["--no-prompts", "--region", "us-east-1"]
    environment = os.environ | local.environment | {"SAM_CLI_TELEMETRY": "0"}
    subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, check=True)  # noqa: S603
    machines = local.client("stepfunctions").list_state_machines()["stateMachines"]
    assert workflow.stack.state_machine_arn not in {each["stateMachineArn"] for each in machines}
    source = {"Bucket": workflow.stack.input_bucket, "Key": "in/x.png"}
    assert workflow.s3.get_object(**source)["Body"].read() == picture(GREEN)
    assert workflow.output("in/x.png") is not None
    assert workflow.record("in/x.png")["status"] == "DONE"
    [parked] = workflow.parked()
    assert parked["object_key"].endswith("/too-large.png")
