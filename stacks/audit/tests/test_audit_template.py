"""The stack that audits another one: its roles, its Distributed Map, its schedule and alarms.

The local Step Functions makes no batches, and enforces no role of a state machine, so these are
compared with what AWS documents.
"""

import json

from inorder import PROJECT
from inorder.asl.definition import EXPRESS_SECONDS
from tests.support.resolved_template import Json
from tests.template.deployed import ALARM, Deployed, granting

DEFINITION: Json = json.loads((PROJECT / "stacks/audit/audit.asl.json").read_text())
MAP: Json = DEFINITION["States"]["Compare Bucket"]
CHILD: Json = MAP["ItemProcessor"]["States"]
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_BYTES = 262_144
INPUT, OUTPUT = (f"arn:aws:s3:::inorder.{name}BucketName" for name in ("Input", "Output"))
LISTS = ((INPUT, "s3:ListBucket"), (OUTPUT, "s3:ListBucket"))
PLACE = "us-east-1:123456789012"
EXECUTIONS = f"arn:aws:states:{PLACE}:execution:AuditStateMachine.Name"
CONTROLS = "states:DescribeExecution states:StopExecution states:RedriveExecution"
STARTS = ("AuditStateMachine", "states:StartExecution")
# What AWS documents for a Distributed Map and its ItemReader:
# https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
MACHINE = granting(
    STARTS,
    ("AuditKeysFunction.Arn", "lambda:InvokeFunction"),
    *LISTS,
    (f"{EXECUTIONS}:*", CONTROLS),
    (f"{EXECUTIONS}/*", CONTROLS),  # with the label of the map
)
FUNCTION = granting(
    (
        f"arn:aws:cloudformation:{PLACE}:stack/inorder/*",
        "cloudformation:DescribeStacks",
    ),
    *LISTS,
    (INPUT, "s3:ListBucketVersions"),
    (f"{INPUT}/*", "s3:GetObject s3:GetObjectVersion"),
    (f"{OUTPUT}/*", "s3:GetObject"),
    (f"arn:aws:dynamodb:{PLACE}:table/inorder.KeyTableName", "dynamodb:GetItem"),
    ("AuditKeysLogGroup.Arn", "logs:CreateLogStream logs:PutLogEvents"),
)


def deployed(**parameters: str) -> Deployed:
    return Deployed(file="stacks/audit/template.yaml", **parameters)


def test_the_roles_may_only_read_and_with_repairs_send_to_the_retry_queue() -> None:
    stack = deployed()
    assert stack.grants("AuditRole") == MACHINE
    assert stack.grants("AuditKeysRole") == FUNCTION
    sending = granting((f"arn:aws:sqs:{PLACE}:inorder.RetryEventsQueueName", "sqs:SendMessage"))
    assert deployed(AuditRepairs="true").grants("AuditKeysRole") == FUNCTION | sending


def test_the_schedule_starts_an_audit_of_all_keys() -> None:
    rule = "AuditSchedule"
    assert deployed()[rule]["State"] == "DISABLED"
    stack = deployed(AuditHours="24")
    assert (stack[rule]["State"], stack[rule]["ScheduleExpression"]) == (
        "ENABLED",
        "rate(24 hours)",
    )
    target = stack.target(rule)
    assert (target["Arn"], json.loads(target["Input"])) == ("AuditStateMachine", {"prefix": ""})
    assert target["RoleArn"] == "ScheduleRole.Arn"
    assert stack.grants("ScheduleRole") == granting(STARTS)


def test_the_alarms_watch_what_the_function_and_the_state_machine_emit() -> None:
    stack = deployed()
    variables = stack.variables("AuditKeysFunction")
    service = {"Name": "service", "Value": variables["POWERTOOLS_SERVICE_NAME"]}
    wrong, failed = stack.of(ALARM).values()
    assert wrong["Namespace"] == variables["POWERTOOLS_METRICS_NAMESPACE"]
    assert (wrong["MetricName"], wrong["Dimensions"]) == ("WrongOutputs", [service])
    assert failed["Dimensions"] == [{"Name": "StateMachineArn", "Value": "AuditStateMachine"}]
    assert failed["MetricName"] == "ExecutionsFailed"


def test_a_child_ends_within_the_minutes_of_express_and_no_input_is_too_large() -> None:
    """What AWS documents of a Distributed Map.

    https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
    https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itembatcher.html
    """
    processor = MAP["ItemProcessor"]["ProcessorConfig"]
    assert processor == {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"}
    assert deployed()["AuditStateMachine"]["StateMachineType"] == "STANDARD"
    longest = sum(each.get("TimeoutSeconds", each.get("Seconds", 0)) for each in CHILD.values())
    assert longest < EXPRESS_SECONDS
    timeouts = {each["TimeoutSeconds"] for each in CHILD.values() if each["Type"] == "Task"}
    assert deployed()["AuditKeysFunction"]["Timeout"] < min(timeouts)
    batch = MAP["ItemBatcher"]
    # A suspect has its key, which is in the input, and less than 150 bytes.
    assert batch["MaxInputBytesPerBatch"] + 150 * batch["MaxItemsPerBatch"] < MOST_BYTES
    assert not any(name.startswith("Tolerated") for name in MAP)
    # A Distributed Map reads 100 million items, and no more: it fails before, by its result.
    # https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html
    results = 100_000_000 / batch["MaxItemsPerBatch"] * len(f"{CHILD['Compared']['Result']},")
    assert ("ResultWriter" not in MAP, results > MOST_BYTES) == (True, True)


def test_a_throttled_batch_waits_for_minutes_and_its_number_is_a_parameter() -> None:
    """What AWS documents of the errors of Lambda, and of a Map's concurrency.

    https://docs.aws.amazon.com/step-functions/latest/dg/bp-lambda-serviceexception.html
    https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
    """
    waits = CHILD["Wait for Events"]["Seconds"]
    for task in (each for each in CHILD.values() if each["Type"] == "Task"):
        throttled, others = task["Retry"]
        assert throttled["ErrorEquals"] == ["Lambda.TooManyRequestsException"]
        assert others["ErrorEquals"] == ["States.ALL"]
        interval, rate = throttled["IntervalSeconds"], throttled["BackoffRate"]
        delays = [interval * rate**attempt for attempt in range(throttled["MaxAttempts"])]
        waits += sum(min(each, throttled["MaxDelaySeconds"]) for each in delays)
    assert 180 < waits < EXPRESS_SECONDS - 60  # the rest is for the batch
    taken = DEFINITION["States"]["Take Sources"]["Parameters"]["concurrency.$"]
    assert (MAP["MaxConcurrencyPath"], taken) == (
        "$.concurrency",
        "States.StringToJson('${MaxConcurrency}')",
    )
    substituted = deployed(MaxConcurrency="7")["AuditStateMachine"]["DefinitionSubstitutions"]
    assert substituted["MaxConcurrency"] == "7"
