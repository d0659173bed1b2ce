"""What a parameter changes in the template that SAM has transformed."""

import json
import re

import pytest
from botocore.loaders import Loader

from inorder import PROJECT
from inorder.model.policies import policy
from inorder_fence import __version__
from tests.support.replacing import replaced
from tests.support.resolved_template import Json, of_type, resolve, template
from tests.template.deployed import (
    ALARM,
    FUNCTION,
    MACHINE,
    POLICIES,
    TOPIC,
    Deployed,
    state_machine_arn,
)

TEMPLATE = template()
# The parameters without which another one has no effect.
WITH = {"WorkFunctionRoleName": {"WorkFunctionArn": FUNCTION}}
# What waits in a queue would wait in vain, and a bus with a consumer's rule cannot be deleted.
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_DeleteEventBus.html
STAYING = {
    f"AWS::{kind}"
    for kind in ("SQS::Queue", "SQS::QueuePolicy", "DynamoDB::Table", "Events::EventBus")
} | {"AWS::Events::Rule"}


@pytest.mark.parametrize("parameter", TEMPLATE["Parameters"])
def test_a_parameter_changes_something_and_removes_nothing_that_has_events(parameter: str) -> None:
    """SAM hashes a function before parameters have values, so no function may have a version.

    It would publish no new one for a new value, and an alias would keep the old configuration:
    https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/automating-updates-to-serverless-apps.html
    """
    described, others = TEMPLATE["Parameters"][parameter], WITH.get(parameter, {})
    values = [str(value) for value in described.get("AllowedValues", ["9"])]
    value = next(value for value in values if value != str(described["Default"]))
    before = Deployed(**others).resources
    after = Deployed(**others, **{parameter: value}).resources
    assert before != after
    assert not of_type(after, "Lambda::Version") | of_type(after, "Lambda::Alias")
    held = {name for name, resource in TEMPLATE["Resources"].items() if resource["Type"] in STAYING}
    assert held <= after.keys()


def test_another_policy_changes_only_what_starts_events() -> None:
    """What runs under the policy before ends by itself: nothing of it is deleted or changed.

    To delete a state machine ends its executions, and some of their events are in no record.
    https://docs.aws.amazon.com/step-functions/latest/apireference/API_DeleteStateMachine.html

    So the other tests of this file need only one policy.
    """
    (first, one), *others = ((name, Deployed(Policy=name)) for name in POLICIES)
    starting = json.dumps(one["RetryEventsRole"])
    changing = {"EventsRule", "RetryEventsFunction", "RetryEventsRole"}  # what starts executions
    changing |= {"HealKeysFunction"}  # it asks on which state machine an event was retried
    for another, other in others:
        before, after = one.resources, other.resources
        assert after.keys() == before.keys()
        assert {name for name in before if before[name] != after[name]} <= changing
        started = replaced(starting, state_machine_arn(first), state_machine_arn(another))
        assert json.dumps(other["RetryEventsRole"]) == started
        # Without a name, which would replace it.
        assert set(other["EventsRule"]) == {"EventPattern", "Targets"}
        assert other.target() | {"Arn": one.target()["Arn"]} == one.target()


@pytest.mark.parametrize("policy", POLICIES)
def test_the_rule_and_retries_start_the_policys_state_machine(policy: str) -> None:
    """The rule's target is an ARN of names, so a deployment must not set it before it is true.

    CloudFormation creates the rule after the role that it refers to, and the role after each state
    machine:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-dependson.html
    """
    stack = Deployed(Policy=policy)
    started = [stack.target()["Arn"], stack.variables("RetryEventsFunction")["STATE_MACHINE_ARN"]]
    started.append(resolve(TEMPLATE, {"Policy": policy})["Outputs"]["StateMachineArn"]["Value"])
    assert set(started) == {state_machine_arn(policy)}
    machines = {one["StateMachineName"]: name for name, one in stack.of(MACHINE).items()}
    assert machines.keys() == {f"stack_{policy}" for policy in POLICIES}
    assert stack.target()["RoleArn"] == "EventsRole.Arn"
    starts = {("states:StartExecution", machine) for machine in machines.values()}
    assert stack.grants("EventsRole") == starts


