"""Least privilege, in the template that SAM has transformed.

The ASL tells what the role of a state machine needs: nothing may be missing, and nothing more
may be there. No local engine enforces these roles.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.resolved_template import Json, of_type, resources_with, template, transformed
from inorder import PROJECT
from inorder.asl.definition import START

Grant = tuple[str, str]  # action, resource

# https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
LOGGING = {
    *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery"),
    *("logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
    *("logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
}
# https://docs.aws.amazon.com/step-functions/latest/dg/xray-iam.html
TRACING = {
    *("xray:GetSamplingRules", "xray:GetSamplingTargets"),
    *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
}
# The action that an integration needs, and how IAM names what the ASL's parameter names.
INTEGRATIONS = {
    "dynamodb:putItem": ("dynamodb:PutItem", "TableName"),
    "dynamodb:getItem": ("dynamodb:GetItem", "TableName"),
    "dynamodb:updateItem": ("dynamodb:UpdateItem", "TableName"),
    "events:putEvents": ("events:PutEvents", "EventBusName"),
    "lambda:invoke": ("lambda:InvokeFunction", "FunctionName"),
    "sqs:sendMessage": ("sqs:SendMessage", "QueueUrl"),
}


TEMPLATE = template()
PARSED = TEMPLATE["Resources"]
MACHINES = list(of_type(PARSED, "Serverless::StateMachine"))
STREAM = "arn:aws:kinesis:us-east-1:123456789012:stream/s"
KEY = "arn:aws:kms:us-east-1:123456789012:key/k"
# Under every-version, a function reads versions, too.
EVERYTHING = {"AdaptRecords": "true", "RecordsStreamArn": STREAM, "Policy": "every-version"}


def listed(one_or_more: Any) -> list[Any]:
    return one_or_more if isinstance(one_or_more, list) else [one_or_more]


def statements(resources: Json, role: str) -> list[Json]:
    """List the statements of a role, also those of policies that are resources of their own."""
    attached = of_type(resources, "IAM::Policy") | of_type(resources, "IAM::ManagedPolicy")
    policies = [*resources[role]["Properties"]["Policies"]]
    policies += [each for each in attached.values() if role in each.get("Roles", [])]
    return [each for policy in policies for each in policy["PolicyDocument"]["Statement"]]


def grants(resources: Json, role: str) -> set[Grant]:
    return {
        (action, resource)
        for statement in statements(resources, role)
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def policy(machine: str) -> str:
    """Name the policy of a state machine as the template's parameter does."""
    return Path(PARSED[machine]["Properties"]["DefinitionUri"]).name.split(".")[0].replace("_", "-")


def condition(machine: str) -> str:
    """Name the condition that a state machine is that of the policy."""
    return machine.removesuffix("StateMachine")


def needed(resources: Json, machine: str) -> set[Grant]:
    """Derive from the ASL and its substitutions what a state machine needs."""
    found = {(action, "*") for action in LOGGING}
    file = PROJECT / PARSED[machine]["Properties"]["DefinitionUri"]
    for state in json.loads(file.read_text())["States"].values():
        if state.get("Resource") == START:
            found.add(("states:StartExecution", machine))
        elif state["Type"] == "Task":
            action, field = INTEGRATIONS[state["Resource"].removeprefix("arn:aws:states:::")]
            [parameters] = state["Parameters"].get("Entries", [state["Parameters"]])
            substitution = parameters[field].removeprefix("${").removesuffix("}")
            given = resources[machine]["Properties"]["DefinitionSubstitutions"][substitution]
            found.add((action, f"{given.removesuffix('.Arn')}.Arn"))
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_a_state_machine_may_do_only_what_its_definition_does(machine: str) -> None:
    for tracing, more in (("false", set[str]()), ("true", TRACING)):
        resources = resources_with({"Tracing": tracing})
        role = resources[machine]["Properties"]["RoleArn"].removesuffix(".Arn")
        expected = needed(resources, machine) | {(action, "*") for action in more}
        assert grants(resources, role) == expected


def test_the_rule_starts_the_policys_state_machine_and_may_start_that_of_the_policy_before() -> (
    None
):
    """EventBridge may try for a day to deliver an event."""
    [target] = transformed()["Resources"]["EventsRule"]["Properties"]["Targets"]
    assert target["Arn"] == TEMPLATE["Outputs"]["StartedArn"]["Value"]
    role = target["RoleArn"]["Fn::GetAtt"][0]
    expected = {("states:StartExecution", machine) for machine in MACHINES}
    assert grants(resources_with({}), role) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_the_rule_matches_what_the_policy_handles(machine: str) -> None:
    properties = resources_with({"Policy": policy(machine)})["EventsRule"]["Properties"]
    assert [target["Arn"] for target in properties["Targets"]] == [machine]
    pattern = properties["EventPattern"]
    if "CanonicalHashFunctionArn" in PARSED[machine]["Properties"]["DefinitionSubstitutions"]:
        assert pattern == {"source": ["aws.s3"]}
        return
    removing = TEMPLATE["Conditions"]["RemovesOutputs"]["Fn::And"][1]["Fn::Or"]
    is_removing = {"Condition": condition(machine)} in removing
    deletions = ["Object Deleted"] if is_removing else []
    assert pattern == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created", *deletions],
        "detail": {"bucket": {"name": ["InputBucket"]}},
    }


