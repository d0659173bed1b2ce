"""A stack for long work on a local AWS, and the demonstration's work: it waits, then inverts."""

import json
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import boto3

from inorder import PROJECT
from inorder.aws.stack import Stack, describe, sam_deploy
from inorder.local_aws import LocalAws
from invert_image.inversion import invert

TEMPLATE = PROJECT / "stacks/long_work/template.yaml"
ROLE = "arn:aws:iam::000000000000:role/work"
WORK_SECONDS = 3
EXECUTIONS_AT_ONCE = 20  # those that wait are not among them


def deploy(local: LocalAws, name: str, work: str = "", **more: str) -> Stack:
    """Deploy stacks/long_work with buckets, and a state machine or the demonstration's work."""
    work = work or make_work(local, f"from {__name__} import handler", WORK_SECONDS)
    s3, buckets = local.client("s3"), [f"{name}-input", f"{name}-output"]
    for bucket in buckets:
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_notification_configuration(
        Bucket=buckets[0], NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    given = dict(zip(("InputBucketName", "OutputBucketName"), buckets, strict=True))
    sam_deploy(local, name, {**given, "WorkStateMachineArn": work, **more}, TEMPLATE)
    return describe(local.client("cloudformation"), name)


def make_work(local: LocalAws, code: str, seconds: int) -> str:
    """Make a state machine that waits and then calls the function `handler`; give its ARN."""
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr("work.py", code)
    function = local.client("lambda").create_function(
        FunctionName="work",
        Handler="work.handler",
        Role=ROLE,
        Runtime="python3.13",
        Timeout=60,
        Code={"ZipFile": archive.getvalue()},
    )["FunctionArn"]
    stage = {"Type": "Task", "Resource": function, "TimeoutSeconds": 60, "End": True}
    wait = {"Type": "Wait", "Seconds": seconds, "Next": "Stage"}
    return create(local, {"StartAt": "Wait", "States": {"Wait": wait, "Stage": stage}})


def create(local: LocalAws, definition: dict[str, Any]) -> str:
    """Create a state machine that does the work; give its ARN."""
    made = local.client("stepfunctions").create_state_machine(
        name="work", definition=json.dumps(definition), roleArn=ROLE
    )
    return str(made["stateMachineArn"])


def handler(given: dict[str, Any], _context: Any) -> None:
    """Invert a picture, as stacks/long_work/README.md has the contract of the work."""
    s3, detail = boto3.client("s3"), given["event"]["detail"]
    source = s3.get_object(Bucket=detail["bucket"]["name"], Key=detail["object"]["key"])
    inverted = invert(source["Body"].read(), maximum_pixels=30_000_000)
    s3.put_object(
        Bucket=given["staged"]["bucket"],
        Key=given["staged"]["key"],
        Body=inverted.content + given["stamp"].encode(),
        ContentType=inverted.content_type,
    )
