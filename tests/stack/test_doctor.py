"""`inorder doctor` names what is wrong with a stack."""

from __future__ import annotations

import pytest

from inorder import PROJECT
from inorder.aws import health
from inorder.aws.health import RIGHT, WRONG
from inorder.aws.stack import Connection, deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Inorder, Workflow

COMPANIONS = ("audit", "monitoring", "records")


@pytest.fixture(scope="module")
def workflow(local: LocalAws) -> Workflow:
    """Give a stack in which all is right: its topic has a subscriber, as the local AWS has not."""
    sns = local.client("sns")
    topic = sns.create_topic(Name="alarms")["TopicArn"]
    local.client("sqs").create_queue(QueueName="alarms")
    arn = "arn:aws:sqs:us-east-1:000000000000:alarms"
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    workflow = Workflow(local, deploy(local, "healthy", {"AlarmTopicArn": topic}))
    for name in COMPANIONS:
        template = PROJECT / "stacks" / name / "template.yaml"
        sam_deploy(local, f"healthy-{name}", {"StackName": "healthy"}, template)
    return workflow


@pytest.fixture
def deployment(workflow: Workflow) -> health.Deployment:
    return health.Deployment(Connection(workflow.stack.name, workflow.local))


@pytest.mark.usefixtures("workflow")
def test_a_healthy_stack_has_nothing_wrong(inorder: Inorder) -> None:
    said = inorder("doctor")
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    assert [line for line in lines if not line.startswith(RIGHT)] == []
    fitting = [f"{RIGHT:<8} The companion {name} fits the stack." for name in COMPANIONS]
    assert lines[-len(fitting) :] == fitting


@pytest.mark.parametrize(
    ("of", "changed", "wrong"),
    [
        ("outputs", "Version", COMPANIONS),
        ("outputs", "KeyTableName", ("audit",)),
        ("outputs", "ParkedEventsQueueName", ("monitoring",)),
        ("outputs", "RetryEventsQueueName", ("audit", "monitoring")),
        ("parameters", "KmsKeyArn", ("audit", "records")),
        ("parameters", "HealMinutes", ()),
    ],
)
def test_a_companion_that_was_deployed_with_another_value_is_named(
    deployment: health.Deployment, of: str, changed: str, wrong: tuple[str, ...]
) -> None:
    getattr(deployment.main, of)[changed] = "other"
    found = dict(zip(COMPANIONS, health._companions(deployment), strict=True))
    assert tuple(name for name, line in found.items() if line.state == WRONG) == wrong
    for name in wrong:
        assert f"The companion {name} has the {changed} " in found[name].text
        given = ' PARAMETERS="KmsKeyArn=other"' if of == "parameters" else ""
        assert found[name].remedy == f"make companion NAME={name} STACK=healthy{given}"


def test_a_companion_of_another_stack_is_named(deployment: health.Deployment) -> None:
    deployment.companions["records"].parameters["StackName"] = "inorder"
    [*_, finding] = health._companions(deployment)
    assert "has the StackName inorder, and the stack healthy." in finding.text


@pytest.mark.parametrize(
    ("policy", "changed", "waiting", "said"),
    [
        ("first-wins", {}, 0, "Nothing must be done"),
        ("latest-wins", {}, 1, "Nothing must be done"),
        ("first-wins", {"HealMinutes": "0"}, 0, "no sweep hands the new policy"),
        ("first-wins", {}, 1, "1 event(s) wait to be retried"),
        ("first-wins", {"HandleDeletions": "false"}, 1, "Nothing must be done"),
        ("every-version", {}, 0, "the input bucket has no versions"),
    ],
)
def test_what_must_be_done_before_a_change_of_policy_is_named(
    workflow: Workflow,
    deployment: health.Deployment,
    policy: str,
    changed: dict[str, str],
    waiting: int,
    said: str,
) -> None:
    parameters = {"Policy": "latest-wins", "HealMinutes": "15"}
    object.__setattr__(deployment.stack, "parameters", parameters | changed)
    sqs, queue = workflow.local.client("sqs"), workflow.stack.retry_events_queue_url
    for _ in range(waiting):
        sqs.send_message(QueueUrl=queue, MessageBody="{}", DelaySeconds=900)
    [finding] = health._change(deployment, policy)
    sqs.purge_queue(QueueUrl=queue)
    assert said in finding.text
    assert finding.state == (RIGHT if "Nothing" in said else WRONG)


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
    client("events").disable_rule(Name=resource("EventsRule").rpartition("/")[2])
    functions.update_function_configuration(**function, Timeout=61)
    functions.put_function_concurrency(**function, ReservedConcurrentExecutions=0)
    client("iam").detach_role_policy(
        RoleName=resource("InvertImageRole"), PolicyArn=resource("WorkFunctionPolicy")
    )
    client("sqs").send_message(QueueUrl=stack.parked_events_queue_url, MessageBody="{}")
    [mapping] = functions.list_event_source_mappings(FunctionName=resource("RetryEventsFunction"))[
        "EventSourceMappings"
    ]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    client("cloudwatch").set_alarm_state(
        AlarmName=resource("ParkedEventsAlarm"), StateValue="ALARM", StateReason="test"
    )
    topic = stack.parameters["AlarmTopicArn"]
    [found] = client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    client("sns").unsubscribe(SubscriptionArn=found["SubscriptionArn"])


WRONG_THEN = [
    "sends no events to EventBridge",
    "also invokes the function",
    "is disabled: no event starts an execution",
    "may take 61 s, and the policy waits for 60 s",
    "lacks s3:GetObject on",
    "reserved concurrency is 0",
    "ParkedEventsQueue has 1 unread message(s)",
    "Nothing reads the retry queue",
    "An event has been parked for 10 days",
    "no confirmed subscription",
    "Before Policy=uncoordinated: the function may take 61 s, and it waits for 15 s",
]


def test_what_is_wrong_is_named(workflow: Workflow, inorder: Inorder) -> None:
    """The last test, as it mends nothing."""
    break_all(workflow)
    said = inorder("doctor", "--policy", "uncoordinated")
    assert said.exit_code == 1
    wrong = [line for line in said.stdout.splitlines() if line.startswith(WRONG)]
    for line, expected in zip(wrong, WRONG_THEN, strict=True):
        assert expected in line
