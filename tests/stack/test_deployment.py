"""A stack with the longest name that CloudFormation allows and all options, until its deletion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase

import pytest

from inorder import PROJECT
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import GREEN, Workflow

NAME = "s" * 128
LONGEST_RULE_NAME = 64
OPTIONS: dict[str, str | float] = {
    **{"AdaptRecords": "true", "Alarms": "all", "Dashboard": "true", "Tracing": "true"},
    **{
        "KeyPrefix": "in/",
        "KeySuffix": ".png",
        "HandleDeletions": "false",
        "RecordsSourceArns": "arn:aws:s3:::other",
    },
    **{"RecordRetentionDays": 30, "RetryHours": 1, "HealMinutes": 30, "LogRetentionDays": 30},
    **{
        "FunctionMemorySize": 3000,
        "PermissionsBoundaryArn": "arn:aws:iam::aws:policy/PowerUserAccess",
    },
}


def deployed(local: LocalAws, address: str, pixels: int) -> Workflow:
    key = local.client("kms").create_key()["KeyMetadata"]["Arn"]
    parameters = OPTIONS | {"AlarmEmail": address, "MaximumPixels": pixels, "KmsKeyArn": key}
    return Workflow(local, deploy(local, NAME, parameters))


@pytest.fixture(scope="module")
def workflow(local: LocalAws) -> Workflow:
    """Deploy the stack twice, with other parameters."""
    workflow = deployed(local, "one@example.com", 1)
    workflow.upload("in/too-large.png", picture(GREEN))
    [ended] = workflow.of_key("in/too-large.png", 1)
    assert ended.outcome == "Parked"
    return deployed(local, "another@example.com", 1000)


def test_another_address_for_alarms_replaces_the_first_and_the_dashboard_names_what_there_is(
    workflow: Workflow,
) -> None:
    local, stack = workflow.local, workflow.stack
    alarms = local.client("cloudwatch").describe_alarms(AlarmNamePrefix=stack.name)["MetricAlarms"]
    topic = workflow.resource("AlarmTopic")
    assert [each["AlarmActions"] for each in alarms] == [[topic]] * 18
    subscriptions = local.client("sns").list_subscriptions_by_topic(TopicArn=topic)
    assert [each["Endpoint"] for each in subscriptions["Subscriptions"]] == ["another@example.com"]
    name = workflow.resource("EventsDashboard")
    text = local.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]
    metrics = [m for each in json.loads(text)["widgets"] for m in each["properties"]["metrics"]]
    named = {m[i + 1] for m in metrics for i, part in enumerate(m) if part == "StateMachineArn"}
    assert named == {stack.state_machine_arn}
    queue = stack.parked_events_queue_url.rpartition("/")[2]
    assert queue in {m[3] for m in metrics if m[0] == "AWS/SQS"}
    filters = local.client("logs").describe_metric_filters()["metricFilters"]
    made = {t["metricName"] for each in filters for t in each["metricTransformations"]}
    assert made == {"Outcomes", "BrokenLocks", "RetryAge"}


def test_the_rule_of_the_longest_name_may_send_to_its_dead_letter_queue(workflow: Workflow) -> None:
    rules = workflow.local.client("events").list_rules()["Rules"]
    # The schedule's rule, on the same bus, has no pattern.
    [rule] = [each for each in rules if each["Name"].startswith("sss") and "EventPattern" in each]
    assert len(rule["Name"]) == LONGEST_RULE_NAME
    attributes = workflow.local.client("sqs").get_queue_attributes(
        QueueUrl=workflow.resource("UndeliveredEventsQueue"), AttributeNames=["Policy"]
    )["Attributes"]
    statements = json.loads(attributes["Policy"])["Statement"]
    [allowed] = [each for each in statements if each["Effect"] == "Allow"]
    assert isinstance(pattern := allowed["Condition"]["ArnLike"]["aws:SourceArn"], str)
    assert fnmatchcase(rule["Arn"], pattern)


def test_a_changed_parameter_reaches_the_function_and_a_deleted_stack_leaves_its_data(
    workflow: Workflow,
) -> None:
    workflow.upload("in/x.png", picture(GREEN))
    [ended] = workflow.of_key("in/x.png", 1)
    assert ended.outcome == "Processed"
    command = [sys.executable, "-m", "samcli", "delete", "--stack-name", NAME]
    command += ["--no-prompts", "--region", "us-east-1"]
    subprocess.run(  # noqa: S603 - our own interpreter
        command,
        cwd=PROJECT,
        env=os.environ | workflow.local.environment | {"SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        check=True,
    )
    machines = workflow.local.client("stepfunctions").list_state_machines()["stateMachines"]
    assert workflow.stack.state_machine_arn not in {each["stateMachineArn"] for each in machines}
    source = {"Bucket": workflow.stack.input_bucket, "Key": "in/x.png"}
    assert workflow.s3.get_object(**source)["Body"].read() == picture(GREEN)
    assert workflow.output("in/x.png") is not None
    assert workflow.record("in/x.png")["status"] == "DONE"
    [parked] = workflow.parked()
    assert parked["object_key"].endswith("/too-large.png")
