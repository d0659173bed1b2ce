"""The stack that audits another one: its roles, its Distributed Map, its schedule and alarms.

The local Step Functions neither makes batches nor writes results, and enforces no role of a state
machine, so these are compared with what AWS documents.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.resolved_template import Json, of_type, resources_with, template
from inorder import PROJECT
from inorder.asl import check_file
from inorder.asl.definition import EXPRESS_SECONDS

FILE = "audit/template.yaml"
DEFINITION: Json = json.loads((PROJECT / "audit" / "audit.asl.json").read_text())
KEY = "arn:aws:kms:us-east-1:123456789012:key/k"
MAP: Json = DEFINITION["States"]["Compare Bucket"]
CHILD: Json = MAP["ItemProcessor"]["States"]
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_BYTES = 262_144
INPUT, OUTPUT = (f"arn:aws:s3:::export inorder-{name}BucketName" for name in ("Input", "Output"))
# What AWS documents for a Distributed Map, its ItemReader and its ResultWriter:
# https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
CHILDREN = {"arn:aws:states:us-east-1:123456789012:execution:AuditStateMachine.Name/*"}
RESULTS = ("GetObject", "PutObject", "ListMultipartUploadParts", "AbortMultipartUpload")
MACHINE = {
    "lambda:InvokeFunction": {"AuditKeysFunction.Arn"},
    "s3:ListBucket": {INPUT, OUTPUT},
    "states:StartExecution": {"AuditStateMachine"},
    **{f"states:{verb}Execution": CHILDREN for verb in ("Describe", "Stop", "Redrive")},
    **{f"s3:{action}": {"ResultsBucket.Arn/*"} for action in RESULTS},
}
FUNCTION = {
    "cloudformation:DescribeStacks": {
        "arn:aws:cloudformation:us-east-1:123456789012:stack/inorder/*"
    },
    **{f"s3:{action}": {INPUT, OUTPUT} for action in ("ListBucket", "ListBucketVersions")},
    **{f"s3:{each}": {f"{INPUT}/*", f"{OUTPUT}/*"} for each in ("GetObject", "GetObjectVersion")},
    "dynamodb:GetItem": {"export inorder-KeyTableArn"},
    "logs:CreateLogStream": {"AuditKeysLogGroup.Arn"},
    "logs:PutLogEvents": {"AuditKeysLogGroup.Arn"},
}


def deployed(**parameters: str) -> Json:
    return resources_with(parameters, FILE)


def properties(resources: Json, name: str) -> Json:
    found: Json = resources[name]["Properties"]
    return found


def grants(resources: Json, role: str) -> dict[str, set[str]]:
    """List what a role may do with what."""
    attached = [
        each for each in of_type(resources, "IAM::Policy").values() if role in each["Roles"]
    ]
    found: dict[str, set[str]] = {}
    for policy in [*properties(resources, role)["Policies"], *attached]:
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            for action in listed(statement["Action"]):
                found.setdefault(action, set()).update(listed(statement["Resource"]))
    return found


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_the_roles_may_only_read_and_with_repairs_send_to_the_retry_queue() -> None:
    resources = deployed()
    assert grants(resources, "AuditRole") == MACHINE
    assert grants(resources, "AuditKeysRole") == FUNCTION
    sending = {"sqs:SendMessage": {"export inorder-RetryEventsQueueArn"}}
    assert grants(deployed(AuditRepairs="true"), "AuditKeysRole") == FUNCTION | sending
    with_key = deployed(KmsKeyArn=KEY)
    for role in ("AuditRole", "AuditKeysRole"):
        assert grants(with_key, role)["kms:Decrypt"] == {KEY}
    boundary = "arn:aws:iam::123456789012:policy/b"
    bounded = of_type(deployed(PermissionsBoundaryArn=boundary, AuditHours="24"), "IAM::Role")
    assert {each["PermissionsBoundary"] for each in bounded.values()} == {boundary}


def test_the_audited_stack_exports_what_is_imported() -> None:
    exported = {
        each["Export"]["Name"]["Fn::Sub"].removeprefix("${AWS::StackName}-")
        for each in template()["Outputs"].values()
        if "Export" in each
    }
    resources = json.dumps(deployed(AuditRepairs="true"))
    assert exported == {name for name in exported if f"export inorder-{name}" in resources}
    assert resources.count("export inorder-") == sum(
        resources.count(f"export inorder-{name}") for name in exported
    )


def test_the_schedule_starts_what_the_command_starts() -> None:
    assert of_type(deployed(), "Events::Rule") == {}
    resources = deployed(AuditHours="24")
    rule = properties(resources, "AuditRule")
    [target] = rule["Targets"]
    assert rule["ScheduleExpression"] == "rate(24 hours)"
    assert target["Arn"] == "AuditStateMachine"
    assert json.loads(target["Input"]) == {"prefix": ""}
    assert grants(resources, "AuditRuleRole") == {"states:StartExecution": {"AuditStateMachine"}}


def test_the_alarms_watch_what_the_function_and_the_state_machine_emit() -> None:
    topic = "arn:aws:sns:us-east-1:123456789012:t"
    resources = deployed(AlarmTopicArn=topic)
    variables = properties(resources, "AuditKeysFunction")["Environment"]["Variables"]
    wrong, failed = of_type(resources, "CloudWatch::Alarm").values()
    assert (wrong["Namespace"], wrong["MetricName"]) == ("inorder", "WrongOutputs")
    assert wrong["Namespace"] == variables["POWERTOOLS_METRICS_NAMESPACE"]
    service = {"Name": "service", "Value": variables["POWERTOOLS_SERVICE_NAME"]}
    assert wrong["Dimensions"] == [service]
    assert failed["Dimensions"] == [{"Name": "StateMachineArn", "Value": "AuditStateMachine"}]
    assert failed["MetricName"] == "ExecutionsFailed"
    assert {alarm["AlarmActions"][0] for alarm in (wrong, failed)} == {topic}


@pytest.mark.parametrize(("key", "kms"), [("", None), (KEY, KEY)])
def test_what_the_audit_writes_is_private_encrypted_and_expires(key: str, kms: str | None) -> None:
    resources = deployed(KmsKeyArn=key)
    bucket = properties(resources, "ResultsBucket")
    [rule] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID") == kms
    assert properties(resources, "AuditKeysLogGroup").get("KmsKeyId") == kms
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"] == 1
    [statement] = properties(resources, "ResultsBucketPolicy")["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Deny", "s3:*")


def test_a_child_ends_within_the_minutes_of_express_and_no_input_is_too_large() -> None:
    """What AWS documents of a Distributed Map.

    https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
    https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itembatcher.html
    https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html
    """
    assert MAP["ItemProcessor"]["ProcessorConfig"] == {
        "Mode": "DISTRIBUTED",
        "ExecutionType": "EXPRESS",
    }
    assert properties(deployed(), "AuditStateMachine")["StateMachineType"] == "STANDARD"
    longest = sum(each.get("TimeoutSeconds", each.get("Seconds", 0)) for each in CHILD.values())
    assert longest < EXPRESS_SECONDS
    timeouts = {each["TimeoutSeconds"] for each in CHILD.values() if each["Type"] == "Task"}
    assert properties(deployed(), "AuditKeysFunction")["Timeout"] < min(timeouts)
    batch = MAP["ItemBatcher"]
    # A suspect has its key, which is in the input, and less than 150 bytes.
    assert batch["MaxInputBytesPerBatch"] + 150 * batch["MaxItemsPerBatch"] < MOST_BYTES
    assert MAP["MaxConcurrency"] <= 10_000
    assert not any(name.startswith("Tolerated") for name in MAP)


def test_the_checks_of_a_policy_find_no_more_than_what_an_audit_needs(tmp_path: Path) -> None:
    found = check_file(PROJECT / "audit" / "audit.asl.json")
    assert {" ".join(each.split(": ")[:2]) for each in found} == {
        "Read Stack timeout-retry-catch",  # a STANDARD execution may fail, and an alarm tells
        "Audited outcome",
        "Compare Bucket type",  # those engines that are known to run it are enough
    }
    child = tmp_path / "child.asl.json"
    child.write_text(json.dumps({"Comment": "c", "StartAt": "Compare Batch", "States": CHILD}))
    rules = {each.split(": ")[1] for each in check_file(child)}
    assert rules <= {"timeout-retry-catch", "outcome", "type"}, check_file(child)