def test_the_sweep_is_told_whether_the_policy_claims_keys() -> None:
    for name in POLICIES:
        variables = Deployed(Policy=name).variables("HealKeysFunction")
        assert (variables["CLAIMS_KEYS"] == "true") == policy(name).claims_keys, name


def test_the_longest_stack_name_leaves_room_for_each_policy() -> None:
    """A state machine's name has at most 80 characters.

    https://docs.aws.amazon.com/step-functions/latest/apireference/API_CreateStateMachine.html
    """
    shipped = {name for name in POLICIES if policy(name).like is None}
    longest = 80 - len("_") - max(map(len, shipped))
    for text in (
        TEMPLATE["Parameters"]["Policy"]["Description"],
        (PROJECT / "docs" / "deploy.md").read_text(encoding="utf-8"),
    ):
        assert re.search(rf"the stack's name may\s+have\s+at\s+most\s+{longest}\b", text, re.I)


def test_a_log_that_is_off_keeps_its_destination() -> None:
    """The list of destinations must not be empty.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachine-loggingconfiguration.html
    """
    for machine in Deployed(ExecutionLogLevel="OFF").of(MACHINE).values():
        logging = machine["LoggingConfiguration"]
        [destination] = logging["Destinations"]
        assert destination["CloudWatchLogsLogGroup"]["LogGroupArn"] == "StateMachineLogGroup.Arn"
        assert (logging["Level"], logging["IncludeExecutionData"]) == ("OFF", "true")


def test_the_log_of_each_state_machine_may_be_without_data() -> None:
    for machine in Deployed(ExecutionLogData="false").of(MACHINE).values():
        logging = machine["LoggingConfiguration"]
        assert (logging["Level"], logging["IncludeExecutionData"]) == ("ALL", "false")


def test_an_own_function_is_invoked_instead_of_the_shipped_one() -> None:
    own = f"{FUNCTION}:7"
    stack = Deployed(WorkFunctionArn=own)
    assert not re.search("InvertImage(?!FunctionArn)", json.dumps(stack.resources))
    invoked = [
        machine["DefinitionSubstitutions"].get("InvertImageFunctionArn", own)
        for machine in stack.of(MACHINE).values()
    ]
    assert set(invoked) == {own}
    assert ("lambda:InvokeFunction", own) in stack.grants("StateMachineRole")


def test_an_own_function_is_named_by_its_arn() -> None:
    pattern = TEMPLATE["Parameters"]["WorkFunctionArn"]["AllowedPattern"]
    assert all(re.fullmatch(pattern, arn) for arn in ("", FUNCTION, f"{FUNCTION}:7"))
    wrong = [f"{FUNCTION}{end}" for end in (":*", ":$LATEST", ":", "\n")]
    for arn in ["index-documents", replaced(FUNCTION, "aws", "aws-us-gov"), *wrong]:
        assert not re.fullmatch(pattern, arn), arn


def test_the_work_policy_reaches_the_shipped_or_named_role() -> None:
    for parameters, roles in [
        ({}, ["InvertImageRole"]),
        ({"WorkFunctionArn": FUNCTION, "WorkFunctionRoleName": "mine"}, ["mine"]),
        ({"WorkFunctionArn": FUNCTION}, None),
    ]:
        assert Deployed(**parameters)["WorkFunctionPolicy"].get("Roles") == roles


def test_a_stack_with_own_buckets_uses_them_and_creates_none() -> None:
    stack = Deployed(InputBucketName="in", OutputBucketName="out")
    assert stack.of("S3::Bucket") == stack.of("S3::BucketPolicy") == {}
    assert stack.variables("InvertImageFunction")["OUTPUT_BUCKET"] == "out"
    resources = {resource for _, resource in stack.grants("InvertImageRole")}
    assert resources >= {"arn:aws:s3:::out/*", "arn:aws:s3:::in/*"}
    # Outputs that would be inputs are refused.
    [assertion] = TEMPLATE["Rules"]["Buckets"]["Assertions"]
    names = [{"Ref": "OutputBucketName"}, {"Ref": "InputBucketName"}]
    assert assertion["Assert"]["Fn::Or"] == [
        {"Fn::Equals": [{"Ref": "OutputBucketName"}, ""]},
        {"Fn::Not": [{"Fn::Equals": names}]},
    ]


