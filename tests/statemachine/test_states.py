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
    policy: str,
    name: str,
    data: Any,
    mock: Data | None = None,
    table: str = "${KeyTableName}",
) -> Data:
    parameters = {"mock": mock} if mock else {}
    tested: Data = local.client("stepfunctions").test_state(
        definition=json.dumps(STATES[policy][name]).replace("${KeyTableName}", table),
        input=json.dumps(data),
        roleArn="arn:aws:iam::123456789012:role/test",
        context=json.dumps({"Execution": {"Id": "arn:test", "Name": "test"}}),
        **parameters,
    )
    return tested


def output_of(local: LocalAws, policy: str, name: str, data: Any, mock: Data | None = None) -> Any:
    return json.loads(run_state(local, policy, name, data, mock)["output"])


@pytest.mark.parametrize(
    ("policy", "state"), [(policy, state) for policy in TABLES for state in STATES[policy]]
)
def test_what_follows_each_state(local: LocalAws, policy: str, state: str) -> None:
    wrong = [
        (data, mock, following, found)
        for name, data, mock, following in TABLES[policy]
        if name == state
        and (found := run_state(local, policy, name, data, mock).get("nextState")) != following
    ]
    assert wrong == []


@pytest.mark.parametrize("policy", TABLES)
def test_the_cases_reach_every_state_and_every_transition(policy: str) -> None:
    cases, states = TABLES[policy], STATES[policy]
    reached = {(name, following) for name, _, _, following in cases if following}
    assert {name for name, *_ in cases} == set(states)
    assert reached == {(name, target) for name in states for target in targets(states[name])}


NAMED = {
    "event": EVENT,
    "object_key": "pictures/holiday/a b+c%2B'é.png",
    "sequencer": "006A0F5FCE2D7F28B1",
}
WAITING = {
    "record": {},
    "looks": {"count": 0},
    "watched": {"lock_token": "", "break_at_look": 0},
}


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ("latest-wins", NAMED | WAITING),
        ("first-wins", NAMED | WAITING),
        (
            "every-version",
            {
                **NAMED,
                "event_key": "event:pictures/holiday/a b+c%2B'é.png@006A0F5FCE2D7F28B1",
                "record": {},
                "turn": {},
                "looks": {"count": 0},
                "watched_lock": {"lock_token": "", "break_at_look": 0},
                "watched_turn": {"sequencer": "", "pass_at_look": 0},
            },
        ),
    ],
)
def test_what_read_event_names(local: LocalAws, policy: str, named: Data) -> None:
    output = output_of(local, policy, "Read Event", EVENT)
    assert output.pop("lock_token")
    assert output == named


def test_an_optimistic_event_has_no_lock(local: LocalAws) -> None:
    assert output_of(local, "optimistic", "Read Event", EVENT) == NAMED


@pytest.mark.parametrize("policy", ["latest-wins", "every-version", "first-wins", "content-hash"])
def test_each_run_has_a_lock_token_of_its_own(local: LocalAws, policy: str) -> None:
    tokens = {output_of(local, policy, "Read Event", EVENT)["lock_token"] for _ in range(5)}
    assert len(tokens) == 5


@pytest.mark.parametrize("policy", ["latest-wins", "every-version", "first-wins"])
def test_a_version_is_part_of_the_object_key(local: LocalAws, policy: str) -> None:
    output = output_of(local, policy, "Read Versioned Event", VERSIONED)
    key = "pictures/holiday/beach.png#Yx6b0ZT0Qk8q4nW1mVfC2hR7sLd9uJeA"
    assert output["object_key"] == key
    if policy == "every-version":
        assert output["event_key"] == f"event:{key}@{output['sequencer']}"


@pytest.mark.parametrize("policy", ["latest-wins", "every-version", "first-wins", "content-hash"])
def test_looks_are_counted(local: LocalAws, policy: str) -> None:
    assert output_of(local, policy, "Count Look", {"looks": {"count": 1}})["looks"] == {"count": 2}


