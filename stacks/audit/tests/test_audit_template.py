"""The stack that audits another one: its roles, its Distributed Map, its schedule and alarms.

The local Step Functions neither makes batches nor writes results, and enforces no role of a state
machine, so these are compared with what AWS documents.
"""

from __future__ import annotations

import json

import pytest

from inorder import PROJECT
from inorder.asl.definition import EXPRESS_SECONDS
from tests.support.resolved_template import Json
from tests.template.deployed import ALARM, BOUNDARY, KEY, TOPIC, Deployed, granting

DEFINITION: Json = json.loads((PROJECT / "stacks/audit/audit.asl.json").read_text())
MAP: Json = DEFINITION["States"]["Compare Bucket"]
CHILD: Json = MAP["ItemProcessor"]["States"]
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_BYTES = 262_144
INPUT, OUTPUT = (f"arn:aws:s3:::inorder.{name}BucketName" for name in ("Input", "Output"))
LISTS = ((INPUT, "s3:ListBucket"), (OUTPUT, "s3:ListBucket"))
PLACE = "us-east-1:123456789012"
STARTS = ("AuditStateMachine", "states:StartExecution")
# What AWS documents for a Distributed Map, its ItemReader and its ResultWriter:
# https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
MACHINE = granting(
    STARTS,
    ("AuditKeysFunction.Arn", "lambda:InvokeFunction"),
    *LISTS,
    (
        f"arn:aws:states:{PLACE}:execution:AuditStateMachine.Name/*",
        "states:DescribeExecution states:StopExecution states:RedriveExecution",
    ),
    (
        "ResultsBucket.Arn/*",
        "s3:GetObject s3:PutObject s3:ListMultipartUploadParts s3:AbortMultipartUpload",
    ),
)
FUNCTION = granting(
    (
        f"arn:aws:cloudformation:{PLACE}:stack/inorder/*",
        "cloudformation:DescribeStacks",
    ),
    *LISTS,
    (INPUT, "s3:ListBucketVersions"),
    (f"{INPUT}/*", "s3:GetObject s3:GetObjectVersion"),
    (f"{OUTPUT}/*", "s3:GetObject"),
    (f"arn:aws:dynamodb:{PLACE}:table/inorder.KeyTableName", "dynamodb:GetItem"),
    ("AuditKeysLogGroup.Arn", "logs:CreateLogStream logs:PutLogEvents"),
)


def deployed(**parameters: str) -> Deployed:
    return Deployed(file="stacks/audit/template.yaml", **parameters)


def test_the_roles_may_only_read_and_with_repairs_send_to_the_retry_queue() -> None:
    stack = deployed()
    assert stack.grants("AuditRole") == MACHINE
    assert stack.grants("AuditKeysRole") == FUNCTION
    sending = granting((f"arn:aws:sqs:{PLACE}:inorder.RetryEventsQueueName", "sqs:SendMessage"))
    assert deployed(AuditRepairs="true").grants("AuditKeysRole") == FUNCTION | sending
    with_key = deployed(KmsKeyArn=KEY)
    for role in ("AuditRole", "AuditKeysRole"):
        assert ("kms:Decrypt", KEY) in with_key.grants(role)
    for role in stack.of("IAM::Role"):
        assert {each["Effect"] for each in with_key.statements(role)} == {"Allow"}
    bounded = deployed(PermissionsBoundaryArn=BOUNDARY, AuditHours="24").of("IAM::Role")
    assert {each["PermissionsBoundary"] for each in bounded.values()} == {BOUNDARY}


def test_the_schedule_starts_what_the_command_starts() -> None:
    rule = "AuditSchedule"
    assert deployed()[rule]["State"] == "DISABLED"
    stack = deployed(AuditHours="24")
    assert (stack[rule]["State"], stack[rule]["ScheduleExpression"]) == (
        "ENABLED",
        "rate(24 hours)",
    )
    target = stack.target(rule)
    assert (target["Arn"], json.loads(target["Input"])) == ("AuditStateMachine", {"prefix": ""})
    assert target["RoleArn"] == "ScheduleRole.Arn"
    assert stack.grants("ScheduleRole") == granting(STARTS)


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
    assert ("BucketEncryption" in bucket) is bool(key)  # else S3 encrypts it with a key of its own
    assert key in json.dumps(bucket)
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
