"""The stack that audits another one: its roles, its Distributed Map, its schedule and alarms.

The local Step Functions neither makes batches nor writes results, and enforces no role of a state
machine, so these are compared with what AWS documents.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from inorder import PROJECT
from inorder.asl import check_file
from inorder.asl.definition import EXPRESS_SECONDS
from tests.support.resolved_template import Json, template
from tests.template.deployed import ALARM, BOUNDARY, KEY, TOPIC, Deployed, granting

DEFINITION: Json = json.loads((PROJECT / "audit" / "audit.asl.json").read_text())
MAP: Json = DEFINITION["States"]["Compare Bucket"]
CHILD: Json = MAP["ItemProcessor"]["States"]
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_BYTES = 262_144
INPUT, OUTPUT = (f"arn:aws:s3:::export inorder-{name}BucketName" for name in ("Input", "Output"))
BOTH = (INPUT, OUTPUT)
STARTS = ("AuditStateMachine", "states:StartExecution")
# What AWS documents for a Distributed Map, its ItemReader and its ResultWriter:
# https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
MACHINE = granting(
    STARTS,
    ("AuditKeysFunction.Arn", "lambda:InvokeFunction"),
    *((bucket, "s3:ListBucket") for bucket in BOTH),
    (
        "arn:aws:states:us-east-1:123456789012:execution:AuditStateMachine.Name/*",
        "states:DescribeExecution states:StopExecution states:RedriveExecution",
    ),
    (
        "ResultsBucket.Arn/*",
        "s3:GetObject s3:PutObject s3:ListMultipartUploadParts s3:AbortMultipartUpload",
    ),
)
FUNCTION = granting(
    (
        "arn:aws:cloudformation:us-east-1:123456789012:stack/inorder/*",
        "cloudformation:DescribeStacks",
    ),
    *((bucket, "s3:ListBucket s3:ListBucketVersions") for bucket in BOTH),
    *((f"{bucket}/*", "s3:GetObject s3:GetObjectVersion") for bucket in BOTH),
    ("export inorder-KeyTableArn", "dynamodb:GetItem"),
    ("AuditKeysLogGroup.Arn", "logs:CreateLogStream logs:PutLogEvents"),
)


def deployed(**parameters: str) -> Deployed:
    return Deployed(file="stacks/audit/template.yaml", **parameters)


def test_the_roles_may_only_read_and_with_repairs_send_to_the_retry_queue() -> None:
    stack = deployed()
    assert stack.grants("AuditRole") == MACHINE
    assert stack.grants("AuditKeysRole") == FUNCTION
    sending = granting(("export inorder-RetryEventsQueueArn", "sqs:SendMessage"))
    assert deployed(AuditRepairs="true").grants("AuditKeysRole") == FUNCTION | sending
    with_key = deployed(KmsKeyArn=KEY)
    for role in ("AuditRole", "AuditKeysRole"):
        assert ("kms:Decrypt", KEY) in with_key.grants(role)
    for role in stack.of("IAM::Role"):
        assert {each["Effect"] for each in with_key.statements(role)} == {"Allow"}
    bounded = deployed(PermissionsBoundaryArn=BOUNDARY, AuditHours="24").of("IAM::Role")
    assert {each["PermissionsBoundary"] for each in bounded.values()} == {BOUNDARY}


def test_the_audited_stack_exports_what_is_imported() -> None:
    exported = {
        each["Export"]["Name"]["Fn::Sub"].removeprefix("${AWS::StackName}-")
        for each in template()["Outputs"].values()
        if "Export" in each
    }
    resources = json.dumps(deployed(AuditRepairs="true").resources)
    assert set(re.findall(r"export inorder-(\w+)", resources)) == exported


def test_the_schedule_starts_what_the_command_starts() -> None:
    assert deployed().of("Events::Rule") == {}
    stack = deployed(AuditHours="24")
    assert stack["AuditRule"]["ScheduleExpression"] == "rate(24 hours)"
    target = stack.target("AuditRule")
    assert (target["Arn"], json.loads(target["Input"])) == ("AuditStateMachine", {"prefix": ""})
    assert stack.grants("AuditRuleRole") == granting(STARTS)


def test_the_alarms_watch_what_the_function_and_the_state_machine_emit() -> None:
    stack = deployed(AlarmTopicArn=TOPIC)
    variables = stack.variables("AuditKeysFunction")
    service = {"Name": "service", "Value": variables["POWERTOOLS_SERVICE_NAME"]}
    wrong, failed = stack.of(ALARM).values()
    assert wrong["Namespace"] == variables["POWERTOOLS_METRICS_NAMESPACE"]
    assert (wrong["MetricName"], wrong["Dimensions"]) == ("WrongOutputs", [service])
    assert failed["Dimensions"] == [{"Name": "StateMachineArn", "Value": "AuditStateMachine"}]
    assert failed["MetricName"] == "ExecutionsFailed"
    assert wrong["AlarmActions"] == failed["AlarmActions"] == [TOPIC]


@pytest.mark.parametrize(("key", "kms"), [("", None), (KEY, KEY)])
def test_what_the_audit_writes_is_private_encrypted_and_expires(key: str, kms: str | None) -> None:
    stack = deployed(KmsKeyArn=key)
    bucket = stack["ResultsBucket"]
    [rule] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID") == kms
    assert stack["AuditKeysLogGroup"].get("KmsKeyId") == kms
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"] == 1
    [statement] = stack["ResultsBucketPolicy"]["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Deny", "s3:*")


def test_a_child_ends_within_the_minutes_of_express_and_no_input_is_too_large() -> None:
    """What AWS documents of a Distributed Map.

    https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
    https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itembatcher.html
    https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html
    """
    processor = MAP["ItemProcessor"]["ProcessorConfig"]
    assert processor == {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"}
    assert deployed()["AuditStateMachine"]["StateMachineType"] == "STANDARD"
    longest = sum(each.get("TimeoutSeconds", each.get("Seconds", 0)) for each in CHILD.values())
    assert longest < EXPRESS_SECONDS
    timeouts = {each["TimeoutSeconds"] for each in CHILD.values() if each["Type"] == "Task"}
    assert deployed()["AuditKeysFunction"]["Timeout"] < min(timeouts)
    batch = MAP["ItemBatcher"]
    # A suspect has its key, which is in the input, and less than 150 bytes.
    assert batch["MaxInputBytesPerBatch"] + 150 * batch["MaxItemsPerBatch"] < MOST_BYTES
    assert MAP["MaxConcurrency"] <= 10_000
    assert not any(name.startswith("Tolerated") for name in MAP)


def test_the_checks_of_a_policy_find_no_more_than_what_an_audit_needs(tmp_path: Path) -> None:
    """They do not look into a Map, so a child's states are checked as a file of their own."""
    found = check_file(PROJECT / "audit" / "audit.asl.json")
    assert {" ".join(each.split(": ")[:2]) for each in found} == {
        "Read Stack timeout-retry-catch",  # a STANDARD execution may fail, and an alarm tells
        "Audited outcome",
        "Compare Bucket type",  # those engines that are known to run it are enough
    }
    child = tmp_path / "child.asl.json"
    child.write_text(json.dumps({"Comment": "c", "StartAt": "Compare Batch", "States": CHILD}))
    rules = {each.split(": ")[1] for each in check_file(child)}
    assert rules <= {"timeout-retry-catch", "outcome", "type"}
