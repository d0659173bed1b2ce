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

from inorder.model.policies import definition, like
from inorder.resolved_template import Json, of_type, resources_with, template

OWN_FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:index-documents"
# Two values of each parameter, and a resource that must not be the same with both.
PAIRS = {
    "Policy": ("first-wins", "latest-wins", "InvertImageFunction"),
    "HandleDeletions": ("true", "false", "InvertImageFunction"),
    "InputBucketName": ("", "my-bucket", "InvertImageRole"),
    "InputBucketVersioning": ("Disabled", "Enabled", "InputBucket"),
    "ContentSources": ("aws.s3", "com.example", "EventsRule"),
    "RecordRetentionDays": ("7", "30", "InvertImageFunction"),
    "RetryHours": ("24", "0", "RetryEventsFunction"),
    "HealMinutes": ("15", "0", "HealKeysFunction"),
    "ExecutionLogLevel": ("ALL", "OFF", "LatestWinsStateMachine"),
    "LogRetentionDays": ("14", "30", "StateMachineLogGroup"),
    "Tracing": ("false", "true", "LatestWinsStateMachine"),
    "Alarms": ("loss", "none", "ParkedEventsAlarm"),
    "AlarmEmail": ("", "me@example.com", "ParkedEventsAlarm"),
    "Dashboard": ("false", "true", "EventsDashboard"),
    "SavedQueries": ("false", "true", "KeyHistoryQuery"),
    "WorkFunctionArn": ("", OWN_FUNCTION, "LatestWinsStateMachine"),
    "FunctionMemorySize": ("1769", "3000", "InvertImageFunction"),
    "MaximumPixels": ("30000000", "1000", "InvertImageFunction"),
    "AdaptRecords": ("false", "true", "AdaptRecordsFunction"),
    "RecordsSourceArns": ("", "arn:aws:s3:::my-bucket", "RecordsQueuePolicy"),
    "RecordsStreamArn": (
        "",
        "arn:aws:kinesis:us-east-1:123456789012:stream/s",
        "AdaptRecordsStreamMapping",
    ),
    "SlowMark": ("", "slow", "InvertImageFunction"),
    "SlowSeconds": ("0", "2", "InvertImageFunction"),
}
WITH = {
    "ContentSources": {"Policy": "content-hash"},
    "RecordsSourceArns": {"AdaptRecords": "true"},
    "RecordsStreamArn": {"AdaptRecords": "true"},
}
MACHINE = "StepFunctions::StateMachine"
POLICIES: list[str] = template()["Parameters"]["Policy"]["AllowedValues"]


def test_every_parameter_has_a_pair() -> None:
    assert set(PAIRS) == set(template()["Parameters"])


@pytest.mark.parametrize("parameter", PAIRS)
def test_a_changed_parameter_changes_what_is_deployed(parameter: str) -> None:
    one, other, resource = PAIRS[parameter]
    others = WITH.get(parameter, {})
    before = resources_with({**others, parameter: one})
    after = resources_with({**others, parameter: other})
    assert before.get(resource) != after.get(resource)


def state_machine(resources: Json) -> Json:
    """Give the state machine of the policy."""
    [target] = resources["EventsRule"]["Properties"]["Targets"]
    machine: Json = of_type(resources, MACHINE)[target["Arn"]]
    return machine


@pytest.mark.parametrize("policy", POLICIES)
def test_the_state_machine_invokes_the_function_that_a_deployment_changes(policy: str) -> None:
    resources = resources_with({"Policy": policy, "AdaptRecords": "true"})
    functions = {f"{name}.Arn" for name in of_type(resources, "Lambda::Function")}
    kinds = {each["Type"] for each in resources.values()}
    assert not kinds & {"AWS::Lambda::Version", "AWS::Lambda::Alias"}
    given = state_machine(resources)["DefinitionSubstitutions"].items()
    invoked = {value for name, value in given if name.endswith("FunctionArn")}
    assert invoked
    assert invoked <= functions


