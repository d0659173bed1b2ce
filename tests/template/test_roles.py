"""Least privilege, in the template that SAM has transformed.

The ASL tells what the role of a state machine needs: nothing may be missing, and nothing more
may be there. No local engine enforces these roles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.resolved_template import Json, of_type, resources_with, template, transformed
from inorder import PROJECT
from inorder.asl.definition import START

Grant = tuple[str, str]  # action, resource as JSON

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
RESOURCES = transformed()["Resources"]
MACHINES = list(of_type(PARSED, "Serverless::StateMachine"))


def with_attached_policies() -> dict[str, Json]:
    """Give all roles, each with the policies that are resources of their own."""
    roles = of_type(RESOURCES, "IAM::Role")
    shipped = of_type(RESOURCES, "IAM::ManagedPolicy")["WorkFunctionPolicy"]
    condition, of_shipped, _ = shipped["Roles"]["Fn::If"]
    assert condition == "ShippedFunction"
    for attached in (*of_type(RESOURCES, "IAM::Policy").values(), shipped | {"Roles": of_shipped}):
        [role] = attached["Roles"]
        name = role["Ref"]
        roles[name] = roles[name] | {"Policies": [*roles[name]["Policies"], attached]}
    return roles


ROLES = with_attached_policies()
OF_THE_KEY = "HasKmsKey"  # test_company.py says who may use it


def listed(one_or_more: Any) -> list[Any]:
    return one_or_more if isinstance(one_or_more, list) else [one_or_more]


def conditional(value: Json) -> tuple[str, Json]:
    """Split a value into its condition, or an empty string, and what the condition includes."""
    if "Fn::If" not in value:
        return "", value
    condition, then, otherwise = value["Fn::If"]
    assert otherwise == {"Ref": "AWS::NoValue"}
    return condition, then


def statements(role: Json) -> Iterator[tuple[str, Json]]:
    """List the statements of a role, each with its condition or an empty string."""
    for outer, policy in map(conditional, role["Policies"]):
        for inner, statement in map(conditional, policy["PolicyDocument"]["Statement"]):
            yield outer or inner, statement


def grants(role: Json, condition: str = "") -> list[Grant]:
    return sorted(
        (action, json.dumps(resource))
        for required, statement in statements(role)
        if required == condition
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    )


def expected(resources: list[tuple[str, Json]]) -> list[Grant]:
    return sorted(
        (action, json.dumps(resource))
        for actions, resource in resources
        for action in actions.split()
    )


def arn(name: str) -> Json:
    return {"Fn::GetAtt": [name, "Arn"]}


def sub(text: str) -> Json:
    return {"Fn::Sub": text}


def present(condition: str, value: Json) -> Json:
    return {"Fn::If": [condition, value, {"Ref": "AWS::NoValue"}]}


def bucket_arn(name: str, rest: str) -> Json:
    """Name a bucket that the template makes, or the user's own."""
    bucket = {"Fn::If": [f"Makes{name}", {"Ref": name}, {"Ref": f"{name}Name"}]}
    return {"Fn::Sub": [f"arn:${{AWS::Partition}}:s3:::${{Bucket}}{rest}", {"Bucket": bucket}]}


def policy(machine: str) -> str:
    """Name the policy of a state machine as the template's parameter does."""
    return Path(PARSED[machine]["Properties"]["DefinitionUri"]).name.split(".")[0].replace("_", "-")


def condition(machine: str) -> str:
    """Name the condition that a state machine is that of the policy."""
    return machine.removesuffix("StateMachine")


def needed(machine: str) -> set[Grant]:
    """Derive from the ASL and its substitutions what a state machine needs."""
    properties = PARSED[machine]["Properties"]
    found = {(action, json.dumps("*")) for action in LOGGING}
    definition = json.loads((PROJECT / properties["DefinitionUri"]).read_text())
    for state in definition["States"].values():
        if state.get("Resource") == START:
            assert state["Parameters"]["StateMachineArn.$"] == "$$.StateMachine.Id"
            found.add(("states:StartExecution", json.dumps({"Ref": machine})))
        elif state["Type"] == "Task":
            action, field = INTEGRATIONS[state["Resource"].removeprefix("arn:aws:states:::")]
            [parameters] = state["Parameters"].get("Entries", [state["Parameters"]])
            substitution = parameters[field].removeprefix("${").removesuffix("}")
            given = properties["DefinitionSubstitutions"][substitution]
            found.add((action, json.dumps(resource_of(given))))
    return found


