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

from inorder.policies import definition, like
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
    machine = state_machine(resources)
    invoked = {
        value
        for name, value in machine["DefinitionSubstitutions"].items()
        if name.endswith("FunctionArn")
    }
    assert invoked
    assert invoked <= functions


@pytest.mark.parametrize("level", template()["Parameters"]["ExecutionLogLevel"]["AllowedValues"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_log_has_its_level_and_the_data_of_the_executions(policy: str, level: str) -> None:
    """At OFF the destination may stay, but must not be an empty list.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachine-loggingconfiguration.html
    """
    resources = resources_with({"Policy": policy, "ExecutionLogLevel": level})
    group = {"LogGroupArn": "StateMachineLogGroup.Arn"}
    assert state_machine(resources)["LoggingConfiguration"] == {
        "Level": level,
        "IncludeExecutionData": True,
        "Destinations": [{"CloudWatchLogsLogGroup": group}],
    }


@pytest.mark.parametrize("tracing", ["false", "true"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_state_machine_is_traced_or_not_as_the_parameter_says(policy: str, tracing: str) -> None:
    """The property is there with either value, so an update switches tracing off, too.

    An update needs no interruption, but no document says that one without the property does that:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachine-tracingconfiguration.html
    """
    resources = resources_with({"Policy": policy, "Tracing": tracing})
    assert state_machine(resources)["TracingConfiguration"] == {"Enabled": tracing == "true"}


def environment(parameters: dict[str, str]) -> Json:
    function = resources_with(parameters)["InvertImageFunction"]
    variables: Json = function["Properties"]["Environment"]["Variables"]
    return variables


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


def test_with_an_own_function_the_outputs_name_it() -> None:
    name = template()["Outputs"]["InvertImageFunctionName"]["Value"]
    assert name == {
        "Fn::If": ["ShippedFunction", {"Ref": "InvertImageFunction"}, {"Ref": "WorkFunctionArn"}]
    }


def test_content_hash_invokes_no_function_of_ones_own() -> None:
    resources = resources_with({"Policy": "content-hash", "WorkFunctionArn": OWN_FUNCTION})
    machine = state_machine(resources)
    role = resources[machine["RoleArn"].removesuffix(".Arn")]
    assert OWN_FUNCTION not in json.dumps([machine, role])


@pytest.mark.parametrize(
    ("arn", "is_allowed"),
    [
        ("", True),
        *((each, True) for each in QUALIFIED),
        ("arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:f", False),
        ("index-documents", False),
        (f"{OWN_FUNCTION}:*", False),
        (f"{OWN_FUNCTION}:$LATEST", False),
        (f"{OWN_FUNCTION}:", False),
        ("arn:aws:lambda:us-east-1:123456789012:layer:l", False),
        (f"{OWN_FUNCTION}\n", False),
    ],
)
def test_an_own_function_is_named_by_its_arn(arn: str, is_allowed: bool) -> None:
    pattern = template()["Parameters"]["WorkFunctionArn"]["AllowedPattern"]
    assert bool(re.fullmatch(pattern, arn)) is is_allowed


@pytest.mark.parametrize(
    ("policy", "handles_deletions"), [("first-wins", "false"), ("latest-wins", "true")]
)
def test_a_switch_of_policy_reaches_the_function(policy: str, handles_deletions: str) -> None:
    assert environment({"Policy": policy})["HANDLES_DELETIONS"] == handles_deletions


# --- Retries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_retries_and_sweeps_because_the_one_before_may_have_left_events(
    policy: str,
) -> None:
    resources = resources_with({"Policy": policy})
    kept = {f"RetryEvents{part}" for part in ("Queue", "QueuePolicy", "Bus", "Rule", "Alarm")}
    of_retries = {name for name in resources if name.startswith("RetryEvents")}
    assert "HealKeysFunction" in resources
    [mapping] = of_retries - {
        *kept,
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
    variables = function["Environment"]["Variables"]
    [target] = resources["EventsRule"]["Properties"]["Targets"]
    assert variables["STATE_MACHINE_ARN"] == target["Arn"]
    queue = resources["RetryEventsQueue"]["Properties"]
    assert "RedrivePolicy" not in queue  # an event that waits long is received often
    # https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
    assert queue["VisibilityTimeout"] == 6 * function["Timeout"]


def test_an_event_is_parked_a_day_before_sqs_would_delete_it() -> None:
    """If its execution cannot be started, its message is as old as the event's first failure."""
    retention = resources_with({})["RetryEventsQueue"]["Properties"]["MessageRetentionPeriod"]
    longest = template()["Parameters"]["RetryHours"]["MaxValue"] * 3600
    assert retention - longest == 86400


# --- Queue policies -----------------------------------------------------------------------------


@pytest.mark.parametrize("adapt", ["false", "true"])
@pytest.mark.parametrize("policy", POLICIES)
def test_each_queue_has_a_policy_of_its_own_and_each_statement_one_resource(
    policy: str, adapt: str
) -> None:
    """SQS is reported to refuse a statement with two resources; no linter tells."""
    sources = "arn:aws:s3:::my-bucket"
    resources = resources_with(
        {"Policy": policy, "AdaptRecords": adapt, "RecordsSourceArns": sources}
    )
    named = []
    for each in of_type(resources, "SQS::QueuePolicy").values():
        [queue] = each["Queues"]
        named.append(queue)
        for statement in each["PolicyDocument"]["Statement"]:
            assert statement["Resource"] == f"{queue}.Arn"
    assert sorted(named) == sorted(of_type(resources, "SQS::Queue"))


@pytest.mark.parametrize("policy", POLICIES)
def test_undelivered_events_are_accepted_from_any_rule_of_the_account(policy: str) -> None:
    """So they are from one that a deployment has deleted, for as long as EventBridge tries."""
    resources = resources_with({"Policy": policy})
    statements = resources["UndeliveredEventsQueuePolicy"]["Properties"]["PolicyDocument"]
    [allowed] = [each for each in statements["Statement"] if each["Effect"] == "Allow"]
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    arns = "arn:aws:events:us-east-1:123456789012:rule/*"
    assert allowed["Condition"] == {"ArnLike": {"aws:SourceArn": arns}}
    [target] = resources["EventsRule"]["Properties"]["Targets"]
    [of_retries] = resources["RetryEventsRule"]["Properties"]["Targets"]
    for each in (target, of_retries):
        assert each["DeadLetterConfig"]["Arn"] == "UndeliveredEventsQueue.Arn"


def test_the_function_that_retries_gets_all_that_the_bus_has_for_the_retry_queue() -> None:
    resources = resources_with({})
    rules = [
        resources[name]["Properties"]
        for name in ("RetryEventsRule", "RetryEventsFunctionUnsendable")
    ]
    [queue, function] = [rule.pop("Targets")[0] for rule in rules]
    assert rules[0] == rules[1]
    assert function["Arn"] == "RetryEventsFunction.Arn"
    assert function["RetryPolicy"] == queue["RetryPolicy"]


def test_the_retry_queue_takes_what_the_bus_has_from_its_rule_only() -> None:
    resources = resources_with({})
    rule = resources["RetryEventsRule"]["Properties"]
    assert rule["EventBusName"] == "RetryEventsBus"
    [target] = rule["Targets"]
    assert target["Arn"] == "RetryEventsQueue.Arn"
    # What state machines send by the bus must come as what they send to the queue.
    assert target["InputPath"] == "$.detail"
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}
    document = resources["RetryEventsQueuePolicy"]["Properties"]["PolicyDocument"]
    [allowed] = [each for each in document["Statement"] if each["Effect"] == "Allow"]
    assert allowed["Condition"] == {"ArnEquals": {"aws:SourceArn": "RetryEventsRule.Arn"}}


def test_the_records_queue_accepts_only_the_named_sources() -> None:
    named = "arn:aws:s3:::one,arn:aws:sns:us-east-1:123456789012:two"
    for sources, allowed in (("", []), (named, [named.split(",")] * 2)):
        resources = resources_with({"AdaptRecords": "true", "RecordsSourceArns": sources})
        document = resources["RecordsQueuePolicy"]["Properties"]["PolicyDocument"]
        assert [
            each["Condition"]["ArnEquals"]["aws:SourceArn"]
            for each in document["Statement"]
            if each["Effect"] == "Allow"
        ] == allowed
    assert "Ref" not in json.dumps(resources)


# --- The schedule that heals keys -----------------------------------------------------------------

MINUTES = template()["Parameters"]["HealMinutes"]["AllowedValues"]


@pytest.mark.parametrize("minutes", MINUTES)
def test_a_sweep_has_ended_before_the_next_begins(minutes: int) -> None:
    """One minute has another unit: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html."""
    resources = resources_with({"HealMinutes": str(minutes)})
    healing = [name for name in resources if name.startswith("HealKeys")]
    assert bool(healing) == (minutes > 0)
    if not healing:
        return
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


def test_an_alarm_sends_a_mail_if_there_is_an_address() -> None:
    assert "AlarmTopic" not in resources_with({})
    assert not any("AlarmActions" in each for each in alarms({"AdaptRecords": "true"}).values())
    parameters = {"AdaptRecords": "true", "AlarmEmail": "me@example.com"}
    assert {str(each["AlarmActions"]) for each in alarms(parameters).values()} == {"['AlarmTopic']"}
    subscription = resources_with(parameters)["AlarmSubscription"]["Properties"]
    assert subscription == {
        "TopicArn": "AlarmTopic",
        "Protocol": "email",
        "Endpoint": "me@example.com",
    }


def test_alarms_of_this_account_alone_may_publish_to_the_topic() -> None:
    """https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html."""
    resources = resources_with({"AlarmEmail": "me@example.com"})
    policy = resources["AlarmTopicPolicy"]["Properties"]
    assert policy["Topics"] == ["AlarmTopic"]
    denied, allowed = policy["PolicyDocument"]["Statement"]
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert allowed == {
        "Sid": "FromAlarms",
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": "AlarmTopic",
        "Condition": {
            "ArnLike": {"aws:SourceArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:*"}
        },
    }


def test_each_variable_of_a_function_is_text() -> None:
    """CloudFormation turns a number into text; a local AWS hands it to the process as it is."""
    functions = of_type(template()["Resources"], "Serverless::Function").values()
    variables = [each["Environment"]["Variables"] for each in functions]
    assert [value for each in variables for value in each.values() if isinstance(value, int)] == []
