"""`inorder executions`, `inorder execution` and `inorder why`, as a user runs them on a stack."""

from __future__ import annotations

import json
from typing import Any

from click.testing import Result

from inorder_fence.records import s3_object
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

    listed = lines(inorder("executions", "--prefix", "list/", "--json"))
    assert [each["ended_as"] for each in listed] == ["Processed", "Processed", "Superseded"]
    selected = ["--key", STRANGE, "--outcome", "superseded", "--since", "10m"]
    [superseded] = lines(inorder("executions", *selected, "--json"))
    [_, row] = succeeded(inorder("executions", *selected)).splitlines()
    assert row.split()[3:6] == [SHOWN, older, "Superseded"]

    shown = succeeded(inorder("execution", superseded["id"][:-1]))  # one test starts many alike
    assert f"ARN       {superseded['arn']}" in shown
    assert "attempt 1: DynamoDB.ConditionalCheckFailedException" in shown
    assert not {"\x1b", "\u202e"} & set(shown)

    told = succeeded(inorder("why", STRANGE)).splitlines()
    assert f"The newer event {newer}, recorded at " in told[2]
    output = SHOWN.replace("list/", "list/out-")
    assert f"The output {output} was made for event {newer}. That is right" in told[3]


def test_a_stack_that_does_not_exist_or_has_another_template_is_reported_in_one_line(
    workflow: Workflow, inorder: Inorder
) -> None:
    template = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    cloudformation = workflow.local.client("cloudformation")
    cloudformation.create_stack(StackName="another", TemplateBody=template)
    for stack, said in {"nowhere": "nowhere", "another": "no output InputBucketName"}.items():
        result = inorder("redrive", "--all", "--stack-name", stack)
        assert result.exit_code == 1
        [line] = result.stderr.splitlines()
        assert line.startswith("Error: ")
        assert said in line
