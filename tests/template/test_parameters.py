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

from bench.resolved_template import Json, of_type, resources_with, template
from inorder import PROJECT
from inorder.model.policies import definition

OWN_FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:index-documents"
STREAM = "arn:aws:kinesis:us-east-1:123456789012:stream/s"
ADAPT = {"AdaptRecords": "true"}
MAIL = {"AlarmEmail": "me@example.com"}
ALL_RESOURCES = {**ADAPT, "RecordsStreamArn": STREAM}
# Two values of each parameter, and a resource that must not be the same with both.
PAIRS = {
    "Policy": ("first-wins", "latest-wins", "InvertImageFunction"),
    "HandleDeletions": ("true", "false", "InvertImageFunction"),
    "InputBucketName": ("", "my-bucket", "WorkFunctionPolicy"),
    "InputBucketVersioning": ("Disabled", "Enabled", "InputBucket"),
    "KeyPrefix": ("", "uploads/", "EventsRule"),
    "KeySuffix": ("", ".jpg", "EventsRule"),
    "OutputBucketName": ("", "my-bucket", "WorkFunctionPolicy"),
    "KmsKeyArn": ("", "arn:aws:kms:us-east-1:123456789012:key/k", "KeyTable"),
    "PermissionsBoundaryArn": ("", "arn:aws:iam::123456789012:policy/b", "EventsRole"),
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
    "AlarmTopicArn": ("", "arn:aws:sns:us-east-1:123456789012:t", "ParkedEventsAlarm"),
    "Dashboard": ("false", "true", "EventsDashboard"),
    "SavedQueries": ("false", "true", "KeyHistoryQuery"),
    "WorkFunctionArn": ("", OWN_FUNCTION, "LatestWinsStateMachine"),
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
    "WorkFunctionRoleName": {"WorkFunctionArn": OWN_FUNCTION},
    "RecordsSourceArns": ADAPT,
    "RecordsStreamArn": ADAPT,
}
POLICIES: list[str] = template()["Parameters"]["Policy"]["AllowedValues"]


def test_every_parameter_has_a_pair() -> None:
    assert set(PAIRS) == set(template()["Parameters"])


@pytest.mark.parametrize("parameter", PAIRS)
def test_a_changed_parameter_changes_what_is_deployed(parameter: str) -> None:
    one, other, resource = PAIRS[parameter]
    before, after = (
        resources_with({**WITH.get(parameter, {}), parameter: value}) for value in (one, other)
    )
    assert before.get(resource) != after.get(resource)


def properties(resources: Json, name: str) -> Json:
    found: Json = resources[name]["Properties"]
    return found


def target_of(resources: Json, rule: str = "EventsRule") -> Json:
    """Give the only target of a rule."""
    [target] = properties(resources, rule)["Targets"]
    found: Json = target
    return found


def machines(resources: Json) -> dict[str, Json]:
    return of_type(resources, "StepFunctions::StateMachine")


def test_another_policy_changes_no_more_than_what_decides_about_new_events() -> None:
    """What runs under the policy before ends by itself: nothing of it is deleted or changed.

    To delete a state machine ends its executions, and some of their events are in no record.
    https://docs.aws.amazon.com/step-functions/latest/apireference/API_DeleteStateMachine.html

    So the other tests of this file need only one policy.
    """
    one, *others = (resources_with({"Policy": policy, **ALL_RESOURCES}) for policy in POLICIES)
    assert len(machines(one)) == len(POLICIES)
    assert target_of(one)["Arn"] in machines(one)
    functions = {f"{name}Function" for name in ("RetryEvents", "HealKeys", "AdaptRecords")}
    changing = functions | {"EventsRule", "InvertImageFunction", "WorkFunctionPolicy"}
    changing |= {f"{name}Role" for name in ("RetryEvents", "AdaptRecords")}
    for other in others:
        assert other.keys() == one.keys()
        assert {name for name in one if one[name] != other[name]} <= changing
        rule = properties(other, "EventsRule")
        assert set(rule) == {"EventPattern", "Targets"}  # without a name, which would replace it
        assert target_of(other)["Arn"] in machines(other)
        assert target_of(other) | {"Arn": target_of(one)["Arn"]} == target_of(one)
        for name in functions:
            environment = properties(other, name)["Environment"]["Variables"]
            assert environment.get("STATE_MACHINE_ARN") in (None, target_of(other)["Arn"])


