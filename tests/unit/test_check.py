"""Each rule of `inorder check`, on the shipped files and copies that break it."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inorder import PROJECT, asl
from inorder.asl import check_file
from inorder.asl.roles import Role, doing, roles
from inorder.asl.size import largest_event
from inorder.model import policies
from inorder.model.policies import asl_file
from tests.proof.simulation.clock import Outage
from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import DAY, assert_promise
from tests.proof.simulation.machine import Machine

FILE = PROJECT / asl_file("latest-wins")
# A row edits a file: in which place, ``state/field/0``, ``policy: state/field`` or, of the whole
# file, ``/field``, and what is put there: JSON; nothing (a dash); a copy of another place (=); or
# the text with another part (~old~new). At +0 is one more. Indented lines belong to the row before.
# A wrong row ends with the finding, whose words have dots for others in between: about the state
# that was edited, or naming another one.
WRONG = r"""
Wait For Lock/Seconds | 3 | language: ... only one of
Read Key Record/Next | "Nowhere" | language: ... Nowhere
Idle | {"Comment": "c", "Type": "Pass", "End": true} | Idle: language: No transition found
Claim Key/Catch/0/ErrorEquals | ["States.ALL"] | language: ... States.ALL
Break Lock/Retry/1/JitterStrategy | "HALF" | language: ... HALF
Break Lock/Parameters/Key/id/S.$ | "object_key" | language: ... not a JSONPath
Key State?/Default | - | default:
Break Lock/Parameters/TableNam | "x" | parameters: Unknown parameter
latest-wins: Break Lock/Parameters/UpdateExpression | ~:now~:time | placeholders: :now is not used
Break Lock/Parameters/Key/id | {"S": 3} | parameters: Invalid type
Release Lock/Parameters/Key/id | {"S": "$.object_key"} | literal: ... $.object_key is a text
Release Lock/Parameters/Key/id | {"S": "States.UUID()"} | literal: ... States.UUID() is a text
Give Up Waiting/Result/Cause.$ | "$.polls" | literal: a Result has no expressions
Break Lock/HeartbeatSeconds | 2 | smaller: its HeartbeatSeconds
Break Lock/Retry/1/IntervalSeconds | 3 | smaller: ... MaxDelaySeconds

Read Key Record/Comment | - | comment: has no
Read Key Record/TimeoutSeconds | - | Read Key Record/TimeoutSecondsPath | "$.limits.poll_seconds"
  timeout-retry-catch: ... TimeoutSeconds
Read Key Record/Catch | - | timeout-retry-catch: ... Catch
Read Key Record/Catch/-1/ErrorEquals | ["States.TaskFailed"] | timeout-retry-catch: its Catch
Read Key Record/Retry/-1/ErrorEquals | ["States.ALL", "E"] | all-errors: ... not alone
Superseded/Parameters/outcome | "Old" | outcome: ... Old
Duplicate | {"Comment": "c", "Type": "Succeed"} | outcome: ends with a Succeed
Read Key Record/ResultPath | - | result: ... its result
Claim Key/Catch/-1/ResultPath | - | result: ... its error
Claim Key/OutputPath | "$.claim" | result: its OutputPath

Both | {"Comment": "c", "Type": "Parallel", "Branches": [{"StartAt": "A"}]}
  Both/Branches/0/States | {"A": {"Type": "Succeed"}} | Both/Next | "Invert Image"
  Claim Key/Next | "Both" | Both: type: ... Parallel
Read Key Record/Resource | "arn:aws:states:::aws-sdk:dynamodb:getItem" | type: ... getItem
/QueryLanguage | "JSONPath" | jsonata: ... QueryLanguage
Attempt Again?/Choices/0/And/1 | {"Variable": "$.polls", "StringLessThanPath": "$.polls"}
  operator: StringLessThanPath
Key State?/Choices/4/Not/IsPresent | false | operator: IsPresent: false
Count Poll/Parameters/x.$ | "States.MathRandom(1, 2)" | intrinsic: ... States.MathRandom
Count Poll/Parameters/x.$ | "States.Format('\u00e9')" | intrinsic: escapes and non-ASCII
Count Poll/Parameters/x.$ | "$$.Execution.StartTime" | context: $$.Execution.StartTime
Invert Image/ResultSelector/x.$ | "$$.Execution.Id" | context: ... in ResultSelector
Give Up Waiting/Result/Cause | null | null: ... Result

