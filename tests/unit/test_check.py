"""Each rule of `inorder check`, on the shipped files, copies that break it, and two versions."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from inorder import PROJECT, asl
from inorder.asl import check_file
from inorder.asl.size import largest_event
from inorder.asl.versions import differences
from inorder.commands.main import main
from inorder.model import policies
from inorder.model.policies import asl_file

DELETED = object()
FILE = PROJECT / asl_file("latest-wins")


def broken(place: str, value: Any) -> dict[str, Any]:
    """Load a file with another value in one place, ``Claim Key/Catch/0`` or ``policy: place``.

    The value may be a function of the one that was there.
    """
    policy, _, path = place.rpartition(": ")
    definition = policies.definition(policy or "latest-wins")
    inside: Any = definition["States"]
    *parents, name = path.split("/")
    for each in parents:
        inside = inside[int(each) if isinstance(inside, list) else each]
    last = int(name) if isinstance(inside, list) else name
    if value is DELETED:
        del inside[last]
    else:
        inside[last] = value(inside[last]) if callable(value) else value
    return definition


def findings(tmp_path: Path, definition: Any) -> list[str]:
    file = tmp_path / "broken.asl.json"
    file.write_text(json.dumps(definition))
    return check_file(file)


@pytest.fixture
def no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the schema's stage: cfn-lint takes a second each time."""
    monkeypatch.setattr(asl, "STAGES", asl.STAGES[1:])


def plus(added: Any) -> Callable[[Any], Any]:
    """Add an element to a list."""
    return lambda there: [*there, added]


def without_test_of(path: str) -> Callable[[Any], Any]:
    """Let the rules of a Choice read a path without a test that it is present."""
    test = {"Variable": path, "IsPresent": True}
    return lambda rules: [
        rule | {"And": [each for each in rule["And"] if each != test]} if "And" in rule else rule
        for rule in rules
    ]


def without_all_tests_of(path: str) -> Callable[[Any], Any]:
    """Let a rule of a Choice say nothing about a path."""
    return lambda rule: {"And": [each for each in rule["And"] if each.get("Variable") != path]}


def any_of_its_tests(rule: dict[str, Any]) -> dict[str, Any]:
    """Turn the And of a rule into an Or, of which no part need hold."""
    return {"Or": rule["And"], "Next": rule["Next"]}


@pytest.mark.parametrize(
    ("place", "value", "finding"),
    [
        ("Wait For Lock/Secondz", 3, "Wait For Lock: schema: "),
        ("Read Key Record/Resource", DELETED, "Read Key Record: schema: "),
        ("S3 Object Event?", DELETED, "schema: StartAt: "),
    ],
)
def test_errors_of_the_schema_are_found(
    tmp_path: Path, place: str, value: Any, finding: str
) -> None:
    found = findings(tmp_path, broken(place, value))
    assert any(each.startswith(finding) for each in found), found