def resource_of(given: Json) -> Json:
    """Name what a substitution names as IAM does: a resource of the template by its ARN."""
    if "Fn::If" in given:
        condition, shipped, own = given["Fn::If"]
        assert own == {"Ref": "WorkFunctionArn"}  # which is an ARN
        return {"Fn::If": [condition, resource_of(shipped), own]}
    [named] = given.values()
    return arn(named if isinstance(named, str) else named[0])


@pytest.mark.parametrize("machine", MACHINES)
def test_a_state_machine_may_do_only_what_its_definition_does(machine: str) -> None:
    role = PARSED[machine]["Properties"]["Role"]
    name = role["Fn::GetAtt"][0]
    assert grants(ROLES[name]) == sorted(needed(machine))
    conditions = {condition for condition, _ in statements(ROLES[name])}
    assert conditions - {OF_THE_KEY} == {"", "TracesExecutions"}
    assert grants(ROLES[name], "TracesExecutions") == [
        (action, json.dumps("*")) for action in sorted(TRACING)
    ]
    assert RESOURCES[machine]["Properties"]["RoleArn"] == role


def test_the_rule_starts_the_policys_state_machine_and_may_start_that_of_the_policy_before() -> (
    None
):
    """EventBridge may try for a day to deliver an event."""
    [target] = RESOURCES["EventsRule"]["Properties"]["Targets"]
    assert target["Arn"] == TEMPLATE["Outputs"]["StateMachineArn"]["Value"]
    role = ROLES[target["RoleArn"]["Fn::GetAtt"][0]]
    started = [present(f"Has{condition(machine)}", {"Ref": machine}) for machine in MACHINES]
    assert grants(role) == sorted(
        ("states:StartExecution", json.dumps(machine)) for machine in started
    )


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


