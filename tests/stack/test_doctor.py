"""`inorder doctor` names what is wrong with a stack."""

import json

import pytest

from inorder.aws import health
from inorder.aws.health import RIGHT, WRONG
from inorder.aws.stack import Connection, deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Inorder, Workflow


@pytest.fixture(scope="module")
def workflow(local: LocalAws) -> Workflow:
    """Give a stack in which all is right."""
    return Workflow(local, deploy(local, "healthy", {}))


@pytest.mark.usefixtures("workflow")
def test_a_healthy_stack_has_nothing_wrong(inorder: Inorder) -> None:
    report = inorder("doctor")
    assert report.exit_code == 0, report.output
    lines = report.stdout.splitlines()
    assert [line for line in lines if not line.startswith(RIGHT)] == []
    assert lines


def test_a_bucket_that_does_not_exist_is_wrong(workflow: Workflow, inorder: Inorder) -> None:
    bucket = {"Bucket": workflow.stack.output_bucket}
    workflow.s3.delete_bucket(**bucket)
    report = inorder("doctor")
    workflow.s3.create_bucket(**bucket)
    assert report.exit_code == 1
    [wrong] = [line for line in report.stdout.splitlines() if line.startswith(WRONG)]
    assert "Output bucket: An error occurred (404)" in wrong


def test_a_role_without_an_action_is_wrong_on_aws(workflow: Workflow, inorder: Inorder) -> None:
    """The local AWS can answer, but it asks no role, so that nothing is wrong there."""
    deployment = health.Deployment(Connection(workflow.stack.name, workflow.local))
    [before] = health._permissions(deployment)
    with workflow.denied("s3:DeleteObject", "*"):
        [after] = health._permissions(deployment)
        assert inorder("doctor").exit_code == 0
    assert (before.state, after.state) == (RIGHT, WRONG)
    objects = f"arn:aws:s3:::{workflow.stack.output_bucket}/*"
    assert after.text == f"The function's role lacks s3:DeleteObject on {objects}."


def break_all(workflow: Workflow) -> None:
    """Do to a stack what `WRONG_THEN` names."""
    client, stack, resource = workflow.local.client, workflow.stack, workflow.resource
    functions, function = client("lambda"), {"FunctionName": stack.function_name}
    arn = functions.get_function_configuration(**function)["FunctionArn"]
    invoked = [{"LambdaFunctionArn": arn, "Events": ["s3:ObjectCreated:*"]}]
    workflow.s3.put_bucket_notification_configuration(
        Bucket=stack.input_bucket,
        NotificationConfiguration={"LambdaFunctionConfigurations": invoked},
    )
    shared = {"InputBucketName": "other", "OutputBucketName": stack.output_bucket}
    outputs = {name: {"Value": value} for name, value in shared.items()}
    template = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}, "Outputs": outputs}
    client("cloudformation").create_stack(StackName="other", TemplateBody=json.dumps(template))
    client("events").disable_rule(Name=resource("EventsRule"))
    rule = {"Name": resource("RetryEventsRule"), "EventBusName": resource("RetryEventsBus")}
    client("events").disable_rule(**rule)
    functions.update_function_configuration(**function, Timeout=111)
    functions.put_function_concurrency(**function, ReservedConcurrentExecutions=0)
    client("sqs").send_message(QueueUrl=stack.parked_events_queue_url, MessageBody="{}")
    mappings = functions.list_event_source_mappings(FunctionName=resource("RetryEventsFunction"))
    for mapping in mappings["EventSourceMappings"]:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    client("cloudwatch").set_alarm_state(
        AlarmName=resource("ParkedEventsAlarm"), StateValue="ALARM", StateReason="test"
    )


WRONG_THEN = [
    "sends no events to EventBridge",
    "also invokes the function",
    "is also that of the stack other: events are parked",
    "(EventsRule) is disabled",
    "(RetryEventsRule) is disabled",
    "may take 111 s, and the policy waits for 110 s",
    "reserved concurrency is 0",
    "1 event is parked.",
    "Nothing reads RetryEventsQueue",
    "Nothing reads WaitingEventsQueue",
    "An event has been parked for 10 days",
    "Before Policy=uncoordinated: the function may take 111 s, and it waits for 15 s",
]


def test_what_is_wrong_is_named(workflow: Workflow, inorder: Inorder) -> None:
    """The last test, as it mends nothing."""
    break_all(workflow)
    report = inorder("doctor", "--policy", "uncoordinated")
    assert report.exit_code == 1
    wrong = [line for line in report.stdout.splitlines() if line.startswith(WRONG)]
    for line, expected in zip(wrong, WRONG_THEN, strict=True):
        assert expected in line
    assert report.stdout.count("; then inorder backfill") == 3  # the bucket and the rules
