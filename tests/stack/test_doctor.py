"""`inorder doctor` names what is wrong with a stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from inorder.aws import health
from inorder.aws.health import RIGHT, UNKNOWN, WRONG
from inorder.aws.stack import Connection, deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Inorder, Workflow


@pytest.fixture(scope="module")
def workflow(local: LocalAws) -> Workflow:
    """Give a stack in which all is right: its topic has a subscriber, as the local AWS has not."""
    sns = local.client("sns")
    topic = sns.create_topic(Name="alarms")["TopicArn"]
    local.client("sqs").create_queue(QueueName="alarms")
    arn = "arn:aws:sqs:us-east-1:000000000000:alarms"
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    parameters: dict[str, str | float] = {"AlarmTopicArn": topic, "Minimal": "true"}
    workflow = Workflow(local, deploy(local, "healthy", parameters))
    expire(workflow, True)  # which the local CloudFormation leaves out
    return workflow


def expire(workflow: Workflow, is_on: bool) -> None:
    workflow.local.client("dynamodb").update_time_to_live(
        TableName=workflow.stack.key_table,
        TimeToLiveSpecification={"Enabled": is_on, "AttributeName": "expires_at"},
    )


@pytest.fixture
def deployment(workflow: Workflow) -> health.Deployment:
    return health.Deployment(Connection(workflow.stack.name, workflow.local))


def test_a_healthy_stack_has_nothing_wrong(
    inorder: Inorder, deployment: health.Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [each.state for each in health._bucket(deployment)] == [UNKNOWN]  # it is too young
    monkeypatch.setattr(health, "SWITCHING_ON", timedelta(0))
    said = inorder("doctor")
    assert said.exit_code == 0, said.output
    [unknown] = [line for line in said.stdout.splitlines() if not line.startswith(RIGHT)]
    assert unknown.startswith(f"{UNKNOWN}  Quotas: ")  # the local AWS has none to read


def test_what_another_deployment_would_have_wrong(
    deployment: health.Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    object.__setattr__(deployment.stack, "parameters", {"ExecutionLogLevel": "OFF"})
    deployment.resources.clear()
    config = deployment.aws.client("stepfunctions").meta.config
    monkeypatch.setattr(config, "region_name", "cn-north-1")
    for check in (health._log, health._alarms, health._region):
        assert [each.state for each in check(deployment)] == [WRONG]


def test_a_low_rate_of_starts_is_wrong_and_one_that_is_not_listed_unknown(
    deployment: health.Deployment,
) -> None:
    starts, invocations = health.RATES.values()
    rates = {"list_service_quotas": {}, "list_aws_default_service_quotas": {starts: 300.0}}

    def paginator(operation: str) -> Any:
        def pages(ServiceCode: str) -> Iterator[Any]:  # noqa: N803
            name = health.RATES[ServiceCode]
            values = [rate for of, rate in rates[operation].items() if of == name]
            yield {"Quotas": [{"QuotaName": name, "Value": value} for value in values]}

        return SimpleNamespace(paginate=pages)

    deployment.aws._clients["service-quotas"] = SimpleNamespace(get_paginator=paginator)
    assert [each.state for each in health._quotas(deployment)] == [UNKNOWN]
    rates["list_aws_default_service_quotas"][invocations] = 750.0
    assert [each.state for each in health._quotas(deployment)] == [RIGHT]
    rates["list_service_quotas"][starts] = 50.0  # this account has another one than the default
    [finding] = health._quotas(deployment)
    assert (finding.state, f"{starts} is 50" in finding.text) == (WRONG, True)


@pytest.mark.parametrize(
    ("policy", "changed", "waiting", "said"),
    [
        ("first-wins", {}, 0, "Nothing must be done"),
        ("latest-wins", {"Minimal": "true"}, 0, "Nothing must be done"),
        ("first-wins", {"HealMinutes": "0"}, 0, "no sweep hands the new policy"),
        ("first-wins", {}, 1, "1 event(s) wait to be retried"),
        ("first-wins", {"HandleDeletions": "false"}, 1, "Nothing must be done"),
        ("every-version", {}, 0, "the input bucket has no versions"),
    ],
)
def test_what_must_be_done_before_a_change_of_policy_is_named(
    workflow: Workflow,
    deployment: health.Deployment,
    policy: str,
    changed: dict[str, str],
    waiting: int,
    said: str,
) -> None:
    parameters = {"Policy": "latest-wins", "Minimal": "false", "HealMinutes": "15"}
    object.__setattr__(deployment.stack, "parameters", parameters | changed)
    sqs, queue = workflow.local.client("sqs"), workflow.stack.retry_events_queue_url
    for _ in range(waiting):
        sqs.send_message(QueueUrl=queue, MessageBody="{}", DelaySeconds=900)
    [finding] = health._change(deployment, policy)
    sqs.purge_queue(QueueUrl=queue)
    assert said in finding.text
    assert finding.state == (RIGHT if "Nothing" in said else WRONG)


def break_all(workflow: Workflow) -> None:
    """Do to a stack what `WRONG_THEN` names."""
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
    for name, qualifier in (("second", ""), ("third", ":live")):
        events.put_rule(Name=name, EventPattern=json.dumps(pattern))
        arn = f"{stack.state_machine_arn}{qualifier}"
        events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn}])
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


WRONG_THEN = [
    "sends no events to EventBridge",
    "also invokes the function",
    "is disabled: no event starts an execution",
    "The rule second also sends",
    "The rule third also sends",
    "may take 61 s, and the policy waits for 60 s",
    "lacks s3:GetObject on",
    "reserved concurrency is 0",
    "ParkedEventsQueue has 1 unread message(s)",
    "Nothing reads the retry queue",
    "An event has been parked for 10 days",
    "no confirmed subscription",
    "keeps its records for ever",
    "Before Policy=uncoordinated: the stack is minimal",
    "Before Policy=uncoordinated: the function may take 61 s, and it waits for 15 s",
]


def test_what_is_wrong_is_named(workflow: Workflow, inorder: Inorder) -> None:
    """The last test, as it mends nothing."""
    break_all(workflow)
    said = inorder("doctor", "--policy", "uncoordinated")
    assert said.exit_code == 1
    wrong = [line for line in said.stdout.splitlines() if line.startswith(WRONG)]
    for line, expected in zip(wrong, WRONG_THEN, strict=True):
        assert expected in line
