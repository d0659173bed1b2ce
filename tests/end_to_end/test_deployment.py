"""A stack that is deployed again, deleted, or has the longest name that CloudFormation allows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from fnmatch import fnmatchcase

import pytest
from botocore.exceptions import ClientError

from inorder import PROJECT
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder.resolved_template import template
from tests.conftest import picture
from tests.end_to_end.conftest import Workflow

LONGEST_STACK_NAME = 128
LONGEST_RULE_NAME = 64
RED, GREEN = (255, 0, 0), (0, 255, 0)


def ended(workflow: Workflow, key: str, count: int) -> list[str | None]:
    return [execution.outcome for execution in workflow.of_key(key, count)]


def deploy_again(workflow: Workflow, **parameters: str | float) -> Workflow:
    return Workflow(workflow.local, deploy(workflow.local, workflow.stack.name, parameters))


def test_another_address_for_alarms_replaces_the_first_and_the_dashboard_names_what_there_is(
    local: LocalAws,
) -> None:
    for address in ("one@example.com", "another@example.com"):
        parameters = {"AlarmEmail": address, "AdaptRecords": "true", "Alarms": "all"}
        stack = deploy(local, "alarming", {**parameters, "Dashboard": "true"})
    workflow = Workflow(local, stack)
    alarms = local.client("cloudwatch").describe_alarms(AlarmNamePrefix=stack.name)["MetricAlarms"]
    topic = workflow.resource("AlarmTopic")
    assert [each["AlarmActions"] for each in alarms] == [[topic]] * 18
    subscriptions = local.client("sns").list_subscriptions_by_topic(TopicArn=topic)
    assert [each["Endpoint"] for each in subscriptions["Subscriptions"]] == ["another@example.com"]
    [described] = local.client("cloudformation").describe_stacks(StackName=stack.name)["Stacks"]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]}
    name = outputs["DashboardName"]
    text = local.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]
    metrics = [m for each in json.loads(text)["widgets"] for m in each["properties"]["metrics"]]
    named = {m[i + 1] for m in metrics for i, part in enumerate(m) if part == "StateMachineArn"}
    assert named == {stack.state_machine_arn}
    queue = stack.parked_events_queue_url.rpartition("/")[2]
    assert queue in {m[3] for m in metrics if m[0] == "AWS/SQS"}
    filters = local.client("logs").describe_metric_filters()["metricFilters"]
    made = {t["metricName"] for each in filters for t in each["metricTransformations"]}
    assert made == {"Outcomes", "BrokenLocks", "RetryAge"}


def test_what_runs_while_the_policy_is_changed_ends_under_the_policy_before(
    local: LocalAws,
) -> None:
    """Under optimistic, no record has its event.

    AWS ends executions whose state machine is deleted, and the local AWS does not.
    """
    parameters = {"Policy": "optimistic", "SlowSeconds": "10", "SlowMark": "slow"}
    before = Workflow(local, deploy(local, "running", parameters))
    before.upload("x.png", picture(RED) + b"slow")
    before.events("x.png", 1)
    after = deploy_again(before, Policy="first-wins")
    machines = local.client("stepfunctions").list_state_machines()["stateMachines"]
    still_there = {each["stateMachineArn"] for each in machines}
    assert {before.stack.state_machine_arn, after.stack.state_machine_arn} <= still_there
    assert before.stack.state_machine_arn != after.stack.state_machine_arn
    for name in ("key_table", "retry_events_queue_url", "parked_events_queue_url"):
        assert getattr(before.stack, name) == getattr(after.stack, name)  # what is not finished
    assert ended(before, "x.png", 1) == ["Processed"]
    after.upload("y.png", picture(GREEN))
    assert ended(after, "y.png", 1) == ["Processed"]
    assert [len(each.executions.all()) for each in (before, after)] == [1, 1]
    assert before.outputs().keys() == {"out-x.png", "out-y.png"}
    latest = deploy_again(after, Policy="latest-wins")
    latest.delete("y.png")  # what first-wins has processed
    assert ended(latest, "y.png", 1) == ["Processed"]
    assert latest.outputs().keys() == {"out-x.png"}


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1"])
def test_a_region_of_another_partition_is_refused_with_a_sentence(
    local: LocalAws, region: str
) -> None:
    resources = {"Queue": {"Type": "AWS::SQS::Queue"}}
    text = json.dumps({"Rules": template()["Rules"], "Resources": resources})
    cloudformation = local.session.client(
        "cloudformation", region_name=region, endpoint_url=local.endpoint_url
    )
    refused = pytest.raises(ClientError, match="run in the partition aws only")
    with refused if region.startswith(("cn-", "us-gov-")) else nullcontext():
        cloudformation.create_stack(StackName="somewhere", TemplateBody=text)


def test_the_rule_of_a_stack_with_the_longest_name_may_send_to_its_dead_letter_queue(
    local: LocalAws,
) -> None:
    stack = deploy(local, "s" * LONGEST_STACK_NAME, {})
    rules = local.client("events").list_rules()["Rules"]
    # The schedule's rule, on the same bus, has no pattern.
    [rule] = [each for each in rules if each["Name"].startswith("sss") and "EventPattern" in each]
    assert len(rule["Name"]) == LONGEST_RULE_NAME
    queue = Workflow(local, stack).resource("UndeliveredEventsQueue")
    attributes = local.client("sqs").get_queue_attributes(
        QueueUrl=queue, AttributeNames=["Policy"]
    )["Attributes"]
    statements = json.loads(attributes["Policy"])["Statement"]
    [allowed] = [each for each in statements if each["Effect"] == "Allow"]
    assert isinstance(pattern := allowed["Condition"]["ArnLike"]["aws:SourceArn"], str)
    assert fnmatchcase(rule["Arn"], pattern)


def test_a_changed_parameter_reaches_the_function_and_a_deleted_stack_leaves_its_data(
    local: LocalAws,
) -> None:
    workflow = Workflow(local, deploy(local, "deleted", {"MaximumPixels": 1}))
    workflow.upload("too-large.png", picture(GREEN))
    assert ended(workflow, "too-large.png", 1) == ["Parked"]
    workflow = deploy_again(workflow, MaximumPixels=1000)
    workflow.upload("x.png", picture(GREEN))
    assert ended(workflow, "x.png", 1) == ["Processed"]
    command = [sys.executable, "-m", "samcli", "delete", "--stack-name", "deleted"]
    command += ["--no-prompts", "--region", "us-east-1"]
    subprocess.run(  # noqa: S603 - our own interpreter
        command,
        cwd=PROJECT,
        env=os.environ | local.environment | {"SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        check=True,
    )
    machines = local.client("stepfunctions").list_state_machines()["stateMachines"]
    assert workflow.stack.state_machine_arn not in {each["stateMachineArn"] for each in machines}
    source = {"Bucket": workflow.stack.input_bucket, "Key": "x.png"}
    assert workflow.s3.get_object(**source)["Body"].read() == picture(GREEN)
    assert workflow.output("x.png") is not None
    assert workflow.record("x.png")["status"] == "DONE"
    [parked] = workflow.parked()
    assert parked["object_key"].endswith("/too-large.png")
