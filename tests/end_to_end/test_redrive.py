"""`inorder parked`, `inorder redrive` and `inorder stuck`, as a user runs them on a stack."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import EndpointConnectionError

from inorder.aws import parked
from inorder.aws.executions import wait_until
from tests.conftest import picture
from tests.end_to_end.conftest import (
    CYAN,
    GREEN,
    MAGENTA,
    RED,
    SECONDS,
    Inorder,
    Workflow,
    inorder_on,
)

CALL = "_make_api_call"  # of any boto3 client


@pytest.fixture
def inorder(monkeypatch: pytest.MonkeyPatch, workflow: Workflow) -> Iterator[Inorder]:
    sqs, queue = workflow.local.client("sqs"), workflow.stack.parked_events_queue_url
    sqs.purge_queue(QueueUrl=queue)
    yield inorder_on(workflow, monkeypatch)
    sqs.purge_queue(QueueUrl=queue)


def listed(inorder: Inorder) -> list[dict[str, Any]]:
    result = inorder("parked", "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def park(workflow: Workflow, body: str) -> None:
    """Send a message to the queue of parked events, as a state machine does."""
    workflow.local.client("sqs").send_message(
        QueueUrl=workflow.stack.parked_events_queue_url, MessageBody=body
    )


def park_bad_image(workflow: Workflow, key: str) -> dict[str, Any]:
    workflow.upload(key, b"no image")
    [failed] = workflow.of_key(key, 1)
    assert failed.outcome == "Parked"
    event: dict[str, Any] = failed.event
    return event


def park_newer_event(workflow: Workflow, key: str) -> dict[str, Any]:
    event = workflow.newer_event(key)
    named = {"object_key": workflow.record_id(key), "sequencer": ""}
    park(workflow, json.dumps({"outcome": "Parked", **named, "reason": {}, "event": event}))
    return event


def fail_once(monkeypatch: pytest.MonkeyPatch, operation: str, error: BaseException) -> None:
    """Let one call of an operation fail before it reaches AWS."""
    call: Any = vars(BaseClient)[CALL]
    failures = [error]

    def failing(client: Any, name: str, parameters: dict[str, Any]) -> Any:
        if name == operation and failures:
            raise failures.pop()
        return call(client, name, parameters)

    monkeypatch.setattr(BaseClient, CALL, failing)


def test_parked_shows_keys_as_they_are_and_consumes_nothing(
    inorder: Inorder, workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 1)
    hostile = "[red]x[/red].png"
    event = park_bad_image(workflow, hostile)
    park(workflow, json.dumps({"object_key": "\x1b[2J\u202e", "reason": None}))
    park(workflow, "no JSON [/]")
    for _ in range(2):
        result = inorder("parked")
        assert result.exit_code == 0, result.output
        [row] = [line for line in result.stdout.splitlines() if "InvalidImage: " in line]
        assert f" {workflow.record_id(hostile)} " in row
        assert event["detail"]["object"]["sequencer"] in row
        assert "\\x1b[2J\\u202e" in result.stdout
        assert "NoParkedEvent: no JSON [/]" in result.stdout
        assert not {"\x1b", "\u202e"} & set(result.stdout)
    [found] = [each for each in listed(inorder) if each.get("event")]
    assert found["event"] == event
    assert found["id"][:8] in row
    at_once = workflow.local.client("sqs").receive_message(
        QueueUrl=workflow.stack.parked_events_queue_url, MaxNumberOfMessages=10
    )
    assert len(at_once["Messages"]) == 3  # listing a message does not hide it from others


def test_a_redriven_event_is_superseded_if_its_object_was_replaced(
    inorder: Inorder, workflow: Workflow
) -> None:
    park_bad_image(workflow, "mended.png")
    workflow.upload("mended.png", picture(RED))
    workflow.of_key("mended.png", 2)
    [found] = listed(inorder)
    result = inorder("redrive", found["id"][:8])
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Started: {found['id'][:8]} {workflow.record_id('mended.png')}\n"
    outcomes = Counter(each.outcome for each in workflow.of_key("mended.png", 3))
    assert outcomes == {"Parked": 1, "Processed": 1, "Superseded": 1}
    assert listed(inorder) == []
    gone = inorder("redrive", found["id"])
    assert gone.exit_code == 1
    [line] = gone.stderr.splitlines()
    assert line.startswith(f"Error: No parked event has the ID {found['id']}.")
    assert inorder("parked").stderr == inorder("redrive", "--all").stderr == "Nothing is parked.\n"


def test_redrive_all_leaves_out_invalid_events(inorder: Inorder, workflow: Workflow) -> None:
    for key in ("bad-1.png", "bad-2.png"):
        park_bad_image(workflow, key)
    invalid_event = {"detail": {"object": {"key": "[/x].png", "sequencer": "0"}}}
    workflow.run(invalid_event)
    before = {each["id"]: each for each in listed(inorder)}
    [invalid] = [each["id"] for each in before.values() if "object_key" not in each]
    result = inorder("redrive", "--all")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 2
    [left_out] = result.stderr.splitlines()
    assert left_out.startswith(f"Left out, would fail again: {invalid[:8]} InvalidEvent: ")
    for key in ("bad-1.png", "bad-2.png"):
        assert [each.outcome for each in workflow.of_key(key, 2)] == ["Parked", "Parked"]
    after = {each["id"]: each for each in listed(inorder)}  # parked again, under other ids
    assert set(before) & set(after) == {invalid}
    assert len(after) == 3

    assert inorder("redrive", invalid).exit_code == 0
    wait_until(lambda: not workflow.executions.arns("RUNNING"), SECONDS, "its end")
    [again] = [each for each in workflow.parked() if "object_key" not in each]
    assert again["event"] == invalid_event


def test_an_id_that_fits_two_events_starts_none(inorder: Inorder, workflow: Workflow) -> None:
    wanted = 17  # of so many ids in hexadecimal, two begin alike
    for number in range(wanted):
        park(workflow, json.dumps({"object_key": str(number), "event": {}}))
    ids = sorted(each["id"] for each in listed(inorder))
    assert len(ids) == wanted
    start = next(a[0] for a, b in pairwise(ids) if a[0] == b[0])
    result = inorder("redrive", start)
    assert result.exit_code == 1
    assert result.stderr == f"Error: More than one parked event has the ID {start}.\n"
    assert len(workflow.parked()) == wanted


def test_an_event_that_could_not_be_started_stays_parked(
    inorder: Inorder, workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = park_newer_event(workflow, "unreachable.png")
    [found] = listed(inorder)
    fail_once(monkeypatch, "StartExecution", EndpointConnectionError(endpoint_url="http://x"))
    result = inorder("redrive", "--all")
    assert result.exit_code == 1
    assert result.stderr == 'Error: Could not connect to the endpoint URL: "http://x"\n'
    assert [each["id"] for each in listed(inorder)] == [found["id"]]
    assert inorder("redrive", "--all").exit_code == 0
    first, again = workflow.of_key("unreachable.png", 2)
    assert (first.outcome, again.outcome, again.event) == ("Processed", "Processed", event)
    assert listed(inorder) == []


@pytest.mark.parametrize("names", ["unique", "repeatable, as of Express on AWS"])
def test_a_redrive_that_is_interrupted_after_the_start_can_be_repeated(
    inorder: Inorder, workflow: Workflow, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    key = f"interrupted-{names[:6]}.png"
    park_newer_event(workflow, key)
    [found] = listed(inorder)
    fail_once(monkeypatch, "DeleteMessage", KeyboardInterrupt())
    result = inorder("redrive", found["id"])
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    assert [each["id"] for each in listed(inorder)] == [found["id"]]

    if names != "unique":
        call: Any = vars(BaseClient)[CALL]

        def nameless(client: Any, name: str, parameters: dict[str, Any]) -> Any:
            return call(client, name, {k: v for k, v in parameters.items() if k != "name"})

        monkeypatch.setattr(BaseClient, CALL, nameless)
    assert inorder("redrive", found["id"]).exit_code == 0
    assert listed(inorder) == []
    expected = {"Processed": 2} | ({} if names == "unique" else {"Duplicate": 1})
    executions = workflow.of_key(key, sum(expected.values()))
    assert Counter(each.outcome for each in executions) == expected
    workflow.assert_quiet()


def die_waiting(workflow: Workflow, key: str) -> None:
    """Upload a newer object behind a dead holder, and abort the execution that waits."""
    workflow.upload_behind(key, picture(GREEN))
    [waiter] = workflow.executions.arns("RUNNING")
    workflow.executions.stop(waiter)


def test_stuck_keys_are_found_and_processed(
    inorder: Inorder, slow_workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACK_NAME", slow_workflow.stack.name)
    slow_workflow.assert_quiet()
    keys = ("holder[/].png", "waiter.png", "broken.png")
    assert inorder("stuck").stderr == "No key is stuck.\n"
    for key in keys:
        slow_workflow.die_holding(key, picture(RED))
    die_waiting(slow_workflow, "waiter.png")
    # Its lock is broken by a waiter, which then dies too.
    slow_workflow.table.update_item(
        Key={"id": slow_workflow.record_id("broken.png")},
        UpdateExpression="REMOVE lock_token, execution",
    )
    assert inorder("stuck").stderr == "No key is stuck.\n"  # they could still live
    for key in keys:
        slow_workflow.age(slow_workflow.record_id(key))
    stuck = {key: slow_workflow.record(key) for key in keys}
    before = {key: len(slow_workflow.of_key(key, 1)) for key in stuck}
    slow_workflow.upload("busy.png", picture(RED))
    slow_workflow.wait_for_lock("busy.png")

    result = inorder("stuck")
    assert result.exit_code == 0, result.output
    for key, record in stuck.items():
        [row] = [line for line in result.stdout.splitlines() if f"/{key} " in line]
        assert record["sequencer"] in row
        assert " 0:11:" in row
        assert slow_workflow.record(key) == record
    assert "busy.png" not in result.stdout
    slow_workflow.of_key("busy.png", 1)

    result = inorder("stuck", "--redrive", "--seconds", "600")
    assert result.exit_code == 0, result.output
    assert sorted(line for line in result.stdout.splitlines() if "Sent" in line) == sorted(
        f"Sent to the retry queue: {slow_workflow.record_id(key)}" for key in stuck
    )
    for key, record in stuck.items():
        redriven = slow_workflow.of_key(key, before[key] + 1)
        assert len(redriven) == before[key] + 1
        newest = json.loads(record["event"])
        [again] = [each for each in redriven if "retry" in each.event]
        assert again.outcome == "Processed"
        assert newest.items() <= again.event.items()
        assert slow_workflow.colour(key) == (MAGENTA if key == "waiter.png" else CYAN)
    slow_workflow.assert_quiet()
    assert inorder("stuck", "--redrive").stderr == "No key is stuck.\n"


def test_a_stack_that_does_not_exist_or_has_another_template_is_reported_in_one_line(
    inorder: Inorder, workflow: Workflow
) -> None:
    for command in (["parked"], ["redrive", "--all"], ["stuck"]):
        result = inorder(*command, "--stack-name", "nowhere")
        assert result.exit_code == 1
        [line] = result.stderr.splitlines()
        assert line.startswith("Error: ")
        assert "nowhere" in line
    template = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    cloudformation = workflow.local.client("cloudformation")
    cloudformation.create_stack(StackName="another", TemplateBody=template)
    result = inorder("parked", "--stack-name", "another")
    assert result.exit_code == 1
    assert result.stderr == "Error: Stack another has no output InputBucketName.\n"


KEYS = ("held.png", "waited.png")


def test_the_schedule_heals_the_keys_of_a_holder_and_of_a_waiter(
    slow_workflow: Workflow,
) -> None:
    events = slow_workflow.local.client("events")
    name = slow_workflow.resource("HealKeysFunctionSweep").rpartition("/")[2]
    rule = events.describe_rule(Name=name)  # as it is deployed
    for key in KEYS:
        slow_workflow.die_holding(key, picture(RED))
    die_waiting(slow_workflow, "waited.png")
    for key in KEYS:
        slow_workflow.age(slow_workflow.record_id(key))

    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(15 minutes)", "ENABLED")
    schedule = {"Name": rule["Name"], "State": "ENABLED"}
    events.put_rule(**schedule, ScheduleExpression="rate(1 minute)")
    try:
        wait_until(
            lambda: all(slow_workflow.record(key)["status"] == "DONE" for key in KEYS),
            150,
            "a sweep, and the ends of the executions that it starts",
        )
    finally:
        events.put_rule(**schedule, ScheduleExpression=rule["ScheduleExpression"])
    wait_until(lambda: not slow_workflow.executions.arns("RUNNING"), SECONDS, "their ends")
    slow_workflow.assert_quiet()
    assert [slow_workflow.colour(key) for key in KEYS] == [CYAN, MAGENTA]