LOGS = "logs:CreateLogStream logs:PutLogEvents"
MACHINE_OF_THE_POLICY = TEMPLATE["Outputs"]["StateMachineArn"]["Value"]
INPUTS, OUTPUTS = bucket_arn("InputBucket", "/*"), bucket_arn("OutputBucket", "/*")
STREAM, RETRIES = {"Ref": "RecordsStreamArn"}, arn("RetryEventsQueue")
# What each function may do, without a condition of the template and with it.
FUNCTIONS: dict[str, dict[str, list[tuple[str, Json]]]] = {
    "InvertImage": {
        "": [
            ("s3:GetObject", INPUTS),
            ("s3:GetObject s3:PutObject", OUTPUTS),  # a condition and HEAD need to read
            # Without it S3 answers 403, not 404, for a missing object. No engine at hand does.
            ("s3:ListBucket", bucket_arn("InputBucket", "")),
            ("s3:ListBucket", bucket_arn("OutputBucket", "")),
        ],
        # Beside s3:ListBucket, what AWS names for versions; no engine at hand needs it, either.
        # https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html
        "ReadsVersions": [
            ("s3:GetObjectVersion", INPUTS),
            ("s3:ListBucketVersions", bucket_arn("InputBucket", "")),
        ],
        "RemovesOutputs": [("s3:DeleteObject", OUTPUTS)],
    },
    "HealKeys": {
        "": [
            ("dynamodb:Scan", sub("${KeyTable.Arn}/index/InProgress")),
            ("dynamodb:GetItem dynamodb:UpdateItem", arn("KeyTable")),
            ("sqs:SendMessage", RETRIES),
            ("sqs:SendMessage", arn("ParkedEventsQueue")),
            # No function receives their messages, which SQS deletes after 14 days.
            ("sqs:GetQueueAttributes", arn("ParkedEventsQueue")),
            ("sqs:GetQueueAttributes", arn("UndeliveredEventsQueue")),
            ("sqs:GetQueueAttributes", present("HasRecordsQueue", arn("UnadaptedRecordsQueue"))),
        ]
    },
    "AdaptRecords": {
        "": [
            ("states:StartExecution", MACHINE_OF_THE_POLICY),
            ("sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes", arn("RecordsQueue")),
            ("sqs:SendMessage", arn("UnadaptedRecordsQueue")),
        ],
        # https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-create.html
        "AdaptStream": [
            ("kinesis:DescribeStream kinesis:DescribeStreamSummary kinesis:ListShards", STREAM),
            ("kinesis:GetRecords kinesis:GetShardIterator", STREAM),
            ("s3:PutObject", sub("${UnadaptedRecordsBucket.Arn}/*")),
            ("s3:ListBucket", arn("UnadaptedRecordsBucket")),
        ],
    },
    "RetryEvents": {
        "": [
            ("states:StartExecution", MACHINE_OF_THE_POLICY),
            ("dynamodb:GetItem dynamodb:PutItem", arn("KeyTable")),
            ("sqs:ReceiveMessage sqs:DeleteMessage sqs:ChangeMessageVisibility", RETRIES),
            ("sqs:GetQueueAttributes sqs:SendMessage", RETRIES),
            ("sqs:SendMessage", arn("ParkedEventsQueue")),
        ]
    },
    "CanonicalHash": {"": []},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_may_do_only_what_is_listed_and_log(name: str) -> None:
    role, group = ROLES[f"{name}Role"], f"{name}LogGroup"
    conditions = {each for each, _ in statements(role)} - {OF_THE_KEY}
    assert {each: grants(role, each) for each in sorted(conditions)} == {
        each: expected([*given, *([] if each else [(LOGS, arn(group))])])
        for each, given in sorted(FUNCTIONS[name].items())
    }
    function = RESOURCES[f"{name}Function"]["Properties"]
    assert function["Role"] == arn(f"{name}Role")
    assert function["LoggingConfig"]["LogGroup"] == {"Ref": group}


def test_every_role_is_known() -> None:
    roles = {machine.replace("StateMachine", "Role") for machine in MACHINES} | {"EventsRole"}
    assert set(ROLES) == roles | {f"{function}Role" for function in FUNCTIONS}
    variables = RESOURCES["HealKeysFunction"]["Properties"]["Environment"]["Variables"]
    urls = [{"Ref": f"{queue}Queue"} for queue in ("ParkedEvents", "UndeliveredEvents")]
    urls.append(present("HasRecordsQueue", {"Ref": "UnadaptedRecordsQueue"}))
    assert variables["ALARMED_QUEUE_URLS"] == {"Fn::Join": [" ", urls]}
    assert {"Condition": "EveryVersion"} in TEMPLATE["Conditions"]["ReadsVersions"]["Fn::Or"]


def test_a_role_has_only_statements_that_name_actions_and_resources() -> None:
    for name, role in ROLES.items():
        assert "ManagedPolicyArns" not in role, name
        for _, statement in statements(role):
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
    policies = of_type(RESOURCES, f"{kind}Policy").values()
    for name, properties in of_type(RESOURCES, kind).items():
        covered = [arn(name)]
        if service == "s3":
            assert properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            assert [*properties["PublicAccessBlockConfiguration"].values()] == [True] * 4
            covered.append(sub(f"${{{name}.Arn}}/*"))
        else:
            unless_key = [OF_THE_KEY, {"Ref": "AWS::NoValue"}, True]
            assert properties["SqsManagedSseEnabled"] == {"Fn::If": unless_key}
        denying = [
            statement
            for policy in policies
            if {"Ref": name} in listed(policy[named])
            for _, statement in map(conditional, policy["PolicyDocument"]["Statement"])
            if (statement["Effect"], statement["Principal"]) == ("Deny", "*")
            and statement["Action"] == f"{service}:*"
            and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        ]
        assert any(all(each in listed(d["Resource"]) for each in covered) for d in denying), name


def test_a_log_expires_and_the_table_has_recovery_expiry_and_pay_per_request() -> None:
    for group in of_type(RESOURCES, "Logs::LogGroup").values():
        assert group["RetentionInDays"] == {"Ref": "LogRetentionDays"}
    [table] = of_type(RESOURCES, "DynamoDB::Table").values()
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    recovery = table["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True}
    expiry = table["TimeToLiveSpecification"]
    assert expiry == {"AttributeName": "expires_at", "Enabled": True}
