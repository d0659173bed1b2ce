"""The stack for long work: what its roles may do, and what its parts know of each other."""

import json

import pytest

from inorder import PROJECT
from inorder.asl import check_file
from tests.template.deployed import ALARM, TOPIC, Deployed, granting

ASL = PROJECT / "stacks/long_work/long_work.asl.json"
PLACE = "us-east-1:123456789012"
LOGS = ("LongWorkLogGroup.Arn", "logs:CreateLogStream logs:PutLogEvents")
BUCKETS = {"InputBucketName": "in", "OutputBucketName": "out"}
WORKER = f"arn:aws:states:{PLACE}:stateMachine:worker"
FUNCTION = f"arn:aws:lambda:{PLACE}:function:worker"
OF_SYNC = f"arn:aws:events:{PLACE}:rule/StepFunctionsGetEventsForStepFunctionsExecutionRule"
MACHINE = (
    ("LongWorkTable.Arn", "dynamodb:GetItem dynamodb:UpdateItem"),
    ("PublishResultFunction.Arn", "lambda:InvokeFunction"),
    (f"arn:aws:states:{PLACE}:stateMachine:stack_long-work", "states:StartExecution"),
)
# https://docs.aws.amazon.com/step-functions/latest/dg/connect-stepfunctions.html
BY_MACHINE = (
    (WORKER, "states:StartExecution"),
    (f"arn:aws:states:{PLACE}:execution:worker:*", "states:DescribeExecution states:StopExecution"),
    (OF_SYNC, "events:PutTargets events:PutRule events:DescribeRule"),
)
GRANTS = {
    "LongWorkEventsRole": [("LongWorkStateMachine", "states:StartExecution")],
    "PublishResultRole": [
        ("arn:aws:s3:::in/*", "s3:GetObject"),
        ("arn:aws:s3:::in", "s3:ListBucket"),
        ("arn:aws:s3:::out", "s3:ListBucket"),
        ("arn:aws:s3:::out/*", "s3:GetObject s3:PutObject s3:DeleteObject s3:AbortMultipartUpload"),
        ("StagingBucket.Arn", "s3:ListBucket"),
        ("StagingBucket.Arn/staged/*", "s3:GetObject s3:DeleteObject"),
        LOGS,
    ],
    "TakeOverRole": [
        ("LongWorkTable.Arn/index/InProgress", "dynamodb:Scan"),
        ("LongWorkTable.Arn", "dynamodb:GetItem dynamodb:PutItem"),
        ("LongWorkStateMachine", "states:StartExecution states:ListExecutions"),
        (
            f"arn:aws:states:{PLACE}:execution:LongWorkStateMachine.Name:*",
            "states:DescribeExecution",
        ),
        ("LongWorkParkedQueue.Arn", "sqs:SendMessage sqs:GetQueueAttributes"),
        ("StagingBucket.Arn/staged/*", "s3:DeleteObject"),
        LOGS,
    ],
}


def deployed(**parameters: str) -> Deployed:
    return Deployed(file="stacks/long_work/template.yaml", **BUCKETS, **parameters)


@pytest.mark.parametrize(
    ("work", "grants", "by"),
    [
        ({"WorkStateMachineArn": WORKER}, BY_MACHINE, "state machine"),
        ({"WorkFunctionArn": FUNCTION}, [(FUNCTION, "lambda:InvokeFunction")], "function"),
    ],
)
def test_a_role_may_do_only_what_is_listed(
    work: dict[str, str], grants: list[tuple[str, str]], by: str
) -> None:
    stack = deployed(**work, AlarmTopicArn=TOPIC)
    expected = GRANTS | {"LongWorkRole": [*MACHINE, *grants]}
    assert stack.of("IAM::Role").keys() == expected.keys()
    for role, listed in expected.items():
        assert stack.grants(role) == granting(*listed), role
    given = stack["LongWorkStateMachine"]["DefinitionSubstitutions"]
    assert given["WorksBy"] == by
    assert work.items() <= given.items()
    assert all(f"${{{name}}}" in ASL.read_text() for name in given)
    assert {each["AlarmActions"][0] for each in stack.of(ALARM).values()} == {TOPIC}


def test_the_rules_tell_the_events_and_the_deaths_and_the_seconds_fit() -> None:
    stack = deployed(WorkFunctionArn=FUNCTION, KeyPrefix="a/", KeySuffix=".mp4")
    pattern = stack["LongWorkRule"]["EventPattern"]
    assert pattern["detail-type"] == ["Object Created", "Object Deleted"]
    assert pattern["detail"]["bucket"] == {"name": ["in"]}
    assert pattern["detail"]["object"] == {"key": [{"wildcard": "a/*.mp4"}]}
    death = stack["TakeOverFunctionDeath"]["EventPattern"]["detail"]
    assert death["stateMachineArn"] == ["LongWorkStateMachine"]
    assert death["status"] == ["FAILED", "TIMED_OUT", "ABORTED"]
    waiting = "TakeOverFunctionWaiting"
    assert stack[waiting]["State"] == "DISABLED"
    stopping = deployed(WorkFunctionArn=FUNCTION, StopsOutdatedWork="true")
    assert stopping[waiting]["State"] == "ENABLED"
    assert (
        stopping[waiting]["EventPattern"]["detail"]["stateMachineArn"] == death["stateMachineArn"]
    )
    more = stopping.grants("TakeOverRole") - stack.grants("TakeOverRole")
    assert more == granting((GRANTS["TakeOverRole"][3][0], "states:StopExecution"))
    assert check_file(ASL) == []
    states = json.loads(ASL.read_text())["States"]
    publishes = states["Publish Result"]["TimeoutSeconds"]
    assert stack["PublishResultFunction"]["Timeout"] < publishes
    [kept] = stack["StagingBucket"]["LifecycleConfiguration"]["Rules"]
    works = states["Work By State Machine"]["TimeoutSeconds"]
    assert kept["ExpirationInDays"] * 86_400 > works + publishes
