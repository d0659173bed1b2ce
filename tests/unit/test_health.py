"""What `inorder doctor` says of a stack: AWS's answers are built here."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from inorder.aws import health, retrying
from inorder.aws.health import ADVICE, RIGHT, UNKNOWN, WRONG, Check
from inorder.aws.retrying import RetryingEvent
from tests.support.stacks import stack_with


def deployment(is_local: bool = False, clients: Any = None, **parameters: str) -> Any:
    """Build a stack with some parameters, and clients that answer for all services."""
    stack = stack_with(**parameters)
    aws = SimpleNamespace(stack=stack, is_local=is_local, client=lambda _: clients)
    return SimpleNamespace(aws=aws, stack=stack, resources={})


@pytest.mark.parametrize(
    ("policy", "timeout", "text"),
    [
        ("latest-wins", 15, "Nothing must be done"),
        ("uncoordinated", 15, "Nothing must be done"),
        ("every-version", 15, "the input bucket keeps no versions"),
        ("uncoordinated", 61, "the function may take 61 s, and it waits for 15"),
    ],
)
def test_health_says_what_a_change_of_policy_needs_first(
    policy: str, timeout: int, text: str
) -> None:
    asked = deployment(clients=SimpleNamespace(get_bucket_versioning=lambda **_: {}))
    asked.function = {"Timeout": timeout}
    [finding] = health._change(asked, policy)
    assert text in finding.text
    assert finding.state == (RIGHT if "Nothing" in text else WRONG)


def test_an_event_that_is_retried_for_hours_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def retried(*hours: float) -> list[Check]:
        now = datetime.now(UTC)
        since = [(now - timedelta(hours=age)).isoformat() for age in hours]
        line = {"message_id": "m", "attempts": 1, "next": now.isoformat(), "reasons": ["E: c"]}
        events = [RetryingEvent.of(line | {"since": time}) for time in since]
        monkeypatch.setattr(retrying, "retrying_events", lambda _: events)
        return list(health._retries(deployment()))

    [finding] = retried(0.5, 3.1, 5.2)
    assert finding.state == WRONG
    assert "more than an hour: 2 events, one of them for 5 hours, because of E: c" in finding.text
    assert [check.state for check in retried(0.5)] == [RIGHT]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, ""),
        ({"KeyPrefix": "photos/"}, "1 of the first 3 objects: dog.JPG"),
        ({"KeySuffix": ".jpg"}, "2 of the first 3 objects: dog.JPG, photos/cat.JPG"),
        ({"KeyPrefix": "photos/", "KeySuffix": ".jpg"}, "2 of the first 3 objects"),
    ],
)
def test_objects_that_the_filter_leaves_out_are_named(parameters: Any, text: str) -> None:
    keys = ["dog.JPG", "photos/cat.JPG", "photos/cat.jpg"]
    listed = {"Contents": [{"Key": key, "Size": 1} for key in keys]}
    listed["Contents"].append({"Key": "photos/", "Size": 0})  # a folder's marker
    asked = deployment(clients=SimpleNamespace(list_objects_v2=lambda **_: listed), **parameters)
    findings = list(health._keys(asked))
    assert [finding.state for finding in findings] == ([ADVICE] if text else [])
    assert all(text in finding.text for finding in findings)


@pytest.mark.parametrize(
    ("outputs", "state"),
    [
        ({"OutputBucketName": "out", "InputBucketName": "another"}, WRONG),
        ({"OutputBucketName": "out", "InputBucketName": "in"}, RIGHT),
        ({"OutputBucketName": "out"}, RIGHT),  # of a stack around this one
    ],
)
def test_another_stack_that_writes_to_the_bucket_is_wrong(
    outputs: dict[str, str], state: str
) -> None:
    described = [{"OutputKey": name, "OutputValue": value} for name, value in outputs.items()]
    page = {"Stacks": [{"StackName": "other", "Outputs": described}]}
    paginator = SimpleNamespace(paginate=lambda: [page])
    clients = SimpleNamespace(head_bucket=Mock(), get_paginator=lambda _: paginator)
    [finding] = health._output_bucket(deployment(clients=clients))
    assert finding.state == state


def test_an_alias_has_the_reserved_concurrency_of_its_function() -> None:
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:f"
    reserved = Mock(return_value={"ReservedConcurrentExecutions": 0})
    limit = {"AccountLimit": {"ConcurrentExecutions": 1000}}
    clients = SimpleNamespace(get_function_concurrency=reserved, get_account_settings=lambda: limit)
    asked = deployment(clients=clients)
    asked.stack = replace(asked.stack, function_name=f"{arn}:live")
    wrong, _ = health._concurrency(asked)
    reserved.assert_called_once_with(FunctionName=arn)
    assert wrong.remedy.endswith(f" {arn}")


def test_alarms_that_reach_nobody_are_advice() -> None:
    asked = deployment()
    asked.alarms = [{"AlarmActions": []}]
    assert [finding.state for finding in health._subscriptions(asked)] == [ADVICE]


@pytest.mark.parametrize(("is_local", "asked"), [(True, []), (False, ["role"])])
def test_a_local_aws_is_not_asked_about_its_roles(
    is_local: bool, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "Deployment", lambda aws: aws)
    monkeypatch.setattr(health, "CHECKS", ())
    on_aws = [lambda _: iter([Check(RIGHT, "role")])]
    monkeypatch.setattr(health, "ON_AWS", on_aws)
    aws: Any = SimpleNamespace(is_local=is_local)
    assert [finding.text for finding in health.health(aws)] == asked


@pytest.mark.parametrize(
    ("code", "state"),
    [
        *((code, WRONG) for code in ("NoSuchBucket", "404", "ResourceNotFoundException")),
        *((code, WRONG) for code in ("QueueDoesNotExist", "NoSuchEntity")),
        *((code, UNKNOWN) for code in ("AccessDenied", "403", "ThrottlingException")),
    ],
)
def test_what_does_not_exist_is_wrong(
    code: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "Deployment", lambda aws: aws)
    check = Mock(__name__="_output_bucket")
    check.side_effect = ClientError({"Error": {"Code": code, "Message": "m"}}, "Read")
    monkeypatch.setattr(health, "CHECKS", (check,))
    aws: Any = SimpleNamespace(is_local=True)
    [finding] = health.health(aws)
    assert finding.state == state
    assert bool(finding.remedy) == (state == WRONG)
    assert finding.text.startswith(f"Output bucket: An error occurred ({code})")


def test_a_key_is_asked_for_as_s3_uses_it() -> None:
    """The policy lets the key be used through S3 only, so another question would be denied."""
    key, questions = "arn:aws:kms:eu-west-1:123456789012:key/k", list[dict[str, Any]]()

    def simulate(**question: Any) -> dict[str, Any]:
        questions.append(question)
        [of] = question["ResourceArns"]
        state = "allowed" if of != key or "ContextEntries" in question else "implicitDeny"
        names = question["ActionNames"]
        return {"EvaluationResults": [{"EvalActionName": n, "EvalDecision": state} for n in names]}

    clients = SimpleNamespace(simulate_principal_policy=simulate)
    asked = deployment(clients=clients, KmsKeyArn=key)
    asked.function = {"Role": "r"}
    [finding] = health._permissions(asked)
    assert finding.state == RIGHT
    [question] = [question for question in questions if question["ResourceArns"] == [key]]
    assert question["ActionNames"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    [context] = question["ContextEntries"]
    assert context["ContextKeyValues"] == ["s3.eu-west-1.amazonaws.com"]
    assert {question["ResourceArns"][0] for question in questions} >= {"arn:aws:s3:::in/key"}
