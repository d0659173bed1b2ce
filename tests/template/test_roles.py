"""Least privilege and encryption, in the template that SAM has transformed.

The ASL files tell what the role of the state machines needs: nothing may be missing, and nothing
more may be there. No local engine enforces this role. `test_permissions_page` lists what every role
of the main template may do.
"""

import json
from collections.abc import Iterator

import pytest

from inorder import PROJECT
from inorder.asl.definition import START
from inorder.aws.health import work_permissions
from inorder.model import policies
from inorder.model.policies import Policy
from tests.support.resolved_template import Json, of_type, template
from tests.support.stacks import stack_with
from tests.template.deployed import (
    BOUNDARY,
    KEY,
    MACHINE,
    TEMPLATES,
    Deployed,
    Grant,
    listed,
    state_machine_arn,
)

# https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
LOGGING = (
    *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery"),
    *("logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
    *("logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
)
# What of an integration's parameters names the resource.
RESOURCES = {
    "dynamodb": "TableName",
    "events": "EventBusName",
    "lambda": "FunctionName",
    "sqs": "QueueUrl",
}
MACHINES = {
    file: machines
    for file in TEMPLATES
    if (machines := of_type(template(file)["Resources"], "Serverless::StateMachine"))
}
OF_EACH = next(policy.name for policy in policies.policies() if policy.fence == "each")
EVERYTHING = {"Policy": OF_EACH}


def needed(file: str, stack: Deployed) -> Iterator[Grant]:
    """Derive from the ASL files of a template and their substitutions what they need."""
    for name, machine in MACHINES[file].items():
        definition = (PROJECT / file).parent / machine["DefinitionUri"]
        for state in json.loads(definition.read_text(encoding="utf-8"))["States"].values():
            if state.get("Resource") == START:
                yield "states:StartExecution", state_machine_arn("*")
            elif state["Type"] == "Task":
                service, call = state["Resource"].removeprefix("arn:aws:states:::").split(":")
                action = "InvokeFunction" if service == "lambda" else call[0].upper() + call[1:]
                [parameters] = state["Parameters"].get("Entries", [state["Parameters"]])
                substitution = parameters[RESOURCES[service]].removeprefix("${").removesuffix("}")
                resource = stack[name]["DefinitionSubstitutions"][substitution]
                yield f"{service}:{action}", f"{resource.removesuffix('.Arn')}.Arn"


@pytest.mark.parametrize("file", MACHINES)
def test_state_machines_may_do_only_what_their_definitions_do(file: str) -> None:
    stack = Deployed(file=file)
    [role] = {machine["RoleArn"].removesuffix(".Arn") for machine in stack.of(MACHINE).values()}
    log = {(action, "*") for action in LOGGING}
    assert stack.grants(role) - log == set(needed(file, stack))


@pytest.mark.parametrize("policy", policies.policies(), ids=lambda policy: policy.name)
def test_the_rule_matches_what_the_policy_handles(policy: Policy) -> None:
    stack = Deployed(Policy=policy.name)
    pattern = {
        "source": ["aws.s3"],
        "detail-type": ["Object Created", *(["Object Deleted"] if policy.deletions else [])],
        "detail": {"bucket": {"name": ["InputBucket"]}, "object": {"key": [{"wildcard": "*"}]}},
    }
    assert stack["EventsRule"]["EventPattern"] == pattern
    without = Deployed(Policy=policy.name, HandleDeletions="false")
    assert without["EventsRule"]["EventPattern"]["detail-type"] == ["Object Created"]
    sending = stack["InputBucket"]["NotificationConfiguration"]
    assert sending == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}


def test_the_work_policy_suits_every_policy_and_deletes_if_needed() -> None:
    """Of another policy, events may still run or be retried."""
    one, *others = (Deployed(Policy=policy.name) for policy in policies.policies())
    for other in others:
        assert other["WorkFunctionPolicy"] == one["WorkFunctionPolicy"]
    kept = Deployed(HandleDeletions="false").grants("InvertImageRole")
    assert one.grants("InvertImageRole") - kept == {
        ("s3:DeleteObject", "arn:aws:s3:::OutputBucket/*")
    }


@pytest.mark.parametrize("deletions", ["true", "false"])
@pytest.mark.parametrize("key", ["", KEY])
def test_doctor_asks_for_what_the_work_policy_grants(deletions: str, key: str) -> None:
    parameters = EVERYTHING | {"HandleDeletions": deletions, "KmsKeyArn": key}
    stack = stack_with(("InputBucket", "OutputBucket"), **parameters)
    asked = {
        (action, resource)
        for resource, actions in work_permissions(stack).items()
        for action in actions
    }
    logs = {("logs:CreateLogStream", "FunctionLogGroup.Arn")}
    logs |= {("logs:PutLogEvents", "FunctionLogGroup.Arn")}
    assert Deployed(**parameters).grants("InvertImageRole") == asked | logs


def test_the_description_of_the_work_policy_does_not_change() -> None:
    """IAM cannot change it, so CloudFormation would replace the policy, and delete the old one.

    IAM refuses that while the role of another stack has the policy.
    https://docs.aws.amazon.com/IAM/latest/APIReference/API_DeletePolicy.html
    """
    text = "Reads the objects that events name, and reads, writes and removes their outputs"
    for parameters in ({}, EVERYTHING | {"HandleDeletions": "false", "KmsKeyArn": KEY}):
        policy = Deployed(**parameters)["WorkFunctionPolicy"]
        assert policy["Description"] == text
        assert not {"ManagedPolicyName", "Path"} & policy.keys()  # these replace it, too


# https://docs.aws.amazon.com/step-functions/latest/dg/procedure-create-iam-role.html
# https://docs.aws.amazon.com/eventbridge/latest/userguide/cross-service-confused-deputy-prevention.html
OF_ACCOUNT = {"StringEquals": {"aws:SourceAccount": "123456789012"}}
OF_RULES = {"ArnLike": {"aws:SourceArn": "arn:aws:events:us-east-1:123456789012:rule/*"}}
# AWS documents none for Lambda, whose event source mappings might stop silently. No function of
# another account can have the role:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html
TRUST = {"lambda": None, "states": OF_ACCOUNT, "events": OF_ACCOUNT | OF_RULES}


@pytest.mark.parametrize("file", TEMPLATES)
def test_a_role_trusts_one_service_for_what_this_account_has(file: str) -> None:
    for role in Deployed(file=file).of("IAM::Role").values():
        [trust] = role["AssumeRolePolicyDocument"]["Statement"]
        [service] = listed(trust["Principal"]["Service"])
        assert listed(trust["Action"]) == ["sts:AssumeRole"]
        assert trust.get("Condition") == TRUST[service.removesuffix(".amazonaws.com")]


def test_each_function_has_its_own_role_within_the_boundary() -> None:
    stack = Deployed(KmsKeyArn=KEY, PermissionsBoundaryArn=BOUNDARY)
    for name, role in stack.of("IAM::Role").items():
        assert "ManagedPolicyArns" not in role, name
        assert role["PermissionsBoundary"] == BOUNDARY, name
        assert {statement["Effect"] for statement in stack.statements(name)} == {"Allow"}, name
    for name, function in stack.of("Lambda::Function").items():
        assert function["Role"] == f"{name.removesuffix('Function')}Role.Arn"
        assert function["LoggingConfig"]["LogGroup"] in stack.of("Logs::LogGroup")


# Else a role could write any record, or any attribute, such as the event that a holder starts.
LIMITS: dict[tuple[str, ...], Json] = {
    ("RetryEventsRole", "dynamodb:PutItem"): {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["retry:*"]}
    },
    ("HealKeysRole", "dynamodb:UpdateItem"): {
        "ForAllValues:StringEquals": {
            "dynamodb:Attributes": [
                *("id", "sequencer", "in_progress_since", "hand_overs", "lock_token", "execution"),
                "expires_at",
            ]
        }
    },
}


