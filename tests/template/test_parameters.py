"""A changed parameter takes effect: SAM's translator, and the conditions, on pairs of values.

SAM hashes a function before parameters have values. So it publishes no new version when only a
parameter changes, and an alias would keep the old configuration:
https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/automating-updates-to-serverless-apps.html
The state machines therefore invoke the functions without a version.
"""

from __future__ import annotations

import json
import re

import pytest
from botocore.loaders import Loader

from bench.resolved_template import Json, template
from inorder import PROJECT
from inorder.model.policies import definition
from inorder_fence import __version__
from tests.template.deployed import (
    ADAPT,
    ALARM,
    BOUNDARY,
    FUNCTION,
    KEY,
    MACHINE,
    MAIL,
    POLICIES,
    RECORDS,
    STREAM,
    TOPIC,
    Deployed,
)

TEMPLATE = template()
# Two values of each parameter, and a resource that must not be the same with both.
PAIRS = {
    "Policy": ("first-wins", "latest-wins", "InvertImageFunction"),
    "HandleDeletions": ("true", "false", "InvertImageFunction"),
    "InputBucketName": ("", "my-bucket", "WorkFunctionPolicy"),
    "InputBucketVersioning": ("Disabled", "Enabled", "InputBucket"),
    "KeyPrefix": ("", "uploads/", "EventsRule"),
    "KeySuffix": ("", ".jpg", "EventsRule"),
    "OutputBucketName": ("", "my-bucket", "WorkFunctionPolicy"),
    "KmsKeyArn": ("", KEY, "KeyTable"),
    "PermissionsBoundaryArn": ("", BOUNDARY, "EventsRole"),
    "Minimal": ("false", "true", "OptimisticStateMachine"),
    "ContentSources": ("aws.s3", "com.example", "EventsRule"),
    "RecordRetentionDays": ("7", "30", "InvertImageFunction"),
    "RetryHours": ("24", "0", "RetryEventsFunction"),
    "HealMinutes": ("15", "0", "HealKeysFunction"),
    "DeploymentType": ("ALL_AT_ONCE", "CANARY", "EventsRule"),
    "ExecutionLogLevel": ("ALL", "OFF", "LatestWinsStateMachine"),
    "LogRetentionDays": ("14", "30", "StateMachineLogGroup"),
    "Tracing": ("false", "true", "LatestWinsStateMachine"),
    "Alarms": ("loss", "none", "ParkedEventsAlarm"),
    "AlarmEmail": ("", *MAIL.values(), "ParkedEventsAlarm"),
    "AlarmTopicArn": ("", TOPIC, "ParkedEventsAlarm"),
    "Dashboard": ("false", "true", "EventsDashboard"),
    "SavedQueries": ("false", "true", "KeyHistoryQuery"),
    "WorkFunctionArn": ("", FUNCTION, "LatestWinsStateMachine"),
    "WorkFunctionRoleName": ("", "mine", "WorkFunctionPolicy"),
    "FunctionMemorySize": ("1769", "3000", "InvertImageFunction"),
    "MaximumPixels": ("30000000", "1000", "InvertImageFunction"),
    "AdaptRecords": ("false", "true", "AdaptRecordsFunction"),
    "RecordsSourceArns": ("", "arn:aws:s3:::my-bucket", "RecordsQueuePolicy"),
    "RecordsStreamArn": ("", STREAM, "AdaptRecordsStreamMapping"),
    "SlowMark": ("", "slow", "InvertImageFunction"),
    "SlowSeconds": ("0", "2", "InvertImageFunction"),
}
WITH = {
    "ContentSources": {"Policy": "content-hash"},
    "WorkFunctionRoleName": {"WorkFunctionArn": FUNCTION},
    "RecordsSourceArns": ADAPT,
    "RecordsStreamArn": ADAPT,
}
HOLD_DATA = ("S3::Bucket", "DynamoDB::Table", "SQS::Queue")
# What waits in a queue would wait in vain, and a bus with a consumer's rule cannot be deleted.
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_DeleteEventBus.html
STAYING = {
    f"AWS::{kind}"
    for kind in ("SQS::Queue", "SQS::QueuePolicy", "DynamoDB::Table", "Events::EventBus")
} | {"AWS::Events::Rule"}