def test_every_version_is_refused_for_the_stacks_unversioned_bucket() -> None:
    rule = TEMPLATE["Rules"]["Versions"]
    of_policy = {"Fn::Equals": [{"Ref": "Policy"}, "every-version"]}
    condition = rule["RuleCondition"]
    assert of_policy in condition.get("Fn::Or", [condition])  # a policy made from it has the same
    [assertion] = rule["Assertions"]
    assert assertion["Assert"]["Fn::Or"] == [
        {"Fn::Not": [{"Fn::Equals": [{"Ref": "InputBucketName"}, ""]}]},
        {"Fn::Equals": [{"Ref": "InputBucketVersioning"}, "Enabled"]},
    ]


def test_the_rule_takes_keys_of_the_prefix_and_suffix() -> None:
    stack = Deployed(KeyPrefix="in/", KeySuffix=".jpg")
    [key] = stack["EventsRule"]["EventPattern"]["detail"]["object"]["key"]
    assert key == {"wildcard": "in/*.jpg"}


@pytest.mark.parametrize("character", ["x", "é", "'"])
def test_the_longest_prefix_and_suffix_fit_into_the_rule(character: str) -> None:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html."""
    longest = {"InputBucketName": "b" * 63}
    for name in ("KeyPrefix", "KeySuffix"):
        parameter = TEMPLATE["Parameters"][name]
        longest[name] = character * parameter["MaxLength"]
        assert re.fullmatch(parameter["AllowedPattern"], longest[name])
        # What JSON writes with more characters, and what a rule takes for no character.
        for forbidden in ('"', "\n", "\x01", "*", "\\"):
            assert not re.fullmatch(parameter["AllowedPattern"], f"a{forbidden}b")
    pattern = Deployed(**longest)["EventsRule"]["EventPattern"]
    assert len(json.dumps(pattern, ensure_ascii=False)) <= 2048


def test_the_retry_queue_keeps_events_as_long_as_needed() -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html."""
    stack = Deployed()
    mapping = stack["RetryEventsFunctionFaults"]
    assert mapping["EventSourceArn"] == "RetryEventsQueue.Arn"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 5}  # the rest is for other events
    queue = stack["RetryEventsQueue"]
    assert "RedrivePolicy" not in queue  # an event that waits long is received often
    window = mapping["MaximumBatchingWindowInSeconds"]
    assert window >= 1  # Lambda refuses batches of more than ten without it
    assert queue["VisibilityTimeout"] == 6 * stack["RetryEventsFunction"]["Timeout"] + window
    # An event is parked a day before SQS would delete it. If its execution cannot be started, its
    # message is as old as the event's first failure.
    longest = TEMPLATE["Parameters"]["RetryHours"]["MaxValue"] * 3600
    assert queue["MessageRetentionPeriod"] - longest == 86400


WAITS = [{"Paused": "true"}, {"QuietSeconds": "30"}, {"Paused": "true", "QuietSeconds": "900"}]


@pytest.mark.parametrize("parameters", WAITS)
def test_events_wait_whole_in_a_queue_of_their_own(parameters: dict[str, str]) -> None:
    """The target has the ID of the state machine's, so no event falls between two targets."""
    usual, stack = Deployed(), Deployed(**parameters)
    queue, function = stack["EventsRule"]["Targets"]
    assert (queue["Id"], queue["Arn"]) == (usual.target()["Id"], "WaitingEventsQueue.Arn")
    # Whole and unchanged, as for a state machine: nothing of it is written by a template.
    assert queue.keys() == {"Id", "Arn", "RetryPolicy", "DeadLetterConfig"}
    assert queue.items() <= (usual.target() | queue).items()
    assert {name: usual.target()[name] for name in ("RetryPolicy", "DeadLetterConfig")} == {
        name: queue[name] for name in ("RetryPolicy", "DeadLetterConfig")
    }
    # What SQS refuses, the function writes to the queue.
    assert function["Arn"] == "RetryEventsFunction.Arn"
    assert function["RetryPolicy"] == queue["RetryPolicy"]
    delay = int(parameters.get("QuietSeconds", "0"))
    assert int(stack["WaitingEventsQueue"]["DelaySeconds"]) == delay
    assert usual["WaitingEventsQueue"]["DelaySeconds"] == "0"