@pytest.mark.parametrize(
    ("policy", "watched", "leased_looks"),
    [
        ("latest-wins", "watched", 28),
        ("every-version", "watched_lock", 28),
        ("first-wins", "watched", 28),
        ("content-hash", "watched", 20),
    ],
)
def test_a_lock_is_watched_for_a_lease_from_now(
    local: LocalAws, policy: str, watched: str, leased_looks: int
) -> None:
    data = {"looks": {"count": 1}, "record": item(lock_token="theirs")}
    output = output_of(local, policy, "Watch Lock", data)
    assert output[watched] == {"lock_token": "theirs", "break_at_look": 1 + leased_looks}


def test_a_turn_is_watched_for_5_looks_from_now_and_forgotten_when_passed_over(
    local: LocalAws,
) -> None:
    data = every_version.READ | {"looks": {"count": 7}, "record": item(oldest_waiting="0A")}
    watching = output_of(local, "every-version", "Watch Turn", data)
    assert watching["watched_turn"] == {"sequencer": "0A", "pass_at_look": 12}
    passed = output_of(local, "every-version", "Pass Over", watching, {"result": "{}"})
    assert passed == watching | {"watched_turn": {"sequencer": "", "pass_at_look": 0}}


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ("latest-wins", "Read Key"),
        ("every-version", "Read Key"),
        ("first-wins", "Read Key"),
        ("content-hash", "Read Record"),
    ],
)
def test_a_failed_look_keeps_what_the_last_one_saw(local: LocalAws, policy: str, name: str) -> None:
    before = {"object_key": "b/k", "record": item(lock_token="theirs")}
    after = output_of(local, policy, name, before, error("States.Timeout"))
    assert after["record"] == before["record"]


FAILURES = {
    "Parked": '{"Error":"Some.Fault","Cause":"because"}',
    "Invalid Event": "This is no ",
    "Not Parked": "could not be reached",
}


@pytest.mark.parametrize(
    ("policy", "name"),
    [(policy, name) for policy in TABLES for name in FAILURES if name in STATES[policy]],
)
def test_a_failed_execution_says_why(local: LocalAws, policy: str, name: str) -> None:
    tested = run_state(local, policy, name, {"fault": FAULT})
    assert tested["status"] == "FAILED"
    assert tested["error"] == name.replace(" ", "")
    assert FAILURES[name] in tested["cause"]


@pytest.mark.parametrize(
    ("policy", "answered"), [("latest-wins", "inversion"), ("content-hash", "content")]
)
def test_a_function_without_an_answer_is_explained(
    local: LocalAws, policy: str, answered: str
) -> None:
    output = output_of(local, policy, "Reject Result", {answered: answer(None)})
    assert output["fault"] == {"Error": "UnknownResult", "Cause": "null"}


LOCKS = [
    ("latest-wins", "watched", "Claim Key", "Count Look"),
    ("every-version", "watched_lock", "Claim Key", "Ask For Turn"),
    ("first-wins", "watched", "Claim Key", "Count Look"),
    ("content-hash", "watched", "Claim Content", "Count Look"),
]


@pytest.mark.parametrize(("policy", "watched", "claim", "look"), LOCKS)
def test_only_the_watched_lock_is_broken(
    local: LocalAws, policy: str, watched: str, claim: str, look: str
) -> None:
    table = local.session.resource("dynamodb", endpoint_url=local.endpoint_url).create_table(
        TableName=f"keys-{policy}",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "object_key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "object_key", "KeyType": "HASH"}],
    )
    for token, following, left in [("theirs", claim, None), ("another", look, "another")]:
        table.put_item(Item={"object_key": "b/k", "lock_token": token, "execution": "theirs"})
        data = {"object_key": "b/k", watched: {"lock_token": "theirs", "break_at_look": 29}}
        tested = run_state(local, policy, "Break Lock", data, table=table.name)
        assert tested["nextState"] == following
        assert table.get_item(Key={"object_key": "b/k"})["Item"].get("lock_token") == left
