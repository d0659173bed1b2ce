"""`inorder doctor` names what is wrong with a stack."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from inorder.aws import health
from inorder.aws.health import RIGHT, UNKNOWN, WRONG, Finding
from inorder.aws.stack import Connection, deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Workflow, inorder_on


@pytest.fixture(scope="module")
def healthy(local: LocalAws) -> Workflow:
    """Give a stack in which all is right: its topic has a subscriber, as the local AWS has not."""
    sns = local.client("sns")
    topic = sns.create_topic(Name="alarms")["TopicArn"]
    local.client("sqs").create_queue(QueueName="alarms")
    arn = "arn:aws:sqs:us-east-1:000000000000:alarms"
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    workflow = Workflow(
        local, deploy(local, "healthy", {"AlarmTopicArn": topic, "Minimal": "true"})
    )
    expire(workflow, True)  # which the local CloudFormation leaves out
    return workflow


BROKEN = [
    "sends no events to EventBridge",
    "also invokes the function",
    "is disabled: no event starts an execution",
    "The rule second also sends",
    "may take 61 s, and the policy waits for 60 s",
    "lacks s3:GetObject on",
    "reserved concurrency is 0",
    "ParkedEventsQueue has 1 unread message(s)",
    "Nothing reads the retry queue",
    "An event has been parked for 10 days",
    "no confirmed subscription",
    "keeps its records for ever",
]


def break_all(workflow: Workflow) -> None:
    """Do to a stack what `BROKEN` names."""
    client, stack, resource = workflow.local.client, workflow.stack, workflow.resource
    functions, function = client("lambda"), {"FunctionName": stack.function_name}
    arn = functions.get_function_configuration(**function)["FunctionArn"]
    invoked = [{"LambdaFunctionArn": arn, "Events": ["s3:ObjectCreated:*"]}]
    workflow.s3.put_bucket_notification_configuration(
        Bucket=stack.input_bucket,
        NotificationConfiguration={"LambdaFunctionConfigurations": invoked},
    )
    events = client("events")
    events.disable_rule(Name=resource("EventsRule").rpartition("/")[2])
    pattern = {"source": ["aws.s3"], "detail": {"bucket": {"name": [stack.input_bucket]}}}
    events.put_rule(Name="second", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="second", Targets=[{"Id": "1", "Arn": stack.state_machine_arn}])
    functions.update_function_configuration(**function, Timeout=61)
    functions.put_function_concurrency(**function, ReservedConcurrentExecutions=0)
    client("iam").detach_role_policy(
        RoleName=resource("InvertImageRole"), PolicyArn=resource("WorkFunctionPolicy")
    )
    client("sqs").send_message(QueueUrl=stack.parked_events_queue_url, MessageBody="{}")
    [mapping] = functions.list_event_source_mappings(FunctionName=resource("RetryEventsFunction"))[
        "EventSourceMappings"
    ]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    client("cloudwatch").set_alarm_state(
        AlarmName=resource("ParkedEventsAlarm"), StateValue="ALARM", StateReason="test"
    )
    topic = stack.parameters["AlarmTopicArn"]
    [found] = client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    client("sns").unsubscribe(SubscriptionArn=found["SubscriptionArn"])
    expire(workflow, False)


def expire(workflow: Workflow, is_on: bool) -> None:
    workflow.local.client("dynamodb").update_time_to_live(
        TableName=workflow.stack.key_table,
        TimeToLiveSpecification={"Enabled": is_on, "AttributeName": "expires_at"},
    )


def test_a_healthy_stack_has_nothing_wrong_and_all_that_is_broken_is_named_with_what_mends_it(
    healthy: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "SWITCHING_ON", timedelta(0))
    doctor = inorder_on(healthy, monkeypatch)
    said = doctor("doctor")
    assert said.exit_code == 0, said.output
    assert {line.split()[0] for line in said.stdout.splitlines()} == {RIGHT}
    assert len(said.stdout.splitlines()) == len(health.CHECKS)

    break_all(healthy)
    said = doctor("doctor")
    assert said.exit_code == 1
    lines = said.stdout.splitlines()
    wrong = [number for number, line in enumerate(lines) if line.startswith(WRONG)]
    assert all(lines[at + 1].strip().startswith("->") for at in wrong)
    for at, expected in zip(wrong, BROKEN, strict=True):
        assert expected in lines[at]


def test_of_a_new_bucket_it_is_unknown_whether_s3_sends_events_yet(healthy: Workflow) -> None:
    healthy.s3.put_bucket_notification_configuration(
        Bucket=healthy.stack.input_bucket,
        NotificationConfiguration={"EventBridgeConfiguration": {}},
    )
    aws = Connection(healthy.stack.name, healthy.local)
    [finding] = health._bucket(health.Deployment(aws))  # the stack is not five minutes old
    assert (finding.state, "younger than five minutes" in finding.text) == (UNKNOWN, True)


@pytest.mark.parametrize(
    ("check", "changed", "said"),
    [
        ("_log", {"ExecutionLogLevel": "OFF"}, "The log keeps OFF only"),
        ("_alarms", {}, "The stack has no alarms"),
        ("_region", {}, "is in the partition aws-cn"),
    ],
)
def test_what_another_deployment_would_have_wrong(
    healthy: Workflow,
    monkeypatch: pytest.MonkeyPatch,
    check: str,
    changed: dict[str, str],
    said: str,
) -> None:
    aws = Connection(healthy.stack.name, healthy.local)
    deployment = health.Deployment(aws)
    object.__setattr__(deployment.stack, "parameters", changed)
    deployment.resources.clear()
    monkeypatch.setattr(aws.client("stepfunctions").meta.config, "region_name", "cn-north-1")
    findings: list[Finding] = list(getattr(health, check)(deployment))
    assert [each.state for each in findings] == [WRONG]
    assert said in findings[0].text
