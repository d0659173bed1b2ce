"""Each rule of `inorder check`, on the shipped files and copies that break it."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inorder import PROJECT
from inorder.asl import check_file
from inorder.asl.roles import Role, doing
from inorder.asl.seconds import longest_execution
from inorder.asl.size import MOST_BYTES, largest_answer, largest_event
from inorder.model import policies
from inorder.model.policies import asl_file
from tests.proof.simulation.clock import Outage
from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import DAY, assert_promise
from tests.proof.simulation.machine import Machine
from tests.support.commands import run
from tests.support.replacing import replaced

FILE = PROJECT / asl_file("latest-wins")
# A row edits a file: in which place, ``state/field/0``, ``policy: state/field`` or, of the whole
# file, ``/field``, and what is put there: JSON; nothing (a dash); a copy of another place (=); or
# the text with another part (~old~new). At +0 is one more. Indented lines belong to the row before.
# A wrong row ends with the finding, whose words have dots for others in between: about the state
# that was edited, or naming another one.
WRONG = r"""
Wait For Lock/Secondz | 3 | language: ... Secondz
Wait For Lock/SecondsPath | "$.polls" | language: ... only one of
Read Key Record/Next | "Nowhere" | language: ... Nowhere
Count Poll | - | Record Newest Event: language: ... Count Poll
Read Key Record/Next | ["Key State?"] | language: a value has a wrong type
Idle | {"Comment": "c", "Type": "Pass", "End": true} | Idle: language: No transition found
Claim Key/Catch/0/ErrorEquals | ["States.ALL"] | language: ... States.ALL
Release Lock/Retry/1/JitterStrategy | "HALF" | language: ... HALF
Release Lock/Parameters/Key/id/S.$ | "object_key" | language: ... not a JSONPath
Release Lock/Retry/1/BackoffRate | {"rate": 2} | language: ... a Float
Release Lock/Parameters | ["x"] | language: its Parameters must be an object
Key State?/Choices/0/And/0/Variable | 3 | language: the Variable of a rule
Rejected?/Default | - | default: a Choice without Default
Release Lock/Parameters/TableNam | "x" | parameters: Unknown parameter
Release Lock/Parameters/Key/id | {"S": 3} | parameters: Invalid type

Read Key Record/Catch | - | catch: an error may end
Read Key Record/Catch/-1/ErrorEquals | ["States.TaskFailed"] | catch: ... States.ALL
Claim Key/Retry/0/ErrorEquals | ["DynamoDB.RequestLimitExceeded"]
  error: dynamodb has no error ... write DynamoDB.RequestLimitExceededException
Claim Key/Catch/0/ErrorEquals | ["DynamoDb.ConditionalCheckFailedException"]
  error: ... write DynamoDB.ConditionalCheckFailedException
Claim Key/Catch/0/ErrorEquals | ["ConditionalCheckFailedException"]
  error: ... write DynamoDB.ConditionalCheckFailedException
Claim Key/Catch/0/ErrorEquals | ["Lambda.TooManyRequestsException"] | error: dynamodb has no error
Claim Key/Retry/0/ErrorEquals | ["States.TimedOut"] | error: ... no error States.TimedOut
Invert Image/Retry/0/ErrorEquals | ["Lambda.TooManyRequests"]
  error: ... write Lambda.TooManyRequestsException
Invert Image/Catch/0/ErrorEquals | ["InvalidImage"] | error: not every engine ... InvalidImage
Start Newest Event/Catch/+0 | {"ErrorEquals": ["StepFunctions.ExecutionLimitExceeded"]}
  Start Newest Event/Catch/0/Next | "Processed"
  error: ... write StepFunctions.ExecutionLimitExceededException
Send By EventBridge/Retry/0/ErrorEquals | ["Events.FailedEntry"] | error: events has no error

Both | {"Comment": "c", "Type": "Parallel", "Branches": [{"StartAt": "A"}]}
  Both/Branches/0/States | {"A": {"Type": "Succeed"}} | Both/Next | "Invert Image"
  Claim Key/Next | "Both" | Both: type: ... Parallel
Read Key Record/Resource | "arn:aws:states:::aws-sdk:dynamodb:getItem" | type: ... getItem
Read Key Record/Resource | - | type: ... Resource, none
Start Newest Event/Resource | ~Execution~Execution.sync:2
  express: Step Functions refuses .sync:2 in an EXPRESS