def test_a_pause_switches_off_what_starts_events() -> None:
    usual, paused = Deployed(), Deployed(Paused="true")
    mappings = usual.of("Lambda::EventSourceMapping")
    queues = {mapping["EventSourceArn"] for mapping in mappings.values()}
    assert queues == {"RetryEventsQueue.Arn", "WaitingEventsQueue.Arn"}
    for name, mapping in mappings.items():
        assert mapping == usual["RetryEventsFunctionFaults"] | {
            "EventSourceArn": mapping["EventSourceArn"]
        }
        assert mapping["Enabled"] is True
        assert paused[name] == mapping | {"Enabled": False}
    timeout, longest = (usual[f"{name}EventsQueue"] for name in ("Retry", "Waiting"))
    for field in ("VisibilityTimeout", "MessageRetentionPeriod"):
        assert timeout[field] == longest[field]
    # A sweep reads the queues, and hands nothing over.
    assert paused["HealKeysFunctionSweep"] == usual["HealKeysFunctionSweep"]
    assert usual.variables("HealKeysFunction")["PAUSED"] == "false"
    assert paused.variables("HealKeysFunction")["PAUSED"] == "true"


def test_after_ten_days_an_alarm_names_the_pause() -> None:
    day, alarm = 86_400, "WaitingEventsAlarm"
    assert "paused" in Deployed(Paused="true")[alarm]["AlarmDescription"]
    assert "paused" not in Deployed()[alarm]["AlarmDescription"]
    for name in (alarm, "RetryEventsAlarm"):
        assert Deployed(Paused="true")[name]["Threshold"] == 10 * day
        assert Deployed()[name]["Threshold"] == day


