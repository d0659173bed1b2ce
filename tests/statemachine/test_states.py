"""Each state of the shipped file alone, through the TestState API, with its service mocked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inorder.check import targets
from inorder.local_aws import LocalAws
from inorder.stack import PROJECT

DEFINITION = json.loads((PROJECT / "statemachine" / "latest_wins.asl.json").read_text())
STATES = DEFINITION["States"]

EVENT = json.loads((PROJECT / "events" / "object-created.json").read_text())
VERSIONED = json.loads((PROJECT / "events" / "object-created-in-versioned-bucket.json").read_text())
INCOMPLETE = json.loads((PROJECT / "events" / "object-created-without-sequencer.json").read_text())
READ = {
    "event": EVENT,
    "object_key": "b/k",
    "sequencer": "0B",
    "source": {"bucket": "b", "key": "k", "etag": "e"},
    "lock_token": "mine",
    "record": {},
    "looks": {"count": 1},
    "watched": {"lock_token": "", "break_at_look": 0},
}
FAULT = {"Error": "Some.Fault", "Cause": "because"}


def record(**attributes: str) -> dict[str, Any]:
    """Make what GetItem gives: a locked key, in progress for this event, save as told."""
    item = {"newest": "0B", "sequencer": "0B", "status": "IN_PROGRESS", "lock_token": "theirs"}
    item |= attributes
    return {"Item": {name: {"S": value} for name, value in item.items() if value}}


def read(**data: Any) -> dict[str, Any]:
    return READ | data


def error(name: str) -> dict[str, Any]:
    return {"errorOutput": {"error": name, "cause": "mocked"}}


def answer(payload: Any) -> dict[str, Any]:
    return {"Payload": payload}


WATCHED = {"lock_token": "theirs", "break_at_look": 29}
CONDITION = error("DynamoDB.ConditionalCheckFailedException")
DONE = {"result": "{}"}

# state, input, mock, next state
CASES: list[tuple[str, Any, dict[str, Any] | None, str | None]] = [
    ("S3 Object Event?", EVENT, None, "Versioned Object?"),
    ("S3 Object Event?", INCOMPLETE, None, "Park Invalid Event"),
    ("S3 Object Event?", {}, None, "Park Invalid Event"),
    ("Versioned Object?", EVENT, None, "Read Event"),
    ("Versioned Object?", VERSIONED, None, "Read Versioned Event"),
    ("Read Event", EVENT, None, "Claim Key"),
    ("Read Versioned Event", VERSIONED, None, "Claim Key"),
    ("Claim Key", READ, DONE, "Invert Image"),
    ("Claim Key", READ, CONDITION, "Record Sequencer"),
    ("Claim Key", READ, error("DynamoDB.InternalServerErrorException"), "Park Event"),
    ("Record Sequencer", READ, DONE, "Count Look"),
    ("Record Sequencer", READ, CONDITION, "Count Look"),
    ("Record Sequencer", READ, error("States.Timeout"), "Park Event"),
    ("Count Look", READ, None, "Read Key"),
    ("Read Key", READ, {"result": json.dumps(record())}, "Key State?"),
    ("Read Key", READ, error("States.Timeout"), "Key State?"),
    ("Key State?", READ, None, "Claim Key"),  # no item
    ("Key State?", read(record=record(newest="0C")), None, "Report Superseded"),
    ("Key State?", read(record=record(newest="0C", status="DONE")), None, "Report Superseded"),
    ("Key State?", read(record=record(status="DONE", lock_token="")), None, "Report Duplicate"),
    (
        "Key State?",
        read(record=record(status="DONE", sequencer="0A", lock_token="")),
        None,
        "Claim Key",
    ),
    ("Key State?", read(record=record(lock_token="")), None, "Claim Key"),
    ("Key State?", read(record=record(status="FAILED", lock_token="")), None, "Claim Key"),
    ("Key State?", read(record=record()), None, "Watch Lock"),
    ("Key State?", read(record=record(lock_token="mine")), None, "Watch Lock"),
    ("Key State?", read(record=record(), watched=WATCHED), None, "Wait For Lock"),
    (
        "Key State?",
        read(record=record(), watched=WATCHED, looks={"count": 28}),
        None,
        "Wait For Lock",
    ),
    ("Key State?", read(record=record(), watched=WATCHED, looks={"count": 29}), None, "Break Lock"),
    (
        "Key State?",
        read(record=record(lock_token="another"), watched=WATCHED, looks={"count": 29}),
        None,
        "Watch Lock",
    ),
    ("Key State?", read(record=record(), looks={"count": 30}), None, "Give Up Waiting"),
    (
        "Key State?",
        read(record=record(newest="0C"), looks={"count": 30}),
        None,
        "Report Superseded",
    ),
    (
        "Key State?",
        read(record=record(status="DONE", lock_token=""), looks={"count": 30}),
        None,
        "Report Duplicate",
    ),
    ("Watch Lock", read(record=record()), None, "Wait For Lock"),
    ("Wait For Lock", READ, None, "Count Look"),
    ("Break Lock", read(watched=WATCHED), DONE, "Claim Key"),
    ("Break Lock", read(watched=WATCHED), CONDITION, "Count Look"),
    (
        "Invert Image",
        READ,
        {"result": json.dumps(answer({"outcome": "Processed"}))},
        "Outcome?",
    ),
    ("Invert Image", READ, error("Lambda.Unknown"), "Park Event"),
    (
        "Outcome?",
        read(inversion=answer({"outcome": "Processed", "expires_at": "1"})),
        None,
        "Release Lock",
    ),
    (
        "Outcome?",
        read(inversion=answer({"outcome": "Superseded", "expires_at": "1"})),
        None,
        "Release Lock",
    ),
    (
        "Outcome?",
        read(inversion=answer({"outcome": "InvalidImage", "cause": "cut"})),
        None,
        "Reject Image",
    ),
    ("Outcome?", read(inversion=answer({})), None, "Reject Result"),
    (
        "Release Lock",
        read(inversion=answer({"outcome": "Processed", "expires_at": "1"})),
        DONE,
        "Output Written?",
    ),
    (
        "Release Lock",
        read(inversion=answer({"outcome": "Processed", "expires_at": "1"})),
        CONDITION,
        "Output Written?",
    ),
    (
        "Release Lock",
        read(inversion=answer({"outcome": "Processed", "expires_at": "1"})),
        error("DynamoDB.ValidationException"),
        "Park Event",
    ),
    ("Output Written?", read(inversion=answer({"outcome": "Processed"})), None, "Report Processed"),
    (
        "Output Written?",
        read(inversion=answer({"outcome": "Superseded"})),
        None,
        "Report Superseded",
    ),
    ("Report Processed", read(inversion=answer({})), None, "Processed"),
    ("Report Duplicate", READ, None, "Duplicate"),
    ("Report Superseded", READ, None, "Superseded"),
    ("Processed", {}, None, None),
    ("Duplicate", {}, None, None),
    ("Superseded", {}, None, None),
    (
        "Reject Image",
        read(inversion=answer({"outcome": "InvalidImage", "cause": "cut"})),
        None,
        "Park Event",
    ),
    ("Reject Result", read(inversion=answer(None)), None, "Park Event"),
    ("Give Up Waiting", READ, None, "Park Event"),
    ("Park Event", read(fault=FAULT), DONE, "Fail Key"),
    ("Park Event", read(fault=FAULT), error("SQS.SdkClientException"), "Not Parked"),
    ("Fail Key", READ, DONE, "Parked"),
    ("Fail Key", READ, CONDITION, "Parked"),
    ("Parked", read(fault=FAULT), None, None),
    ("Park Invalid Event", {}, DONE, "Invalid Event"),
    ("Park Invalid Event", {}, error("States.Timeout"), "Not Parked"),
    ("Invalid Event", {}, None, None),
    ("Not Parked", {}, None, None),
]


def run_state(
    local: LocalAws,
    name: str,
    data: Any,
    mock: dict[str, Any] | None = None,
    table: str = "${KeyTableName}",
) -> dict[str, Any]:
    parameters = {"mock": mock} if mock else {}
    tested: dict[str, Any] = local.client("stepfunctions").test_state(
        definition=json.dumps(DEFINITION).replace("${KeyTableName}", table),
        stateName=name,
        input=json.dumps(data),
        roleArn="arn:aws:iam::123456789012:role/test",
        context=json.dumps({"Execution": {"Id": "arn:test", "Name": "test"}}),
        **parameters,
    )
    return tested


@pytest.mark.parametrize(
    ("name", "data", "mock", "following"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_what_follows_a_state(
    local: LocalAws, name: str, data: Any, mock: dict[str, Any] | None, following: str | None
) -> None:
    assert run_state(local, name, data, mock).get("nextState") == following


def test_the_cases_reach_every_state_and_every_transition() -> None:
    reached = {(name, following) for name, _, _, following in CASES if following}
    assert {name for name, *_ in CASES} == set(STATES)
    assert reached == {(name, target) for name in STATES for target in targets(STATES[name])}


def test_what_read_event_names(local: LocalAws) -> None:
    output = json.loads(run_state(local, "Read Event", EVENT)["output"])
    assert output.pop("lock_token")
    assert output == {
        "event": EVENT,
        "object_key": "pictures/holiday/a b+c%2B'é.png",
        "sequencer": "006A0F5FCE2D7F28B1",
        "source": {
            "bucket": "pictures",
            "key": "holiday/a b+c%2B'é.png",
            "etag": "9b2cf535f27731c974343645a3985328",
        },
        "record": {},
        "looks": {"count": 0},
        "watched": {"lock_token": "", "break_at_look": 0},
    }


def test_each_run_has_a_lock_token_of_its_own(local: LocalAws) -> None:
    tokens = {
        json.loads(run_state(local, "Read Event", EVENT)["output"])["lock_token"] for _ in range(5)
    }
    assert len(tokens) == 5


def test_a_version_is_part_of_the_object_key_and_handed_on(local: LocalAws) -> None:
    output = json.loads(run_state(local, "Read Versioned Event", VERSIONED)["output"])
    version = "Yx6b0ZT0Qk8q4nW1mVfC2hR7sLd9uJeA"
    assert output["object_key"] == f"pictures/holiday/beach.png#{version}"
    assert output["source"]["version_id"] == version


def test_looks_are_counted(local: LocalAws) -> None:
    output = json.loads(run_state(local, "Count Look", READ)["output"])
    assert output["looks"] == {"count": 2}


def test_a_lock_is_watched_for_28_looks_from_now(local: LocalAws) -> None:
    output = json.loads(run_state(local, "Watch Lock", read(record=record()))["output"])
    assert output["watched"] == {"lock_token": "theirs", "break_at_look": 29}


def test_a_failed_look_keeps_what_the_last_one_saw(local: LocalAws) -> None:
    before = read(record=record())
    after = json.loads(run_state(local, "Read Key", before, error("States.Timeout"))["output"])
    assert after["record"] == before["record"]


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("Parked", '{"Error":"Some.Fault","Cause":"because"}'),
        ("Invalid Event", "no Object Created event"),
        ("Not Parked", "could not be reached"),
    ],
)
def test_a_failed_execution_says_why(local: LocalAws, name: str, cause: str) -> None:
    tested = run_state(local, name, read(fault=FAULT))
    assert tested["status"] == "FAILED"
    assert tested["error"] == name.replace(" ", "")
    assert cause in tested["cause"]


def test_a_function_without_an_answer_is_explained(local: LocalAws) -> None:
    output = json.loads(run_state(local, "Reject Result", read(inversion=answer(None)))["output"])
    assert output["fault"] == {"Error": "UnknownResult", "Cause": "null"}


@pytest.mark.parametrize(
    ("token", "following", "left"),
    [("theirs", "Claim Key", None), ("another", "Count Look", "another")],
)
def test_only_the_watched_lock_is_broken(
    local: LocalAws, token: str, following: str, left: str | None
) -> None:
    table = local.session.resource("dynamodb", endpoint_url=local.endpoint_url).create_table(
        TableName=f"keys-{token}",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "object_key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "object_key", "KeyType": "HASH"}],
    )
    table.put_item(Item={"object_key": "b/k", "lock_token": token, "execution": "theirs"})
    tested = run_state(local, "Break Lock", read(watched=WATCHED), table=table.name)
    assert tested["nextState"] == following
    assert table.get_item(Key={"object_key": "b/k"})["Item"].get("lock_token") == left
