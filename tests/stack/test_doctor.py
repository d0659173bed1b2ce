"""`inorder doctor` names what is wrong with a stack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from inorder.aws import health
from inorder.aws.health import RIGHT, UNKNOWN, WRONG, Finding
from inorder.aws.stack import Connection, deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Inorder, Workflow, inorder_on

Break = Callable[[Workflow], Callable[[], Any]]  # gives what mends it again


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


def expire(workflow: Workflow, is_on: bool) -> None:
    workflow.local.client("dynamodb").update_time_to_live(
        TableName=workflow.stack.key_table,
        TimeToLiveSpecification={"Enabled": is_on, "AttributeName": "expires_at"},
    )


@pytest.fixture
def doctor(healthy: Workflow, monkeypatch: pytest.MonkeyPatch) -> Inorder:
    monkeypatch.setattr(health, "SWITCHING_ON", timedelta(0))
    return inorder_on(healthy, monkeypatch)


def test_a_healthy_stack_has_nothing_wrong(doctor: Inorder) -> None:
    said = doctor("doctor")
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    assert len(lines) == len(health.CHECKS)
    [unknown] = [line for line in lines if not line.startswith(RIGHT)]
    assert unknown.startswith(f"{UNKNOWN}  Quotas: ")  # the local AWS has none to read


def test_of_a_new_bucket_it_is_unknown_whether_s3_sends_events_yet(healthy: Workflow) -> None:
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


def _slow_function(workflow: Workflow) -> Callable[[], Any]:
    functions, name = workflow.local.client("lambda"), workflow.stack.function_name

    def configure(seconds: int) -> None:
        functions.update_function_configuration(FunctionName=name, Timeout=seconds)

    configure(61)
    return lambda: configure(15)


@contextmanager
def broken(workflow: Workflow, breaks: Break) -> Iterator[None]:
    mend = breaks(workflow)
    try:
        yield
    finally:
        mend()


class Quotas:
    """What Service Quotas answers: the rates that apply, else the default ones."""

    def __init__(self, applied: dict[str, float], default: dict[str, float]) -> None:
        self._rates = {"list_service_quotas": applied, "list_aws_default_service_quotas": default}

    def get_paginator(self, operation: str) -> Any:
        rates = self._rates[operation]

        def paginate(ServiceCode: str) -> list[Any]:  # noqa: N803
            name, other = health.RATES[ServiceCode], {"QuotaName": "Other", "Value": 1.0}
            found = [{"QuotaName": name, "Value": rates[name]}] if name in rates else []
            return [{"Quotas": [other]}, {"Quotas": found}]

        return SimpleNamespace(paginate=paginate)


STARTS, INVOCATIONS = health.RATES.values()
DEFAULT = {STARTS: 300.0, INVOCATIONS: 750.0}


@pytest.mark.parametrize(
    ("applied", "default", "states", "said"),
    [
        ({}, DEFAULT, [RIGHT], "may start 300 executions a second"),
        ({STARTS: 1000.0}, DEFAULT, [RIGHT], "may start 750 executions a second"),
        ({STARTS: 50.0}, DEFAULT, [WRONG], f"{STARTS} is 50"),
        ({INVOCATIONS: 50.0}, DEFAULT, [WRONG], f"{INVOCATIONS} is 50"),
        ({}, {STARTS: 300.0}, [UNKNOWN], f"does not have: {INVOCATIONS}."),
    ],
)
def test_a_low_rate_of_starts_is_wrong_and_one_that_is_not_listed_unknown(
    healthy: Workflow,
    applied: dict[str, float],
    default: dict[str, float],
    states: list[str],
    said: str,
) -> None:
    aws = Connection(healthy.stack.name, healthy.local)
    aws._clients["service-quotas"] = Quotas(applied, default)
    findings = list(health._quotas(health.Deployment(aws)))
    assert [each.state for each in findings] == states
    assert said in findings[0].text


def _nothing(_: Workflow) -> Callable[[], Any]:
    return lambda: None


def _waiting_retry(workflow: Workflow) -> Callable[[], Any]:
    sqs, url = workflow.local.client("sqs"), workflow.stack.retry_events_queue_url
    sqs.send_message(QueueUrl=url, MessageBody="{}", DelaySeconds=900)
    return lambda: sqs.purge_queue(QueueUrl=url)


@pytest.mark.parametrize(
    ("policy", "changed", "breaks", "said"),
    [
        ("first-wins", {}, _nothing, "Nothing must be done"),
        ("first-wins", {"Minimal": "true"}, _nothing, "the stack is minimal"),
        ("latest-wins", {"Minimal": "true"}, _nothing, "Nothing must be done"),
        ("first-wins", {"HealMinutes": "0"}, _nothing, "no sweep hands the new policy"),
        ("first-wins", {}, _waiting_retry, "1 event(s) wait to be retried"),
        ("optimistic", {}, _waiting_retry, "Nothing must be done"),
        ("first-wins", {"HandleDeletions": "false"}, _waiting_retry, "Nothing must be done"),
        ("every-version", {}, _nothing, "the input bucket has no versions"),
        ("optimistic", {}, _slow_function, "may take 61 s, and it waits for 15 s"),
    ],
)
def test_what_must_be_done_before_a_change_of_policy_is_named(
    healthy: Workflow, policy: str, changed: dict[str, str], breaks: Break, said: str
) -> None:
    deployment = health.Deployment(Connection(healthy.stack.name, healthy.local))
    parameters = {"Policy": "latest-wins", "Minimal": "false", "HealMinutes": "15"}
    object.__setattr__(deployment.stack, "parameters", parameters | changed)
    with broken(healthy, breaks):
        [finding] = health._change(deployment, policy)
    assert said in finding.text
    assert finding.state == (RIGHT if "Nothing" in said else WRONG)


def test_the_doctor_is_asked_about_a_change_of_policy(doctor: Inorder) -> None:
    said = doctor("doctor", "--policy", "first-wins")
    assert said.exit_code == 1, said.output
    [wrong] = [line for line in said.stdout.splitlines() if line.startswith(WRONG)]
    assert "Before Policy=first-wins: the stack is minimal" in wrong


BROKEN = [
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


def test_what_is_wrong_is_named_with_what_mends_it(healthy: Workflow, doctor: Inorder) -> None:
    """The last test, as it mends nothing."""
    break_all(healthy)
    said = doctor("doctor")
    assert said.exit_code == 1
    lines = said.stdout.splitlines()
    wrong = [number for number, line in enumerate(lines) if line.startswith(WRONG)]
    assert all(lines[at + 1].strip().startswith("->") for at in wrong)
    for at, expected in zip(wrong, BROKEN, strict=True):
        assert expected in lines[at]