# In the table below.
PLACES = {
    "@limits": "Count Poll/Parameters/limits",
    "@retry": "Read Key Record/Retry",
    "@renewed": "Renew Lock/Parameters/ExpressionAttributeValues/:renewed/S.$",
    "@condition": "Parameters/ConditionExpression",
    "@break": "Watch Lock/Parameters/break_at_poll.$",
    "@same": "lock_token = :lock_token AND sequencer = :sequencer",
    "@sdk": "arn:aws:states:::aws-sdk:dynamodb:getItem",
    "@x": "Count Poll/Parameters/x.$",
}
# A row breaks a file in one place: where it is, what is put there as JSON (a dash: nothing), and
# the finding, with dots for its words: about the state that was broken, or naming another one.
TABLE = r"""
Read Key Record/Next | "Nowhere" | next: ... Nowhere
Read Key Record/Comment | - | comment: has no
Read Key Record/Comment | "One. Two?) Three!" | comment: ... 3 sentences
Read Key Record/TimeoutSeconds | - | timeout-retry-catch: ... TimeoutSeconds
@retry | - | timeout-retry-catch: ... Retry
Read Key Record/Catch | [] | timeout-retry-catch: ... Catch
Read Key Record/Catch/-1/ErrorEquals | ["States.TaskFailed"] | timeout-retry-catch: its Catch
Key State?/Default | - | default:
@retry/-1/ErrorEquals | ["States.ALL", "States.Timeout"] | all-errors: ... not alone
Superseded/Parameters/outcome | "Old" | outcome: ... Old
Invalid Event/Error | - | outcome: ... None

Read Key Record/Resource | "@sdk" | resource: ... @sdk
Wait For Lock/QueryLanguage | "JSONata" | jsonata: ... JSONata
Count Poll/Assign | {"x": 1} | jsonata: ... Assign
Parked/CausePath | "States.Base64Encode($.x)" | intrinsic: ... States.Base64
@x | "States.MathRandom(1, 2)" | intrinsic: ... States.MathRandom
@x | "States.Format('\u00e9')" | intrinsic: escapes
@x | "$$.Execution.StartTime" | context: $$.Execution.StartTime
Invert Image/ResultSelector/x.$ | "$$.Execution.Id" | context: ... Res
Give Up Waiting/Result/Cause | null | null: ... Result

@renewed | "$.lock_token" | renewal: its new token
@renewed | "States.UUID()" | renewal: its new token
Release Lock/@condition | "@same" | renewal: it does not know a renewed lock
Release Failed Key/@condition | "@same" | renewal: it does not know a renewed lock
latest-wins: Claim Key/Retry/0/ErrorEquals | ["States.Timeout"] | late: ... States.Timeout
every-version: Record Event/Retry/0/ErrorEquals | ["States.Timeout"] | late: ... States.Timeout

Lock Taken?/Choices/0/And/1/Variable | "$.sequencer" | Claim Key: claim: it may leave the lock
Reject Object/Next | "Superseded" | Claim Key: claim: its lock ... Superseded
Attempt Again?/Default | "Not Parked" | Claim Key: claim: its lock ... Not Parked
Release Lock/Catch/-1/Next | "Final Outcome?" | Claim Key: claim: its lock ... Processed
Release Lock/Parameters/UpdateExpression | "SET x = lock_token" | Claim Key: claim: ... Processed
Claim Key/Catch/-1/Next | "Invert Image" | claim: if it fails, Invert Image
Renew Lock/Catch/-1/Next | "Invert Image" | claim: if it fails, Invert Image
first-wins: First Poll?/Default | "Invert Image" | Claim Key: claim: if it fails, Invert Image
content-hash: First Poll?/Choices/0/Next | "Forward Event" | Claim Content: claim: ... Forward

Claim Key/Catch/0/Next | "Count Poll" | Count Poll: poll: ... Key State?, Claim Key
first-wins: First Poll?/Choices/0/Next | "Count Poll" | Count Poll: poll: ... First Poll?
Break Lock/Catch/-1/Next | "Count Poll" | Count Poll: poll: ... Key State?, Break Lock
Lock Taken?/Choices/1 | - | Count Poll: poll: ... Claim Key, Lock Taken?
Watch Lock/Next | "Count Poll" | Count Poll: poll: ... Key State?, Watch Lock
every-version: Record Oldest Waiter/Next | "Count Poll" | Count Poll: poll: ... Record Oldest Waiter

Invert Image/TimeoutSeconds | 64 | Claim Key: lease: not in order: ... 72 s, a lease's 72, ... 78
Invert Image/Retry/-1/MaxAttempts | 1 | Claim Key: lease: not in order: ... 133 s
Renew Lock/TimeoutSeconds | 3 | Claim Key: lease: not in order: ... 72 s, a lease's 72
@limits/lease_polls | 13 | Claim Key: lease: not in order: ... 70 s, a lease's 78, ... 78
@limits/poll_seconds | 10 | Claim Key: lease: ... 306 of
Read Key Record/TimeoutSeconds | 5 | Claim Key: lease: ... 310 of
Release Lock/Retry/-1/MaxAttempts | 99999999 | Claim Key: lease: ... 1450 of
Attempt Again?/Choices/0/And/1/NumericLessThanEquals | 12 | Claim Key: lease: ... 316 of
optimistic: Invert Image/Retry/-1/MaxAttempts | 8 | express: ... 305 of
optimistic: Park Event/Catch/-1/Next | "Park Event" | express: its seconds cannot be computed
Start Newest Event/Next | "Claim Key" | Claim Key: lease: ... cannot be computed: an execution may
@limits/poll_seconds | - | Claim Key: lease: ... no Pass prepares $.limits.poll_seconds
@limits/lease_polls | - | Claim Key: lease: ... no Pass prepares $.limits.lease_polls
@limits/maximum_polls | - | Claim Key: lease: ... no Pass prepares $.limits.maximum_polls
@limits/lease_polls | 28.5 | Claim Key: lease: ... $.limits.lease_polls is 28.5
@limits/lease_polls | true | Claim Key: lease: ... $.limits.lease_polls is True
Watch Lock/ResultPath | "$.limits.poll_seconds" | Claim Key: lease: ... written by Count Poll and by
Key State?/Choices/2/NumericGreaterThanEqualsPath | "$.limits.lease_polls" | Claim Key: lease:
@break | "States.MathAdd($.polls, 28)" | Claim Key: lease: ... $.watched_lock.break_at_poll
@break | "States.MathAdd($.limits.maximum_polls, $.limits.lease_polls)" | Claim Key: lease:
Count Poll/Parameters/polls.$ | "States.MathAdd($.polls, 2)" | Claim Key: lease: ... adds 1
Prepare Version/Parameters/polls.$ | "States.MathAdd($.polls, 1)" | Claim Key: lease: ... adds 1
Wait For Lock/SecondsPath | "$.event.seconds" | Claim Key: lease: ... Wait For Lock does not wait
"""
INPUT = "$$.Execution.Input"
EVENT = "$.Attributes.event.S"
STATUS, CAUSE = "$.record.Item.status.S", "$.inversion.Payload.cause"
KEY, VERSION = "$.detail.object.key", "$.detail.object['version-id']"
IDLE = {"Comment": "c", "Type": "Succeed"}
WAIT = {"Comment": "c", "Type": "Wait", "Seconds": 3}
PARALLEL = WAIT | {"Type": "Parallel", "Branches": [{"StartAt": "A", "States": {"A": IDLE}}]}
LESS = {"Variable": "$.sequencer", "StringLessThanPath": "$.object_key"}
ABSENT = {"Variable": "$.detail.x", "IsPresent": False}
TEXT = "States.JsonToString($$.Execution.Input)"
AGAIN = "Attempt Again?/Choices/0/And"
OTHERS: list[tuple[str, Any, str]] = [
    ("Idle", IDLE, "reached:"),
    ("Idle", IDLE, "outcome: ends with a Succeed"),
    (
        "Claim Key/Catch",
        lambda catchers: catchers[::-1],
        "all-errors: ... not the last in its Catch",
    ),
    ("Wait For Lock", PARALLEL, "type: ... Parallel"),
    ("Key State?/Choices/0/And", plus(LESS), "operator: StringLessThanPath"),
    ("S3 Object Event?/Choices/1/And", plus(ABSENT), "operator: IsPresent: false"),
    (AGAIN, lambda tests: tests[:1], "Claim Key: lease: ... 328 of"),
    (AGAIN, lambda tests: tests[1:], "Claim Key: lease: ... may come to Attempt Again? again"),
    ("Wait For Lock", WAIT | {"Next": "Count Poll"}, "Claim Key: lease: ... does not wait for"),
    ("Prepare Version", WAIT | {"Next": "Claim Key"}, "Claim Key: lease: ... not one Wait, but 2"),
    (
        *("Prepare Event/Parameters/x.$", f"States.Format('', {', '.join([TEXT] * 20)})"),
        "size: its data is too large for an event of more than 6",
    ),
]
GUARDS: list[tuple[str, Any, str]] = [
    ("Key State?/Choices", without_test_of(STATUS), f"guard: ... {STATUS}"),
    # The rules after it read what it has sent elsewhere.
    ("Key State?/Choices/4", DELETED, "guard: ... $.record.Item.lock_token.S"),
    # Known in one of the two states before, but not in the other.
    ("Prepare Version/Parameters", {}, "Claim Key: guard: ... $.object_key"),
    # A result replaces all that was known of its place.
    ("Read Key Record/ResultPath", "$.limits", "Key State?: guard: ... $.limits.maximum_polls"),
    ("Count Poll/Parameters/sequencer.$", DELETED, "Key State?: guard: ... $.sequencer"),
    ("S3 Object Event?/Choices/1", any_of_its_tests, f"guard: ... {VERSION}"),
    # The data of the first state is the execution's input.
    (
        *("S3 Object Event?/Choices/0/Not", without_all_tests_of(KEY)),
        f"Prepare Event: guard: ... {INPUT}{KEY[1:]}",
    ),
    ("Outcome?/Choices", without_test_of(CAUSE), f"Reject Object: guard: ... {CAUSE}"),
    ("Claim Key/Catch/-1/ResultPath", DELETED, "Retry Event: guard: ... $.object_key"),
    ("Invert Image/ResultSelector/x.$", "$.FunctionError", "guard: ... $.FunctionError"),
    ("Parked/CausePath", "$.fault.Reason", "guard: ... $.fault.Reason"),
    # A record has what the claim wrote only if its lock is this execution's own.
    (
        *("Release Lock Only/Parameters/ConditionExpression", "attribute_exists(id)"),
        f"guard: ... {EVENT}",
    ),
    (
        *("Break Lock/Parameters/UpdateExpression", "REMOVE lock_token, event"),
        f"Release Lock Only: guard: ... {EVENT}",
    ),
    ("Wait For Lock/SecondsPath", "$.event.seconds", "guard: ... $.event.seconds"),
]


