"""The stack that adapts records: who may send to it, what its function may do, and its alarms."""

from __future__ import annotations

import json

from tests.template.deployed import ALARM, BOUNDARY, KEY, TOPIC, Deployed, granting

PLACE = "us-east-1:123456789012"
SOURCES = ["arn:aws:s3:::one", "arn:aws:sns:us-east-1:123456789012:two"]
LOGS = ("AdaptRecordsLogGroup.Arn", "logs:CreateLogStream logs:PutLogEvents")
ALWAYS = granting(
    LOGS,
    (f"arn:aws:cloudformation:{PLACE}:stack/inorder/*", "cloudformation:DescribeStacks"),
    # `_` is in no stack's name, so these are the state machines of this stack.
    (f"arn:aws:states:{PLACE}:stateMachine:inorder_*", "states:StartExecution"),
    ("RecordsQueue.Arn", "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes"),
    ("UnadaptedRecordsQueue.Arn", "sqs:SendMessage sqs:GetQueueAttributes"),
)
TLS_ONLY = {
    **{"Sid": "TlsOnly", "Effect": "Deny", "Principal": "*"},
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def deployed(**parameters: str) -> Deployed:
    return Deployed(file="stacks/records/template.yaml", **parameters)


def test_the_function_may_do_only_what_is_listed_and_log() -> None:
    assert deployed().grants("AdaptRecordsRole") == ALWAYS
    stack = deployed(KmsKeyArn=KEY, PermissionsBoundaryArn=BOUNDARY)
    key = granting((KEY, "kms:Decrypt kms:GenerateDataKey"))
    assert stack.grants("AdaptRecordsRole") == ALWAYS | key
    [role] = stack.of("IAM::Role").values()
    assert (role["PermissionsBoundary"], "ManagedPolicyArns" in role) == (BOUNDARY, False)
    function = stack["AdaptRecordsFunction"]
    assert function["Role"] == "AdaptRecordsRole.Arn"
    assert function["LoggingConfig"]["LogGroup"] == "AdaptRecordsLogGroup"


def test_a_queue_accepts_messages_over_tls_and_of_named_senders_only() -> None:
    """SQS is reported to refuse a statement with two resources; no linter tells."""
    of_account = {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    named = {"ArnEquals": {"aws:SourceArn": SOURCES}}
    senders = [("s3.amazonaws.com", of_account | named), ("sns.amazonaws.com", named)]
    for given, name, expected in (
        (",".join(SOURCES), "RecordsQueue", senders),
        ("", "RecordsQueue", []),
        (",".join(SOURCES), "UnadaptedRecordsQueue", []),
    ):
        stack = deployed(RecordsSourceArns=given)
        assert stack[name]["SqsManagedSseEnabled"] is True
        policy = stack[f"{name}Policy"]
        assert policy["Queues"] == [name]
        denied, *allowed = policy["PolicyDocument"]["Statement"]
        assert denied == TLS_ONLY | {"Action": "sqs:*", "Resource": f"{name}.Arn"}
        found = [(each["Principal"]["Service"], each["Condition"]) for each in allowed]
        assert found == expected
        for each in allowed:
            what = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": f"{name}.Arn"}
            assert what.items() <= each.items()


def test_what_holds_data_is_retained_and_encrypted_with_the_named_key() -> None:
    stack = deployed(KmsKeyArn=KEY)
    for name in ("RecordsQueue", "UnadaptedRecordsQueue"):
        assert KEY in json.dumps(stack[name])
        assert "SqsManagedSseEnabled" not in stack[name]  # a queue has one of the two
        assert stack.resources[name]["DeletionPolicy"] == "RetainExceptOnCreate"
    assert stack["AdaptRecordsLogGroup"]["KmsKeyId"] == KEY


def test_the_alarms_watch_the_queues_and_the_function_and_a_schedule_keeps_the_metrics() -> None:
    stack = deployed(AlarmTopicArn=TOPIC)
    alarms = stack.of(ALARM).values()
    watched = {(each["MetricName"], each["Dimensions"][0]["Value"]) for each in alarms}
    assert watched == {
        ("ApproximateAgeOfOldestMessage", "RecordsQueue.QueueName"),
        ("ApproximateNumberOfMessagesVisible", "UnadaptedRecordsQueue.QueueName"),
        ("Errors", "AdaptRecordsFunction"),
    }
    assert all(each["AlarmActions"] == [TOPIC] for each in alarms)
    [rule] = stack.of("Events::Rule").values()
    assert rule["ScheduleExpression"] == "rate(1 hour)"  # SQS ends the metrics after six
    assert rule["Targets"][0]["Arn"] == "AdaptRecordsFunction.Arn"
    # A message that moves to the other queue keeps its expiry, and most of the 14 days are left.
    queue = stack["RecordsQueue"]
    seconds = queue["RedrivePolicy"]["maxReceiveCount"] * queue["VisibilityTimeout"]
    assert 86_400 < seconds < queue["MessageRetentionPeriod"] / 4
    assert queue["VisibilityTimeout"] >= 6 * stack["AdaptRecordsFunction"]["Timeout"]
