"""`inorder parked` and `inorder redrive`, as a user runs them on a stack."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import EndpointConnectionError

from inorder.aws import executions, parked, stack
from inorder.aws.executions import wait_until
from tests.conftest import picture
from tests.stack.conftest import RED, SECONDS, Inorder, Workflow, inorder_on

CALL = "_make_api_call"  # of any boto3 client
UNREACHABLE = 'Error: Could not connect to the endpoint URL: "x"'


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
    workflow.local.client("sqs").send_message(
        QueueUrl=workflow.stack.parked_events_queue_url, MessageBody=body
    )


def park_bad_image(workflow: Workflow, key: str) -> dict[str, Any]:
    workflow.upload(key, b"no image")
    [failed] = workflow.of_key(key, 1)
    assert failed.outcome == "Parked"
    event: dict[str, Any] = failed.event
    return event


def test_parked_shows_keys_as_they_are_and_consumes_nothing(
    inorder: Inorder, workflow: Workflow
) -> None:
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


def test_an_event_is_redriven_through_the_alias_if_there_is_one(
    inorder: Inorder, workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local CloudFormation has no alias of a state machine; the local Step Functions has."""
    states, machine = workflow.local.client("stepfunctions"), workflow.stack.state_machine_arn
    version = states.publish_state_machine_version(stateMachineArn=machine)
    routes = [{"stateMachineVersionArn": version["stateMachineVersionArn"], "weight": 100}]
    alias = states.create_state_machine_alias(name="live", routingConfiguration=routes)
    arn = alias["stateMachineAliasArn"]
    describe = stack.describe
    monkeypatch.setattr(stack, "describe", lambda *given: replace(describe(*given), started=arn))
    started: list[str] = []
    start = executions.start

    def record(client: Any, state_machine: str, *given: Any, **named: Any) -> str:
        started.append(state_machine)
        return start(client, state_machine, *given, **named)

    monkeypatch.setattr(parked, "start", record)
    event = park_bad_image(workflow, "by-alias.png")
    [found] = listed(inorder)
    assert inorder("redrive", found["id"]).exit_code == 0
    # The execution is found by the state machine's ARN, as it is without an alias.
    [first, again] = workflow.of_key("by-alias.png", 2)
    assert first.event == again.event == event
    assert started == [arn]
    told = inorder("executions", "--key", "by-alias.png")
    assert told.stdout.count("Parked") == 2, told.output


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


@pytest.mark.parametrize(
    ("operation", "error", "names", "outcomes"),
    [
        ("StartExecution", EndpointConnectionError(endpoint_url="x"), "unique", {"Processed": 2}),
        ("DeleteMessage", KeyboardInterrupt(), "unique", {"Processed": 2}),
        ("DeleteMessage", KeyboardInterrupt(), "as on AWS", {"Processed": 2, "Duplicate": 1}),
    ],
)
def test_a_redrive_that_fails_or_is_interrupted_keeps_the_event_and_can_be_repeated(
    inorder: Inorder,
    workflow: Workflow,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    error: BaseException,
    names: str,
    outcomes: dict[str, int],
) -> None:
    """On AWS, executions of an Express state machine may have equal names."""
    key = f"{operation} {names}.png"
    event = workflow.newer_event(key)
    named = {"object_key": workflow.record_id(key), "sequencer": ""}
    park(workflow, json.dumps({"outcome": "Parked", **named, "reason": {}, "event": event}))
    [found] = listed(inorder)
    call: Any = vars(BaseClient)[CALL]
    failures = [error]

    def failing(client: Any, name: str, parameters: dict[str, Any]) -> Any:
        if name == operation and failures:
            raise failures.pop()
        if names != "unique":
            parameters = {each: value for each, value in parameters.items() if each != "name"}
        return call(client, name, parameters)

    monkeypatch.setattr(BaseClient, CALL, failing)
    result = inorder("redrive", found["id"])
    assert result.exit_code == 1
    assert result.stderr.strip() in {UNREACHABLE, "Aborted!"}
    assert [each["id"] for each in listed(inorder)] == [found["id"]]
    assert inorder("redrive", "--all").exit_code == 0
    assert listed(inorder) == []
    executions = workflow.of_key(key, sum(outcomes.values()))
    assert Counter(each.outcome for each in executions) == outcomes
    workflow.assert_quiet()


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
