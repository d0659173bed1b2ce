"""What is asked with faults: capacity, dead holders, odd functions, queues, roles."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from inorder_fence.records import object_key_of
from tests.conftest import picture
from tests.first_hour.deliveries import PATIENCE, RED, event_of, outcome
from tests.first_hour.questions import Answer, question, seen
from tests.first_hour.trial import PREFIX, Trial

WITHOUT = 120  # seconds without any capacity
RETRIED = 900  # seconds until an event that was retried must be done


@question(
    "Are uploads processed that come while the function may not run at all?",
    "All of them, from the encrypted retry queue. No command is needed.",
)
def no_concurrency(trial: Trial) -> Answer:
    functions, name = trial.client("lambda"), trial.stack.function_name
    keys = [f"{PREFIX}throttled/{number}.png" for number in range(10)]
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    try:
        for key in keys:
            trial.put(key, picture(RED))
        time.sleep(trial.seconds(WITHOUT, 5))
        early = sum(bool(trial.output(key)) for key in keys)
    finally:
        functions.delete_function_concurrency(FunctionName=name)
    seconds = trial.wait(lambda: all(map(trial.output, keys)), RETRIED, "their outputs")
    return seen(early == 0, f"{early} outputs before, all {seconds:.0f} s after it may run again")


@question(
    "Does a sweep free the lock of an execution that died, and hand its event over?",
    "Its event goes through the retry queue, and its output is there.",
)
def sweep(trial: Trial) -> Answer:
    key = "by-hand/swept.png"
    event = event_of(trial, key, picture(RED), "00E1")
    since = datetime.now(UTC) - timedelta(hours=1)
    machine = trial.stack.state_machine_arn.replace(":stateMachine:", ":express:")
    trial.aws.table.put_item(
        Item={"id": object_key_of(event), "status": "IN_PROGRESS"}
        | {"execution": f"{machine}:dead:dead", "event": json.dumps(event), "sequencer": "00E1"}
        | {"lock_token": "dead", "in_progress_since": since.isoformat()}
    )
    answer = trial.client("lambda").invoke(FunctionName=trial.resources["HealKeysFunction"])
    seconds = trial.wait(lambda: bool(trial.output(key)), RETRIED, "its output")
    told = f"an output after {seconds:.0f} s"
    return seen("FunctionError" not in answer, told, answer["Payload"].read().decode())


@question(
    "Is what is no event parked, in the encrypted queue?",
    "The message has the input, and the reason InvalidEvent.",
)
def parked(trial: Trial) -> Answer:
    ended = outcome(trial.run("latest-wins", {"no": "event"}))
    url = trial.stack.parked_events_queue_url
    reason = json.loads(message(trial, url, '"no":"event"'))["reason"]
    is_named = reason["Error"] == "InvalidEvent"
    return seen(ended == "Parked" and is_named, f"{ended}: {reason}")


def message(trial: Trial, url: str, part: str) -> str:
    """Wait for a message that has a text in it, whatever its spaces."""
    sqs, found = trial.client("sqs"), list[str]()

    def came() -> bool:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        bodies = [each["Body"] for each in answer.get("Messages", [])]
        found.extend(each for each in bodies if part in each.replace(" ", ""))
        return bool(found)

    trial.wait(came, PATIENCE, f"a message with {part}")
    return found[0]


@question(
    "Do messages of a rule of the bus, and of functions, reach the queues?",
    "All of them. The questions before have those of state machines and of a sweep's retries.",
)
def queues(trial: Trial) -> Answer:
    # By the bus to the retry queue, whose function parks it.
    report = {"reason": {"Error": "FromTheBus", "rejected": True}, "event": {"from": "bus"}}
    entry = {"EventBusName": f"{trial.name}-retry-events", "Source": "inorder"}
    entry |= {"DetailType": "Retrying Event", "Detail": json.dumps(report)}
    trial.client("events").put_events(Entries=[entry])
    # By a sweep, which parks a record without an event.
    record = {"id": "by-hand/no-event", "in_progress_since": "2026-01-01T00:00:00+00:00"}
    trial.aws.table.put_item(Item=record | {"status": "IN_PROGRESS"})
    trial.client("lambda").invoke(FunctionName=trial.resources["HealKeysFunction"])
    for part in ("FromTheBus", "NoEvent"):
        message(trial, trial.stack.parked_events_queue_url, part)
    return seen(True, "all have come")


@question(
    "Does an event reach the encrypted dead-letter queue if the rule may start nothing?",
    "Soon, because EventBridge does not repeat what is denied. `inorder undelivered --redrive`"
    " starts it.",
    not_local="it has no dead-letter queue of a rule.",
)
def undelivered(trial: Trial) -> Answer:
    iam, key = trial.client("iam"), f"{PREFIX}undelivered.png"
    policy = {"RoleName": trial.resources["EventsRole"], "PolicyName": "denied"}
    statement = {"Effect": "Deny", "Action": "states:StartExecution", "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    iam.put_role_policy(**policy, PolicyDocument=json.dumps(document))
    sqs, url = trial.client("sqs"), trial.stack.undelivered_events_queue_url
    visible = "ApproximateNumberOfMessages"

    def waits() -> bool:
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[visible])
        return int(answer["Attributes"][visible]) > 0

    try:
        time.sleep(30)  # until IAM tells it everywhere
        trial.put(key, picture(RED))
        seconds = trial.wait(waits, 600, "a message")
    finally:
        iam.delete_role_policy(**policy)
    time.sleep(30)
    printed = trial.inorder("undelivered", "--redrive")
    trial.wait(lambda: bool(trial.output(key)), PATIENCE, "its output")
    return seen(True, f"after {seconds:.0f} s; its output is there after a redrive", printed)


# What a function does that is odd; for `boto3`, it raises what it has observed. The local AWS
# limits no memory, and scales waits.
ODD = ("large", "exit", "boto3", "memory", "slow")
ODD_LOCALLY = ODD[:3]


@question(
    "How does an execution end whose function answers too much, exits, is slow, or lacks memory;"
    " which boto3 does it have?",
    "As Retrying or Parked: no execution fails for itself. The guide says that States.ALL does not"
    " catch States.DataLimitExceeded; an answer of AWS recorded in 2024 says that it does."
    " boto3 is 1.35.69 or newer (docs/deploy.md).",
)
def odd_functions(trial: Trial) -> Answer:
    trial.deploy_main(WorkFunctionArn=trial.work["OddFunctionArn"])
    told = dict[str, Any]()
    try:
        for way in ODD_LOCALLY if trial.local else ODD:
            event = event_of(trial, f"by-hand/{way}", b"x", "00F1")
            ended = trial.run("latest-wins", event)
            output = json.loads(ended.get("output") or "{}")
            reason = output.get("reason", ended.get("cause"))
            told[way] = {"outcome": outcome(ended), "reason": reason}
    finally:
        trial.deploy_main(WorkFunctionArn="")
    outcomes = {way: each["outcome"] for way, each in told.items()}
    observed = f"{outcomes}; {told['boto3']['reason']}"
    return seen(set(outcomes.values()) <= {"Retrying", "Parked"}, observed, told)