def test_each_policy_has_a_state_machine_which_stays_with_another_policy() -> None:
    policies = sorted(map(policy, MACHINES))
    assert policies == sorted(TEMPLATE["Parameters"]["Policy"]["AllowedValues"])
    for machine in MACHINES:
        selected = {"Fn::Equals": [{"Ref": "Policy"}, policy(machine)]}
        kept = {"Fn::Or": [selected, {"Condition": "KeepsAll"}]}
        assert TEMPLATE["Conditions"][f"Has{condition(machine)}"] == kept


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
    resources = resources_with(EVERYTHING)
    listed = [*FUNCTIONS[name], (f"{name}LogGroup.Arn", "logs:CreateLogStream logs:PutLogEvents")]
    expected = {(action, resource) for resource, actions in listed for action in actions.split()}
    assert grants(resources, f"{name}Role") == expected
    function = resources[f"{name}Function"]["Properties"]
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
    before = grants(resources_with(EVERYTHING), f"{name}Role")
    after = grants(resources_with(EVERYTHING | parameters), f"{name}Role")
    assert {action for action, _ in before - after} == set(gone.split())
    assert after < before


def test_every_role_is_known() -> None:
    resources = resources_with(EVERYTHING)
    roles = {machine.replace("StateMachine", "Role") for machine in MACHINES} | {"EventsRole"}
    known = roles | {f"{function}Role" for function in FUNCTIONS}
    assert of_type(resources, "IAM::Role").keys() == known
    queues = [f"{name}Queue" for name in ("ParkedEvents", "UndeliveredEvents", "UnadaptedRecords")]
    variables = resources["HealKeysFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["ALARMED_QUEUE_URLS"].split() == queues


def test_a_role_has_only_statements_that_name_actions_and_resources() -> None:
    resources = resources_with({**EVERYTHING, "Tracing": "true", "KmsKeyArn": KEY})
    for name, role in of_type(resources, "IAM::Role").items():
        assert "ManagedPolicyArns" not in role, name
        for statement in statements(resources, name):
            if not any(action.startswith("kms:") for action in listed(statement["Action"])):
                own_records = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["retry:*"]}}
                assert statement.get("Condition", own_records) == own_records
            assert set(statement) - {"Condition"} == {"Effect", "Action", "Resource"}
            assert not any("*" in action for action in listed(statement["Action"]))
            if statement["Resource"] == "*":
                assert set(statement["Action"]) in (LOGGING, TRACING)
            else:
                assert "*" not in listed(statement["Resource"])
        [trust] = role["AssumeRolePolicyDocument"]["Statement"]
        [service] = listed(trust["Principal"]["Service"])
        assert trust["Action"] in ("sts:AssumeRole", ["sts:AssumeRole"])
        assert service.removesuffix(".amazonaws.com") in {"lambda", "states", "events"}


@pytest.mark.parametrize(
    ("kind", "service", "named"), [("S3::Bucket", "s3", "Bucket"), ("SQS::Queue", "sqs", "Queues")]
)
def test_a_bucket_or_queue_is_encrypted_private_and_tls_only(
    kind: str, service: str, named: str
) -> None:
    resources = resources_with(EVERYTHING)
    policies = of_type(resources, f"{kind}Policy").values()
    for name, properties in of_type(resources, kind).items():
        covered = {f"{name}.Arn"}
        if service == "s3":
            assert properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            assert [*properties["PublicAccessBlockConfiguration"].values()] == [True] * 4
            covered.add(f"{name}.Arn/*")
        else:
            assert properties["SqsManagedSseEnabled"] is True
        denying = [
            set(listed(statement["Resource"]))
            for policy in policies
            if name in listed(policy[named])
            for statement in policy["PolicyDocument"]["Statement"]
            if (statement["Effect"], statement["Principal"]) == ("Deny", "*")
            and statement["Action"] == f"{service}:*"
            and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        ]
        assert any(covered <= denied for denied in denying), name


def test_a_log_expires_and_the_table_has_recovery_expiry_and_pay_per_request() -> None:
    resources = resources_with({**EVERYTHING, "LogRetentionDays": "30"})
    for group in of_type(resources, "Logs::LogGroup").values():
        assert group["RetentionInDays"] == "30"
    [table] = of_type(resources, "DynamoDB::Table").values()
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    recovery = table["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True}
    expiry = table["TimeToLiveSpecification"]
    assert expiry == {"AttributeName": "expires_at", "Enabled": True}
