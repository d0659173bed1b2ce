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

from inorder import PROJECT
from inorder_fence import __version__
from tests.support.resolved_template import Json, of_type, template
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
    assert not of_type(after, "Lambda::Version") | of_type(after, "Lambda::Alias")
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


def test_a_log_that_is_off_keeps_its_destination_and_traces_are_switched_off_by_name() -> None:
    """The list of destinations must not be empty.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachine-loggingconfiguration.html
    """
    for machine in Deployed(ExecutionLogLevel="OFF").of(MACHINE).values():
        logging = machine["LoggingConfiguration"]
        [destination] = logging["Destinations"]
        assert destination["CloudWatchLogsLogGroup"]["LogGroupArn"] == "StateMachineLogGroup.Arn"
        assert (logging["Level"], logging["IncludeExecutionData"]) == ("OFF", True)
        # No document says that an update without this property switches the traces off.
        assert machine["TracingConfiguration"] == {"Enabled": False}


def test_an_own_function_is_invoked_alone_and_by_none_that_hashes_the_content() -> None:
    own = f"{FUNCTION}:7"
    stack = Deployed(WorkFunctionArn=own)
    assert "InvertImage" not in json.dumps(stack.resources).replace("InvertImageFunctionArn", "")
    for machine in stack.of(MACHINE).values():
        invoked = machine["DefinitionSubstitutions"].get("InvertImageFunctionArn")
        granted = json.dumps(stack[machine["RoleArn"].removesuffix(".Arn")]).count(f'"{own}"')
        assert (invoked, granted) in [(own, 1), (None, 0)]


def test_an_own_function_is_named_by_its_arn() -> None:
    pattern = TEMPLATE["Parameters"]["WorkFunctionArn"]["AllowedPattern"]
    assert all(re.fullmatch(pattern, arn) for arn in ("", FUNCTION, f"{FUNCTION}:7"))
    wrong = [f"{FUNCTION}{end}" for end in (":*", ":$LATEST", ":", "\n")]
    for arn in ["index-documents", FUNCTION.replace("aws", "aws-us-gov"), *wrong]:
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


@pytest.mark.parametrize("policy", ["latest-wins", "content-hash"])
def test_a_minimal_stack_has_one_state_machine_and_no_unused_queue_or_bus(policy: str) -> None:
    own = {"InputBucketName": "in", "OutputBucketName": "out", "WorkFunctionArn": FUNCTION}
    whole, minimal = (Deployed(Policy=policy, Minimal=each, **own) for each in ("false", "true"))
    assert minimal.resources.keys() < whole.resources.keys()
    [machine] = minimal.of(MACHINE)
    assert not [name for name in minimal.resources if "Records" in name or "InvertImage" in name]
    assert ("UniqueEventsBus" in minimal) == (policy == "content-hash")
    assert minimal.target()["Arn"] == machine
    assert minimal.grants("EventsRole") == {("states:StartExecution", machine)}


def test_the_rule_and_adapted_records_have_the_same_keys_and_content_hash_has_any_key() -> None:
    given = {"KeyPrefix": "in/", "KeySuffix": ".jpg", **ADAPT}
    filtered, of_any_source = (
        Deployed(Policy=each, **given) for each in ("latest-wins", "content-hash")
    )
    wildcard = {"key": [{"wildcard": "in/*.jpg"}]}
    assert filtered["EventsRule"]["EventPattern"]["detail"]["object"] == wildcard
    assert "detail" not in of_any_source["EventsRule"]["EventPattern"]
    for stack, expected in ((filtered, ["in/", ".jpg"]), (of_any_source, ["", ""])):
        variables = stack.variables("AdaptRecordsFunction")
        assert [variables["KEY_PREFIX"], variables["KEY_SUFFIX"]] == expected