def told() -> Iterator[tuple[str, Any, str]]:
    """Give the rows of the table."""
    table = TABLE
    for name, place in PLACES.items():
        table = table.replace(name, place)
    for row in filter(None, table.splitlines()):
        place, value, finding = row.split(" | ")
        yield place, DELETED if value == "-" else json.loads(value), finding


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize(("place", "value", "finding"), [*told(), *OTHERS, *GUARDS])
def test_a_broken_rule_is_found(tmp_path: Path, place: str, value: Any, finding: str) -> None:
    found = findings(tmp_path, broken(place, value))
    state = place.rpartition(": ")[2].partition("/")[0]
    words = ".*".join(map(re.escape, finding.split(" ... ")))
    assert any(re.match(f"({re.escape(state)}: )?{words}", each) for each in found), found


PRESENT = {"Variable": VERSION, "IsPresent": True}


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (  # A path is known after an Or whose parts all test it, and after a Not.
            "S3 Object Event?/Choices/1",
            {"Not": {"Or": [{"Not": PRESENT}, {"Not": PRESENT}]}, "Next": "Prepare Version"},
        ),
        (  # Names of states and files do not end a sentence.
            "Count Poll/Comment",
            "Key State? decides, as template.yaml says (see above.) 3 s later it ends.",
        ),
    ],
)
def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path, place: str, value: Any) -> None:
    assert findings(tmp_path, broken(place, value)) == []


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("KeyTableName: !Ref", "TableName: !Ref", "substitutions: template.yaml gives nothing for"),
        (
            "KeyTableName: !Ref",
            "More: x\n        KeyTableName: !Ref",
            "substitutions: template.yaml gives More, which the file does not ask for",
        ),
        (
            "DefinitionUri: statemachine/latest_wins.asl.json",
            "DefinitionUri: statemachine/other.asl.json",
            "template: no resource of template.yaml names this file",
        ),
        ("Resources:", "Resources: [", "template: template.yaml cannot be read: "),
        ("Resources:", "Things:", "template: template.yaml cannot be read: "),
    ],
)
def test_a_template_that_does_not_fit_is_found(
    tmp_path: Path, old: str, new: str, finding: str
) -> None:
    (tmp_path / "statemachine").mkdir()
    file = shutil.copy(FILE, tmp_path / "statemachine")
    template = (PROJECT / "template.yaml").read_text()
    assert old in template
    (tmp_path / "template.yaml").write_text(template.replace(old, new, 1))
    found = check_file(Path(file))
    assert found[0].startswith(finding)
    assert all("\n" not in each for each in found)


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
    assert "\n" not in found
    assert check_file(tmp_path) == ["json: cannot be read: Is a directory"]


