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
from inorder.asl.lease import lease_numbers, limits, longest, longest_execution
from inorder.policies import asl_file

FILES = sorted((PROJECT / "statemachine").glob("*.asl.json"))
LATEST_WINS = PROJECT / "statemachine" / "latest_wins.asl.json"
OPTIMISTIC = PROJECT / "statemachine" / "optimistic.asl.json"
States = dict[str, Any]
FORGOTTEN = "Claim Key: claim: its lock is neither released nor its event parked on a way to"


def spoiled(change: Callable[[States], Any], file: Path = LATEST_WINS) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads(file.read_text())
    change(definition["States"])
    return definition


def findings(tmp_path: Path, definition: Any) -> list[str]:
    file = tmp_path / "spoiled.asl.json"
    file.write_text(json.dumps(definition))
    return check_file(file)


def retrier(states: States, name: str) -> dict[str, Any]:
    found: dict[str, Any] = states[name]["Retry"][-1]
    return found


def catch_all(states: States, name: str) -> dict[str, Any]:
    found: dict[str, Any] = states[name]["Catch"][-1]
    return found


def first_rule(states: States, name: str) -> dict[str, Any]:
    found: dict[str, Any] = states[name]["Choices"][0]
    return found


def without_condition(states: States, name: str, condition: dict[str, Any]) -> None:
    for rule in states[name]["Choices"]:
        if condition in rule.get("And", []):
            rule["And"].remove(condition)


def prepared_limits(states: States) -> dict[str, Any]:
    found: dict[str, Any] = states["Prepare Event"]["Parameters"]["limits"]
    return found


def is_present(variable: str) -> dict[str, Any]:
    return {"Variable": variable, "IsPresent": True}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_is_found_in_the_shipped_files(file: Path) -> None:
    assert check_file(file) == []