Key State?/Choices/1/And/0 | - | guard: ... $.record.Item.status.S
Key State?/Choices/5 | - | guard: ... $.record.Item.lock_token.S
Prepare Version/Parameters | {} | Claim Key: guard: ... $.object_key
Read Key Record/ResultPath | "$.limits" | Key State?: guard: ... $.limits.maximum_polls
S3 Object Event?/Choices/0/Not/And/4 | - | guard: ... $.detail.object.key
Expiry?/Choices/2/And/2 | - | Reject Object: guard: ... $.inversion.Payload.cause
Invert Image/ResultSelector/x.$ | "$.FunctionError" | guard: ... $.FunctionError
Parked/CausePath | "$.fault.Reason" | guard: ... $.fault.Reason
Count Poll/InputPath | "$.limits" | guard: ... $.polls
Release Lock Only/Parameters/ConditionExpression | ~begins~size(id) > 0 OR begins
  guard: ... $.Attributes.event.S
latest-wins: Break Lock/Parameters/UpdateExpression | ~execution~event
  Release Lock Only: guard:

Prepare Event/Parameters/object_key.$ | "$$.Execution.Input.detail.object.key"
  Claim Key: lock: it spans objects
Prepare Event/Parameters/object_key.$
  ~$$.Execution.Input.detail.object.key~$.folder | Prepare Event/Parameters/folder.$
  "States.StringSplit($$.Execution.Input.detail.object.key, '/')"
  Claim Key: lock: it spans objects
Prepare Event/Parameters/object_key.$ | ~.object.key)~.object.key, $$.Execution.Id)
  Claim Key: lock: two events
Prepare Version/Parameters/object_key.$ | =Prepare Event/Parameters/object_key.$
  Claim Key: lock: ... versions
Prepare Event/Parameters/sequencer.$ | "$$.Execution.Id" | Claim Key: lock: ... sequencer
Prepare Event/Parameters/lock_token.$ | "$$.Execution.Id" | Claim Key: lock: ... States.UUID()
Prepare Event/Parameters/lock_token | "x" | Prepare Event/Parameters/lock_token.$ | -
  Claim Key: lock: ... States.UUID()
Release Lock/Parameters/Key/id/S.$ | "$.sequencer" | lock: its record is not
Read Key Record/Parameters/TableName | "x" | read: it reads another record
Read Key Record/Parameters/ConsistentRead | false | read: without ConsistentRead
Read Key Record/Parameters/ProjectionExpression | ~, lock_token~ | read: ... leaves out lock_token
Claim Key/Parameters/UpdateExpression | ~in_progress_since~since | index: ... in_progress_since
first-wins: Claim Key/Parameters/Item/event | - | index: no state records the event
Park Event/Parameters/QueueUrl | "https://others" | queue: ... https://others instead of
Send By EventBridge/Parameters/Entries/0/EventBusName | "default" | queue: ... default instead of
Retry Event/Parameters/MessageBody/event.$ | - | queue: its message has no event

Renew Lock/Parameters/ExpressionAttributeValues/:renewed/S.$ | "$.lock_token" | renewal: its new
Renew Again | =Renew Lock | Renew Again/ResultPath | "$.again" | Invert Image/TimeoutSeconds | 36
  Attempt Again?/Choices/+1 | =Attempt Again?/Choices/0
  Attempt Again?/Choices/1/And/0/Not/Variable | "$.again"
  Attempt Again?/Choices/1/Next | "Renew Again"
  Renew Lock: renewal: Renew Again may follow
latest-wins: Claim Key/Retry/0/ErrorEquals | ["States.Timeout"] | late: ... States.Timeout
every-version: Record Event/Retry/0/ErrorEquals | ["States.Timeout"] | late: ... States.Timeout

latest-wins: Claim Key/Parameters/UpdateExpression
  ~lock_token = :lock_token~lock_token = if_not_exists(lock_token, :lock_token)
  claim: it may leave the lock
Claim Key/Catch/0/ErrorEquals | ["DynamoDB.Other"] | claim: a refusal counts as a fault
Reject Object/Next | "Superseded" | Claim Key: claim: its lock ... Superseded
Release Lock/Catch/-1/Next | "Final Outcome?" | Claim Key: claim: its lock ... Processed
Park Event/Parameters/MessageBody/outcome | "Told" | Claim Key: claim: its lock ... Parked
Claim Key/Catch/-1/Next | "Invert Image" | claim: if it fails, Invert Image
Renew Lock/Catch/-1/Next | "Invert Image" | claim: if it fails, Invert Image
Give Up Waiting/Next | "Retrying" | Retrying: end: ... without Retry Event
Final Outcome?/Choices/0/And/2 | - | Retrying: end: ... without Retry Event
Key State?/Choices/7/Next | "Break Lock" | break: it leads to Break Lock
first-wins: Key State?/Choices/7/And/1 | - | break: it leads to Claim Key
first-wins: Key State?/Choices/3 | - | break: it leads to Claim Key
Watch Lock/Parameters/lock_token.$ | "$.watched_lock.lock_token" | Break Lock: break: no Pass
Key State?/Choices/7/Next | "Claim Key" | Count Poll: poll: ... Claim Key, First Poll?
Key State?/Choices/4/Next | "Wait Briefly" | Count Poll: poll: ... Key State?, Wait Briefly
first-wins: Key State?/Choices/8/Next | "Claim Key" | Count Poll: poll: ... First Poll?

