"""What is wrong with a deployed stack, and how to mend it."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from inorder.aws import retrying, waiting
from inorder.aws.stack import Connection, Described, Stack, pairs
from inorder.model import policies
from inorder.wording import INORDER, counted, in_one_line, span, verb

# So much longer than the function may take, its state waits: Lambda initialises a function for
# 10 s, and the call itself takes its time. A release after States.Timeout then comes when it has
# ended.
BEFORE_AND_AFTER_SECONDS = 12
FEW_INVOCATIONS = 100  # at a time; new accounts have 10
LONG = timedelta(hours=1)  # for an event to be retried
LISTED_KEYS = 1000
# The queues that the function which retries must read, and what happens if it does not.
READ = {
    "RetryEventsQueue": "failed events are not tried again",
    "WaitingEventsQueue": "what waits is not started",
}
RIGHT, ADVICE, WRONG, UNKNOWN = "right", "advice", "WRONG", "unknown"
# In the codes with which services answer that there is no such bucket, rule, queue or role.
MISSING = re.compile("NoSuch|NotFound|NotExist|NonExistent|^404$")
AFTERWARDS = (
    f"{INORDER} backfill, or {INORDER} audit --repair if objects were overwritten or deleted"
)
RULES = ("EventsRule", "HealKeysFunctionSweep", "RetryEventsRule")


@dataclass(frozen=True)
class Check:
    """A line of the report: its state, what is so, and what mends it."""

    state: str
    text: str
    remedy: str = ""


Checks = Iterator[Check]


class Deployment:
    """A stack, with what several checks read of it."""

    def __init__(self, aws: Connection) -> None:
        self.aws, self.stack = aws, aws.stack
        self.resources = Described(aws.client("cloudformation"), aws.stack.name).resources

    @cached_property
    def function(self) -> dict[str, Any]:
        """The configuration of the function that does the work."""
        described: dict[str, Any] = self.aws.client("lambda").get_function_configuration(
            FunctionName=self.stack.function_name
        )
        return described

    @cached_property
    def alarms(self) -> list[dict[str, Any]]:
        """The stack's alarms."""
        own = set(self.resources.values())
        pages = self.aws.client("cloudwatch").get_paginator("describe_alarms").paginate()
        alarms = (alarm for page in pages for alarm in page["MetricAlarms"])
        return [alarm for alarm in alarms if alarm["AlarmName"] in own]


def health(aws: Connection, policy: str | None = None) -> Checks:
    """Check a stack, also for a change of policy.

    What does not exist any more is wrong. What cannot be read for another reason is unknown.
    """
    deployment = Deployment(aws)
    checks = [*CHECKS, *([] if aws.is_local else ON_AWS)]
    if policy is not None:
        checks.append(partial(_change, policy=policy))
    for check in checks:
        try:
            yield from check(deployment)
        except (ClientError, BotoCoreError) as error:
            name = getattr(check, "__name__", "change of policy").strip("_").replace("_", " ")
            text = f"{name.capitalize()}: {in_one_line(error)}"
            if isinstance(error, ClientError) and MISSING.search(error.response["Error"]["Code"]):
                yield Check(WRONG, text, "Create it again with its name: a deployment does not.")
            else:
                yield Check(UNKNOWN, text)


def _either(is_wrong: bool, text: str, remedy: str, right: str, state: str = WRONG) -> Check:
    """Give what is wrong and what mends it, or else what is right."""
    return Check(state, text, remedy) if is_wrong else Check(RIGHT, right)