GRAPH: list[tuple[Callable[[States], Any], str]] = [
    (lambda s: s["Wait For Lock"].update(Secondz=3), "Wait For Lock: schema: "),
    (lambda s: s["Wait For Lock"].pop("Next"), "Wait For Lock: schema: "),
    (lambda s: s["Read Key Record"].pop("Resource"), "Read Key Record: schema: "),
    (
        lambda s: s["Read Key Record"].update(Next="Nowhere"),
        "Read Key Record: next: goes on to Nowhere, and there is no such state",
    ),
    (lambda s: s.pop("S3 Object Event?"), "schema: StartAt: "),
    (
        lambda s: s.update(Idle={"Comment": "c", "Type": "Succeed"}),
        "Idle: reached: no state leads to it",
    ),
    (
        lambda s: s["Read Key Record"].pop("Comment"),
        "Read Key Record: comment: has no Comment that says why it is there",
    ),
    (
        lambda s: s["Read Key Record"].update(Comment="One. Two?) Three!"),
        "Read Key Record: comment: its Comment has 3 sentences, and at most two are allowed",
    ),
    (
        lambda s: first_rule(s, "Key State?").update(Comment="One. Two. Three."),
        "Key State?: comment: its Comment has 3 sentences, and at most two are allowed",
    ),
]
TASKS: list[tuple[Callable[[States], Any], str]] = [
    *(
        (
            lambda s, field=field: s["Read Key Record"].pop(field),
            f"Read Key Record: timeout-retry-catch: a Task without {field}",
        )
        for field in ("TimeoutSeconds", "Retry", "Catch")
    ),
    (
        lambda s: s["Read Key Record"].update(Catch=[]),
        "Read Key Record: timeout-retry-catch: a Task without Catch",
    ),
    (
        lambda s: catch_all(s, "Read Key Record").update(ErrorEquals=["States.TaskFailed"]),
        "Read Key Record: timeout-retry-catch: its Catch does not end with States.ALL",
    ),
    (lambda s: s["Key State?"].pop("Default"), "Key State?: default: a Choice without Default"),
    (
        lambda s: s["Claim Key"]["Catch"].reverse(),
        "Claim Key: all-errors: States.ALL is not the last in its Catch",
    ),
    (
        lambda s: retrier(s, "Read Key Record").update(
            ErrorEquals=["States.ALL", "States.Timeout"]
        ),
        "Read Key Record: all-errors: States.ALL is not alone in its Retry",
    ),
]
ENGINES: list[tuple[Callable[[States], Any], str]] = [
    (
        lambda s: s.update(
            {
                "Wait For Lock": {
                    "Comment": "c",
                    "Type": "Parallel",
                    "Branches": [{"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}],
                    "Next": "Count Poll",
                }
            }
        ),
        "Wait For Lock: type: not every engine is known to run a Parallel",
    ),
    (
        lambda s: s["Read Key Record"].update(Resource="arn:aws:states:::aws-sdk:dynamodb:getItem"),
        "Read Key Record: resource: not every engine has arn:aws:states:::aws-sdk:dynamodb:getItem",
    ),
    (
        lambda s: s["Wait For Lock"].update(QueryLanguage="JSONata"),
        "Wait For Lock: jsonata: not every engine has JSONata",
    ),
    (
        lambda s: s["Count Poll"].update(Assign={"x": 1}),
        "Count Poll: jsonata: not every engine has Assign",
    ),
    (
        lambda s: first_rule(s, "Key State?")["And"].append(
            {"Variable": "$.sequencer", "StringLessThanPath": "$.ids.key"}
        ),
        "Key State?: operator: StringLessThanPath is not the same on every engine",
    ),
    (
        lambda s: first_rule(s, "Versioned Object?")["And"].append(
            {"Variable": "$.detail.x", "IsPresent": False}
        ),
        "Versioned Object?: operator: IsPresent: false is not the same on every engine; use Not",
    ),
    (
        lambda s: s["Count Poll"]["Parameters"].update({"x.$": "States.MathRandom(1, 2)"}),
        "Count Poll: intrinsic: not every engine has States.MathRandom",
    ),
    (
        lambda s: s["Parked"].update(CausePath="States.Base64Encode($.fault.Cause)"),
        "Parked: intrinsic: not every engine has States.Base64Encode",
    ),
    (
        lambda s: s["Count Poll"]["Parameters"].update({"x.$": "States.Format('\u00e9')"}),
        "Count Poll: intrinsic: escapes and non-ASCII are not the same on every engine",
    ),
    (
        lambda s: s["Count Poll"]["Parameters"].update({"x.$": "$$.Execution.StartTime"}),
        "Count Poll: context: $$.Execution.StartTime is not the same on every engine",
    ),
    (
        lambda s: s["Invert Image"]["ResultSelector"].update({"x.$": "$$.Execution.Id"}),
        "Invert Image: context: not every engine has the context object in ResultSelector",
    ),
    (
        lambda s: s["Give Up Waiting"]["Result"].update(Cause=None),
        "Give Up Waiting: null: a null in its Result is not the same on every engine",
    ),
]
GUARDS: list[tuple[Callable[[States], Any], str]] = [
    (
        lambda s: without_condition(s, "Key State?", is_present("$.record.Item.status.S")),
        "Key State?: guard: reads $.record.Item.status.S, which may be absent",
    ),
    (  # the rules after it read what it has sent elsewhere
        lambda s: s["Key State?"]["Choices"].pop(3),
        "Key State?: guard: reads $.record.Item.lock_token.S, which may be absent",
    ),
    (  # known in one of the two states before, but not in the other
        lambda s: s["Add Version"].update(Parameters={}),
        "Claim Key: guard: reads $.ids.key, which may be absent",
    ),
    (  # a result replaces all that was known of its place
        lambda s: s["Read Key Record"].update(ResultPath="$.polls"),
        "Key State?: guard: reads $.polls.count, which may be absent",
    ),
    (
        lambda s: s["Count Poll"].pop("ResultPath"),
        "Key State?: guard: reads $.sequencer, which may be absent",
    ),
    (  # of an Or no part need hold
        lambda s: first_rule(s, "Versioned Object?").update(
            Or=first_rule(s, "Versioned Object?").pop("And")
        ),
        "Versioned Object?: guard: reads $.event.detail.object['version-id'], which may be absent",
    ),
    (
        lambda s: without_condition(s, "Outcome?", is_present("$.inversion.Payload.cause")),
        "Reject Object: guard: reads $.inversion.Payload.cause, which may be absent",
    ),
    (
        lambda s: without_condition(s, "S3 Object Event?", is_present("$.detail.object.key")),
        "S3 Object Event?: guard: reads $.detail.object.key, which may be absent",
    ),
    (
        lambda s: catch_all(s, "Claim Key").pop("ResultPath"),
        "Park Event: guard: reads $.event, which may be absent",
    ),
    (
        lambda s: s["Invert Image"]["ResultSelector"].update({"x.$": "$.FunctionError"}),
        "Invert Image: guard: reads $.FunctionError, which may be absent",
    ),
    (
        lambda s: s["Parked"].update(CausePath="$.fault.Reason"),
        "Parked: guard: reads $.fault.Reason, which may be absent",
    ),
]
LOCKS: list[tuple[Callable[[States], Any], str]] = [
    (
        lambda s: s["Reject Object"].update(Next="Superseded"),
        f"{FORGOTTEN} Superseded",
    ),
    (
        lambda s: catch_all(s, "Invert Image").update(Next="Not Parked"),
        f"{FORGOTTEN} Not Parked",
    ),
    (  # a release that fails otherwise than by its condition has not released
        lambda s: catch_all(s, "Release Lock").update(Next="Output Written?"),
        f"{FORGOTTEN} Processed",
    ),
    (
        lambda s: s["Release Lock"]["Parameters"].update(
            UpdateExpression="SET #status = :done, expires_at = :expires_at, x = lock_token"
        ),
        f"{FORGOTTEN} Processed",
    ),
    (
        lambda s: s["Invert Image"].update(TimeoutSeconds=18),
        "Claim Key: lease: not in order: a holder's 84 s, a lease's 84, a waiter's 87",
    ),
    (
        lambda s: retrier(s, "Release Lock").update(MaxAttempts=99999999),
        "Claim Key: lease: not in order: a holder's 12",
    ),
    (
        lambda s: prepared_limits(s).update(lease_polls=29),
        "Claim Key: lease: not in order: a holder's 82 s, a lease's 87, a waiter's 87",
    ),
    (
        lambda s: prepared_limits(s).update(poll_seconds=4),
        "Claim Key: lease: the longest execution takes 315 of Express's 300 s",
    ),
    (
        lambda s: s["Read Key Record"].update(TimeoutSeconds=2),
        "Claim Key: lease: the longest execution takes 346 of Express's 300 s",
    ),
    (
        lambda s: s["Release Lock"]["Catch"][0].update(Next="Claim Key"),
        "Claim Key: lease: its seconds cannot be computed: an execution may come to Claim Key",
    ),
]
UNCOMPUTABLE = "Claim Key: lease: its seconds cannot be computed:"
LIMITS: list[tuple[Callable[[States], Any], str]] = [
    *(
        (
            lambda s, name=name: prepared_limits(s).pop(name),
            f"{UNCOMPUTABLE} no Pass prepares $.limits.{name}",
        )
        for name in ("poll_seconds", "lease_polls", "maximum_polls")
    ),
    (
        lambda s: s["Prepare Event"]["Parameters"].pop("limits"),
        f"{UNCOMPUTABLE} no Pass prepares $.limits.poll_seconds; "
        "no Pass prepares $.limits.lease_polls; no Pass prepares $.limits.maximum_polls",
    ),
    *(
        (
            lambda s, wrong=wrong: prepared_limits(s).update(lease_polls=wrong),
            f"{UNCOMPUTABLE} $.limits.lease_polls is {wrong!r} instead of a positive whole number",
        )
        for wrong in (0, 28.5, "28", True)
    ),
    (
        lambda s: s["Count Poll"].update(ResultPath="$.limits.poll_seconds"),
        f"{UNCOMPUTABLE} $.limits is written by Prepare Event and by Count Poll",
    ),
    (
        lambda s: s["Key State?"]["Choices"][2].update(
            NumericGreaterThanEqualsPath="$.limits.lease_polls"
        ),
        f"{UNCOMPUTABLE} Key State? does not give up at $.limits.maximum_polls",
    ),
    (
        lambda s: s["Watch Lock"]["Parameters"].update(
            {"break_at_poll.$": "States.MathAdd($.polls.count, 28)"}
        ),
        f"{UNCOMPUTABLE} no Pass sets $.watched_lock.break_at_poll to $.polls.count plus "
        "$.limits.lease_polls",
    ),
    (
        lambda s: s["Watch Lock"]["Parameters"].update(
            {"break_at_poll.$": "States.MathAdd($.limits.maximum_polls, $.limits.lease_polls)"}
        ),
        f"{UNCOMPUTABLE} no Pass sets $.watched_lock.break_at_poll to $.polls.count plus",
    ),
    (
        lambda s: s["Wait For Lock"].update(Seconds=s["Wait For Lock"].pop("SecondsPath") and 3),
        f"{UNCOMPUTABLE} Wait For Lock does not wait for $.limits.poll_seconds",
    ),
    (
        lambda s: (
            s["Watch Lock"].update(Next="Another Wait")
            or s.update({"Another Wait": s["Wait For Lock"]})
        ),
        f"{UNCOMPUTABLE} there is not one Wait, but 2",
    ),
]


@pytest.mark.parametrize(("change", "finding"), GRAPH)
def test_a_broken_graph_is_found(
    tmp_path: Path, change: Callable[[States], Any], finding: str
) -> None:
    found = findings(tmp_path, spoiled(change))
    assert any(each.startswith(finding) for each in found), found


@pytest.mark.parametrize(("change", "finding"), [*TASKS, *ENGINES, *GUARDS, *LOCKS, *LIMITS])
def test_a_broken_rule_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[States], Any],
    finding: str,
) -> None:
    # cfn-lint takes a second each time, and finds none of these.
    monkeypatch.setattr(asl, "STAGES", asl.STAGES[1:])
    found = findings(tmp_path, spoiled(change))
    assert any(each.startswith(finding) for each in found), found


