"""What becomes of an event that failed: it is retried, parked and redriven, or healed."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import EndpointConnectionError

from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder_fence.records import s3_object
from tests.conftest import WAIT_SCALE, picture
from tests.stack.conftest import CYAN, RED, SECONDS, Inorder, Workflow
from tests.support import held_calls
from tests.support.events import created
from tests.support.held_calls import HeldCalls

# Markup of rich, an escape, and an override of the direction.
STRANGE = "[red]x\x1b[2J\u202e[/red].png"
SHOWN = r"[red]x\x1b[2J\u202e[/red].png"


@pytest.fixture(scope="module")
def workflow_and_held(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Workflow, HeldCalls]]:
    with held_calls.running(tmp_path_factory.mktemp("recovery"), WAIT_SCALE) as (local, held):
        yield Workflow(local, deploy(local, "recovers", {})), held


@pytest.fixture(scope="module")
def workflow(workflow_and_held: tuple[Workflow, HeldCalls]) -> Workflow:
    return workflow_and_held[0]


def listed(inorder: Inorder, queue: str) -> list[dict[str, Any]]:
    result = inorder(queue, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


# Retries


@pytest.mark.parametrize("is_refused_by_sqs", [False, True])
def test_a_throttled_event_is_listed_and_retried_until_capacity_returns(
    workflow: Workflow, inorder: Inorder, is_refused_by_sqs: bool
) -> None:
    key, queue = f"{'long' * 200}-{is_refused_by_sqs}.png", workflow.stack.retry_events_queue_url

    def accept(size: str) -> None:
        workflow.local.client("sqs").set_queue_attributes(
            QueueUrl=queue, Attributes={"MaximumMessageSize": size}
        )

    [usual] = workflow.queue_attributes(queue, "MaximumMessageSize")
    if is_refused_by_sqs:
        accept("1024")  # of a state machine; ministack's bus does not ask
    with workflow.limited(0):
        workflow.upload(key, picture(RED))
        [failed] = workflow.of_key(key, 1, is_retried=True)
        assert failed.outcome == "Retrying"
        assert ("Send By EventBridge" in failed.path) == is_refused_by_sqs
        waiting: list[dict[str, Any]] = []

        def is_listed() -> bool:  # not while the event is being started again
            waiting[:] = listed(inorder, "retrying")
            return bool(waiting)

        wait_until(is_listed, SECONDS, "the event to wait")
        [shown] = waiting
        [record] = workflow.unfinished()
        assert "lock_token" not in record  # its key is free meanwhile
        assert "TooManyRequests" in shown["reasons"][0]
    accept(usual)
    workflow.wait_for_retries()
    [again] = workflow.of_key(key, 1)
    assert ":retry-" in again.arn
    assert s3_object(again.event) == s3_object(failed.event)
    assert again.event["retry"]["attempt"] >= shown["attempts"]
    assert workflow.colour(key) == CYAN
    assert listed(inorder, "retrying") == workflow.parked() == []


def test_undelivered_events_are_listed_with_their_error_and_started(
    workflow: Workflow, inorder: Inorder
) -> None:
    with workflow.without_events():
        workflow.upload("lost.png", picture(RED))
    head = workflow.s3.head_object(Bucket=workflow.stack.input_bucket, Key="lost.png")
    etag = head["ETag"].strip('"')
    event = created("lost.png", bucket=workflow.stack.input_bucket, etag=etag)
    # The second is what a state machine could not bring to the retry queue.
    report = {"outcome": "Retrying", "event": event, "reason": {}}
    for body in (event, {"source": "inorder", "detail": report}, "text"):
        workflow.local.client("sqs").send_message(
            QueueUrl=workflow.stack.undelivered_events_queue_url,
            MessageBody=json.dumps(body),
            MessageAttributes={
                "ERROR_CODE": {"DataType": "String", "StringValue": "NO_PERMISSIONS"}
            },
        )
    undelivered = listed(inorder, "undelivered")
    assert [entry.get("event") for entry in undelivered].count(event) == 2
    assert {entry["reason"]["Error"] for entry in undelivered} == {"NO_PERMISSIONS"}
    result = inorder("undelivered", "--redrive")
    assert (result.exit_code, result.stdout.count("Started: ")) == (0, 2)
    ended = Counter(execution.outcome for execution in workflow.of_key("lost.png", 2))
    assert ended == {"Processed": 1, "Duplicate": 1}
    assert len(listed(inorder, "undelivered")) == 1
    assert workflow.colour("lost.png") == CYAN


# Parked events


def park(workflow: Workflow, body: str) -> None:
    workflow.local.client("sqs").send_message(
        QueueUrl=workflow.stack.parked_events_queue_url, MessageBody=body
    )


def test_parked_events_are_redriven_unless_they_would_fail_again(
    workflow: Workflow, inorder: Inorder
) -> None:
    for key in (STRANGE, "mended.png"):
        workflow.upload(key, b"no image")
        assert [execution.outcome for execution in workflow.of_key(key, 1)] == ["Parked"]
    workflow.upload("mended.png", picture(RED))
    workflow.of_key("mended.png", 2)
    invalid_event = {"detail": {"object": {"key": "[/x].png", "sequencer": "0"}}}
    workflow.run(invalid_event)
    park(workflow, "no JSON [/]")
    for _ in range(2):  # to list a message does not hide it
        shown = inorder("parked").stdout
        assert SHOWN in shown
        assert not {"\x1b", "\u202e"} & set(shown)
    before = {entry["id"]: entry for entry in listed(inorder, "parked")}
    assert len(before) == 4
    [invalid] = [name for name, entry in before.items() if entry.get("event") == invalid_event]

    result = inorder("redrive", "--all")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert [execution.outcome for execution in workflow.of_key(STRANGE, 2)] == ["Parked"] * 2
    outcomes = Counter(execution.outcome for execution in workflow.of_key("mended.png", 3))
    assert outcomes == {"Parked": 1, "Processed": 1, "Superseded": 1}
    after = {entry["id"] for entry in listed(inorder, "parked")}  # parked again, with another ID
    assert (len(after), len(after & before.keys())) == (3, 2)

    assert inorder("redrive", invalid[:8]).exit_code == 0
    wait_until(lambda: not workflow.executions.arns("RUNNING"), SECONDS, "its end")
    left = {entry["id"]: entry for entry in listed(inorder, "parked")}
    assert invalid not in left
    assert invalid_event in [entry.get("event") for entry in left.values()]


@pytest.mark.parametrize(
    ("operation", "error", "is_name_unique", "outcomes"),
    [
        ("StartExecution", EndpointConnectionError(endpoint_url="x"), True, {"Processed": 2}),
        ("DeleteMessage", KeyboardInterrupt(), True, {"Processed": 2}),
        # On AWS, executions of an Express state machine may have equal names.
        ("DeleteMessage", KeyboardInterrupt(), False, {"Processed": 2, "Duplicate": 1}),
    ],
)
def test_a_failed_or_interrupted_redrive_keeps_the_event(
    inorder: Inorder,
    workflow: Workflow,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    error: BaseException,
    is_name_unique: bool,
    outcomes: dict[str, int],
) -> None:
    key = f"{operation} {is_name_unique}.png"
    workflow.upload(key, picture(RED))
    workflow.of_key(key, 1)
    [event] = workflow.events(key, 1)
    event["detail"]["object"]["sequencer"] += "1"  # newer, and not delivered
    park(workflow, json.dumps({"object_key": key, "event": event | {"retry": {"attempt": 9}}}))
    [shown] = listed(inorder, "parked")
    call: Callable[..., Any] = vars(BaseClient)["_make_api_call"]
    failures = [error]

    def failing(client: Any, name: str, parameters: dict[str, Any]) -> Any:
        if name == operation and failures:
            raise failures.pop()
        if name == "StartExecution" and not is_name_unique:
            del parameters["name"]
        return call(client, name, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", failing)
    assert inorder("redrive", shown["id"]).exit_code == 1
    assert [entry["id"] for entry in listed(inorder, "parked")] == [shown["id"]]
    assert inorder("redrive", "--all").exit_code == 0
    assert listed(inorder, "parked") == []
    executions = workflow.of_key(key, sum(outcomes.values()))
    assert Counter(execution.outcome for execution in executions) == outcomes
    # Without its history, so that it has all attempts again.
    assert event in [execution.event for execution in executions]
    workflow.assert_quiet()


# Executions that die


def test_the_command_or_the_schedule_heals_a_stuck_key(
    workflow_and_held: tuple[Workflow, HeldCalls], inorder: Inorder
) -> None:
    workflow, held = workflow_and_held

    def die_holding(key: str) -> dict[str, Any]:
        with held.holding("Invert Image", "before") as reached:
            workflow.upload(key, picture(RED))
            wait_until(reached.exists, SECONDS, "the call of the function")
            workflow.executions.stop(workflow.record(key)["execution"])
        printed = inorder("stuck").stderr  # its execution could still live
        assert printed == "In progress for 6 minutes or longer: 0 keys.\n"
        workflow.age(workflow.record_id(key))
        return workflow.record(key)

    record = die_holding("by-command.png")
    assert record["id"] in inorder("stuck").stdout
    assert workflow.record("by-command.png") == record
    assert inorder("stuck", "--redrive").exit_code == 0
    [again] = [
        execution
        for execution in workflow.of_key("by-command.png", 2)
        if "retry" in execution.event
    ]
    assert again.outcome == "Processed"
    assert json.loads(record["event"]).items() <= again.event.items()

    record = die_holding("by-schedule.png")
    events, rule = workflow.local.client("events"), workflow.resource("HealKeysFunctionSweep")
    described = events.describe_rule(Name=rule.rpartition("/")[2])
    assert (described["ScheduleExpression"], described["State"]) == ("rate(1 minute)", "ENABLED")
    # The rule's target is invoked as by its schedule, without the wait for it.
    events.put_rule(Name=described["Name"], EventPattern=json.dumps({"source": ["minute"]}))
    minute = {"Source": "minute", "DetailType": "Scheduled Event", "Detail": "{}"}
    events.put_events(Entries=[minute])
    wait_until(lambda: workflow.record("by-schedule.png")["status"] == "DONE", SECONDS, "a sweep")
    workflow.of_key("by-schedule.png", 2)
    workflow.assert_quiet()
    assert workflow.colour("by-schedule.png") == CYAN