def _bucket(deployment: Deployment) -> Checks:
    bucket = deployment.stack.input_bucket
    s3 = deployment.aws.client("s3")
    configured = s3.get_bucket_notification_configuration(Bucket=bucket)
    yield _either(
        "EventBridgeConfiguration" not in configured,
        f"The bucket {bucket} sends no events to EventBridge.",
        "docs/deploy.md, 'Use your own input bucket', says how to switch that on;"
        f" then {AFTERWARDS}.",
        f"The bucket {bucket} sends events to EventBridge.",
    )
    policy = deployment.stack.policy
    if policy and policy.fence == "each":
        yield _either(
            not _keeps_versions(deployment),
            f"The bucket {bucket} keeps no versions: an object that is overwritten early is lost.",
            "Enable versioning of the bucket, or choose another policy.",
            f"The bucket {bucket} keeps versions.",
        )
    own = set(deployment.resources.values())
    for notification in configured.get("LambdaFunctionConfigurations", []):
        arn = notification["LambdaFunctionArn"]
        name = arn.split(":")[6]
        if name in own or arn in deployment.stack.function_name:
            text = f"The bucket also invokes the function {name} itself, without a lock."
            yield Check(WRONG, text, "Remove this notification from the bucket.")


def _keeps_versions(deployment: Deployment) -> bool:
    s3, bucket = deployment.aws.client("s3"), deployment.stack.input_bucket
    return bool(s3.get_bucket_versioning(Bucket=bucket).get("Status") == "Enabled")


def _output_bucket(deployment: Deployment) -> Checks:
    source, bucket = deployment.stack.input_bucket, deployment.stack.output_bucket
    deployment.aws.client("s3").head_bucket(Bucket=bucket)
    users = ["the input bucket"] if source == bucket else []
    pages = deployment.aws.client("cloudformation").get_paginator("describe_stacks").paginate()
    for stack in (stack for page in pages for stack in page["Stacks"]):
        outputs = pairs(stack, "Output")
        # A stack around this one may give its output bucket only.
        is_other = outputs.get("InputBucketName") not in {None, source}
        if outputs.get("OutputBucketName") == bucket and is_other:
            users.append(f"that of the stack {stack['StackName']}")
    for other in users:
        text = f"The output bucket {bucket} is also {other}: events are parked because of it."
        yield Check(WRONG, text, "Name another: OutputBucketName=BUCKET, or empty for a new one.")
    if not users:
        yield Check(RIGHT, f"No other stack writes to the bucket {bucket}.")


def _rules(deployment: Deployment) -> Checks:
    events, resources, disabled = deployment.aws.client("events"), deployment.resources, False
    for rule in RULES:
        bus = resources["RetryEventsBus"] if rule.startswith("Retry") else "default"
        name = resources[rule].rpartition("|")[2]  # AWS writes BUS|NAME
        if events.describe_rule(Name=name, EventBusName=bus)["State"] == "DISABLED":
            disabled = True
            enable = f"aws events enable-rule --name {name} --event-bus-name {bus}"
            text = f"The rule {name} ({rule}) is disabled: it delivers nothing."
            yield Check(WRONG, text, f"{enable}; then {AFTERWARDS}")
    if not disabled:
        yield Check(RIGHT, "The rules are enabled.")


def _keys(deployment: Deployment) -> Checks:
    stack, s3 = deployment.stack, deployment.aws.client("s3")
    listed = s3.list_objects_v2(Bucket=stack.input_bucket, MaxKeys=LISTED_KEYS)
    objects = listed.get("Contents", [])  # a folder that S3's console has made is no input
    keys = [item["Key"] for item in objects if item["Size"] or not item["Key"].endswith("/")]
    if left_out := [key for key in keys if stack.left_out(key)]:
        number = f"{len(left_out)} of the first {counted(len(keys), 'object')}"
        text = f"KeyPrefix and KeySuffix leave out {number}: {', '.join(left_out[:3])}."
        yield Check(ADVICE, text, f"{INORDER} why KEY tells why; docs/parameters.md")


def _function(deployment: Deployment) -> Checks:
    states, arn = deployment.aws.client("stepfunctions"), deployment.stack.state_machine_arn
    described = states.describe_state_machine(stateMachineArn=arn)
    limits = _limits(json.loads(described["definition"]))
    timeout = deployment.function["Timeout"]
    limit = min(limits, default=timeout)
    yield _either(
        timeout > limit,
        f"The function may take {timeout} s, and the policy waits for {limit} s.",
        f"Give it a timeout of at most {limit} s.",
        f"The function's timeout of {timeout} s fits the policy.",
    )