def test_a_state_machine_invokes_the_functions_that_a_deployment_changes() -> None:
    resources = resources_with(ALL_RESOURCES)
    functions = {f"{name}.Arn" for name in of_type(resources, "Lambda::Function")}
    kinds = {each["Type"] for each in resources.values()}
    assert not kinds & {"AWS::Lambda::Version", "AWS::Lambda::Alias"}
    for machine in machines(resources).values():
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
    assert level in template()["Parameters"]["ExecutionLogLevel"]["AllowedValues"]
    group = {"LogGroupArn": "StateMachineLogGroup.Arn"}
    given = {"ExecutionLogLevel": level, "Tracing": tracing}
    for machine in machines(resources_with(given)).values():
        assert machine["LoggingConfiguration"] == {
            "Level": level,
            "IncludeExecutionData": True,
            "Destinations": [{"CloudWatchLogsLogGroup": group}],
        }
        assert machine["TracingConfiguration"] == {"Enabled": tracing == "true"}


QUALIFIED = [OWN_FUNCTION, f"{OWN_FUNCTION}:7", f"{OWN_FUNCTION}:live"]


@pytest.mark.parametrize("own", QUALIFIED)
def test_an_own_function_is_invoked_alone_and_by_none_that_hashes_the_content(own: str) -> None:
    resources = resources_with({"WorkFunctionArn": own})
    assert "InvertImage" not in json.dumps(resources).replace("InvertImageFunctionArn", "")
    for machine in machines(resources).values():
        invoked = machine["DefinitionSubstitutions"].get("InvertImageFunctionArn")
        granted = json.dumps(resources[machine["RoleArn"].removesuffix(".Arn")]).count(f'"{own}"')
        assert (invoked, granted) in [(own, 1), (None, 0)]


def test_an_own_function_is_named_by_its_arn() -> None:
    assert template()["Outputs"]["InvertImageFunctionName"]["Value"] == {
        "Fn::If": ["ShippedFunction", {"Ref": "InvertImageFunction"}, {"Ref": "WorkFunctionArn"}]
    }
    pattern = template()["Parameters"]["WorkFunctionArn"]["AllowedPattern"]
    assert all(re.fullmatch(pattern, arn) for arn in ("", *QUALIFIED))
    for arn in [
        *("index-documents", "arn:aws:lambda:us-east-1:123456789012:layer:l"),
        "arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:f",
        *(f"{OWN_FUNCTION}{wrong}" for wrong in (":*", ":$LATEST", ":", "\n")),
    ]:
        assert not re.fullmatch(pattern, arn), arn


