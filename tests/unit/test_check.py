"""Each rule of `inorder check`, on the shipped files and copies that break it."""

from __future__ import annotations

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

FILE = PROJECT / asl_file("latest-wins")
# A row breaks a file in one place, ``state/field/0`` or ``policy: state/field``: where it is, what
# is put there as JSON (a dash: nothing), and the finding, with dots for its words: about the state
# that was broken, or naming another one.
TABLE = r"""
Read Key Record/Next | "Nowhere" | next: ... Nowhere
Idle | {"Comment": "c", "Type": "Succeed"} | reached:
Read Key Record/Comment | - | comment: has no
Read Key Record/TimeoutSeconds | - | timeout-retry-catch: ... TimeoutSeconds
Read Key Record/Catch/-1/ErrorEquals | ["States.TaskFailed"] | timeout-retry-catch: its Catch
Key State?/Default | - | default:
Read Key Record/Retry/-1/ErrorEquals | ["States.ALL", "E"] | all-errors: ... not alone
Claim Key/Catch/0/ErrorEquals | ["States.ALL"] | all-errors: ... not the last in its Catch
Superseded/Parameters/outcome | "Old" | outcome: ... Old

Wait For Lock/Type | "Parallel" | type: ... Parallel
Read Key Record/Resource | "arn:aws:states:::aws-sdk:dynamodb:getItem" | type: ... getItem
Wait For Lock/QueryLanguage | "JSONata" | jsonata: ... QueryLanguage
Key State?/Choices/6/StringLessThanPath | "$.polls" | operator: StringLessThanPath
Count Poll/Parameters/x.$ | "States.MathRandom(1, 2)" | intrinsic: ... States.MathRandom
Count Poll/Parameters/x.$ | "$$.Execution.StartTime" | context: $$.Execution.StartTime
Give Up Waiting/Result/Cause | null | null: ... Result

Key State?/Choices/1/And/0 | - | guard: ... $.record.Item.status.S
Key State?/Choices/4 | - | guard: ... $.record.Item.lock_token.S
Prepare Version/Parameters | {} | Claim Key: guard: ... $.object_key
Read Key Record/ResultPath | "$.limits" | Key State?: guard: ... $.limits.maximum_polls
S3 Object Event?/Choices/0/Not/And/4 | - | guard: ... $.detail.object.key
Outcome?/Choices/1/And/3 | - | Reject Object: guard: ... $.inversion.Payload.cause
Claim Key/Catch/-1/ResultPath | - | Retry Event: guard: ... $.object_key
Invert Image/ResultSelector/x.$ | "$.FunctionError" | guard: ... $.FunctionError
Parked/CausePath | "$.fault.Reason" | guard: ... $.fault.Reason
Release Lock Only/Parameters/ConditionExpression | "" | guard: ... $.Attributes.event.S
Break Lock/Parameters/UpdateExpression | "REMOVE lock_token, event" | Release Lock Only: guard:

Renew Lock/Parameters/ExpressionAttributeValues/:renewed/S.$ | "$.lock_token" | renewal: its new
Release Lock/Parameters/ConditionExpression | "lock_token = :lock_token" | renewal: it does not
latest-wins: Claim Key/Retry/0/ErrorEquals | ["States.Timeout"] | late: ... States.Timeout
every-version: Record Event/Retry/0/ErrorEquals | ["States.Timeout"] | late: ... States.Timeout

Lock Taken?/Choices/0/And/1/Variable | "$.sequencer" | Claim Key: claim: it may leave the lock
Reject Object/Next | "Superseded" | Claim Key: claim: its lock ... Superseded
Release Lock/Catch/-1/Next | "Final Outcome?" | Claim Key: claim: its lock ... Processed
Claim Key/Catch/-1/Next | "Invert Image" | claim: if it fails, Invert Image
Renew Lock/Catch/-1/Next | "Invert Image" | claim: if it fails, Invert Image
content-hash: First Poll?/Choices/0/Next | "Forward Event" | Claim Content: claim: ... Forward
Claim Key/Catch/0/Next | "Count Poll" | Count Poll: poll: ... Key State?, Claim Key
first-wins: First Poll?/Choices/0/Next | "Count Poll" | Count Poll: poll: ... First Poll?

Invert Image/TimeoutSeconds | 64 | Claim Key: lease: not in order: ... 72 s, a lease's 72, ... 78
Renew Lock/TimeoutSeconds | 3 | Claim Key: lease: not in order: ... 72 s, a lease's 72
Count Poll/Parameters/limits/lease_polls | 13 | Claim Key: lease: ... a lease's 78, ... 78
Count Poll/Parameters/limits/poll_seconds | 10 | Claim Key: lease: ... 306 of
Count Poll/Parameters/limits/maximum_polls | - | Claim Key: lease: ... no Pass prepares
Count Poll/Parameters/limits/lease_polls | 28.5 | Claim Key: lease: ... $.limits.lease_polls is 28.5
Count Poll/Parameters/polls.$ | "States.MathAdd($.polls, 2)" | Claim Key: lease: ... adds 1
Watch Lock/ResultPath | "$.limits.poll_seconds" | Claim Key: lease: ... written by Count Poll and by
Watch Lock/Parameters/break_at_poll.$ | "States.MathAdd($.polls, 28)" | Claim Key: lease: ... no
Key State?/Choices/2/NumericGreaterThanEqualsPath | "$.limits.lease_polls" | Claim Key: lease:
Wait For Lock/SecondsPath | "$.limits.lease_polls" | Claim Key: lease: ... does not wait
Attempt Again?/Choices/0/And/0 | - | Claim Key: lease: ... may come to Attempt Again? again
uncoordinated: Invert Image/Retry/-1/MaxAttempts | 14 | lease: ... 306 of
Prepare Event/Parameters/x | [@texts] | size: its data is too large
"""


