"""Least privilege and encryption, in the template that SAM has transformed.

The ASL tells what the role of a state machine needs: nothing may be missing, and nothing more
may be there. No local engine enforces these roles.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samcli.yamlhelper import yaml_parse

from bench.resolved_template import Json, of_type, template
from inorder import PROJECT
from inorder.asl.definition import START
from inorder.model import policies
from tests.template.deployed import (
    BOUNDARY,
    KEY,
    MAIL,
    RECORDS,
    STREAM,
    Deployed,
    Grant,
    granting,
    listed,
)

# https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
LOGGING = (
    *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery"),
    *("logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
    *("logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
)
# https://docs.aws.amazon.com/step-functions/latest/dg/xray-iam.html
TRACING = (
    *("xray:GetSamplingRules", "xray:GetSamplingTargets"),
    *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
)
# The action that an integration needs, and how IAM names what the ASL's parameter names.
INTEGRATIONS = {
    "dynamodb:putItem": ("dynamodb:PutItem", "TableName"),
    "dynamodb:getItem": ("dynamodb:GetItem", "TableName"),
    "dynamodb:updateItem": ("dynamodb:UpdateItem", "TableName"),
    "events:putEvents": ("events:PutEvents", "EventBusName"),
    "lambda:invoke": ("lambda:InvokeFunction", "FunctionName"),
    "sqs:sendMessage": ("sqs:SendMessage", "QueueUrl"),
}
FILES = {
    machine: each["DefinitionUri"]
    for machine, each in of_type(template()["Resources"], "Serverless::StateMachine").items()
}
# Under every-version, a function reads versions, too.
EVERYTHING = {**RECORDS, "Policy": "every-version"}
WITH_SOURCES = {**RECORDS, **MAIL, "RecordsSourceArns": "arn:aws:s3:::my-bucket"}


def needed(stack: Deployed, machine: str) -> set[Grant]:
    """Derive from the ASL and its substitutions what a state machine needs."""
    found = {(action, "*") for action in LOGGING}
    for state in json.loads((PROJECT / FILES[machine]).read_text())["States"].values():
        if state.get("Resource") == START:
            found.add(("states:StartExecution", machine))
        elif state["Type"] == "Task":
            action, field = INTEGRATIONS[state["Resource"].removeprefix("arn:aws:states:::")]
            [parameters] = state["Parameters"].get("Entries", [state["Parameters"]])
            substitution = parameters[field].removeprefix("${").removesuffix("}")
            given = stack[machine]["DefinitionSubstitutions"][substitution]
            found.add((action, f"{given.removesuffix('.Arn')}.Arn"))
    return found


@pytest.mark.parametrize("machine", FILES)
def test_a_state_machine_may_do_only_what_its_definition_does(machine: str) -> None:
    for tracing, more in (("false", ()), ("true", TRACING)):
        stack = Deployed(Tracing=tracing)
        role = stack[machine]["RoleArn"].removesuffix(".Arn")
        expected = needed(stack, machine) | {(action, "*") for action in more}
        assert stack.grants(role) == expected


@pytest.mark.parametrize("machine", FILES)
def test_the_rule_matches_what_the_policy_handles(machine: str) -> None:
    policy = policies.policy(Path(FILES[machine]).name.split(".")[0].replace("_", "-"))
    stack = Deployed(Policy=policy.name)
    assert stack.target()["Arn"] == machine
    pattern = {
        "source": ["aws.s3"],
        "detail-type": ["Object Created", *(["Object Deleted"] if policy.deletions else [])],
        "detail": {"bucket": {"name": ["InputBucket"]}},
    }
    if "CanonicalHashFunctionArn" in stack[machine]["DefinitionSubstitutions"]:
        pattern = {"source": ["aws.s3"]}
    assert stack["EventsRule"]["EventPattern"] == pattern


INPUTS, OUTPUTS = "arn:aws:s3:::InputBucket", "arn:aws:s3:::OutputBucket"
# What each function may do to which resource, beside its log.
FUNCTIONS: dict[str, list[tuple[str, str]]] = {
    "InvertImage": [
        # Without s3:ListBucket, S3 answers 403, not 404, for a missing object. Beside it, AWS names
        # another right for versions. No engine at hand needs them.
        # https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html
        (INPUTS, "s3:ListBucket s3:ListBucketVersions"),
        (f"{INPUTS}/*", "s3:GetObject s3:GetObjectVersion"),
        (OUTPUTS, "s3:ListBucket"),
        (f"{OUTPUTS}/*", "s3:GetObject s3:PutObject s3:DeleteObject"),  # a condition must read
    ],
    "HealKeys": [
        ("KeyTable.Arn/index/InProgress", "dynamodb:Scan"),
        ("KeyTable.Arn", "dynamodb:GetItem dynamodb:UpdateItem"),
        ("RetryEventsQueue.Arn", "sqs:SendMessage"),
        # No function receives the messages of these queues, which SQS deletes after 14 days.
        ("ParkedEventsQueue.Arn", "sqs:SendMessage sqs:GetQueueAttributes"),
        ("UndeliveredEventsQueue.Arn", "sqs:GetQueueAttributes"),
        ("UnadaptedRecordsQueue.Arn", "sqs:GetQueueAttributes"),
    ],
    "AdaptRecords": [
        ("EveryVersionStateMachine", "states:StartExecution"),
        ("RecordsQueue.Arn", "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes"),
        ("UnadaptedRecordsQueue.Arn", "sqs:SendMessage"),
        # https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-create.html
        (STREAM, "kinesis:DescribeStream kinesis:DescribeStreamSummary kinesis:ListShards"),
        (STREAM, "kinesis:GetRecords kinesis:GetShardIterator"),
        ("UnadaptedRecordsBucket.Arn/*", "s3:PutObject"),
        ("UnadaptedRecordsBucket.Arn", "s3:ListBucket"),
    ],
    "RetryEvents": [
        ("EveryVersionStateMachine", "states:StartExecution"),
        ("KeyTable.Arn", "dynamodb:GetItem dynamodb:PutItem"),
        ("RetryEventsQueue.Arn", "sqs:ReceiveMessage sqs:DeleteMessage sqs:SendMessage"),
        ("RetryEventsQueue.Arn", "sqs:ChangeMessageVisibility sqs:GetQueueAttributes"),
        ("ParkedEventsQueue.Arn", "sqs:SendMessage"),
    ],
    "CanonicalHash": [],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_may_do_only_what_is_listed_and_log(name: str) -> None:
    stack = Deployed(**EVERYTHING)
    logs = (f"{name}LogGroup.Arn", "logs:CreateLogStream logs:PutLogEvents")
    assert stack.grants(f"{name}Role") == granting(*FUNCTIONS[name], logs)
    function = stack[f"{name}Function"]
    assert function["Role"] == f"{name}Role.Arn"
    assert function["LoggingConfig"]["LogGroup"] == f"{name}LogGroup"


@pytest.mark.parametrize(
    ("name", "parameters", "gone"),
    [
        ("InvertImage", {"Policy": "latest-wins"}, "s3:GetObjectVersion s3:ListBucketVersions"),
        ("InvertImage", {"HandleDeletions": "false"}, "s3:DeleteObject"),
        (
            *("AdaptRecords", {"RecordsStreamArn": ""}),
            "kinesis:DescribeStream kinesis:DescribeStreamSummary kinesis:ListShards"
            " kinesis:GetRecords kinesis:GetShardIterator s3:PutObject s3:ListBucket",
        ),
    ],
)
def test_a_function_may_do_less_where_less_is_asked_for(
    name: str, parameters: dict[str, str], gone: str
) -> None:
    before = Deployed(**EVERYTHING).grants(f"{name}Role")
    after = Deployed(**EVERYTHING | parameters).grants(f"{name}Role")
    assert {action for action, _ in before - after} == set(gone.split())
    assert after < before


def test_there_is_no_other_role_and_a_role_has_one_service_and_grants_nothing_else() -> None:
    stack = Deployed(**EVERYTHING, Tracing="true", KmsKeyArn=KEY)
    roles = {machine.replace("StateMachine", "Role") for machine in FILES} | {"EventsRole"}
    assert stack.of("IAM::Role").keys() == roles | {f"{function}Role" for function in FUNCTIONS}
    for name, role in stack.of("IAM::Role").items():
        assert "ManagedPolicyArns" not in role, name
        for statement in stack.statements(name):
            assert set(statement) - {"Condition"} == {"Effect", "Action", "Resource"}
            if statement["Resource"] != KEY:
                own_records = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["retry:*"]}}
                assert statement.get("Condition", own_records) == own_records
        [trust] = role["AssumeRolePolicyDocument"]["Statement"]
        [service] = listed(trust["Principal"]["Service"])
        assert trust["Action"] in ("sts:AssumeRole", ["sts:AssumeRole"])
        assert service.removesuffix(".amazonaws.com") in {"lambda", "states", "events"}
    queues = [f"{name}Queue" for name in ("ParkedEvents", "UndeliveredEvents", "UnadaptedRecords")]
    assert stack.variables("HealKeysFunction")["ALARMED_QUEUE_URLS"].split() == queues


@pytest.mark.parametrize(
    ("kind", "service", "named"), [("S3::Bucket", "s3", "Bucket"), ("SQS::Queue", "sqs", "Queues")]
)
def test_a_bucket_or_queue_is_encrypted_private_and_tls_only(
    kind: str, service: str, named: str
) -> None:
    stack = Deployed(**EVERYTHING)
    for name, properties in stack.of(kind).items():
        covered = {f"{name}.Arn"}
        if service == "s3":
            assert properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            assert [*properties["PublicAccessBlockConfiguration"].values()] == [True] * 4
            covered.add(f"{name}.Arn/*")
        else:
            assert properties["SqsManagedSseEnabled"] is True
        denying = [
            set(listed(statement["Resource"]))
            for policy in stack.of(f"{kind}Policy").values()
            if name in listed(policy[named])
            for statement in policy["PolicyDocument"]["Statement"]
            if (statement["Effect"], statement["Principal"]) == ("Deny", "*")
            and statement["Action"] == f"{service}:*"
            and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        ]
        assert any(covered <= denied for denied in denying), name


def test_a_log_expires_and_the_table_has_recovery_expiry_and_pay_per_request() -> None:
    stack = Deployed(**EVERYTHING, LogRetentionDays="30")
    for group in stack.of("Logs::LogGroup").values():
        assert group["RetentionInDays"] == "30"
    table = stack["KeyTable"]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}


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
    for given, expected in (({"KmsKeyArn": KEY}, {KEY}), ({}, {None})):
        found = Deployed(**WITH_SOURCES, **given).of(kind).values()
        assert {ENCRYPTED[kind](each) for each in found} == expected
        if given:  # a queue has one of the two
            assert not any("SqsManagedSseEnabled" in each for each in found)


def test_each_role_that_reads_or_writes_encrypted_data_may_use_the_key_and_no_other() -> None:
    stack = Deployed(**WITH_SOURCES, KmsKeyArn=KEY)
    for name in stack.of("IAM::Role"):
        services = {action.partition(":")[0] for action, _ in stack.grants(name)}
        uses = [each for each in stack.statements(name) if "kms:Decrypt" in each["Action"]]
        assert bool(uses) == bool(services & {"s3", "sqs", "dynamodb"}), name
        for each in uses:
            assert each["Resource"] == KEY
            via = each["Condition"]["StringEquals"]["kms:ViaService"]
            assert {service.partition(".")[0] for service in via} == {"s3", "sqs", "dynamodb"}


def test_the_example_of_a_key_admits_each_service_that_writes_to_what_it_encrypts() -> None:
    """EventBridge supports no condition: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html."""
    stack = Deployed(**WITH_SOURCES, KmsKeyArn=KEY)
    senders = {
        statement["Principal"]["Service"]
        for kind in ("SQS::QueuePolicy", "SNS::TopicPolicy")
        for policy in stack.of(kind).values()
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
    for service, statement in admitted.items():
        assert {*statement["Action"]} == {"kms:GenerateDataKey*", "kms:Decrypt"}
        assert ("Condition" in statement) == (service != "events.amazonaws.com")
    assert "logs." in json.dumps(policy)


def test_each_role_has_the_boundary() -> None:
    for given, expected in ((BOUNDARY, {BOUNDARY}), ("", {None})):
        roles = Deployed(**WITH_SOURCES, PermissionsBoundaryArn=given).of("IAM::Role").values()
        assert {each.get("PermissionsBoundary") for each in roles} == expected