def _limits(definition: Any) -> list[int]:
    """List the seconds that the states which invoke the function give it."""
    return [
        state["TimeoutSeconds"] - BEFORE_AND_AFTER_SECONDS
        for state in definition["States"].values()
        if state.get("Resource", "").endswith(":lambda:invoke")
        and "event.$" in json.dumps(state["Parameters"])
    ]


def work_permissions(stack: Stack) -> dict[str, list[str]]:
    """List by resource what the template's WorkFunctionPolicy grants with a stack's parameters."""
    source, output = f"arn:aws:s3:::{stack.input_bucket}", f"arn:aws:s3:::{stack.output_bucket}"
    granted = {
        f"{source}/*": ["s3:GetObject", "s3:GetObjectVersion"],
        source: ["s3:ListBucket", "s3:ListBucketVersions"],
        output: ["s3:ListBucket"],
        f"{output}/*": ["s3:GetObject", "s3:PutObject"],
    }
    if stack.handles_deletions:
        granted[f"{output}/*"].append("s3:DeleteObject")
    if key := stack.parameters.get("KmsKeyArn"):
        granted[key] = ["kms:Decrypt", "kms:GenerateDataKey"]
    return granted


def _permissions(deployment: Deployment) -> Checks:
    iam = deployment.aws.client("iam")
    denied = []
    for resource, actions in work_permissions(deployment.stack).items():
        context = []
        if resource.startswith("arn:aws:kms:"):  # the policy lets it be used through S3
            service = f"s3.{resource.split(':')[3]}.amazonaws.com"
            via = {"ContextKeyName": "kms:ViaService", "ContextKeyValues": [service]}
            context = [via | {"ContextKeyType": "string"}]
        answer = iam.simulate_principal_policy(
            PolicySourceArn=deployment.function["Role"],
            ActionNames=actions,
            ResourceArns=[resource.replace("*", "key")],
            ContextEntries=context,
        )
        denied += [
            f"{result['EvalActionName']} on {resource}"
            for result in answer["EvaluationResults"]
            if result["EvalDecision"] != "allowed"
        ]
    yield _either(
        bool(denied),
        f"The function's role lacks {', '.join(denied)}.",
        "Name the role in WorkFunctionRoleName, or attach the policy WorkFunctionPolicyArn.",
        "The function's role has the permissions that the fence needs.",
    )


def _concurrency(deployment: Deployment) -> Checks:
    functions, name = deployment.aws.client("lambda"), deployment.stack.function_name
    name = ":".join(name.split(":")[:7])  # an alias has no reserved concurrency of its own
    reserved = functions.get_function_concurrency(FunctionName=name)
    if reserved.get("ReservedConcurrentExecutions") == 0:
        yield Check(
            WRONG,
            "The function's reserved concurrency is 0: each event is retried, then parked.",
            f"aws lambda delete-function-concurrency --function-name {name}",
        )
    limit = functions.get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
    yield _either(
        limit < FEW_INVOCATIONS,
        f"The region allows {counted(limit, 'invocation')} at a time: a burst is retried for long.",
        "Ask AWS for a higher quota of Lambda's concurrent executions.",
        f"The region allows {counted(limit, 'invocation')} at a time.",
        ADVICE,
    )