def test_what_is_retried_waits_in_a_queue_for_as_long_as_it_may() -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html."""
    resources = resources_with({})
    mappings = of_type(resources, "Lambda::EventSourceMapping").values()
    assert [each for each in mappings if each["FunctionName"] == "RetryEventsFunction"] == [
        {
            "FunctionName": "RetryEventsFunction",
            "EventSourceArn": "RetryEventsQueue.Arn",
            "BatchSize": 10,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "ScalingConfig": {"MaximumConcurrency": 5},
        }
    ]
    function, queue = (
        properties(resources, f"RetryEvents{each}") for each in ("Function", "Queue")
    )
    variables = function["Environment"]["Variables"]
    assert variables["STATE_MACHINE_ARN"] == target_of(resources)["Arn"]
    assert "RedrivePolicy" not in queue  # an event that waits long is received often
    assert queue["VisibilityTimeout"] == 6 * function["Timeout"]
    # An event is parked a day before SQS would delete it. If its execution cannot be started, its
    # message is as old as the event's first failure.
    longest = template()["Parameters"]["RetryHours"]["MaxValue"] * 3600
    assert queue["MessageRetentionPeriod"] - longest == 86400


@pytest.mark.parametrize("adapt", ["false", "true"])
def test_each_queue_has_a_policy_of_its_own_and_each_statement_one_resource(adapt: str) -> None:
    """SQS is reported to refuse a statement with two resources; no linter tells."""
    parameters = {"AdaptRecords": adapt, "RecordsSourceArns": "arn:aws:s3:::my-bucket"}
    resources = resources_with(parameters)
    named = []
    for each in of_type(resources, "SQS::QueuePolicy").values():
        [queue] = each["Queues"]
        named.append(queue)
        for statement in each["PolicyDocument"]["Statement"]:
            assert statement["Resource"] == f"{queue}.Arn"
    assert sorted(named) == sorted(of_type(resources, "SQS::Queue"))


def allowed(resources: Json, queue_policy: str) -> list[Json]:
    document = properties(resources, queue_policy)["PolicyDocument"]
    return [each for each in document["Statement"] if each["Effect"] == "Allow"]


def test_undelivered_events_are_accepted_from_any_rule_of_the_account() -> None:
    """So they are from one that a deployment has deleted, for as long as EventBridge tries."""
    resources = resources_with({})
    [statement] = allowed(resources, "UndeliveredEventsQueuePolicy")
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    arns = "arn:aws:events:us-east-1:123456789012:rule/*"
    assert statement["Condition"] == {"ArnLike": {"aws:SourceArn": arns}}
    for rule in ("EventsRule", "RetryEventsRule"):
        queue = target_of(resources, rule)["DeadLetterConfig"]
        assert queue["Arn"] == "UndeliveredEventsQueue.Arn"


def test_the_retry_queue_and_its_function_take_what_the_bus_has_and_from_its_rule_only() -> None:
    resources = resources_with({})
    names = ("RetryEventsRule", "RetryEventsFunctionUnsendable")
    queue, function = (target_of(resources, name) for name in names)
    rule, unsendable = (properties(resources, name) | {"Targets": []} for name in names)
    assert rule == unsendable
    assert rule["EventBusName"] == "RetryEventsBus"
    assert (queue["Arn"], function["Arn"]) == ("RetryEventsQueue.Arn", "RetryEventsFunction.Arn")
    # What state machines send by the bus must come as what they send to the queue.
    assert queue["InputPath"] == "$.detail"
    assert queue["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}
    assert function["RetryPolicy"] == queue["RetryPolicy"]
    [statement] = allowed(resources, "RetryEventsQueuePolicy")
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": "RetryEventsRule.Arn"}}


def test_the_records_queue_accepts_only_the_named_sources() -> None:
    named = "arn:aws:s3:::one,arn:aws:sns:us-east-1:123456789012:two"
    for sources, expected in (("", []), (named, [named.split(",")] * 2)):
        resources = resources_with({**ADAPT, "RecordsSourceArns": sources})
        statements = allowed(resources, "RecordsQueuePolicy")
        found = [each["Condition"]["ArnEquals"]["aws:SourceArn"] for each in statements]
        assert found == expected
    assert "Ref" not in json.dumps(resources)


@pytest.mark.parametrize(
    "minutes", template()["Parameters"]["HealMinutes"]["AllowedValues"], ids=str
)
def test_a_sweep_has_ended_before_the_next_begins(minutes: int) -> None:
    """One minute has another unit: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html."""
    resources = resources_with({"HealMinutes": str(minutes)})
    if not minutes:
        assert not any(name.startswith("HealKeys") for name in resources)
        return
    rule = properties(resources, "HealKeysFunctionSweep")
    assert rule["ScheduleExpression"] == f"rate({minutes} minutes)"
    assert minutes > 1
    target = target_of(resources, "HealKeysFunctionSweep")
    assert target["Arn"] == "HealKeysFunction.Arn"
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    invocation = properties(resources, "HealKeysFunctionEventInvokeConfig")
    assert invocation["MaximumRetryAttempts"] == 0
    function = properties(resources, "HealKeysFunction")
    assert invocation["MaximumEventAgeInSeconds"] + function["Timeout"] < minutes * 60
    assert "ReservedConcurrentExecutions" not in function


def test_what_holds_data_is_kept_when_the_stack_is_deleted() -> None:
    """RetainExceptOnCreate keeps nothing of a stack whose creation failed.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html
    """
    hold_data = {"AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::SQS::Queue"}
    kept = {
        name: (each.get("DeletionPolicy"), each.get("UpdateReplacePolicy"))
        for name, each in resources_with(ALL_RESOURCES).items()
        if each["Type"] in hold_data
    }
    assert len(kept) == 9
    assert set(kept.values()) == {("RetainExceptOnCreate", "Retain")}


def test_no_parameter_but_minimal_removes_a_queue_the_table_or_a_bus() -> None:
    """What waits in a queue would wait in vain, and a bus with a consumer's rule cannot be deleted.

    https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_DeleteEventBus.html
    """
    kinds = {"AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::DynamoDB::Table"}
    kinds |= {"AWS::Events::EventBus", "AWS::Events::Rule"}
    held = {name for name, each in template()["Resources"].items() if each["Type"] in kinds}
    for parameter, (_, other, _) in PAIRS.items():
        if parameter != "Minimal":
            given = {**WITH.get(parameter, {}), parameter: other}
            assert held <= resources_with(given).keys(), parameter


def alarms(parameters: dict[str, str]) -> dict[str, Json]:
    """List the alarms before a loss by the queues and functions that they watch."""
    found = {}
    for alarm in of_type(resources_with(parameters), "CloudWatch::Alarm").values():
        [dimension] = alarm["Dimensions"]
        found[dimension["Value"].removesuffix(f".{dimension['Name']}")] = alarm
    return found


@pytest.mark.parametrize("parameters", [{}, ADAPT], ids=str)
def test_each_queue_has_an_alarm_on_the_age_of_its_oldest_message(
    parameters: dict[str, str],
) -> None:
    resources, found = resources_with(parameters), alarms(parameters)
    for name, queue in of_type(resources, "SQS::Queue").items():
        alarm = found[name]
        metric = (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"])
        assert metric == ("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum")
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert alarm["TreatMissingData"] == "notBreaching"  # an empty queue has no metric
        # Four days are left, or three if the message came from another queue.
        before = [
            found[other]["Threshold"]
            for other, each in resources.items()
            if name in json.dumps(each["Properties"].get("RedrivePolicy"))
        ]
        left = queue["MessageRetentionPeriod"] - alarm["Threshold"] - sum(before)
        assert left >= (3 if before else 4) * 86400


@pytest.mark.parametrize("parameters", [{}, ALL_RESOURCES], ids=str)
def test_an_alarm_tells_that_a_function_fails_that_events_wait_for(
    parameters: dict[str, str],
) -> None:
    """A message that is received three times no longer counts for the age of the oldest.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    """
    waited_for = {"RetryEventsFunction", "HealKeysFunction", "AdaptRecordsFunction"}
    waited_for &= of_type(resources_with(parameters), "Lambda::Function").keys()
    found = {
        name: (each["Namespace"], each["MetricName"], each["Period"] * each["EvaluationPeriods"])
        for name, each in alarms(parameters).items()
        if name.endswith("Function")
    }
    assert found == dict.fromkeys(waited_for, ("AWS/Lambda", "Errors", 3 * 3600))


def test_an_alarm_reaches_the_address_and_the_topic_and_no_other_account_can_use_it() -> None:
    """https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html."""
    topic = PAIRS["AlarmTopicArn"][1]
    for given, told in [
        ({}, None),
        (MAIL, ["AlarmTopic"]),
        ({"AlarmTopicArn": topic}, [topic]),
        ({**MAIL, "AlarmTopicArn": topic}, ["AlarmTopic", topic]),
    ]:
        assert ("AlarmTopic" in resources_with({**ADAPT, **given})) == ("AlarmEmail" in given)
        assert all(each.get("AlarmActions") == told for each in alarms({**ADAPT, **given}).values())
    resources = resources_with({**ADAPT, **MAIL})
    subscription = {"TopicArn": "AlarmTopic", "Protocol": "email", "Endpoint": "me@example.com"}
    assert properties(resources, "AlarmSubscription") == subscription
    policy = properties(resources, "AlarmTopicPolicy")
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
    resources = resources_with(ALL_RESOURCES)
    queue = properties(resources, "RecordsQueue")
    receives = queue["RedrivePolicy"]["maxReceiveCount"]
    assert receives <= 1000
    hours = receives * queue["VisibilityTimeout"] / 3600
    assert hours > target_of(resources)["RetryPolicy"]["MaximumEventAgeInSeconds"] / 3600 == 24
    stream = properties(resources, "AdaptRecordsStreamMapping")
    assert "MaximumRetryAttempts" not in stream
    assert stream["MaximumRecordAgeInSeconds"] == 23 * 3600
    mapping = properties(resources, "AdaptRecordsFunctionRecords")
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 10}


def test_a_function_that_a_retried_event_comes_back_to_may_be_part_of_a_loop() -> None:
    """Lambda drops an event that comes to a function about 16 times in a chain, where it sees that.

    https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
    """
    for name, each in of_type(resources_with(ALL_RESOURCES), "Lambda::Function").items():
        outside = name in {"HealKeysFunction", "AdaptRecordsFunction"}  # nothing comes back to them
        assert each.get("RecursiveLoop") == (None if outside else "Allow"), name


def test_each_variable_of_a_function_is_text() -> None:
    """CloudFormation turns a number into text; a local AWS hands it to the process as it is."""
    functions = of_type(template()["Resources"], "Serverless::Function").values()
    variables = [each["Environment"]["Variables"] for each in functions]
    assert [value for each in variables for value in each.values() if isinstance(value, int)] == []


def test_a_region_of_another_partition_is_refused() -> None:
    """The state machines name integrations of the partition aws, and each task fails in others.

    AWS documents `Ref` in rules; of pseudo parameters, AWS::Region is known to work there:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html
    """
    [assertion] = template()["Rules"]["Partition"]["Assertions"]
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
    arns = [each.get("AllowedPattern", "") for each in template()["Parameters"].values()]
    assert [each for each in arns if "arn:" in each] == [
        each for each in arns if each.startswith("^$|^arn:aws:")
    ]


def test_a_stream_needs_the_function_that_adapts_records() -> None:
    of_stream = {"AdaptRecordsStreamMapping", "UnadaptedRecordsBucket"}
    for adapt in ("true", "false"):
        for stream in (STREAM, ""):
            given = {"AdaptRecords": adapt, "RecordsStreamArn": stream}
            expected = of_stream if adapt == "true" and stream else set()
            assert of_stream & resources_with(given).keys() == expected


def test_the_input_bucket_sends_its_events_to_eventbridge_and_has_versions_if_they_are_chosen() -> (
    None
):
    for versioning in ("Disabled", "Enabled", "Suspended"):
        bucket = resources_with({"InputBucketVersioning": versioning})["InputBucket"]["Properties"]
        configuration = {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
        assert bucket["NotificationConfiguration"] == configuration
        status = bucket.get("VersioningConfiguration", {}).get("Status", "Disabled")
        assert status == versioning


def test_the_documents_say_which_parameters_are_deployed_and_which_only_transformed() -> None:
    text = (PROJECT / "docs" / "parameters.md").read_text(encoding="utf-8")
    section = text.partition("\n## What is deployed in tests\n")[2]
    deployed = set()
    for file, cell in re.findall(r"^\| \[`.+`\]\(\.\./(.+)\) \| (.+) \|$", section, re.MULTILINE):
        source = (PROJECT / file).read_text(encoding="utf-8")
        assert re.search(r"\bdeploy\(|AWS::Serverless::Application", source)
        names = re.findall(r"`(\w+)`", cell)
        assert [each for each in names if not re.search(rf'\b{each}(": |:|=)', source)] == []
        deployed |= set(names)
    [only] = re.findall(r"^Only transformed: (.+)$", section, re.MULTILINE)
    transformed = set(re.findall(r"`(\w+)`", only))
    assert deployed | transformed == set(PAIRS)
    assert not deployed & transformed