def test_the_bus_delivers_to_the_retry_queue_and_function() -> None:
    stack = Deployed()
    rule = stack["RetryEventsRule"]
    on_the_bus = {"EventBusName": "RetryEventsBus", "EventPattern": {"source": ["inorder"]}}
    assert rule == on_the_bus | {"Targets": rule["Targets"]}
    queue, function = rule["Targets"]
    assert (queue["Arn"], function["Arn"]) == ("RetryEventsQueue.Arn", "RetryEventsFunction.Arn")
    # What state machines send by the bus must come as what they send to the queue.
    assert queue["InputPath"] == "$.detail"
    assert queue["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}
    assert function["RetryPolicy"] == queue["RetryPolicy"]
    for target in (queue, stack.target("EventsRule")):
        assert target["DeadLetterConfig"]["Arn"] == "UndeliveredEventsQueue.Arn"


def test_a_sweep_begins_each_minute_and_ends_within_it() -> None:
    stack = Deployed()
    sweep = stack["HealKeysFunctionSweep"]
    # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html
    assert (sweep["ScheduleExpression"], sweep["State"]) == ("rate(1 minute)", "ENABLED")
    target = stack.target("HealKeysFunctionSweep")
    assert target["Arn"] == "HealKeysFunction.Arn"
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    invocation, function = stack["HealKeysFunctionEventInvokeConfig"], stack["HealKeysFunction"]
    assert invocation["MaximumRetryAttempts"] == 0
    assert function["Timeout"] < 60 == invocation["MaximumEventAgeInSeconds"]


def test_a_record_expires() -> None:
    expiry = {"AttributeName": "expires_at", "Enabled": True}
    assert Deployed()["KeyTable"]["TimeToLiveSpecification"] == expiry


def watched(alarm: Json) -> str:
    """Name the queue or the function that an alarm watches."""
    [dimension] = alarm["Dimensions"]
    name: str = dimension["Value"]
    return name.removesuffix(f".{dimension['Name']}")


# Nothing but a person takes a message from these queues.
AT_ONCE = {
    "EventParkedAlarm": "ParkedEventsQueue",
    "UndeliveredEventsAlarm": "UndeliveredEventsQueue",
}


def test_an_event_that_needs_a_person_alarms_at_once() -> None:
    stack = Deployed()
    for name, queue in AT_ONCE.items():
        alarm = stack[name]
        metric = (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"], alarm["Threshold"])
        assert metric == ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", 1)
        assert alarm["Period"] * alarm["EvaluationPeriods"] == 300
        assert watched(alarm) == queue
        assert queue in stack.variables("HealKeysFunction")["ALARMED_QUEUE_URLS"].split()


def test_alarms_report_old_messages_and_functions_that_fail() -> None:
    """A message that is received three times no longer counts for the age of the oldest.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    """
    stack = Deployed()
    alarms, queues = dict(stack.of(ALARM)), stack.of("SQS::Queue")
    for name in AT_ONCE:
        del alarms[name]
    del queues["UndeliveredEventsQueue"]  # the alarm for its messages stays on
    idle = alarms.pop("NoSweepAlarm")  # a sweep that does not run makes no error
    assert (idle["MetricName"], idle["TreatMissingData"]) == ("Invocations", "breaching")
    assert (idle["ComparisonOperator"], idle["Threshold"]) == ("LessThanThreshold", 1)
    assert idle["Period"] * idle["EvaluationPeriods"] == 15 * 60
    assert watched(idle) == "HealKeysFunction"
    alarms = {watched(alarm): alarm for alarm in alarms.values()}
    functions = {"RetryEventsFunction": 3 * 3600, "HealKeysFunction": 15 * 60}
    assert alarms.keys() == queues.keys() | functions.keys()
    for name, seconds in functions.items():
        alarm = alarms[name]
        assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/Lambda", "Errors")
        assert alarm["Period"] * alarm["EvaluationPeriods"] == seconds
    for name, queue in queues.items():
        alarm = alarms[name]
        metric = (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"])
        assert metric == ("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum")
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert queue["MessageRetentionPeriod"] - alarm["Threshold"] >= 4 * 86400


def test_cloudwatch_accepts_each_alarm_and_an_empty_queue_raises_none() -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html."""
    for name, alarm in Deployed().of(ALARM).items():
        assert 0 < len(alarm["AlarmDescription"]) <= 1024, name
        seconds = alarm["Period"] * alarm["EvaluationPeriods"]
        assert seconds <= (86_400 if alarm["Period"] < 3600 else 604_800), name
        assert alarm.get("DatapointsToAlarm", 1) <= alarm["EvaluationPeriods"], name
        if alarm["Namespace"] == "AWS/SQS":
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold", name
            assert alarm["TreatMissingData"] == "notBreaching", name


@pytest.mark.parametrize(("topic", "actions"), [("", None), (TOPIC, [TOPIC])])
def test_an_alarm_reaches_the_topic(topic: str, actions: list[str] | None) -> None:
    stack = Deployed(AlarmTopicArn=topic)
    assert {str(alarm.get("AlarmActions")) for alarm in stack.of(ALARM).values()} == {str(actions)}


def test_a_region_of_another_partition_is_refused() -> None:
    """The state machines name integrations of the partition aws, and each task fails in others.

    AWS documents `Ref` in rules; of pseudo parameters, AWS::Region is known to work there:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html
    """
    [assertion] = TEMPLATE["Rules"]["Partition"]["Assertions"]
    [contains] = assertion["Assert"]["Fn::Not"]
    regions, region = contains["Fn::Contains"]
    assert region == {"Ref": "AWS::Region"}
    partitions = Loader().load_data("endpoints")["partitions"]
    assert sorted(regions) == sorted(
        name
        for partition in partitions
        if partition["partition"] != "aws"
        for name in partition["regions"]
    )


def test_the_template_fence_and_changelog_have_the_same_version() -> None:
    assert TEMPLATE["Outputs"]["Version"]["Value"] == __version__
    assert f"## {__version__}" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