def test_what_is_retried_waits_in_a_queue_for_as_long_as_it_may() -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html."""
    stack = Deployed()
    mapping = stack["RetryEventsFunctionFaults"]
    assert mapping["EventSourceArn"] == "RetryEventsQueue.Arn"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 5}  # the rest is for other events
    queue = stack["RetryEventsQueue"]
    assert "RedrivePolicy" not in queue  # an event that waits long is received often
    assert queue["VisibilityTimeout"] == 6 * stack["RetryEventsFunction"]["Timeout"]
    # An event is parked a day before SQS would delete it. If its execution cannot be started, its
    # message is as old as the event's first failure.
    longest = TEMPLATE["Parameters"]["RetryHours"]["MaxValue"] * 3600
    assert queue["MessageRetentionPeriod"] - longest == 86400


def test_the_retry_queue_and_its_function_take_what_the_bus_has() -> None:
    stack = Deployed()
    names = ("RetryEventsRule", "RetryEventsFunctionUnsendable")
    queue, function = map(stack.target, names)
    on_the_bus = {"EventBusName": "RetryEventsBus", "EventPattern": {"source": ["inorder"]}}
    assert all(stack[name].items() >= on_the_bus.items() for name in names)
    assert (queue["Arn"], function["Arn"]) == ("RetryEventsQueue.Arn", "RetryEventsFunction.Arn")
    # What state machines send by the bus must come as what they send to the queue.
    assert queue["InputPath"] == "$.detail"
    assert queue["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}
    assert function["RetryPolicy"] == queue["RetryPolicy"]
    for rule in ("EventsRule", "RetryEventsRule"):
        undelivered = stack.target(rule)["DeadLetterConfig"]
        assert undelivered["Arn"] == "UndeliveredEventsQueue.Arn"


@pytest.mark.parametrize("minutes", TEMPLATE["Parameters"]["HealMinutes"]["AllowedValues"], ids=str)
def test_a_sweep_has_ended_before_the_next_begins(minutes: int) -> None:
    """One minute has another unit: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html."""
    stack = Deployed(HealMinutes=str(minutes))
    if not minutes:
        assert not any(name.startswith("HealKeys") for name in stack.resources)
        return
    assert stack["HealKeysFunctionSweep"]["ScheduleExpression"] == f"rate({minutes} minutes)"
    target = stack.target("HealKeysFunctionSweep")
    assert target["Arn"] == "HealKeysFunction.Arn"
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    invocation, function = stack["HealKeysFunctionEventInvokeConfig"], stack["HealKeysFunction"]
    assert invocation["MaximumRetryAttempts"] == 0
    assert invocation["MaximumEventAgeInSeconds"] + function["Timeout"] < minutes * 60


def test_what_holds_data_is_kept_when_the_stack_is_deleted() -> None:
    """RetainExceptOnCreate keeps nothing of a stack whose creation failed.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html
    """
    stack = Deployed(**RECORDS)
    kinds = ("S3::Bucket", "DynamoDB::Table", "SQS::Queue")
    names = [name for kind in kinds for name in stack.of(kind)]
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


def test_an_alarm_tells_that_a_message_is_old_or_that_a_function_fails() -> None:
    """A message that is received three times no longer counts for the age of the oldest.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    """
    found, queues = alarms(**RECORDS), Deployed(**RECORDS).of("SQS::Queue")
    functions = {"RetryEventsFunction", "HealKeysFunction", "AdaptRecordsFunction"}
    assert found.keys() == queues.keys() | functions
    for name in functions:
        alarm = found[name]
        assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/Lambda", "Errors")
        assert alarm["Period"] * alarm["EvaluationPeriods"] == 3 * 3600
    for name, queue in queues.items():
        alarm = found[name]
        metric = (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"])
        assert metric == ("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum")
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        # Four days are left, or three if the message came from another queue.
        before = [
            found[other]["Threshold"]
            for other, each in queues.items()
            if name in json.dumps(each.get("RedrivePolicy"))
        ]
        left = queue["MessageRetentionPeriod"] - alarm["Threshold"] - sum(before)
        assert left >= (3 if before else 4) * 86400


def test_an_alarm_reaches_the_address_and_the_topic_and_no_other_account_can_use_it() -> None:
    """https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html."""
    for given, told in [
        ({}, None),
        ({"AlarmTopicArn": TOPIC}, [TOPIC]),
        ({**MAIL, "AlarmTopicArn": TOPIC}, ["AlarmTopic", TOPIC]),
    ]:
        assert all(each.get("AlarmActions") == told for each in alarms(**ADAPT, **given).values())
    stack = Deployed(**MAIL)
    policy = stack["AlarmTopicPolicy"]
    assert policy["Topics"] == ["AlarmTopic"]
    denied, publishing = policy["PolicyDocument"]["Statement"]
    assert (denied["Effect"], denied["Action"]) == ("Deny", "sns:Publish")
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert publishing["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert (publishing["Action"], publishing["Resource"]) == ("sns:Publish", "AlarmTopic")
    arns = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:*"
    assert publishing["Condition"] == {"ArnLike": {"aws:SourceArn": arns}}


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
    concurrency = stack["AdaptRecordsFunctionRecords"]["ScalingConfig"]
    assert concurrency == {"MaximumConcurrency": 10}  # a backlog leaves the rest to other events
    stream = stack["AdaptRecordsStreamMapping"]
    assert "MaximumRetryAttempts" not in stream
    assert stream["MaximumRecordAgeInSeconds"] == 23 * 3600


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


def test_the_documents_say_the_version_and_which_parameters_are_deployed() -> None:
    assert TEMPLATE["Outputs"]["Version"]["Value"] == __version__
    assert f"## {__version__}" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    text = (PROJECT / "docs" / "parameters.md").read_text(encoding="utf-8")
    section = text.partition("\n## What is deployed in tests\n")[2]
    deployed = set()
    for file, cell in re.findall(r"^\| \[`.+`\]\(\.\./(.+)\) \| (.+) \|$", section, re.MULTILINE):
        source = (PROJECT / file).read_text(encoding="utf-8")
        names = re.findall(r"`(\w+)`", cell)
        assert [each for each in names if not re.search(rf'\b{each}(": |:|=)', source)] == []
        deployed |= set(names)
    [only] = re.findall(r"^Only transformed: (.+)$", section, re.MULTILINE)
    assert deployed ^ set(re.findall(r"`(\w+)`", only)) == set(PAIRS)