def test_every_parameter_has_a_pair() -> None:
    assert set(PAIRS) == set(TEMPLATE["Parameters"])


@pytest.mark.parametrize("parameter", PAIRS)
def test_a_changed_parameter_changes_what_is_deployed_and_only_minimal_removes_what_holds_events(
    parameter: str,
) -> None:
    one, other, resource = PAIRS[parameter]
    before, after = (
        Deployed(**WITH.get(parameter, {}), **{parameter: value}).resources
        for value in (one, other)
    )
    assert before.get(resource) != after.get(resource)
    held = {name for name, each in TEMPLATE["Resources"].items() if each["Type"] in STAYING}
    assert held <= after.keys() or parameter == "Minimal"


def test_another_policy_changes_no_more_than_what_decides_about_new_events() -> None:
    """What runs under the policy before ends by itself: nothing of it is deleted or changed.

    To delete a state machine ends its executions, and some of their events are in no record.
    https://docs.aws.amazon.com/step-functions/latest/apireference/API_DeleteStateMachine.html

    So the other tests of this file need only one policy.
    """
    one, *others = (Deployed(Policy=policy, **RECORDS) for policy in POLICIES)
    assert len(one.of(MACHINE)) == len(POLICIES)
    functions = {f"{name}Function" for name in ("RetryEvents", "HealKeys", "AdaptRecords")}
    changing = functions | {"EventsRule", "InvertImageFunction", "WorkFunctionPolicy"}
    changing |= {f"{name}Role" for name in ("RetryEvents", "AdaptRecords")}
    for other in others:
        before, after = one.resources, other.resources
        assert after.keys() == before.keys()
        assert {name for name in before if before[name] != after[name]} <= changing
        # Without a name, which would replace it.
        assert set(other["EventsRule"]) == {"EventPattern", "Targets"}
        assert other.target() | {"Arn": one.target()["Arn"]} == one.target()
        for name in functions:
            started = other.variables(name).get("STATE_MACHINE_ARN")
            assert started in (None, other.target()["Arn"])


def test_a_state_machine_invokes_the_functions_that_a_deployment_changes() -> None:
    stack = Deployed(**RECORDS)
    functions = {f"{name}.Arn" for name in stack.of("Lambda::Function")}
    assert not stack.of("Lambda::Version") | stack.of("Lambda::Alias")
    for machine in stack.of(MACHINE).values():
        given = machine["DefinitionSubstitutions"].items()
        invoked = {value for name, value in given if name.endswith("FunctionArn")}
        assert invoked
        assert invoked <= functions


@pytest.mark.parametrize(
    ("level", "tracing"), [("ALL", "false"), ("ERROR", "true"), ("OFF", "false")]
)
def test_a_state_machine_is_logged_and_traced_as_the_parameters_say(
    level: str, tracing: str
) -> None:
    """At OFF the log's destination may stay, but must not be an empty list.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachine-loggingconfiguration.html

    No document says that an update without the property for traces switches them off.
    """
    group = {"LogGroupArn": "StateMachineLogGroup.Arn"}
    for machine in Deployed(ExecutionLogLevel=level, Tracing=tracing).of(MACHINE).values():
        assert machine["LoggingConfiguration"] == {
            "Level": level,
            "IncludeExecutionData": True,
            "Destinations": [{"CloudWatchLogsLogGroup": group}],
        }
        assert machine["TracingConfiguration"] == {"Enabled": tracing == "true"}


QUALIFIED = [FUNCTION, f"{FUNCTION}:7", f"{FUNCTION}:live"]