def rows() -> Iterator[tuple[str, str, str]]:
    """Give the rows of the table; ``@texts`` stands for twenty copies of the event as a text."""
    texts = ", ".join(['{"x.$": "States.JsonToString($$.Execution.Input)"}'] * 20)
    for row in filter(None, TABLE.replace("@texts", texts).splitlines()):
        place, value, finding = row.split(" | ")
        yield place, value, finding


def broken(place: str, value: str) -> dict[str, Any]:
    """Load a file with another value in one place."""
    policy, _, path = place.rpartition(": ")
    definition = policies.definition(policy or "latest-wins")
    inside: Any = definition["States"]
    *parents, name = path.split("/")
    for each in parents:
        inside = inside[int(each) if isinstance(inside, list) else each]
    last = int(name) if isinstance(inside, list) else name
    if value == "-":
        del inside[last]
    else:
        inside[last] = json.loads(value)
    return definition


def findings(tmp_path: Path, definition: Any) -> list[str]:
    file = tmp_path / "broken.asl.json"
    file.write_text(json.dumps(definition))
    return check_file(file)


@pytest.fixture
def no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the schema's stage: cfn-lint takes a second each time."""
    monkeypatch.setattr(asl, "STAGES", asl.STAGES[1:])


def test_an_error_of_the_schema_is_found(tmp_path: Path) -> None:
    [found] = findings(tmp_path, broken("Wait For Lock/Secondz", "3"))
    assert found.startswith("Wait For Lock: schema: ")


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize(("place", "value", "finding"), list(rows()))
def test_a_broken_rule_is_found(tmp_path: Path, place: str, value: str, finding: str) -> None:
    found = findings(tmp_path, broken(place, value))
    state = place.rpartition(": ")[2].partition("/")[0]
    words = ".*".join(map(re.escape, finding.split(" ... ")))
    assert any(re.match(f"({re.escape(state)}: )?{words}", each) for each in found), found


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        *((text, "json: not valid JSON: ") for text in ("{", "", "\xff", "[" * 100_000)),
        ('{"StartAt": "A", "States": {}, "States": {}}', "json: not valid JSON: 'States' is there"),
        *((text, "schema: not a state machine") for text in ("{}", "[]", '{"StartAt": "A"}')),
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
            "shares": {"Claim Key"},
            "records": {"Claim Key"},
            "breaks": {"Break Lock"},
            "works": {"Invert Image"},
            "renews": {"Renew Lock"},
            "releases": {
                *("Release Lock", "Release Lock Only", "Release Failed Key"),
                "Release Retried Key",
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
        ("latest-wins", 122_368),
        ("every-version", 128_231),
        # A waiter reads the holder's event, which first-wins may have to park.
        ("first-wins", 61_440),
        ("content-hash", 258_812),
        ("uncoordinated", 261_120),
    ],
)
def test_the_largest_event_is_that_of_which_no_state_has_too_much(
    policy: str, largest: int
) -> None:
    assert largest_event(policies.definition(policy)) == largest
