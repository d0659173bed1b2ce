"""Each state of each shipped file alone, through the TestState API, with its service mocked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inorder.check import targets
from inorder.local_aws import LocalAws
from inorder.policies import asl_file
from inorder.stack import PROJECT
from tests.statemachine.cases import (
    content_hash,
    every_version,
    first_wins,
    latest_wins,
    optimistic,
    uncoordinated,
)
from tests.statemachine.cases.common import (
    EVENT,
    FAULT,
    VERSIONED,
    Case,
    Data,
    answer,
    error,
    item,
)

TABLES: dict[str, list[Case]] = {
    "latest-wins": latest_wins.CASES,
    "every-version": every_version.CASES,
    "first-wins": first_wins.CASES,
    "content-hash": content_hash.CASES,
    "optimistic": optimistic.CASES,
    "uncoordinated": uncoordinated.CASES,
}
STATES = {
    policy: json.loads((PROJECT / asl_file(policy)).read_text())["States"] for policy in TABLES
}


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