PROJECTION = "Read Key Record/Parameters/ProjectionExpression"
TWICE = f"States.Format('{{}}{{}}', {TEXT}, {TEXT})"


@pytest.mark.parametrize(
    ("definition", "largest"),
    [
        # A record has the event as a text, whose characters JSON may double.
        (policies.definition("latest-wins"), 122_880),
        (policies.definition("every-version"), 128_787),
        # A waiter reads the holder's event, which first-wins may have to park.
        (policies.definition("first-wins"), 61_696),
        (policies.definition("content-hash"), 258_812),
        (policies.definition("uncoordinated"), 261_120),
        # A state has more of the event.
        (broken(PROJECTION, DELETED), 40_960),
        (broken(PROJECTION, "sequencer, event"), 40_960),
        (broken("Prepare Event/Parameters/x.$", TWICE), 40_789),
        (broken("Prepare Event/Parameters/x.$", f"{INPUT}{KEY[1:]}"), 122_368),
    ],
)
def test_the_largest_event_is_that_of_which_no_state_has_too_much(
    definition: dict[str, Any], largest: int
) -> None:
    assert largest_event(definition) == largest


# Two versions


@pytest.mark.parametrize("policy", policies.names())
def test_a_version_may_run_beside_itself(policy: str) -> None:
    assert list(differences(policies.definition(policy), policies.definition(policy))) == []


