"""`inorder doctor` names what is wrong with a stack, one breakage at a time."""

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
    stack = deploy(local, "healthy", {"AlarmTopicArn": topic, "Minimal": "true"})
    local.client("dynamodb").update_time_to_live(  # which the local CloudFormation leaves out
        TableName=stack.key_table,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires_at"},
    )
    return Workflow(local, stack)


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


def _notifications(workflow: Workflow, **configuration: Any) -> Callable[[], Any]:
    def configure(**given: Any) -> None:
        workflow.s3.put_bucket_notification_configuration(
            Bucket=workflow.stack.input_bucket, NotificationConfiguration=given
        )

    configure(**configuration)
    return lambda: configure(EventBridgeConfiguration={})


def _bucket_without_eventbridge(workflow: Workflow) -> Callable[[], Any]:
    return _notifications(workflow)


def _bucket_that_invokes_the_function(workflow: Workflow) -> Callable[[], Any]:
    arn = workflow.local.client("lambda").get_function_configuration(
        FunctionName=workflow.stack.function_name
    )["FunctionArn"]
    invoked = [{"LambdaFunctionArn": arn, "Events": ["s3:ObjectCreated:*"]}]
    return _notifications(
        workflow, EventBridgeConfiguration={}, LambdaFunctionConfigurations=invoked
    )


def _disabled_rule(workflow: Workflow) -> Callable[[], Any]:
    events = workflow.local.client("events")
    name = workflow.resource("EventsRule").rpartition("/")[2]
    events.disable_rule(Name=name)
    return lambda: events.enable_rule(Name=name)


def _second_rule(workflow: Workflow) -> Callable[[], Any]:
    events = workflow.local.client("events")
    pattern = {"source": ["aws.s3"], "detail": {"bucket": {"name": [workflow.stack.input_bucket]}}}
    events.put_rule(Name="second", EventPattern=json.dumps(pattern))
    events.put_targets(
        Rule="second", Targets=[{"Id": "1", "Arn": workflow.stack.state_machine_arn}]
    )

    def remove() -> None:
        events.remove_targets(Rule="second", Ids=["1"])
        events.delete_rule(Name="second")

    return remove


def _slow_function(workflow: Workflow) -> Callable[[], Any]:
    functions, name = workflow.local.client("lambda"), workflow.stack.function_name

    def configure(seconds: int) -> None:
        functions.update_function_configuration(FunctionName=name, Timeout=seconds)

    configure(61)
    return lambda: configure(15)


def _role_without_permissions(workflow: Workflow) -> Callable[[], Any]:
    iam, role = workflow.local.client("iam"), workflow.resource("InvertImageRole")
    arn = workflow.resource("WorkFunctionPolicy")
    iam.detach_role_policy(RoleName=role, PolicyArn=arn)
    return lambda: iam.attach_role_policy(RoleName=role, PolicyArn=arn)


def _no_concurrency(workflow: Workflow) -> Callable[[], Any]:
    functions, name = workflow.local.client("lambda"), workflow.stack.function_name
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    return lambda: functions.delete_function_concurrency(FunctionName=name)


def _parked_event(workflow: Workflow) -> Callable[[], Any]:
    workflow.local.client("sqs").send_message(
        QueueUrl=workflow.stack.parked_events_queue_url, MessageBody="{}"
    )
    return workflow.parked


def _unread_retries(workflow: Workflow) -> Callable[[], Any]:
    functions = workflow.local.client("lambda")
    [mapping] = functions.list_event_source_mappings(
        FunctionName=workflow.resource("RetryEventsFunction")
    )["EventSourceMappings"]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    return lambda: functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


def _alarm(workflow: Workflow) -> Callable[[], Any]:
    cloudwatch, name = workflow.local.client("cloudwatch"), workflow.resource("ParkedEventsAlarm")

    def let(state: str) -> None:
        cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="test")

    let("ALARM")
    return lambda: let("OK")


def _no_subscriber(workflow: Workflow) -> Callable[[], Any]:
    sns, topic = workflow.local.client("sns"), workflow.stack.parameters["AlarmTopicArn"]
    [found] = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    sns.unsubscribe(SubscriptionArn=found["SubscriptionArn"])
    return lambda: sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=found["Endpoint"])


def _no_expiry(workflow: Workflow) -> Callable[[], Any]:
    dynamodb, table = workflow.local.client("dynamodb"), workflow.stack.key_table

    def switch(is_on: bool) -> None:
        dynamodb.update_time_to_live(
            TableName=table,
            TimeToLiveSpecification={"Enabled": is_on, "AttributeName": "expires_at"},
        )

    switch(False)
    return lambda: switch(True)


@contextmanager
def broken(workflow: Workflow, breaks: Break) -> Iterator[None]:
    mend = breaks(workflow)
    try:
        yield
    finally:
        mend()


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (_bucket_without_eventbridge, "sends no events to EventBridge"),
        (_bucket_that_invokes_the_function, "also invokes the function"),
        (_disabled_rule, "is disabled: no event starts an execution"),
        (_second_rule, "The rule second also sends"),
        (_slow_function, "may take 61 s, and the policy waits for 60 s"),
        (_role_without_permissions, "lacks s3:GetObject on"),
        (_no_concurrency, "reserved concurrency is 0"),
        (_parked_event, "ParkedEventsQueue has 1 unread message(s)"),
        (_unread_retries, "Nothing reads the retry queue"),
        (_alarm, "An event has been parked for 10 days"),
        (_no_subscriber, "no confirmed subscription"),
        (_no_expiry, "keeps its records for ever"),
    ],
)
def test_what_is_wrong_is_named_with_what_mends_it(
    healthy: Workflow, doctor: Inorder, breaks: Break, said: str
) -> None:
    with broken(healthy, breaks):
        answer = doctor("doctor")
    assert answer.exit_code == 1
    lines = answer.stdout.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith(WRONG)]
    assert said in lines[at]
    assert lines[at + 1].strip().startswith("->")
    assert doctor("doctor").exit_code == 0


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