@pytest.mark.parametrize("policy", POLICIES)
def test_a_state_machine_is_logged_and_traced_as_the_parameters_say(policy: str) -> None:
    """At OFF the log's destination may stay, but must not be an empty list.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachine-loggingconfiguration.html

    The property for traces is there with either value, so an update switches tracing off, too. No
    document says that an update without the property does that:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachine-tracingconfiguration.html
    """
    group = {"LogGroupArn": "StateMachineLogGroup.Arn"}
    for level in template()["Parameters"]["ExecutionLogLevel"]["AllowedValues"]:
        machine = state_machine(resources_with({"Policy": policy, "ExecutionLogLevel": level}))
        assert machine["LoggingConfiguration"] == {
            "Level": level,
            "IncludeExecutionData": True,
            "Destinations": [{"CloudWatchLogsLogGroup": group}],
        }
    for tracing in ("false", "true"):
        machine = state_machine(resources_with({"Policy": policy, "Tracing": tracing}))
        assert machine["TracingConfiguration"] == {"Enabled": tracing == "true"}


# --- Your own function ----------------------------------------------------------------------------

INVOKING = [policy for policy in POLICIES if policy not in like("content-hash")]
QUALIFIED = [OWN_FUNCTION, f"{OWN_FUNCTION}:7", f"{OWN_FUNCTION}:live"]


@pytest.mark.parametrize("own", QUALIFIED)
@pytest.mark.parametrize("policy", INVOKING)
def test_with_an_own_function_a_policy_invokes_it_alone(policy: str, own: str) -> None:
    """The role names the ARN as it is: IAM tells a function from its versions and aliases.

    https://docs.aws.amazon.com/lambda/latest/dg/lambda-api-permissions-ref.html
    """
    resources = resources_with({"Policy": policy, "WorkFunctionArn": own})
    machine = state_machine(resources)
    assert machine["DefinitionSubstitutions"]["InvertImageFunctionArn"] == own
    role = resources[machine["RoleArn"].removesuffix(".Arn")]["Properties"]
    [document] = [each["PolicyDocument"] for each in role["Policies"]]
    assert [
        statement["Resource"]
        for statement in document["Statement"]
        if statement["Action"] == "lambda:InvokeFunction"
    ] == [own]
    assert not [name for name in resources if name.startswith("InvertImage")]
    assert "InvertImage" not in json.dumps(resources).replace("InvertImageFunctionArn", "")


def test_the_outputs_name_an_own_function_and_content_hash_invokes_none() -> None:
    name = template()["Outputs"]["InvertImageFunctionName"]["Value"]
    assert name == {
        "Fn::If": ["ShippedFunction", {"Ref": "InvertImageFunction"}, {"Ref": "WorkFunctionArn"}]
    }
    resources = resources_with({"Policy": "content-hash", "WorkFunctionArn": OWN_FUNCTION})
    machine = state_machine(resources)
    role = resources[machine["RoleArn"].removesuffix(".Arn")]
    assert OWN_FUNCTION not in json.dumps([machine, role])


def test_an_own_function_is_named_by_its_arn_and_a_switch_of_policy_reaches_the_shipped_one() -> (
    None
):
    pattern = template()["Parameters"]["WorkFunctionArn"]["AllowedPattern"]
    assert all(re.fullmatch(pattern, arn) for arn in ("", *QUALIFIED))
    for arn in [
        *("index-documents", "arn:aws:lambda:us-east-1:123456789012:layer:l"),
        "arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:f",
        *(f"{OWN_FUNCTION}{wrong}" for wrong in (":*", ":$LATEST", ":", "\n")),
    ]:
        assert not re.fullmatch(pattern, arn), arn
    for policy, handles in (("first-wins", "false"), ("latest-wins", "true")):
        function = resources_with({"Policy": policy})["InvertImageFunction"]["Properties"]
        assert function["Environment"]["Variables"]["HANDLES_DELETIONS"] == handles