Invert Image/TimeoutSeconds | 64 | Claim Key: lease: ... 112.75 s, a lease's 112 ... must be 17
Invert Image/TimeoutSeconds | 71 | Claim Key: lease: ... a waiter's 119: $.limits.maximum_polls must
Invert Image/ResultSelector | {"Payload": ""} | Invert Image/Resource
  "arn:aws:states:::dynamodb:putItem" | Invert Image/Parameters
  {"TableName": "Orders", "Item": {"id": {"S": "x"}}} | Claim Key: lease: ... a holder's 124.75 s
Invert Image/ResultSelector | {"Payload": ""} | Invert Image/Resource
  "arn:aws:states:::sqs:sendMessage" | Invert Image/Parameters
  {"QueueUrl": "q", "MessageBody": "x"} | Claim Key: lease: ... a holder's 124.75 s
Renew Lock/TimeoutSeconds | 3 | Claim Key: lease: not in order: ... 112.75 s, a lease's 112
First Poll/Parameters/limits/lease_polls | 17 | Claim Key: lease: ... a lease's 119, ... 119
First Poll/Parameters/limits/poll_seconds | 8 | Claim Key: lease: ... 310.75 of
First Poll/Parameters/limits/maximum_polls | - | Claim Key: lease: ... no Pass prepares
First Poll/Parameters/limits/lease_polls | 28.5 | Claim Key: lease: ... $.limits.lease_polls is 28.5
Count Poll/Parameters/polls.$ | "States.MathAdd($.polls, 2)" | Claim Key: lease: ... adds 1
Prepare Event/Parameters/polls | 5 | Claim Key: lease: ... must begin with 0
Watch Lock/ResultPath | "$.limits.poll_seconds" | Claim Key: lease: ... written by First Poll and by
Watch Lock/Parameters/break_at_poll.$ | "States.MathAdd($.polls, 28)" | Claim Key: lease: ... no
Key State?/Choices/3/NumericGreaterThanEqualsPath | "$.limits.lease_polls" | Claim Key: lease:
Wait For Lock/SecondsPath | "$.limits.lease_polls" | Claim Key: lease: ... does not wait
Attempt Again?/Choices/0/And/0 | - | Claim Key: lease: ... how often ... Attempt Again?
/TimeoutSeconds | 294 | Claim Key: lease: ... 294.75 of TimeoutSeconds, 294 s
uncoordinated: Invert Image/Retry/-1/MaxAttempts | 14 | lease: ... 306 of
Prepare Event/Parameters/x | @texts | size: its data is too large
"""
RIGHT = r"""
First Poll/Parameters/limits/poll_seconds | 8 | Invert Image/TimeoutSeconds | 50
  /TimeoutSeconds | 299
Break Lock/Retry/1/MaxAttempts | 0 | Break Lock/TimeoutSeconds | 3
Release Lock/Parameters/ConditionExpression
  "sequencer = :sequencer AND begins_with(lock_token, :lock_token)"
Prepare Event/Parameters/object_key.$ | ~{}/{}~team/{}/{}
Attempt Again? | - | Renew Lock | - | Invert Image/Catch/-1/Next | "Retry Event"
Renew Again | =Renew Lock | Renew Again/ResultPath | "$.again" | Invert Image/TimeoutSeconds | 36
  Renew Again/Parameters/ExpressionAttributeValues/:renewed/S.$ | ~/2~/3
  Attempt Again?/Choices/+1 | =Attempt Again?/Choices/0
  Attempt Again?/Choices/1/And/0/Not/Variable | "$.again"
  Attempt Again?/Choices/1/And/1/Or/1/NumericLessThanEquals | 0
  Attempt Again?/Choices/1/Next | "Renew Again"
Check | =Read Key Record | Check/ResultPath | "$.found" | Check/Next | "Invert Image"
  Check/Catch | =Invert Image/Catch | Claim Key/Next | "Check"
Prepare Event/Parameters/work | 1 | Prepare Version/Parameters/work | 1
  First Poll/Parameters/work.$ | "$.work" | Count Poll/Parameters/work.$ | "$.work"
  Renew Lock/Next | "Count Attempt"
  Attempt Again?/Choices/0/And/0 | {"Variable": "$.work", "NumericLessThanEquals": 1}
  Count Attempt | {"Comment": "c", "Type": "Pass", "ResultPath": "$.attempt", "Next": "Keep"}
  Count Attempt/Parameters | {"n.$": "States.MathAdd($.work, 1)"} | Keep | =Count Attempt
  Keep/Parameters | - | Keep/InputPath | "$.attempt.n" | Keep/ResultPath | "$.work"
  Keep/Next | "Invert Image"