@pytest.mark.parametrize("own", QUALIFIED)
def test_an_own_function_is_invoked_alone_and_by_none_that_hashes_the_content(own: str) -> None:
    stack = Deployed(WorkFunctionArn=own)
    assert "InvertImage" not in json.dumps(stack.resources).replace("InvertImageFunctionArn", "")
    for machine in stack.of(MACHINE).values():
        invoked = machine["DefinitionSubstitutions"].get("InvertImageFunctionArn")
        granted = json.dumps(stack[machine["RoleArn"].removesuffix(".Arn")]).count(f'"{own}"')
        assert (invoked, granted) in [(own, 1), (None, 0)]


def test_an_own_function_is_named_by_its_arn() -> None:
    pattern = TEMPLATE["Parameters"]["WorkFunctionArn"]["AllowedPattern"]
    assert all(re.fullmatch(pattern, arn) for arn in ("", *QUALIFIED))
    for arn in [
        *("index-documents", "arn:aws:lambda:us-east-1:123456789012:layer:l"),
        "arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:f",
        *(f"{FUNCTION}{wrong}" for wrong in (":*", ":$LATEST", ":", "\n")),
    ]:
        assert not re.fullmatch(pattern, arn), arn


def test_the_work_policy_reaches_the_shipped_role_or_the_named_one_or_none() -> None:
    for given, roles in [
        ({}, ["InvertImageRole"]),
        ({"WorkFunctionArn": FUNCTION, "WorkFunctionRoleName": "mine"}, ["mine"]),
        ({"WorkFunctionArn": FUNCTION}, None),
    ]:
        assert Deployed(**given)["WorkFunctionPolicy"].get("Roles") == roles


def test_own_buckets_get_the_inputs_and_outputs_and_the_stack_creates_none() -> None:
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


@pytest.mark.parametrize("policy", POLICIES)
def test_a_minimal_stack_has_one_state_machine_and_no_unused_queue_or_bus(policy: str) -> None:
    own = {"InputBucketName": "in", "OutputBucketName": "out", "WorkFunctionArn": FUNCTION}
    whole, minimal = (Deployed(Policy=policy, Minimal=each, **own) for each in ("false", "true"))
    assert minimal.resources.keys() < whole.resources.keys()
    [machine] = minimal.of(MACHINE)
    assert not [name for name in minimal.resources if "Records" in name or "InvertImage" in name]
    assert ("UniqueEventsBus" in minimal) == (policy == "content-hash")
    assert minimal.target()["Arn"] == machine
    assert minimal.grants("EventsRole") == {("states:StartExecution", machine)}


@pytest.mark.parametrize(
    ("prefix", "suffix", "keys"),
    [
        ("", "", None),
        ("uploads/", "", "uploads/*"),
        ("", ".jpg", "*.jpg"),
        ("uploads/", ".jpg", "uploads/*.jpg"),
    ],
)
def test_the_rule_and_adapted_records_have_the_same_keys(
    prefix: str, suffix: str, keys: str | None
) -> None:
    for policy in ("latest-wins", "content-hash"):
        stack = Deployed(Policy=policy, KeyPrefix=prefix, KeySuffix=suffix, **ADAPT)
        pattern = stack["EventsRule"]["EventPattern"]
        adapted = stack.variables("AdaptRecordsFunction")
        filters = {"key": [{"wildcard": keys}]} if keys and policy != "content-hash" else None
        assert pattern.get("detail", {}).get("object") == filters
        given = (prefix, suffix) if policy != "content-hash" else ("", "")
        assert (adapted["KEY_PREFIX"], adapted["KEY_SUFFIX"]) == given