# --- Retries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_retries_and_sweeps_because_the_one_before_may_have_left_events(
    policy: str,
) -> None:
    resources = resources_with({"Policy": policy})
    of_retries = {name for name in resources if name.startswith("RetryEvents")}
    assert "HealKeysFunction" in resources
    [mapping] = of_retries - {
        *(f"RetryEvents{part}" for part in ("Queue", "QueuePolicy", "Bus", "Rule", "Alarm")),
        *(f"RetryEvents{part}" for part in ("Function", "Role", "LogGroup", "ErrorsAlarm")),
        *(f"RetryEventsFunctionUnsendable{part}" for part in ("", "Permission")),
    }
    assert resources[mapping]["Properties"] == {
        "FunctionName": "RetryEventsFunction",
        "EventSourceArn": "RetryEventsQueue.Arn",
        "BatchSize": 10,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": 5},
    }
    function = resources["RetryEventsFunction"]["Properties"]
    [target] = resources["EventsRule"]["Properties"]["Targets"]
    assert function["Environment"]["Variables"]["STATE_MACHINE_ARN"] == target["Arn"]
    queue = resources["RetryEventsQueue"]["Properties"]
    assert "RedrivePolicy" not in queue  # an event that waits long is received often
    # https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
    assert queue["VisibilityTimeout"] == 6 * function["Timeout"]
    # An event is parked a day before SQS would delete it. If its execution cannot be started, its
    # message is as old as the event's first failure.
    longest = template()["Parameters"]["RetryHours"]["MaxValue"] * 3600
    assert queue["MessageRetentionPeriod"] - longest == 86400


# --- Queue policies -----------------------------------------------------------------------------


@pytest.mark.parametrize("adapt", ["false", "true"])
def test_each_queue_has_a_policy_of_its_own_and_each_statement_one_resource(adapt: str) -> None:
    """SQS is reported to refuse a statement with two resources; no linter tells."""
    for policy in POLICIES:
        parameters = {"AdaptRecords": adapt, "RecordsSourceArns": "arn:aws:s3:::my-bucket"}
        resources = resources_with({"Policy": policy, **parameters})
        named = []
        for each in of_type(resources, "SQS::QueuePolicy").values():
            [queue] = each["Queues"]
            named.append(queue)
            for statement in each["PolicyDocument"]["Statement"]:
                assert statement["Resource"] == f"{queue}.Arn"
        assert sorted(named) == sorted(of_type(resources, "SQS::Queue"))


def allowed(resources: Json, queue_policy: str) -> list[Json]:
    document = resources[queue_policy]["Properties"]["PolicyDocument"]
    return [each for each in document["Statement"] if each["Effect"] == "Allow"]


@pytest.mark.parametrize("policy", POLICIES)
def test_undelivered_events_are_accepted_from_any_rule_of_the_account(policy: str) -> None:
    """So they are from one that a deployment has deleted, for as long as EventBridge tries."""
    resources = resources_with({"Policy": policy})
    [statement] = allowed(resources, "UndeliveredEventsQueuePolicy")
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    arns = "arn:aws:events:us-east-1:123456789012:rule/*"
    assert statement["Condition"] == {"ArnLike": {"aws:SourceArn": arns}}
    for rule in ("EventsRule", "RetryEventsRule"):
        [target] = resources[rule]["Properties"]["Targets"]
        assert target["DeadLetterConfig"]["Arn"] == "UndeliveredEventsQueue.Arn"


def test_the_retry_queue_and_its_function_take_what_the_bus_has_and_from_its_rule_only() -> None:
    resources = resources_with({})
    rule, unsendable = (
        resources[name]["Properties"]
        for name in ("RetryEventsRule", "RetryEventsFunctionUnsendable")
    )
    assert rule["EventBusName"] == "RetryEventsBus"
    [queue], [function] = rule.pop("Targets"), unsendable.pop("Targets")
    assert rule == unsendable
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
        resources = resources_with({"AdaptRecords": "true", "RecordsSourceArns": sources})
        statements = allowed(resources, "RecordsQueuePolicy")
        found = [each["Condition"]["ArnEquals"]["aws:SourceArn"] for each in statements]
        assert found == expected
    assert "Ref" not in json.dumps(resources)


# --- The schedule that heals keys -----------------------------------------------------------------