@pytest.mark.parametrize(
    ("shipped", "instead", "said"),
    [
        ('"TimeoutSeconds": 62', '"TimeoutSeconds": 66', "lease: a holder of the other version"),
        ("lock_token", "lease_token", "records: lock_token is read by"),
        ('"Superseded"', '"Overtaken"', "outcomes: Superseded is gone"),
        ("{}/{}#{}", "{}/{}@{}", "records: the id is"),
        ('"DONE"', '"READY"', "values in records: DONE is gone"),
        ('"fence": "newest"', '"fence": "each"', "fence = newest is gone"),
        ('"reason.$": "$.fault"', '"why.$": "$.fault"', "fields of retried events: why is new"),
    ],
)
def test_what_breaks_beside_the_version_before_is_named(
    shipped: str, instead: str, said: str
) -> None:
    text = FILE.read_text(encoding="utf-8")
    assert shipped in text
    found = list(differences(json.loads(text), json.loads(text.replace(shipped, instead))))
    assert any(said in each for each in found), found


def test_the_command_compares_with_a_file_and_refuses_what_is_none(tmp_path: Path) -> None:
    other = tmp_path / "other.asl.json"
    for text, said in ((FILE.read_text(), "may run beside"), ("[]", "is not a state machine")):
        other.write_text(text)
        result = CliRunner().invoke(main, ["check", str(FILE), "--against", str(other)])
        assert said in result.output
        assert result.exit_code == (text == "[]")