def test_what_is_retried_waits_in_a_queue_for_as_long_as_it_may() -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html."""
    stack = Deployed()
    mappings = stack.of("Lambda::EventSourceMapping").values()
    assert [each for each in mappings if each["FunctionName"] == "RetryEventsFunction"] == [
        {
            "FunctionName": "RetryEventsFunction",
            "EventSourceArn": "RetryEventsQueue.Arn",
            "BatchSize": 10,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "ScalingConfig": {"MaximumConcurrency": 5},
        }
    ]
    started = stack.variables("RetryEventsFunction")["STATE_MACHINE_ARN"]
    assert started == stack.target()["Arn"]
    queue = stack["RetryEventsQueue"]
    assert "RedrivePolicy" not in queue  # an event that waits long is received often
    assert queue["VisibilityTimeout"] == 6 * stack["RetryEventsFunction"]["Timeout"]
    # An event is parked a day before SQS would delete it. If its execution cannot be started, its
    # message is as old as the event's first failure.
    longest = TEMPLATE["Parameters"]["RetryHours"]["MaxValue"] * 3600
    assert queue["MessageRetentionPeriod"] - longest == 86400


@pytest.mark.parametrize("adapt", ["false", "true"])
def test_each_queue_has_a_policy_of_its_own_and_each_statement_one_resource(adapt: str) -> None:
    """SQS is reported to refuse a statement with two resources; no linter tells."""
    stack = Deployed(AdaptRecords=adapt, RecordsSourceArns="arn:aws:s3:::my-bucket")
    named = []
    for each in stack.of("SQS::QueuePolicy").values():
        [queue] = each["Queues"]
        named.append(queue)
        for statement in each["PolicyDocument"]["Statement"]:
            assert statement["Resource"] == f"{queue}.Arn"
    assert sorted(named) == sorted(stack.of("SQS::Queue"))


def allowed(stack: Deployed, queue_policy: str) -> list[Json]:
    document = stack[queue_policy]["PolicyDocument"]
    return [each for each in document["Statement"] if each["Effect"] == "Allow"]


def test_undelivered_events_are_accepted_from_any_rule_of_the_account() -> None:
    """So they are from one that a deployment has deleted, for as long as EventBridge tries."""
    stack = Deployed()
    [statement] = allowed(stack, "UndeliveredEventsQueuePolicy")
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    arns = "arn:aws:events:us-east-1:123456789012:rule/*"
    assert statement["Condition"] == {"ArnLike": {"aws:SourceArn": arns}}
    for rule in ("EventsRule", "RetryEventsRule"):
        queue = stack.target(rule)["DeadLetterConfig"]
        assert queue["Arn"] == "UndeliveredEventsQueue.Arn"


def test_the_retry_queue_and_its_function_take_what_the_bus_has_and_from_its_rule_only() -> None:
    stack = Deployed()
    names = ("RetryEventsRule", "RetryEventsFunctionUnsendable")
    queue, function = map(stack.target, names)
    rule, unsendable = (stack[name] | {"Targets": []} for name in names)
    assert rule == unsendable
    assert rule["EventBusName"] == "RetryEventsBus"
    assert (queue["Arn"], function["Arn"]) == ("RetryEventsQueue.Arn", "RetryEventsFunction.Arn")
    # What state machines send by the bus must come as what they send to the queue.
    assert queue["InputPath"] == "$.detail"
    assert queue["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}
    assert function["RetryPolicy"] == queue["RetryPolicy"]
    [statement] = allowed(stack, "RetryEventsQueuePolicy")
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": "RetryEventsRule.Arn"}}


def test_the_records_queue_accepts_only_the_named_sources() -> None:
    named = "arn:aws:s3:::one,arn:aws:sns:us-east-1:123456789012:two"
    for sources, expected in (("", []), (named, [named.split(",")] * 2)):
        statements = allowed(Deployed(RecordsSourceArns=sources, **ADAPT), "RecordsQueuePolicy")
        found = [each["Condition"]["ArnEquals"]["aws:SourceArn"] for each in statements]
        assert found == expected


@pytest.mark.parametrize("minutes", TEMPLATE["Parameters"]["HealMinutes"]["AllowedValues"], ids=str)
def test_a_sweep_has_ended_before_the_next_begins(minutes: int) -> None:
    """One minute has another unit: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html."""
    stack = Deployed(HealMinutes=str(minutes))
    if not minutes:
        assert not any(name.startswith("HealKeys") for name in stack.resources)
        return
    assert stack["HealKeysFunctionSweep"]["ScheduleExpression"] == f"rate({minutes} minutes)"
    assert minutes > 1
    target = stack.target("HealKeysFunctionSweep")
    assert target["Arn"] == "HealKeysFunction.Arn"
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    invocation, function = stack["HealKeysFunctionEventInvokeConfig"], stack["HealKeysFunction"]
    assert invocation["MaximumRetryAttempts"] == 0
    assert invocation["MaximumEventAgeInSeconds"] + function["Timeout"] < minutes * 60
    assert "ReservedConcurrentExecutions" not in function


def test_what_holds_data_is_kept_when_the_stack_is_deleted() -> None:
    """RetainExceptOnCreate keeps nothing of a stack whose creation failed.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html
    """
    stack = Deployed(**RECORDS)
    names = [name for kind in HOLD_DATA for name in stack.of(kind)]
    assert len(names) == 9
    kept = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
    for name in names:
        assert stack.resources[name].items() >= kept.items()


def alarms(**parameters: str) -> dict[str, Json]:
    """List the alarms before a loss by the queues and functions that they watch."""
    found = {}
    for alarm in Deployed(**parameters).of(ALARM).values():
        [dimension] = alarm["Dimensions"]
        found[dimension["Value"].removesuffix(f".{dimension['Name']}")] = alarm
    return found


@pytest.mark.parametrize("parameters", [{}, RECORDS], ids=str)
def test_an_alarm_tells_that_a_message_is_old_or_that_a_function_fails(
    parameters: dict[str, str],
) -> None:
    """A message that is received three times no longer counts for the age of the oldest.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    """
    stack, found = Deployed(**parameters), alarms(**parameters)
    for name, queue in stack.of("SQS::Queue").items():
        alarm = found[name]
        metric = (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"])
        assert metric == ("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum")
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        # Four days are left, or three if the message came from another queue.
        before = [
            found[other]["Threshold"]
            for other, each in stack.of("SQS::Queue").items()
            if name in json.dumps(each.get("RedrivePolicy"))
        ]
        left = queue["MessageRetentionPeriod"] - alarm["Threshold"] - sum(before)
        assert left >= (3 if before else 4) * 86400
    waited_for = {"RetryEventsFunction", "HealKeysFunction", "AdaptRecordsFunction"}
    failing = {
        name: (each["Namespace"], each["MetricName"], each["Period"] * each["EvaluationPeriods"])
        for name, each in found.items()
        if name.endswith("Function")
    }
    waited_for &= stack.of("Lambda::Function").keys()
    assert failing == dict.fromkeys(waited_for, ("AWS/Lambda", "Errors", 3 * 3600))


def test_an_alarm_reaches_the_address_and_the_topic_and_no_other_account_can_use_it() -> None:
    """https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html."""
    for given, told in [
        ({}, None),
        (MAIL, ["AlarmTopic"]),
        ({"AlarmTopicArn": TOPIC}, [TOPIC]),
        ({**MAIL, "AlarmTopicArn": TOPIC}, ["AlarmTopic", TOPIC]),
    ]:
        assert ("AlarmTopic" in Deployed(**ADAPT, **given)) == ("AlarmEmail" in given)
        assert all(each.get("AlarmActions") == told for each in alarms(**ADAPT, **given).values())
    stack = Deployed(**MAIL)
    subscription = {"TopicArn": "AlarmTopic", "Protocol": "email", "Endpoint": "me@example.com"}
    assert stack["AlarmSubscription"] == subscription
    policy = stack["AlarmTopicPolicy"]
    assert policy["Topics"] == ["AlarmTopic"]
    denied, publishing = policy["PolicyDocument"]["Statement"]
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    arns = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:*"
    assert publishing == {
        "Sid": "FromAlarms",
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": "AlarmTopic",
        "Condition": {"ArnLike": {"aws:SourceArn": arns}},
    }


def test_an_outage_that_eventbridge_survives_gives_up_no_notification() -> None:
    """SQS allows 1000 receives; a stream keeps its records for 24 hours, if nobody says otherwise.

    https://docs.aws.amazon.com/streams/latest/dev/kinesis-extended-retention.html
    """
    stack = Deployed(**RECORDS)
    queue = stack["RecordsQueue"]
    receives = queue["RedrivePolicy"]["maxReceiveCount"]
    assert receives <= 1000
    hours = receives * queue["VisibilityTimeout"] / 3600
    assert hours > stack.target()["RetryPolicy"]["MaximumEventAgeInSeconds"] / 3600 == 24
    stream = stack["AdaptRecordsStreamMapping"]
    assert "MaximumRetryAttempts" not in stream
    assert stream["MaximumRecordAgeInSeconds"] == 23 * 3600
    mapping = stack["AdaptRecordsFunctionRecords"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 10}


def test_a_function_that_a_retried_event_comes_back_to_may_be_part_of_a_loop() -> None:
    """Lambda drops an event that comes to a function about 16 times in a chain, where it sees that.

    https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
    """
    for name, each in Deployed(**RECORDS).of("Lambda::Function").items():
        outside = name in {"HealKeysFunction", "AdaptRecordsFunction"}  # nothing comes back to them
        assert each.get("RecursiveLoop") == (None if outside else "Allow"), name


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
        name for each in partitions if each["partition"] != "aws" for name in each["regions"]
    )
    for name in POLICIES:
        text = json.dumps(definition(name))
        assert set(re.findall(r"arn:([\w-]+):states", text)) == {"aws"}
    patterns = [each.get("AllowedPattern", "") for each in TEMPLATE["Parameters"].values()]
    assert all(each.startswith("^$|^arn:aws:") for each in patterns if "arn:" in each)


def test_a_stream_needs_the_function_that_adapts_records() -> None:
    stack = Deployed(RecordsStreamArn=STREAM)
    assert "AdaptRecordsStreamMapping" not in stack
    assert "UnadaptedRecordsBucket" not in stack


@pytest.mark.parametrize("versioning", ["Disabled", "Enabled", "Suspended"])
def test_the_input_bucket_sends_its_events_to_eventbridge_and_has_versions_if_they_are_chosen(
    versioning: str,
) -> None:
    bucket = Deployed(InputBucketVersioning=versioning)["InputBucket"]
    configuration = {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert bucket["NotificationConfiguration"] == configuration
    assert bucket.get("VersioningConfiguration", {}).get("Status", "Disabled") == versioning


def test_the_documents_say_which_parameters_are_deployed_and_which_only_transformed() -> None:
    text = (PROJECT / "docs" / "parameters.md").read_text(encoding="utf-8")
    section = text.partition("\n## What is deployed in tests\n")[2]
    deployed = set()
    for file, cell in re.findall(r"^\| \[`.+`\]\(\.\./(.+)\) \| (.+) \|$", section, re.MULTILINE):
        source = (PROJECT / file).read_text(encoding="utf-8")
        names = re.findall(r"`(\w+)`", cell)
        assert [each for each in names if not re.search(rf'\b{each}(": |:|=)', source)] == []
        deployed |= set(names)
    [only] = re.findall(r"^Only transformed: (.+)$", section, re.MULTILINE)
    transformed = set(re.findall(r"`(\w+)`", only))
    assert deployed | transformed == set(PAIRS)
    assert not deployed & transformed


def test_the_stack_says_its_version_and_what_starts_its_executions() -> None:
    [target] = TEMPLATE["Resources"]["EventsRule"]["Properties"]["Targets"]
    assert TEMPLATE["Outputs"]["StartedArn"]["Value"] == target["Arn"]
    assert TEMPLATE["Outputs"]["Version"]["Value"] == __version__
    assert f"## {__version__}" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