def test_a_sweep_has_ended_before_the_next_begins() -> None:
    """One minute has another unit: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html."""
    for minutes in template()["Parameters"]["HealMinutes"]["AllowedValues"]:
        resources = resources_with({"HealMinutes": str(minutes)})
        assert any(name.startswith("HealKeys") for name in resources) == (minutes > 0)
        if not minutes:
            continue
        rule = resources["HealKeysFunctionSweep"]["Properties"]
        assert rule["ScheduleExpression"] == f"rate({minutes} minutes)"
        assert minutes > 1
        [target] = rule["Targets"]
        assert target["Arn"] == "HealKeysFunction.Arn"
        assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
        invocation = resources["HealKeysFunctionEventInvokeConfig"]["Properties"]
        assert invocation["MaximumRetryAttempts"] == 0
        function = resources["HealKeysFunction"]["Properties"]
        assert invocation["MaximumEventAgeInSeconds"] + function["Timeout"] < minutes * 60
        assert "ReservedConcurrentExecutions" not in function


# --- Data outlives the stack ----------------------------------------------------------------------

HOLD_DATA = {"AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::SQS::Queue"}
ALL_RESOURCES = {"AdaptRecords": "true", "RecordsStreamArn": PAIRS["RecordsStreamArn"][1]}


@pytest.mark.parametrize("policy", POLICIES)
def test_what_holds_data_is_kept_when_the_stack_is_deleted(policy: str) -> None:
    """RetainExceptOnCreate keeps nothing of a stack whose creation failed.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html
    """
    kept = {
        name: (each.get("DeletionPolicy"), each.get("UpdateReplacePolicy"))
        for name, each in resources_with({"Policy": policy, **ALL_RESOURCES}).items()
        if each["Type"] in HOLD_DATA
    }
    assert len(kept) == 9
    assert set(kept.values()) == {("RetainExceptOnCreate", "Retain")}


def test_no_parameter_replaces_a_queue_the_table_or_a_bus() -> None:
    """What waits in a queue would wait in vain, and a bus with a consumer's rule cannot be deleted.

    https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_DeleteEventBus.html
    """
    kinds = {"AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::DynamoDB::Table"}
    kinds |= {"AWS::Events::EventBus", "AWS::Events::Rule"}
    for name, each in template()["Resources"].items():
        if each["Type"] in kinds:
            assert "Condition" not in each, name


def test_another_policy_deletes_nothing_so_that_what_runs_under_the_one_before_ends_by_itself() -> (
    None
):
    """To delete a state machine ends its executions, and some of their events are in no record.

    https://docs.aws.amazon.com/step-functions/latest/apireference/API_DeleteStateMachine.html
    """
    deployed = [resources_with({"Policy": policy}) for policy in POLICIES]
    machines = set(of_type(deployed[0], MACHINE))
    assert len(machines) == len(POLICIES)
    assert {frozenset(resources) for resources in deployed} == {frozenset(deployed[0])}
    changed = {"Arn"}  # of the rule's target
    for resources in deployed:
        rule = resources["EventsRule"]["Properties"]
        assert set(rule) == {"EventPattern", "Targets"}  # without a name, which would replace it
        [target] = rule["Targets"]
        [other] = deployed[0]["EventsRule"]["Properties"]["Targets"]
        assert {name for name in target if target[name] != other[name]} <= changed
        assert target["Arn"] in machines


# --- A message that would expire is noticed before ------------------------------------------------


def alarms(parameters: dict[str, str]) -> dict[str, Json]:
    """List the alarms before a loss by the queues and functions that they watch."""
    found = {}
    for alarm in of_type(resources_with(parameters), "CloudWatch::Alarm").values():
        [dimension] = alarm["Dimensions"]
        found[dimension["Value"].removesuffix(f".{dimension['Name']}")] = alarm
    return found