Start Newest Event/Resource | ~Execution~Execution.sync | express: ... refuses .sync in
Start Newest Event/Resource | ~Execution~Execution.waitForTaskToken | express: ... .waitForTaskToken
Invert Image/Resource | "arn:aws:states:us-east-1:123456789012:activity:x" | express: ... activity
/QueryLanguage | "JSONPath" | jsonata: ... QueryLanguage
Rejected?/Choices/0 | {"Variable": "$.sequencer", "StringLessThanPath": "$.sequencer"}
  Rejected?/Choices/0/Next | "Final Outcome?" | operator: StringLessThanPath
Rejected?/Choices/0/Not/IsPresent | false | operator: IsPresent: false
Count Poll/Parameters/x.$ | "States.MathRandom(1, 2)" | intrinsic: ... States.MathRandom
Count Poll/Parameters/x.$ | "States.Format('\u00e9')" | intrinsic: escapes and non-ASCII
Count Poll/Parameters/x.$ | "$$.Execution.StartTime" | context: $$.Execution.StartTime
Invert Image/ResultSelector/x.$ | "$$.Execution.Id" | context: ... in ResultSelector
Give Up Waiting/Result/Cause | null | null: ... Result

Key State?/Choices/2/And/0 | - | absent: ... $.record.Item.sequencer.S
Prepare Version/Parameters | {} | Claim Key: absent: ... $.object_key
Count Poll/Parameters/sequencer.$ | - | Key State?: absent: ... $.sequencer
S3 Object Event?/Choices/0/Not/And/4 | - | absent: ... $.detail.object.key
Outcome?/Choices/2/And/5 | - | Reject Object: absent: ... $.inversion.Payload.cause
Invert Image/ResultSelector/x.$ | "$.FunctionError" | absent: ... $.FunctionError
Retrying/Parameters/reason.$ | "$.fault.Reason" | absent: ... $.fault.Reason
Parked/CausePath | "$.fault.Reason" | absent: ... $.fault.Reason
Count Poll/InputPath | "$.unrecorded" | absent: ... $.polls
Count Poll/Parameters/polls.$ | "States.MathAdd($.reads, 1)" | absent: ... $.reads
Release Lock/Parameters/UpdateExpression | ~REMOVE~REMOVE event,
  Release Lock Only: absent: ... $.Attributes.event.S

Invert Image/TimeoutSeconds | 131
  seconds: the longest execution takes 301 s ... before 300 s: Invert Image 175, Release
Read Key Record/TimeoutSeconds | - | seconds: nothing bounds its seconds
Wait For Lock/Seconds | - | Wait For Lock/SecondsPath | "$.object_key" | seconds: nothing bounds its
Count Poll/Parameters/polls.$ | "$.polls" | Read Key Record: seconds: nothing bounds how often
Count Poll/Parameters/polls.$ | "States.MathAdd($.polls, 0)" | Read Key Record: seconds: nothing
Key State?/Choices/4/NumericGreaterThanEquals | 12 | seconds: the longest
/TimeoutSeconds | 290 | seconds: ... 292 s, and must end before 290 s
/TimeoutSeconds | 400 | seconds: TimeoutSeconds is 400, but Express
uncoordinated: Invert Image/Retry/-1/MaxAttempts | 14 | seconds: ... must end before 300 s

Prepare Event/Parameters/x | @texts | size: its data is above 262,144 bytes ... an event of more
Reject Object/Parameters/fault/Cause.$
  "States.Format('{}{}{}{}', $.inversion.Payload, $.inversion, $.inversion, $.inversion)"
  Parked: size: its cause is above 32,768 bytes ... an answer of more
"""
RIGHT = r"""
Invert Image/TimeoutSeconds | 128
/TimeoutSeconds | 294
Release Lock/Retry/2/MaxAttempts | 0 | Release Lock/TimeoutSeconds | 3
Release Lock/Parameters/ConditionExpression
  "sequencer = :sequencer AND lock_token = :lock_token"