def test_a_state_that_is_known_on_every_way_needs_no_guard(tmp_path: Path) -> None:
    """A path is known after an Or whose parts all test it, and after a Not."""

    def change(states: States) -> None:
        present = is_present("$.event.detail.object['version-id']")
        states["Versioned Object?"]["Choices"] = [
            {"Not": {"Or": [{"Not": present}, {"Not": present}]}, "Next": "Add Version"}
        ]

    assert findings(tmp_path, spoiled(change)) == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (
            lambda s: without_condition(s, "Outcome?", is_present("$.inversion.Payload.cause")),
            "Reject Object: guard: reads $.inversion.Payload.cause, which may be absent",
        ),
        (
            lambda s: retrier(s, "Invert Image").update(MaxAttempts=7),
            "express: the longest execution takes 301 of Express's 300 s",
        ),
        (
            lambda s: catch_all(s, "Park Event").update(Next="Park Event"),
            "express: its seconds cannot be computed: "
            "an execution may come to Park Event again and again",
        ),
    ],
)
def test_a_file_without_a_lock_is_checked_too(
    tmp_path: Path, change: Callable[[States], Any], finding: str
) -> None:
    assert lease_numbers(json.loads(OPTIMISTIC.read_text())) is None
    found = findings(tmp_path, spoiled(change, OPTIMISTIC))
    assert any(each.endswith(finding) for each in found), found


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
    file = Path(shutil.copy(LATEST_WINS, tmp_path / "statemachine"))
    template = (PROJECT / "template.yaml").read_text()
    (tmp_path / "template.yaml").write_text(template)
    assert check_file(file) == []
    assert old in template
    (tmp_path / "template.yaml").write_text(template.replace(old, new, 1))
    found = check_file(file)
    assert found[0].startswith(finding)
    assert all("\n" not in each for each in found)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("{", "json: not valid JSON: "),
        ("", "json: not valid JSON: "),
        ("\xff", "json: not valid JSON: "),
        ("[" * 100_000, "json: not valid JSON: "),
        ('{"StartAt": "A", "States": {}, "States": {}}', "json: not valid JSON: 'States' is there"),
        ("{}", "schema: not a state machine: it has no States"),
        ("[]", "schema: not a state machine: it has no States"),
        ("null", "schema: not a state machine: it has no States"),
        ('{"StartAt": "A"}', "schema: not a state machine: it has no States"),
    ],
)
def test_a_file_that_is_no_state_machine_is_found(tmp_path: Path, text: str, finding: str) -> None:
    file = tmp_path / "broken.asl.json"
    file.write_text(text, encoding="latin-1")
    [found] = check_file(file)
    assert found.startswith(finding)
    assert "\n" not in found


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert check_file(tmp_path) == ["json: cannot be read: Is a directory"]