@pytest.mark.parametrize("adapt", ["false", "true"])
def test_each_queue_has_an_alarm_on_the_age_of_its_oldest_message(adapt: str) -> None:
    resources = resources_with({"AdaptRecords": adapt})
    expiry = {
        name: queue["MessageRetentionPeriod"]
        for name, queue in of_type(resources, "SQS::Queue").items()
    }
    found = alarms({"AdaptRecords": adapt})
    for queue, seconds in expiry.items():
        alarm = found[queue]
        metric = (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"])
        assert metric == ("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum")
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert alarm["TreatMissingData"] == "notBreaching"  # an empty queue has no metric
        # Four days are left, or three if the message came from another queue.
        before = [
            found[name]["Threshold"]
            for name, each in resources.items()
            if queue in json.dumps(each["Properties"].get("RedrivePolicy"))
        ]
        left = seconds - alarm["Threshold"] - sum(before)
        assert left >= (3 if before else 4) * 86400


@pytest.mark.parametrize("parameters", [{}, ALL_RESOURCES, {"Policy": "uncoordinated"}], ids=str)
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


# --- S3 events that come by SQS, SNS or Kinesis ---------------------------------------------------


def test_an_outage_that_eventbridge_survives_gives_up_no_notification() -> None:
    """SQS allows 1000 receives; a stream keeps its records for 24 hours, if nobody says otherwise.

    https://docs.aws.amazon.com/streams/latest/dev/kinesis-extended-retention.html
    """
    resources = resources_with(ALL_RESOURCES)
    queue = resources["RecordsQueue"]["Properties"]
    [target] = resources["EventsRule"]["Properties"]["Targets"]
    receives = queue["RedrivePolicy"]["maxReceiveCount"]
    assert receives <= 1000
    hours = receives * queue["VisibilityTimeout"] / 3600
    assert hours > target["RetryPolicy"]["MaximumEventAgeInSeconds"] / 3600 == 24
    stream = resources["AdaptRecordsStreamMapping"]["Properties"]
    assert "MaximumRetryAttempts" not in stream
    assert stream["MaximumRecordAgeInSeconds"] == 23 * 3600
    mapping = resources["AdaptRecordsFunctionRecords"]["Properties"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 10}


# --- Loops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_a_function_that_a_retried_event_comes_back_to_may_be_part_of_a_loop(policy: str) -> None:
    """Lambda drops an event that comes to a function about 16 times in a chain, where it sees that.

    https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
    """
    functions = of_type(resources_with({"Policy": policy, **ALL_RESOURCES}), "Lambda::Function")
    for name, each in functions.items():
        outside = name in {"HealKeysFunction", "AdaptRecordsFunction"}  # nothing comes back to them
        assert each.get("RecursiveLoop") == (None if outside else "Allow"), name


# --- Partitions -----------------------------------------------------------------------------------


def test_a_region_of_another_partition_is_refused() -> None:
    """The state machines name integrations of the partition aws, and each task fails in others.

    AWS documents `Ref` in rules; of pseudo parameters, AWS::Region is known to work there:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html
    """
    [rule] = template()["Rules"].values()
    [assertion] = rule["Assertions"]
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


def test_an_alarm_sends_a_mail_if_there_is_an_address_and_no_other_account_can() -> None:
    """https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html."""
    assert "AlarmTopic" not in resources_with({})
    assert not any("AlarmActions" in each for each in alarms({"AdaptRecords": "true"}).values())
    parameters = {"AdaptRecords": "true", "AlarmEmail": "me@example.com"}
    assert {str(each["AlarmActions"]) for each in alarms(parameters).values()} == {"['AlarmTopic']"}
    resources = resources_with(parameters)
    subscription = {"TopicArn": "AlarmTopic", "Protocol": "email", "Endpoint": "me@example.com"}
    assert resources["AlarmSubscription"]["Properties"] == subscription
    policy = resources["AlarmTopicPolicy"]["Properties"]
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


def test_each_variable_of_a_function_is_text() -> None:
    """CloudFormation turns a number into text; a local AWS hands it to the process as it is."""
    functions = of_type(template()["Resources"], "Serverless::Function").values()
    variables = [each["Environment"]["Variables"] for each in functions]
    assert [value for each in variables for value in each.values() if isinstance(value, int)] == []