"""


def rows(text: str) -> Iterator[list[str]]:
    """Give the rows of a table; ``@texts`` stands for twenty copies of the event as a text."""
    texts = ", ".join(['{"x.$": "States.JsonToString($$.Execution.Input)"}'] * 20)
    joined = re.sub(r"\n +", " | ", text.replace("@texts", f"[{texts}]"))
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
            inside[last] = inside[last].replace(old, new)
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
    for each in parents:
        definition = definition[int(each) if isinstance(definition, list) else each]
    return definition, int(name) if isinstance(definition, list) else name


def findings(tmp_path: Path, definition: Any) -> list[str]:
    file = tmp_path / "edited.asl.json"
    file.write_text(json.dumps(definition))
    return check_file(file)


@pytest.fixture
def no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the schema's stage: cfn-lint takes a second each time."""
    monkeypatch.setattr(asl, "STAGES", asl.STAGES[1:])


def test_an_error_of_the_schema_is_found(tmp_path: Path) -> None:
    [found] = findings(tmp_path, edited(["Wait For Lock/Secondz", "3"]))
    assert found.startswith("Wait For Lock: schema: ")


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize("row", list(rows(WRONG)), ids=" | ".join)
def test_a_wrong_edit_is_refused(tmp_path: Path, row: list[str]) -> None:
    *columns, finding = row
    found = findings(tmp_path, edited(columns))
    state = columns[0].rpartition(": ")[2].partition("/")[0]
    words = ".*".join(map(re.escape, finding.split(" ... ")))
    assert any(re.match(f"({re.escape(state)}: )?{words}", each) for each in found), found


@pytest.mark.parametrize("row", list(rows(RIGHT)), ids=" | ".join)
def test_a_right_edit_is_accepted_and_keeps_the_promise(tmp_path: Path, row: list[str]) -> None:
    definition = edited(row)
    assert findings(tmp_path, definition) == []
    outages = [Outage("lambda", 0, 100), Outage("lambda", 300, 370, "silence")]
    cloud = Cloud(Settings(outages=outages))
    cloud.machine = Machine(definition)
    for number in range(12):
        cloud.upload(f"{number % 2}.png", 60 * (number // 2))
    cloud.run_until_quiet(DAY)
    assert_promise(cloud)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        *((text, "json: not valid JSON: ") for text in ("{", "", "\xff", "[" * 100_000)),
        ('{"StartAt": "A", "States": {}, "States": {}}', "json: not valid JSON: 'States' is there"),
        *(
            (text, "schema: not a state machine")
            for text in ("{}", "[]", '{"States": {"A": null}}')
        ),
    ],
)
def test_a_file_that_is_no_state_machine_is_found(tmp_path: Path, text: str, finding: str) -> None:
    file = tmp_path / "broken.asl.json"
    file.write_text(text, encoding="latin-1")
    [found] = check_file(file)
    assert found.startswith(finding)
    assert check_file(tmp_path) == ["json: cannot be read: Is a directory"]


def test_what_a_state_does_is_read_from_its_expressions_substituted_or_not() -> None:
    text = FILE.read_text(encoding="utf-8")
    for states in (json.loads(each)["States"] for each in (text, re.sub(r"\$\{\w+\}", "x", text))):
        assert {role.value: {*doing(states, role)} for role in Role if doing(states, role)} == {
            "claims": {"Claim Key"},
            "records": {"Claim Key", "Record Newest Event"},
            "breaks": {"Break Lock"},
            "works": {"Invert Image"},
            "renews": {"Renew Lock"},
            "releases": {
                *("Release Lock", "Release Superseded Key", "Release Lock Only"),
                *("Release Failed Key", "Release Retried Key"),
            },
            "starts": {"Start Newest Event"},
            "parks": {"Park Event", "Park Invalid Event"},
            "retries": {"Retry Event", "Send By EventBridge", "Send Invalid Event By EventBridge"},
        }
    claim = policies.definition("first-wins")["States"]["Claim Key"]
    assert roles(claim) == {Role.CLAIMS, Role.TAKES_OVER, Role.RECORDS}


@pytest.mark.parametrize(
    ("policy", "largest"),
    [
        # A record has the event as a text, whose characters JSON may double.
        ("latest-wins", 121_856),
        ("every-version", 128_208),
        # A waiter reads the holder's event, which first-wins may have to park.
        ("first-wins", 61_184),
        ("uncoordinated", 260_995),
    ],
)
def test_the_largest_event_is_one_of_which_no_state_has_too_much(policy: str, largest: int) -> None:
    assert largest_event(policies.definition(policy)) == largest