def definition_of(policy: str) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads((PROJECT / asl_file(policy)).read_text())
    return definition


@pytest.mark.parametrize(
    ("policy", "holder", "lease", "waiter", "longest_seconds"),
    [
        ("latest-wins", 82, 84, 87, 286),
        ("every-version", 83, 84, 105, 287),
        ("first-wins", 82, 84, 87, 286),
        ("content-hash", 54, 60, 63, 230),
    ],
)
def test_the_seconds_of_a_policy_with_a_lock(
    policy: str, holder: float, lease: float, waiter: float, longest_seconds: float
) -> None:
    assert lease_numbers(definition_of(policy)) == (holder, lease, waiter, longest_seconds)


@pytest.mark.parametrize(("policy", "seconds"), [("optimistic", 227), ("uncoordinated", 54)])
def test_the_seconds_of_a_policy_without_a_lock(policy: str, seconds: float) -> None:
    definition = definition_of(policy)
    assert lease_numbers(definition) is None
    assert limits(definition) == {}
    assert longest_execution(definition) == seconds


def test_the_limits_are_those_that_the_file_prepares() -> None:
    assert limits(definition_of("every-version")) == {
        "poll_seconds": 3,
        "lease_polls": 28,
        "turn_polls": 5,
        "maximum_polls": 36,
    }


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        ({"Seconds": 7}, 7),
        ({"SecondsPath": "$.limits.poll_seconds"}, 3),
        ({"SecondsPath": "$.event.seconds"}, 99_999_999),
        ({"Timestamp": "2030-01-01T00:00:00Z"}, 99_999_999),
    ],
)
def test_a_wait_takes_its_seconds_or_those_of_a_limit(wait: dict[str, Any], seconds: float) -> None:
    assert longest({"Type": "Wait", **wait}, {"poll_seconds": 3}) == seconds


def test_names_of_states_and_files_do_not_end_a_sentence(tmp_path: Path) -> None:
    comment = "Key State? decides, as template.yaml says (see above.) 3 s later it ends."

    def change(states: States) -> None:
        states["Count Poll"]["Comment"] = comment

    assert findings(tmp_path, spoiled(change)) == []


def test_a_wait_may_take_its_seconds_from_the_prepared_data_only(tmp_path: Path) -> None:
    def change(states: States) -> None:
        states["Wait For Lock"]["SecondsPath"] = "$.event.seconds"

    found = findings(tmp_path, spoiled(change))
    assert "Wait For Lock: guard: reads $.event.seconds, which may be absent" in found
    assert f"{UNCOMPUTABLE} Wait For Lock does not wait for $.limits.poll_seconds" in found