def _queues(deployment: Deployment) -> Checks:
    is_empty = True
    for name in ("parked", "undelivered"):
        url = deployment.resources.get(f"{name.capitalize()}EventsQueue")
        if url and (unread := waiting.messages(deployment.aws, url)[0]):
            is_empty = False
            text = f"{counted(unread, 'event')} {verb(unread, 'are')} {name}."
            yield Check(WRONG, text, f"{INORDER} {name} lists {'it' if unread == 1 else 'them'}")
    if is_empty:
        yield Check(RIGHT, "No event is parked or undelivered.")
    mappings = deployment.aws.client("lambda").list_event_source_mappings(
        FunctionName=deployment.resources["RetryEventsFunction"]
    )["EventSourceMappings"]
    read = {
        mapping["EventSourceArn"].rpartition(":")[2]
        for mapping in mappings
        if mapping["State"] in {"Enabled", "Enabling", "Creating"}
    }
    for name, consequence in READ.items():
        queue = deployment.resources[name].rpartition("/")[2]
        if not deployment.stack.is_paused and queue not in read:
            text = f"Nothing reads {name}: {consequence}."
            yield Check(WRONG, text, "Enable this event source mapping of RetryEventsFunction.")


def _pause(deployment: Deployment) -> Checks:
    yield _either(
        deployment.stack.is_paused,
        waiting.pause(deployment.aws),
        waiting.RESUME,
        f"The stack is not paused: {waiting.described(deployment.aws)}.",
        ADVICE,
    )


def _retries(deployment: Deployment) -> Checks:
    now, events = datetime.now(UTC), retrying.retrying_events(deployment.aws)
    retried = [event for event in events if now - event.since > LONG]
    if retried:
        oldest = min(retried, key=lambda event: event.since)
        yield Check(
            WRONG,
            f"Retried for more than an hour: {counted(len(retried), 'event')}, one of them for"
            f" {span((now - oldest.since).total_seconds())}, because of {oldest.reasons}",
            f"{INORDER} retrying lists them. Remove the cause: the retries then succeed.",
        )
    else:
        yield Check(RIGHT, "No event has been retried for more than an hour.")


def _alarms(deployment: Deployment) -> Checks:
    for alarm in deployment.alarms:
        if alarm["StateValue"] == "ALARM":
            yield Check(WRONG, alarm["AlarmDescription"], "docs/operate.md, 'Alarms'")


def _subscriptions(deployment: Deployment) -> Checks:
    sns, alarms = deployment.aws.client("sns"), deployment.alarms
    confirmed = [
        subscription
        for topic in {action for alarm in alarms for action in alarm["AlarmActions"]}
        for page in sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
        for subscription in page["Subscriptions"]
        if subscription["SubscriptionArn"].startswith("arn:")
    ]
    yield _either(
        not confirmed,
        "The alarms reach nobody.",
        "Set AlarmTopicArn, subscribe to the topic, and confirm the subscription.",
        f"Subscriptions that {counted(len(alarms), 'alarm')} may reach: {len(confirmed)}.",
        ADVICE,
    )


def _change(deployment: Deployment, policy: str) -> Checks:
    """Check what must be done before a change of policy: docs/policies.md, 'Switch policies'."""
    steps = []
    if policies.policy(policy).fence == "each" and not _keeps_versions(deployment):
        text = "the input bucket keeps no versions: it cannot process what is overwritten at once."
        remedy = "Enable versioning: InputBucketVersioning=Enabled, if the bucket is the stack's."
        steps.append((text, remedy))
    timeout, limits = deployment.function["Timeout"], _limits(policies.definition(policy))
    if limits and timeout > min(limits):
        text = f"the function may take {timeout} s, and it waits for {min(limits)} s."
        steps.append((text, f"Give the function a timeout of at most {min(limits)} s."))
    for text, remedy in steps:
        yield Check(WRONG, f"Before Policy={policy}: {text}", remedy)
    if not steps:
        yield Check(RIGHT, f"Nothing must be done before Policy={policy}.")


CHECKS: tuple[Callable[[Deployment], Checks], ...] = (
    *(_bucket, _output_bucket, _rules, _keys, _function, _concurrency),
    *(_queues, _pause, _retries, _alarms),
)
# The local AWS asks no role, and nobody needs its alarms.
ON_AWS: tuple[Callable[[Deployment], Checks], ...] = (_permissions, _subscriptions)