Prepare Event/Parameters/object_key.$ | ~{}/{}~team/{}/{}
Check | =Read Key Record | Check/ResultPath | "$.found" | Check/Next | "Invert Image"
  Check/Catch | [{"ErrorEquals": ["States.ALL"], "Next": "Hand Over Event"}]
  Check/Catch/0/ResultPath | "$.fault" | Claim Key/Next | "Check"
  Invert Image/TimeoutSeconds | 120
Wait For Lock/Seconds | - | Wait For Lock/SecondsPath | "$.pause"
  Count Poll/Parameters/pause.$ | "States.MathAdd($.polls, 1)"
"""


def rows(text: str) -> Iterator[list[str]]:
    """Give the rows of a table; ``@texts`` stands for twenty copies of the event as a text."""
    texts = ", ".join(['{"x.$": "States.JsonToString($$.Execution.Input)"}'] * 20)
    joined = " | ".join(re.split(r"\n +", f"[{texts}]".join(text.split("@texts"))))
    yield from (row.split(" | ") for row in filter(None, joined.splitlines()))


def edited(columns: list[str]) -> dict[str, Any]:
    """Load a file with other values in some places; a LookupError says that it has no such place.

    The columns are places and values in turn.
    """
    named, _, first = columns[0].rpartition(": ")
    definition = policies.definition(named or "latest-wins")
    for place, value in zip([first, *columns[2::2]], columns[1::2], strict=True):
        inside, last = inside_of(definition, place)
        if value == "-":
            del inside[last]
        elif value[0] == "~":
            _, old, new = value.split("~")
            inside[last] = replaced(inside[last], old, new)
        else:
            whole, name = inside_of(definition, value[1:]) if value[0] == "=" else ([value], 0)
            put = copy.deepcopy(whole[name]) if value[0] == "=" else json.loads(value)
            if "/+" in place:
                inside.insert(last, put)
            else:
                inside[last] = put
    return definition


def inside_of(definition: Any, place: str) -> tuple[Any, Any]:
    """Give what a place is in, and its name or number there."""
    *parents, name = place[1:].split("/") if place[0] == "/" else ["States", *place.split("/")]
    for parent in parents:
        definition = definition[int(parent) if isinstance(definition, list) else parent]
    return definition, int(name) if isinstance(definition, list) else name


def written(tmp_path: Path, definition: Any) -> Path:
    file = tmp_path / "edited.asl.json"
    file.write_text(json.dumps(definition))
    return file


@pytest.mark.parametrize("row", list(rows(WRONG)), ids=" | ".join)
def test_a_wrong_edit_is_refused(tmp_path: Path, row: list[str]) -> None:
    *columns, expected = row
    findings = check_file(written(tmp_path, edited(columns)))
    state = columns[0].rpartition(": ")[2].partition("/")[0]
    words = ".*".join(map(re.escape, expected.split(" ... ")))
    pattern = f"({re.escape(state)}: )?{words}"
    assert any(re.match(pattern, finding) for finding in findings), findings
    assert len({*findings}) == len(findings)


@pytest.mark.parametrize("row", list(rows(RIGHT)), ids=" | ".join)
def test_a_right_edit_is_accepted_and_keeps_the_promise(tmp_path: Path, row: list[str]) -> None:
    definition = edited(row)
    assert check_file(written(tmp_path, definition)) == []
    outages = [Outage("lambda", 0, 100), Outage("lambda", 300, 370, "silence")]
    cloud = Cloud(Settings(outages=outages))
    cloud.machine = Machine(definition)
    for number in range(12):
        cloud.upload(f"{number % 2}.png", 60 * (number // 2))
    cloud.run_until_quiet(DAY)
    assert_promise(cloud)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, "json: not valid JSON: ") for text in ("{", "", "\xff", "[" * 100_000)),
        ('{"StartAt": "A", "States": {}, "States": {}}', "json: not valid JSON: 'States' is there"),
        ("{}", "language: not a state machine"),
        ("[]", "language: not a state machine"),
        ('{"States": {"A": null}}', "language: not a state machine"),
    ],
)
def test_a_file_that_is_no_state_machine_is_found(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "broken.asl.json"
    file.write_text(text, encoding="latin-1")
    [finding] = check_file(file)
    assert finding.startswith(expected)
    assert check_file(tmp_path) == ["json: cannot be read: Is a directory"]


def test_a_standard_file_may_wait_a_year_and_for_executions(tmp_path: Path) -> None:
    rows = [
        *("Wait For Lock/Seconds", "31536000", "Read Key Record/TimeoutSeconds", "-"),
        *("Start Newest Event/Resource", "~Execution~Execution.sync:2"),
        *("Start Newest Event/Catch", "-", "Count Poll/Parameters/polls.$", '"$.other"'),
    ]
    file = written(tmp_path, edited(rows))
    assert check_file(file, standard=True) == []
    for arguments, code, words in (
        ([str(file)], 1, f"{file}: Start Newest Event: express: Step Functions refuses"),
        ([str(file), "--standard"], 0, "no findings"),
    ):
        result = run("check", *arguments)
        printed = result.stdout + result.stderr
        assert (result.exit_code, words in printed) == (code, True), printed


@pytest.mark.parametrize(
    "file", [*PROJECT.glob("examples/*/*.asl.json")], ids=lambda file: file.parent.name
)
def test_an_example_has_no_findings(file: Path) -> None:
    template = (file.parent / "template.yaml").read_text()
    assert check_file(file, standard="Type: STANDARD" in template) == []


@pytest.mark.parametrize(
    ("policy", "numbers"),
    [
        # A record has the event as a text, whose characters JSON may double.
        ("latest-wins", "292 s, events of up to 126,637 bytes, answers of up to 32,569 bytes"),
        ("uncoordinated", "84 s, events of up to 261,025 bytes, answers of up to 261,120 bytes"),
    ],
)
def test_check_prints_what_a_file_can_take(policy: str, numbers: str) -> None:
    file = PROJECT / asl_file(policy)
    assert run("check", str(file)).stdout == f"{file}: longest execution {numbers}\n"


def machine(**states: Any) -> dict[str, Any]:
    """Build a state machine that begins with the first state."""
    return {"StartAt": next(iter(states)), "States": states}


def test_each_copy_of_an_event_or_answer_counts() -> None:
    invoke = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "f", "Payload": "x"},
        "TimeoutSeconds": 1,
        "Catch": [{"ErrorEquals": ["States.DataLimitExceeded"], "Next": "End"}],
        "Next": "Keep",
    }
    template = {"a.$": "$.Payload.a", "b.$": "$.Payload.b", "c.$": "$.Payload.c"}
    keep = {"Type": "Pass", "Parameters": template, "End": True}
    parts = machine(Invoke=invoke, Keep=keep, End={"Type": "Pass", "Result": {}, "End": True})
    assert MOST_BYTES - largest_answer(parts) < 100  # parts are together as large as the answer
    template["d.$"] = "$.Payload"
    assert largest_answer(parts) * 2 < MOST_BYTES
    copies = {"x.$": "$.detail", "y.$": "$$.Execution.Input"}
    twice = machine(Keep=keep | {"Parameters": copies})
    assert 0 <= MOST_BYTES / 2 - largest_event(twice) < 100
    assert largest_answer(twice) == MOST_BYTES


def test_a_wait_for_counted_seconds_takes_that_long() -> None:
    enough = {"Variable": "$.n", "NumericGreaterThanEquals": 4, "Next": "End"}
    definition = machine(
        Begin={"Type": "Pass", "Result": {"n": 0}, "Next": "Count"},
        Count={"Type": "Pass", "Parameters": {"n.$": "States.MathAdd($.n, 1)"}, "Next": "Wait"},
        Wait={"Type": "Wait", "SecondsPath": "$.n", "Next": "Enough"},
        Enough={"Type": "Choice", "Choices": [enough], "Default": "Count"},
        End={"Type": "Succeed"},
    )
    assert longest_execution(definition) == 1 + 2 + 3 + 4


def test_a_states_roles_are_read_with_and_without_substitutions() -> None:
    text = FILE.read_text(encoding="utf-8")
    substituted = "x".join(re.split(r"\$\{\w+\}", text))
    assert substituted != text
    for states in (json.loads(definition)["States"] for definition in (text, substituted)):
        assert {role.value: {*doing(states, role)} for role in Role} == {
            "claims": {"Claim Key"},
            "records": {"Claim Key", "Record Newest Event"},
            "works": {"Invert Image"},
            "releases": {"Release Lock", "Release Unprocessed Key", "Release Lock Only"},
            "starts": {"Start Newest Event"},
            "hands over": {"Hand Over Event", "Send By EventBridge"},
        }
