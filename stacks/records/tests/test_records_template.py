"""The stack that adapts records: what its function may do, and its alarms."""

from tests.template.deployed import ALARM, Deployed, granting

PLACE = "us-east-1:123456789012"
LOGS = ("AdaptRecordsLogGroup.Arn", "logs:CreateLogStream logs:PutLogEvents")
GRANTS = granting(
    LOGS,
    (f"arn:aws:cloudformation:{PLACE}:stack/inorder/*", "cloudformation:DescribeStacks"),
    # `_` is in no stack's name, so these are the state machines of this stack.
    (f"arn:aws:states:{PLACE}:stateMachine:inorder_*", "states:StartExecution"),
    ("RecordsQueue.Arn", "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes"),
    ("UnadaptedRecordsQueue.Arn", "sqs:SendMessage sqs:GetQueueAttributes"),
)


def deployed(**parameters: str) -> Deployed:
    return Deployed(file="stacks/records/template.yaml", **parameters)


def test_the_function_may_do_only_what_is_listed_and_log() -> None:
    assert deployed().grants("AdaptRecordsRole") == GRANTS


def test_the_alarms_watch_the_queues_and_the_function_and_a_schedule_keeps_the_metrics() -> None:
    stack = deployed()
    alarms = stack.of(ALARM).values()
    watched = {(each["MetricName"], each["Dimensions"][0]["Value"]) for each in alarms}
    assert watched == {
        ("ApproximateAgeOfOldestMessage", "RecordsQueue.QueueName"),
        ("ApproximateNumberOfMessagesVisible", "UnadaptedRecordsQueue.QueueName"),
        ("Errors", "AdaptRecordsFunction"),
    }
    [rule] = stack.of("Events::Rule").values()
    assert rule["ScheduleExpression"] == "rate(1 hour)"  # SQS ends the metrics after six
    assert rule["Targets"][0]["Arn"] == "AdaptRecordsFunction.Arn"
    # A message that moves to the other queue keeps its expiry, and most of the 14 days are left.
    queue = stack["RecordsQueue"]
    seconds = queue["RedrivePolicy"]["maxReceiveCount"] * queue["VisibilityTimeout"]
    assert 86_400 < seconds < queue["MessageRetentionPeriod"] / 4
    assert queue["VisibilityTimeout"] >= 6 * stack["AdaptRecordsFunction"]["Timeout"]
