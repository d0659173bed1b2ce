"""Each rule of `inorder check`, on the shipped files and on copies that break it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inorder import PROJECT, asl
from inorder.asl import check_file
from inorder.asl.lease import lease_numbers, limits, longest
from inorder.asl.size import largest_event
from inorder.model import policies
from inorder.model.policies import asl_file

FILES = sorted((PROJECT / "statemachine").glob("*.asl.json"))
DELETED = object()
FORGOTTEN = "Claim Key: claim: its lock is neither released nor its event parked on a way to"
# A row breaks a file in one place: where it is; the value to put there, or a function of the value
# that was there; and the finding, which is about the state that was broken or names another one.
Row = tuple[str, Any, str]


def broken(place: str, value: Any, policy: str = "latest-wins") -> dict[str, Any]:
    """Load the file of a policy with another value in one place, such as ``Claim Key/Catch/0``."""
    definition = policies.definition(policy)
    inside: Any = definition["States"]
    *parents, name = place.split("/")
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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_is_found_in_the_shipped_files(file: Path) -> None:
    assert check_file(file) == []


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


IDLE = {"Comment": "c", "Type": "Succeed"}
PARALLEL = {
    "Comment": "c",
    "Type": "Parallel",
    "Branches": [{"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}],
    "Next": "Count Poll",
}
THREE = "comment: its Comment has 3 sentences, and at most two are allowed"
ALL = ["States.ALL"]
SDK = "arn:aws:states:::aws-sdk:dynamodb:getItem"
GRAPH: list[Row] = [
    ("Read Key Record/Next", "Nowhere", "next: goes on to Nowhere, and there is no such state"),
    ("Idle", IDLE, "reached: no state leads to it"),
    ("Read Key Record/Comment", DELETED, "comment: has no Comment that says why it is there"),
    ("Read Key Record/Comment", "One. Two?) Three!", THREE),
    ("Key State?/Choices/0/Comment", "One. Two. Three.", THREE),
    *(
        (f"Read Key Record/{field}", value, f"timeout-retry-catch: a Task without {field}")
        for field in ("TimeoutSeconds", "Retry", "Catch")
        for value in (DELETED, [])
    ),
    (
        *("Read Key Record/Catch/-1/ErrorEquals", ["States.TaskFailed"]),
        "timeout-retry-catch: its Catch does not end with States.ALL",
    ),
    ("Key State?/Default", DELETED, "default: a Choice without Default"),
    ("Claim Key/Catch", lambda c: c[::-1], "all-errors: States.ALL is not the last in its Catch"),
    (
        *("Read Key Record/Retry/-1/ErrorEquals", [*ALL, "States.Timeout"]),
        "all-errors: States.ALL is not alone in its Retry",
    ),
    ("Idle", IDLE, "outcome: ends with a Succeed, which reports no outcome"),
    (
        *("Superseded/Parameters/outcome", "Outdated"),
        "outcome: ends with Parameters.outcome Outdated, and not Superseded, its own name",
    ),
    ("Invalid Event/Error", DELETED, "outcome: ends with Error None, and not InvalidEvent"),
]
INPUT = "$$.Execution.Input"
EVENT = "$.Attributes.event.S"
STATUS, CAUSE = "$.record.Item.status.S", "$.inversion.Payload.cause"
KEY, VERSION = "$.detail.object.key", "$.detail.object['version-id']"
LIMIT = "Count Poll/Parameters/limits"
NAMES = ("poll_seconds", "lease_polls", "maximum_polls")
DISORDER = "not in order: a holder's"
WAIT = {"Comment": "c", "Type": "Wait", "Seconds": 3}
NO_POLL = "Wait For Lock does not wait for $.limits.poll_seconds"
BREAK_AT = "Watch Lock/Parameters/break_at_poll.$"
NO_BREAK = "no Pass sets $.watched_lock.break_at_poll to $.polls plus $.limits.lease_polls"
NO_COUNT = "no Pass adds 1 to $.polls, or another state does, too"
UNPOLLED = "a poll may follow another one without a wait, by Read Key Record, Key State?"
NOT_SAME = "not the same on every engine"
COUNT, SELECT = "Count Poll/Parameters/x.$", "Invert Image/ResultSelector/x.$"
LESS = {"Variable": "$.sequencer", "StringLessThanPath": "$.object_key"}
ABSENT = {"Variable": "$.detail.x", "IsPresent": False}
ENGINES: list[Row] = [
    ("Wait For Lock", PARALLEL, "type: not every engine is known to run a Parallel"),
    ("Read Key Record/Resource", SDK, f"resource: not every engine has {SDK}"),
    ("Wait For Lock/QueryLanguage", "JSONata", "jsonata: not every engine has JSONata"),
    ("Count Poll/Assign", {"x": 1}, "jsonata: not every engine has Assign"),
    ("Key State?/Choices/0/And", plus(LESS), f"operator: StringLessThanPath is {NOT_SAME}"),
    ("S3 Object Event?/Choices/1/And", plus(ABSENT), f"operator: IsPresent: false is {NOT_SAME}"),
    (
        "Parked/CausePath",
        "States.Base64Encode($.x)",
        "intrinsic: not every engine has States.Base64",
    ),
    (COUNT, "States.MathRandom(1, 2)", "intrinsic: not every engine has States.MathRandom"),
    (COUNT, "States.Format('\u00e9')", f"intrinsic: escapes and non-ASCII are {NOT_SAME}"),
    (COUNT, "$$.Execution.StartTime", f"context: $$.Execution.StartTime is {NOT_SAME}"),
    (
        SELECT,
        "$$.Execution.Id",
        "context: not every engine has the context object in ResultSelector",
    ),
    ("Give Up Waiting/Result/Cause", None, f"null: a null in its Result is {NOT_SAME}"),
]
GUARDS: list[Row] = [
    (place, value, f"{state}guard: reads {path}, which may be absent")
    for place, value, state, path in [
        ("Key State?/Choices", without_test_of(STATUS), "", STATUS),
        # The rules after it read what it has sent elsewhere.
        ("Key State?/Choices/4", DELETED, "", "$.record.Item.lock_token.S"),
        # Known in one of the two states before, but not in the other.
        ("Prepare Version/Parameters", {}, "Claim Key: ", "$.object_key"),
        # A result replaces all that was known of its place.
        ("Read Key Record/ResultPath", "$.limits", "Key State?: ", "$.limits.maximum_polls"),
        ("Count Poll/Parameters/sequencer.$", DELETED, "Key State?: ", "$.sequencer"),
        ("S3 Object Event?/Choices/1", any_of_its_tests, "", VERSION),
        # The data of the first state is the execution's input.
        (
            "S3 Object Event?/Choices/0/Not",
            without_all_tests_of(KEY),
            "Prepare Event: ",
            INPUT + KEY[1:],
        ),
        ("Outcome?/Choices", without_test_of(CAUSE), "Reject Object: ", CAUSE),
        ("S3 Object Event?/Choices/0/Not", lambda rule: without_test_of(KEY)([rule])[0], "", KEY),
        ("Claim Key/Catch/-1/ResultPath", DELETED, "Retry Event: ", "$.object_key"),
        ("Invert Image/ResultSelector/x.$", "$.FunctionError", "", "$.FunctionError"),
        ("Parked/CausePath", "$.fault.Reason", "", "$.fault.Reason"),
        # A record has what the claim wrote only if its lock is this execution's own.
        ("Release Lock Only/Parameters/ConditionExpression", "attribute_exists(id)", "", EVENT),
        (
            "Break Lock/Parameters/UpdateExpression",
            "REMOVE lock_token, event",
            "Release Lock Only: ",
            EVENT,
        ),
        ("Wait For Lock/SecondsPath", "$.event.seconds", "", "$.event.seconds"),
    ]
]
LOCK_NOT_COMPARED = (
    *("Lock Taken?/Choices/0/And/1/Variable", "$.sequencer"),
    "Claim Key: claim: it may leave the lock to another execution",
)
NOT_RELEASED = "SET #status = :done, expires_at = :expires_at, x = lock_token"
CLAIM: list[Row] = [
    (place, value, f"{FORGOTTEN} {end}")
    for place, value, end in [
        ("Reject Object/Next", "Superseded", "Superseded"),
        ("Attempt Again?/Default", "Not Parked", "Not Parked"),
        # A release that fails otherwise than by its condition has not released.
        ("Release Lock/Catch/-1/Next", "Final Outcome?", "Processed"),
        ("Release Lock/Parameters/UpdateExpression", NOT_RELEASED, "Processed"),
    ]
]
# After a claim or a renewal that failed, nothing may work before the next claim.
# The first of these are the faults of an earlier version: a poll whose read failed went on to the
# claim, which was refused, and so to the next poll.
LEASE: list[Row] = [
    (place, value, f"Claim Key: lease: {finding}")
    for place, value, finding in [
        ("Invert Image/TimeoutSeconds", 64, f"{DISORDER} 72 s, a lease's 72, a waiter's 78"),
        ("Invert Image/Retry/-1/MaxAttempts", 1, f"{DISORDER} 133 s"),
        ("Renew Lock/TimeoutSeconds", 3, f"{DISORDER} 72 s, a lease's 72, a waiter's 78"),
        (f"{LIMIT}/lease_polls", 13, f"{DISORDER} 70 s, a lease's 78, a waiter's 78"),
        *(
            (place, value, f"the longest execution takes {seconds} of Express's 300 s")
            for place, value, seconds in [
                (f"{LIMIT}/poll_seconds", 10, 306),
                ("Read Key Record/TimeoutSeconds", 5, 310),
                ("Release Lock/Retry/-1/MaxAttempts", 99999999, 1450),
                ("Attempt Again?/Choices/0/And/1/NumericLessThanEquals", 12, 316),
                ("Attempt Again?/Choices/0/And", lambda tests: tests[:1], 328),
            ]
        ),
    ]
]
MORE = "States.MathAdd($.polls, 1)"
LIMITS: list[Row] = [
    (place, value, f"Claim Key: lease: its seconds cannot be computed: {why}")
    for place, value, why in [
        ("Start Newest Event/Next", "Claim Key", "an execution may come to "),
        (
            *("Attempt Again?/Choices/0/And", lambda tests: tests[1:]),
            "an execution may come to Attempt Again? again and again",
        ),
        *((f"{LIMIT}/{name}", DELETED, f"no Pass prepares $.limits.{name}") for name in NAMES),
        (LIMIT, DELETED, "; ".join(f"no Pass prepares $.limits.{name}" for name in NAMES)),
        *(
            (f"{LIMIT}/lease_polls", wrong, f"$.limits.lease_polls is {wrong!r} instead of a")
            for wrong in (0, 28.5, "28", True)
        ),
        (
            *("Watch Lock/ResultPath", "$.limits.poll_seconds"),
            "$.limits is written by Count Poll and by Watch Lock",
        ),
        (
            *("Key State?/Choices/2/NumericGreaterThanEqualsPath", "$.limits.lease_polls"),
            "Key State? does not give up at $.limits.maximum_polls",
        ),
        (BREAK_AT, "States.MathAdd($.polls, 28)", NO_BREAK),
        (BREAK_AT, "States.MathAdd($.limits.maximum_polls, $.limits.lease_polls)", NO_BREAK),
        ("Count Poll/Parameters/polls.$", "States.MathAdd($.polls, 2)", NO_COUNT),
        ("Prepare Version/Parameters/polls.$", MORE, NO_COUNT),
        ("Wait For Lock", WAIT | {"Next": "Count Poll"}, NO_POLL),
        ("Wait For Lock/SecondsPath", "$.event.seconds", NO_POLL),
        ("Prepare Version", WAIT | {"Next": "Claim Key"}, "there is not one Wait, but 2"),
    ]
]


RENEWED = "Renew Lock/Parameters/ExpressionAttributeValues/:renewed/S.$"
SAME_LOCK = "renewal: its new token is not $.lock_token with a text behind it"
OLDEST = "Record Oldest Waiter"
TEXT = "States.JsonToString($$.Execution.Input)"
NO_ROOM = (  # for an event
    *("Prepare Event/Parameters/x.$", f"States.Format('', {', '.join([TEXT] * 20)})"),
    "size: its data is too large for an event of more than 6",
)
RENEWAL: list[Row] = [
    *((RENEWED, value, SAME_LOCK) for value in ("$.lock_token", "States.UUID()")),
    *(
        (
            f"{release}/Parameters/ConditionExpression",
            "lock_token = :lock_token AND sequencer = :sequencer",
            "renewal: it does not know a renewed lock: its condition must begin with begins_with(",
        )
        for release in ("Release Lock", "Release Failed Key")
    ),
]

LOCKLESS = "claim: if it fails, Invert Image may work without"
AGAIN = "it may still be written after States.Timeout, so do not repeat it"
# Of any policy. After a claim or a renewal that failed, nothing may work before the next claim.
OTHERS: list[tuple[str, str, Any, str]] = [
    *(
        (policy, f"{state}/Retry/0/ErrorEquals", ["States.Timeout"], f"{state}: late: {AGAIN}")
        for policy, state in [
            *(("latest-wins", "Claim Key"), ("first-wins", "Claim Key")),
            ("every-version", "Record Event"),
        ]
    ),
    ("latest-wins", "Claim Key/Catch/-1/Next", "Invert Image", LOCKLESS),
    ("latest-wins", "Renew Lock/Catch/-1/Next", "Invert Image", LOCKLESS),
    ("every-version", "Renew Lock/Catch/-1/Next", "Read Event Record", LOCKLESS),
    ("first-wins", "First Poll?/Default", "Invert Image", LOCKLESS),
    (
        *("content-hash", "First Poll?/Choices/0/Next", "Forward Event"),
        LOCKLESS.replace("Invert Image", "Forward Event"),
    ),
    # The first of these are the faults of an earlier version: a poll whose read failed went on to
    # the claim, which was refused, and so to the next poll.
    *(
        (policy, place, value, f"Count Poll: poll: {UNPOLLED}, {way}")
        for policy, place, value, way in [
            ("latest-wins", "Claim Key/Catch/0/Next", "Count Poll", "Claim Key"),
            ("first-wins", "First Poll?/Choices/0/Next", "Count Poll", "Claim Key, First Poll?"),
            ("every-version", "First Poll?/Choices/0/Next", "Count Poll", "Claim Key, First Poll?"),
            ("latest-wins", "Break Lock/Catch/-1/Next", "Count Poll", "Break Lock"),
            ("latest-wins", "Lock Taken?/Choices/1", DELETED, "Claim Key, Lock Taken?"),
            ("latest-wins", "Watch Lock/Next", "Count Poll", "Watch Lock"),
            *(
                ("every-version", f"{OLDEST}/{place}", "Count Poll", OLDEST)
                for place in ("Catch/0/Next", "Next")
            ),
        ]
    ),
    # A lease covers the release after work that no fence protects.
    (
        *("content-hash", "Release Lock/Retry/-1/MaxAttempts", 3),
        f"Claim Content: lease: {DISORDER} 36 s, a lease's 36, a waiter's 42",
    ),
    # The policy optimistic has no lock.
    (
        *("optimistic", "Outcome?/Choices", without_test_of(CAUSE)),
        f"Reject Object: guard: reads {CAUSE}, which may be absent",
    ),
    (
        *("optimistic", "Invert Image/Retry/-1/MaxAttempts", 8),
        "express: the longest execution takes 305 of Express's 300 s",
    ),
    (
        *("optimistic", "Park Event/Catch/-1/Next", "Park Event"),
        "express: its seconds cannot be computed: an execution may come to Park Event again and",
    ),
]


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize(
    ("place", "value", "finding"),
    [*GRAPH, *RENEWAL, *ENGINES, *GUARDS, LOCK_NOT_COMPARED, *CLAIM, *LEASE, *LIMITS, NO_ROOM],
)
def test_a_broken_rule_is_found(tmp_path: Path, place: str, value: Any, finding: str) -> None:
    found = findings(tmp_path, broken(place, value))
    about = (finding, f"{place.partition('/')[0]}: {finding}")
    assert any(each.startswith(about) for each in found), found


@pytest.mark.usefixtures("no_schema")
@pytest.mark.parametrize(("policy", "place", "value", "finding"), OTHERS)
def test_a_broken_rule_of_any_policy_is_found(
    tmp_path: Path, policy: str, place: str, value: Any, finding: str
) -> None:
    found = findings(tmp_path, broken(place, value, policy))
    assert any(finding in each for each in found), found


# The policy optimistic has no lock.


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
        ("KeyTableName: !Ref", "KeyTableName: !Ref", None),
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
    tmp_path: Path, old: str, new: str, finding: str | None
) -> None:
    (tmp_path / "statemachine").mkdir()
    file = shutil.copy(PROJECT / asl_file("latest-wins"), tmp_path / "statemachine")
    template = (PROJECT / "template.yaml").read_text()
    assert old in template
    (tmp_path / "template.yaml").write_text(template.replace(old, new, 1))
    found = check_file(Path(file))
    assert found[0].startswith(finding) if finding else found == []
    assert all("\n" not in each for each in found)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        *((text, "json: not valid JSON: ") for text in ("{", "", "\xff", "[" * 100_000)),
        ('{"StartAt": "A", "States": {}, "States": {}}', "json: not valid JSON: 'States' is there"),
        *(
            (text, "schema: not a state machine: it has no States")
            for text in ("{}", "[]", "null", '{"StartAt": "A"}')
        ),
    ],
)
def test_a_file_that_is_no_state_machine_is_found(tmp_path: Path, text: str, finding: str) -> None:
    file = tmp_path / "broken.asl.json"
    file.write_text(text, encoding="latin-1")
    [found] = check_file(file)
    assert found.startswith(finding)
    assert "\n" not in found
    assert check_file(tmp_path) == ["json: cannot be read: Is a directory"]


def test_the_limits_are_those_that_the_file_prepares() -> None:
    expected = {"poll_seconds": 3, "lease_polls": 24, "turn_polls": 5, "maximum_polls": 31}
    assert limits(policies.definition("every-version")) == expected
    without = policies.definition("optimistic")
    assert (lease_numbers(without), limits(without)) == (None, {})


def test_a_wait_takes_its_seconds_or_those_of_a_limit() -> None:
    for wait, seconds in [
        ({"Seconds": 7}, 7),
        ({"SecondsPath": "$.limits.poll_seconds"}, 3),
        ({"SecondsPath": "$.event.seconds"}, 99_999_999),
        ({"Timestamp": "2030-01-01T00:00:00Z"}, 99_999_999),
    ]:
        assert longest({"Type": "Wait", **wait}, {"poll_seconds": 3}) == seconds  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("policy", "largest"),
    [
        # A record has the event as a text, whose characters JSON may double.
        ("latest-wins", 122_880),
        ("every-version", 128_787),
        # A waiter reads the holder's event, which first-wins may have to park.
        ("first-wins", 61_696),
        ("content-hash", 258_812),
        ("optimistic", 257_752),
        ("uncoordinated", 261_120),
    ],
)
def test_the_largest_event_of_a_policy(policy: str, largest: int) -> None:
    assert largest_event(policies.definition(policy)) == largest


PROJECTION = "Read Key Record/Parameters/ProjectionExpression"


@pytest.mark.parametrize(
    ("place", "value", "largest"),
    [
        (PROJECTION, DELETED, 40_960),
        (PROJECTION, "sequencer, event", 40_960),
        ("Prepare Event/Parameters/x.$", f"States.Format('{{}}{{}}', {TEXT}, {TEXT})", 40_789),
        ("Prepare Event/Parameters/x.$", "$$.Execution.Input.detail.object.key", 122_368),
    ],
)
def test_a_state_with_more_of_the_event_lowers_the_largest(
    place: str, value: Any, largest: int
) -> None:
    assert largest_event(broken(place, value)) == largest
