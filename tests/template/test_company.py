"""The parameters for a stack under the rules of a company, and for one inside another template."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from samcli.yamlhelper import yaml_parse

from bench.resolved_template import Json, of_type, resources_with, template
from inorder import PROJECT
from inorder_fence import __version__
from tests.template.test_roles import grants, listed, statements

KEY = "arn:aws:kms:us-east-1:123456789012:key/k"
FULL = {
    "AdaptRecords": "true",
    "RecordsStreamArn": "arn:aws:kinesis:us-east-1:123456789012:stream/s",
    "RecordsSourceArns": "arn:aws:s3:::my-bucket",
    "AlarmEmail": "me@example.com",
}
POLICIES: list[str] = template()["Parameters"]["Policy"]["AllowedValues"]
OWN = {
    "InputBucketName": "in",
    "OutputBucketName": "out",
    "WorkFunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:work",
}
# How a resource that holds data says which key encrypts it.
ENCRYPTED: dict[str, Callable[[Json], Any]] = {
    "S3::Bucket": lambda bucket: bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"][0][
        "ServerSideEncryptionByDefault"
    ].get("KMSMasterKeyID"),
    "DynamoDB::Table": lambda table: table.get("SSESpecification", {}).get("KMSMasterKeyId"),
    "SQS::Queue": lambda queue: queue.get("KmsMasterKeyId"),
    "Logs::LogGroup": lambda group: group.get("KmsKeyId"),
    "SNS::Topic": lambda topic: topic.get("KmsMasterKeyId"),
}


@pytest.mark.parametrize("kind", ENCRYPTED)
def test_what_holds_data_is_encrypted_with_the_named_key(kind: str) -> None:
    key_of = ENCRYPTED[kind]
    found = of_type(resources_with({**FULL, "KmsKeyArn": KEY}), kind)
    assert found
    assert {key_of(each) for each in found.values()} == {KEY}
    assert {key_of(each) for each in of_type(resources_with(FULL), kind).values()} == {None}
    if kind == "SQS::Queue":  # a queue has one of the two
        assert not any("SqsManagedSseEnabled" in each for each in found.values())


def test_each_role_that_reads_or_writes_encrypted_data_may_use_the_key_and_no_other() -> None:
    resources = resources_with({**FULL, "KmsKeyArn": KEY})
    for name in of_type(resources, "IAM::Role"):
        granted = statements(resources, name)
        services = {action.partition(":")[0] for action, _ in grants(resources, name)}
        uses = [each for each in granted if "kms:Decrypt" in each["Action"]]
        assert bool(uses) == bool(services & {"s3", "sqs", "dynamodb"}), name
        for each in uses:
            assert each["Resource"] == KEY
            via = each["Condition"]["StringEquals"]["kms:ViaService"]
            assert {service.partition(".")[0] for service in via} == {"s3", "sqs", "dynamodb"}


def test_the_example_of_a_key_admits_each_service_that_writes_to_what_it_encrypts() -> None:
    """EventBridge supports no condition: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html."""
    resources = resources_with({**FULL, "KmsKeyArn": KEY})
    senders = {
        statement["Principal"]["Service"]
        for kind in ("SQS::QueuePolicy", "SNS::TopicPolicy")
        for policy in of_type(resources, kind).values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    }
    example = yaml_parse((PROJECT / "examples" / "kms_key.yaml").read_text(encoding="utf-8"))
    policy = example["Resources"]["Key"]["Properties"]["KeyPolicy"]["Statement"]
    admitted = {
        service: statement
        for statement in policy
        for service in listed(statement["Principal"].get("Service", []))
        if isinstance(service, str)
    }
    assert set(admitted) == senders
    assert all(
        {"kms:GenerateDataKey*", "kms:Decrypt"} == set(a["Action"]) for a in admitted.values()
    )
    unconditional = {name for name, each in admitted.items() if "Condition" not in each}
    assert unconditional == {"events.amazonaws.com"}
    assert "logs." in json.dumps(policy)


def test_each_role_has_the_boundary() -> None:
    arn = "arn:aws:iam::123456789012:policy/boundary"
    for given, expected in ((arn, {arn}), ("", {None})):
        resources = resources_with({**FULL, "PermissionsBoundaryArn": given})
        roles = of_type(resources, "IAM::Role").values()
        assert {each.get("PermissionsBoundary") for each in roles} == expected


@pytest.mark.parametrize(
    ("prefix", "suffix", "keys"),
    [
        ("", "", None),
        ("uploads/", "", "uploads/*"),
        ("", ".jpg", "*.jpg"),
        ("uploads/", ".jpg", "uploads/*.jpg"),
    ],
)
def test_the_rule_and_adapted_records_have_the_same_keys(
    prefix: str, suffix: str, keys: str | None
) -> None:
    for policy in ("latest-wins", "content-hash"):
        parameters = {"KeyPrefix": prefix, "KeySuffix": suffix, "AdaptRecords": "true"}
        resources = resources_with({"Policy": policy, **parameters})
        pattern = resources["EventsRule"]["Properties"]["EventPattern"]
        adapted = resources["AdaptRecordsFunction"]["Properties"]["Environment"]["Variables"]
        filters = {"key": [{"wildcard": keys}]} if keys and policy != "content-hash" else None
        assert pattern.get("detail", {}).get("object") == filters
        given = (prefix, suffix) if policy != "content-hash" else ("", "")
        assert (adapted["KEY_PREFIX"], adapted["KEY_SUFFIX"]) == given


def test_outputs_that_would_be_inputs_are_refused() -> None:
    [assertion] = template()["Rules"]["Buckets"]["Assertions"]
    names = [{"Ref": "OutputBucketName"}, {"Ref": "InputBucketName"}]
    assert assertion["Assert"]["Fn::Or"] == [
        {"Fn::Equals": [{"Ref": "OutputBucketName"}, ""]},
        {"Fn::Not": [{"Fn::Equals": names}]},
    ]


def test_an_own_output_bucket_gets_the_outputs_and_the_stack_creates_none() -> None:
    resources = resources_with({"InputBucketName": "in", "OutputBucketName": "out"})
    assert of_type(resources, "S3::Bucket") == of_type(resources, "S3::BucketPolicy") == {}
    function = resources["InvertImageFunction"]["Properties"]
    assert function["Environment"]["Variables"]["OUTPUT_BUCKET"] == "out"
    granted = json.dumps(resources["WorkFunctionPolicy"])
    assert "arn:aws:s3:::out/*" in granted
    assert "arn:aws:s3:::in/*" in granted


def test_the_work_policy_reaches_the_shipped_role_or_the_named_one_or_none() -> None:
    def roles(**parameters: str) -> Any:
        return resources_with(parameters)["WorkFunctionPolicy"]["Properties"].get("Roles")

    own = OWN["WorkFunctionArn"]
    assert roles() == ["InvertImageRole"]
    assert roles(WorkFunctionArn=own, WorkFunctionRoleName="mine") == ["mine"]
    assert roles(WorkFunctionArn=own) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_a_minimal_stack_has_one_state_machine_and_no_unused_queue_or_bus(policy: str) -> None:
    whole, minimal = (
        resources_with({"Policy": policy, "Minimal": each, **OWN}) for each in ("false", "true")
    )
    assert minimal.items() <= whole.items() or set(minimal) < set(whole)
    assert len(of_type(minimal, "StepFunctions::StateMachine")) == 1
    assert not [name for name in minimal if "Records" in name or "InvertImage" in name]
    assert ("UniqueEventsBus" in minimal) == (policy == "content-hash")
    [target] = minimal["EventsRule"]["Properties"]["Targets"]
    [statement] = minimal["EventsRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    assert statement["Resource"] == [target["Arn"]]


def test_the_stack_says_its_version() -> None:
    assert template()["Outputs"]["Version"]["Value"] == __version__
    assert f"## {__version__}" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