def test_a_right_has_its_condition_and_no_other_field() -> None:
    stack = Deployed(**EVERYTHING, KmsKeyArn=KEY)
    for name in stack.of("IAM::Role"):
        for statement in stack.statements(name):
            assert set(statement) - {"Condition"} == {"Effect", "Action", "Resource"}
            if statement["Resource"] != KEY:
                limit = LIMITS.get((name, *listed(statement["Action"])))
                assert statement.get("Condition") == limit, name


TLS_ONLY = {
    **{"Sid": "TlsOnly", "Effect": "Deny", "Principal": "*"},
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def test_a_bucket_is_reached_by_tls_only() -> None:  # checkov says whether it is private
    stack = Deployed(**EVERYTHING)
    for name in stack.of("S3::Bucket"):
        policy, resources = stack[f"{name}Policy"], [f"{name}.Arn", f"{name}.Arn/*"]
        assert policy["Bucket"] == name
        [statement] = policy["PolicyDocument"]["Statement"]
        assert statement == TLS_ONLY | {"Action": "s3:*", "Resource": resources}


EVENTBRIDGE = "events.amazonaws.com"
RULES = "arn:aws:events:us-east-1:123456789012:rule"
# From any rule, and so from one that a deployment has deleted, while EventBridge still tries.
OF_ANY_RULE = (EVENTBRIDGE, {"ArnLike": {"aws:SourceArn": f"{RULES}/*"}})
OF_RETRIES = (EVENTBRIDGE, {"ArnLike": {"aws:SourceArn": f"{RULES}/RetryEventsBus/*"}})
Senders = dict[str, list[tuple[str, Json]]]
SENDERS: Senders = {  # who may send to each queue, beside the roles
    "ParkedEventsQueue": [],
    "UndeliveredEventsQueue": [OF_ANY_RULE],
    "WaitingEventsQueue": [OF_ANY_RULE],
    "RetryEventsQueue": [OF_RETRIES],
}


def test_queues_are_encrypted_and_take_named_senders_messages_over_tls() -> None:
    """SQS is reported to refuse a statement with two resources; no linter tells."""
    stack = Deployed()
    assert stack.of("SQS::Queue").keys() == SENDERS.keys()
    read = stack.variables("HealKeysFunction")["ALARMED_QUEUE_URLS"].split()
    assert sorted(read) == sorted(SENDERS)
    for name, senders in SENDERS.items():
        assert stack[name]["SqsManagedSseEnabled"] is True
        policy = stack[f"{name}Policy"]
        assert policy["Queues"] == [name]
        denied, *allowed = policy["PolicyDocument"]["Statement"]
        assert denied == TLS_ONLY | {"Action": "sqs:*", "Resource": f"{name}.Arn"}
        assert [
            (statement["Principal"]["Service"], statement["Condition"]) for statement in allowed
        ] == senders
        for statement in allowed:
            assert (statement["Effect"], statement["Action"]) == ("Allow", "sqs:SendMessage")
            assert statement["Resource"] == f"{name}.Arn"


HOLDS_DATA = ("S3::Bucket", "DynamoDB::Table", "SQS::Queue")


def test_what_holds_data_outlives_the_stack() -> None:
    """RetainExceptOnCreate keeps nothing of a stack whose creation failed.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html
    """
    stack = Deployed()
    kept = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
    for kind in HOLDS_DATA:
        for name in stack.of(kind):
            assert stack.resources[name].items() >= kept.items()


def test_the_key_encrypts_the_buckets_and_nothing_else() -> None:
    stack = Deployed(KmsKeyArn=KEY)
    for bucket in stack.of("S3::Bucket").values():
        [rule] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
        assert rule == {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": default}
    naming = {name for name, resource in stack.resources.items() if KEY in json.dumps(resource)}
    assert naming == {*stack.of("S3::Bucket"), "WorkFunctionPolicy"}
    assert "kms" not in json.dumps(Deployed().resources).lower()


@pytest.mark.parametrize("buckets", [{}, {"InputBucketName": "in", "OutputBucketName": "out"}])
def test_only_the_work_function_uses_the_key_only_through_s3(buckets: Json) -> None:
    """An upload needs GenerateDataKey, a download and an upload in parts need Decrypt.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
    """
    stack = Deployed(KmsKeyArn=KEY, **buckets)
    using = {
        name: [statement for statement in stack.statements(name) if statement["Resource"] == KEY]
        for name in stack.of("IAM::Role")
    }
    [use] = using.pop("InvertImageRole")
    assert use["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    through = {"kms:ViaService": "s3.us-east-1.amazonaws.com"}
    assert use["Condition"] == {"StringEquals": through}
    assert not any(using.values())
