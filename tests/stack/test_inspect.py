"""`inorder executions`, `inorder execution` and `inorder why`, as a user runs them on a stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from inorder.aws.executions import s3_object
from inorder.aws.stack import Connection
from inorder.aws.usage import measure
from tests.conftest import picture
from tests.stack.conftest import GREEN, RED, Inorder, Workflow

# Markup of rich, an escape, a newline, an override of the direction, and text from right to left.
STRANGE = "list/[red]b\x1b[31m\n\u202e\u05e9\u05dc\u05d5\u05dd.png"
SHOWN = r"list/[red]b\x1b[31m\n\u202e" + "\u05e9\u05dc\u05d5\u05dd.png"


def succeeded(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def lines(result: Result) -> list[Any]:
    return [json.loads(line) for line in succeeded(result).splitlines()]


def test_executions_are_listed_one_is_shown_and_why_tells_their_story(
    workflow: Workflow, inorder: Inorder
) -> None:
    for number, colour in enumerate((RED, GREEN), 1):
        workflow.upload(STRANGE, picture(colour))
        workflow.of_key(STRANGE, number)
    events = workflow.events(STRANGE, 2)
    workflow.run(events[0])
    older, newer = (s3_object(each)["sequencer"] for each in events)
    workflow.upload("list/bad.png", b"no image")
    workflow.of_key("list/bad.png", 1)

    listed = lines(inorder("executions", "--prefix", "list/", "--json"))
    assert [(each["key"], each["ended_as"]) for each in listed] == [
        (STRANGE, "Processed"),
        (STRANGE, "Processed"),
        (STRANGE, "Superseded"),
        ("list/bad.png", "Parked"),
    ]
    assert all(each["seconds"] > 0 and each["waited"] == 0 for each in listed)
    selected = ["--key", STRANGE, "--outcome", "superseded", "--since", "10m"]
    [superseded] = lines(inorder("executions", *selected, "--json"))
    [heading, row] = succeeded(inorder("executions", *selected)).splitlines()
    assert heading.startswith("Start (UTC)")
    assert row.split()[3:6] == [SHOWN, older, "Superseded"]
    assert superseded["id"].startswith(row.split()[2])
    assert inorder("executions", "--prefix", "none/").stderr == "There are no such executions.\n"

    shown = succeeded(inorder("execution", superseded["id"][:-1]))  # one test starts many alike
    assert f"ARN       {superseded['arn']}" in shown
    assert "attempt 1: DynamoDB.ConditionalCheckFailedException" in shown
    assert "Superseded (Pass, 0.0 s)" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
    whole = json.loads(succeeded(inorder("execution", superseded["arn"], "--json")))
    assert whole["steps"][-1]["output"]["outcome"] == "Superseded"

    told = succeeded(inorder("why", STRANGE)).splitlines()
    outcomes = [line.split(": ")[2].partition(".")[0] for line in told[:3]]
    assert outcomes == ["Processed", "Processed", "Superseded"]
    assert f"event {older} (created)" in told[2]
    assert f"The newer event {newer}, recorded at " in told[2]
    output = SHOWN.replace("list/", "list/out-")
    assert f"The output {output} is that of event {newer}. That is right" in told[3]
    story = json.loads(succeeded(inorder("why", STRANGE, "--json")))
    assert (story["key"], story["verdict"]["state"]) == (STRANGE, "right")
    assert story["deliveries"][2]["cause"]["execution"] == story["deliveries"][1]["execution"]
    told_of_bad = succeeded(inorder("why", "list/bad.png"))
    assert "Parked. InvalidImage: not a readable image" in told_of_bad
    assert "There is no output." in told_of_bad


def test_follow_prints_what_starts_and_what_ends_until_it_is_interrupted(
    workflow: Workflow, inorder: Inorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens: list[Callable[[], object]] = [
        lambda: workflow.upload("follow/x.png", picture(RED)),
        lambda: workflow.of_key("follow/x.png", 1),
    ]

    def sleep(_: float) -> None:
        if not happens:
            raise KeyboardInterrupt
        happens.pop(0)()

    monkeypatch.setattr("inorder.commands.executions.time", SimpleNamespace(sleep=sleep))
    seen = lines(inorder("executions", "--prefix", "follow/", "--follow", "--json"))
    assert {each["key"] for each in seen} == {"follow/x.png"}
    assert [each["ended_as"] for each in seen if each["ended_as"] != "Running"] == ["Processed"]


def test_each_metric_that_a_bill_needs_is_asked_for(workflow: Workflow) -> None:
    measured = measure(Connection(workflow.stack.name, workflow.local), 1)
    assert (measured.memory, measured.used["alarms"]) == (1769, 7)
    asked = "\n".join(measured.silent)
    for name in (
        f"ExecutionsStarted of {workflow.stack.state_machine_arn}",
        f"ConsumedWriteCapacityUnits of {workflow.stack.key_table}, InProgress",
        f"ConsumedReadCapacityUnits of {workflow.stack.key_table}, InProgress",
        f"IncomingBytes of /aws/vendedlogs/states/{workflow.stack.name}",
        f"NumberOfEmptyReceives of {workflow.stack.retry_events_queue_url.rsplit('/', 1)[-1]}",
        f"Invocations of {workflow.resource('HealKeysFunction')}",
    ):
        assert name in asked


def test_a_stack_that_does_not_exist_or_has_another_template_is_reported_in_one_line(
    workflow: Workflow, inorder: Inorder
) -> None:
    template = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    cloudformation = workflow.local.client("cloudformation")
    cloudformation.create_stack(StackName="another", TemplateBody=template)
    for command in (["parked"], ["redrive", "--all"], ["stuck"], ["why", "x"], ["audit"]):
        for stack, said in {"nowhere": "nowhere", "another": "no output InputBucketName"}.items():
            result = inorder(*command, "--stack-name", stack)
            assert result.exit_code == 1
            [line] = result.stderr.splitlines()
            assert line.startswith("Error: ")
            assert said in line
