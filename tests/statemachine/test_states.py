"""Each state of each shipped file alone, through the TestState API, with its service mocked."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from inorder import PROJECT
from inorder.asl.definition import targets
from inorder.local_aws import LocalAws
from inorder.policies import asl_file
from tests.engines.on_aws import on_aws
from tests.statemachine.cases import (
    content_hash,
    every_version,
    first_wins,
    latest_wins,
    optimistic,
    uncoordinated,
)
from tests.statemachine.cases.common import (
    DELETED,
    EVENT,
    FAULT,
    VERSIONED,
    Case,
    Data,
    answer,
    error,
    item,
)

AWS = on_aws()  # `make test-aws STACK=name` runs these tests there
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
    queue: str = "${ParkedEventsQueueUrl}",
) -> Data:
    parameters = {"mock": mock} if mock else {}
    # A table or a queue that a test has made is on the local AWS.
    aws = AWS if (table, queue) == ("${KeyTableName}", "${ParkedEventsQueueUrl}") else None
    states: Any = aws.states if aws else local.client("stepfunctions")
    definition = json.dumps(STATES[policy][name]).replace("${KeyTableName}", table)
    tested: Data = states.test_state(
        definition=definition.replace("${ParkedEventsQueueUrl}", queue),
        input=json.dumps(data),
        roleArn=aws.role if aws else "arn:aws:iam::123456789012:role/test",
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
    "polls": {"count": 0},
    "watched_lock": {"lock_token": "", "break_at_poll": 0},
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
                "recording": {},
                "polls": {"count": 0},
                "watched_lock": {"lock_token": "", "break_at_poll": 0},
                "watched_waiter": {"sequencer": "", "clear_at_poll": 0},
            },
        ),
    ],
)
def test_what_read_event_names(local: LocalAws, policy: str, named: Data) -> None:
    output = output_of(local, policy, "Prepare Event", EVENT)
    assert output.pop("lock_token")
    assert output == named


def test_an_optimistic_event_has_no_lock(local: LocalAws) -> None:
    assert output_of(local, "optimistic", "Prepare Event", EVENT) == NAMED


def test_a_content_is_named_by_its_type_and_hash(local: LocalAws) -> None:
    data = {"event": EVENT, "lock_token": "mine", "content": answer(content_hash.HASHED)}
    assert output_of(local, "content-hash", "Name Content", data) == WAITING | {
        "event": EVENT,
        "object_key": "content:aws.s3/Object Created/9f",
        "now": "1",
        "expires_at": "2",
        "lock_token": "mine",
    }


@pytest.mark.parametrize("policy", ["latest-wins", "every-version", "first-wins", "content-hash"])
def test_each_run_has_a_lock_token_of_its_own(local: LocalAws, policy: str) -> None:
    tokens = {output_of(local, policy, "Prepare Event", EVENT)["lock_token"] for _ in range(5)}
    assert len(tokens) == 5


@pytest.mark.parametrize("policy", ["latest-wins", "every-version", "first-wins"])
def test_a_version_is_part_of_the_object_key(local: LocalAws, policy: str) -> None:
    output = output_of(local, policy, "Add Version", VERSIONED)
    key = "pictures/holiday/beach.png#Yx6b0ZT0Qk8q4nW1mVfC2hR7sLd9uJeA"
    assert output["object_key"] == key
    if policy == "every-version":
        assert output["event_key"] == f"event:{key}@{output['sequencer']}"
    assert output["event"] == VERSIONED
    # In all else it is as an event without a version.
    of_event = {"event", "object_key", "event_key", "sequencer", "lock_token"}
    unversioned = output_of(local, policy, "Prepare Event", EVENT)
    assert output.keys() == unversioned.keys()
    assert {name: output[name] for name in output.keys() - of_event} == {
        name: unversioned[name] for name in unversioned.keys() - of_event
    }


@pytest.mark.parametrize("policy", ["latest-wins", "every-version", "first-wins", "content-hash"])
def test_looks_are_counted(local: LocalAws, policy: str) -> None:
    assert output_of(local, policy, "Count Poll", {"polls": {"count": 1}})["polls"] == {"count": 2}


@pytest.mark.parametrize(
    ("policy", "watched_lock", "lease_polls"),
    [
        ("latest-wins", "watched_lock", 28),
        ("every-version", "watched_lock", 28),
        ("first-wins", "watched_lock", 28),
        ("content-hash", "watched_lock", 20),
    ],
)
def test_a_lock_is_watched_for_a_lease_from_now(
    local: LocalAws, policy: str, watched: str, lease_polls: int
) -> None:
    data = {"polls": {"count": 1}, "record": item(lock_token="theirs")}
    output = output_of(local, policy, "Watch Lock", data)
    assert output[watched] == {"lock_token": "theirs", "break_at_poll": 1 + lease_polls}


def test_a_turn_is_watched_for_5_looks_from_now_and_forgotten_when_passed_over(
    local: LocalAws,
) -> None:
    data = every_version.READ | {"polls": {"count": 7}, "record": item(oldest_waiting="0A")}
    watching = output_of(local, "every-version", "Watch Oldest Waiter", data)
    assert watching["watched_waiter"] == {"sequencer": "0A", "clear_at_poll": 12}
    passed = output_of(local, "every-version", "Clear Dead Waiter", watching, {"result": "{}"})
    assert passed == watching | {"watched_waiter": {"sequencer": "", "clear_at_poll": 0}}


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ("latest-wins", "Read Key Record"),
        ("every-version", "Read Key Record"),
        ("first-wins", "Read Key Record"),
        ("content-hash", "Read Content Record"),
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
    "Lost": "nothing remembers the event",
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


def with_state(*wanted: str) -> list[tuple[str, str]]:
    """List the policies that have a state, each with its name."""
    return [(policy, name) for policy in TABLES for name in wanted if name in STATES[policy]]


@pytest.mark.parametrize(("policy", "name"), with_state("Reject Result"))
def test_a_function_without_an_answer_is_explained(local: LocalAws, policy: str, name: str) -> None:
    data = {"inversion": answer(None), "content": answer(None)}
    output = output_of(local, policy, name, data)
    assert output["fault"] == {"Error": "UnknownResult", "Cause": "null"}


@pytest.mark.parametrize(("policy", "name"), with_state("Reject Object"))
def test_an_object_is_rejected_for_the_reason_that_the_function_gave(
    local: LocalAws, policy: str, name: str
) -> None:
    rejected = {"outcome": "Rejected", "error": "InvalidImage", "cause": "cut"}
    output = output_of(local, policy, name, {"inversion": answer(rejected)})
    assert output["fault"] == {"Error": "InvalidImage", "Cause": "cut"}


@pytest.mark.parametrize(("policy", "name"), with_state("Give Up Waiting"))
def test_whoever_gives_up_says_that_the_key_was_locked(
    local: LocalAws, policy: str, name: str
) -> None:
    fault = output_of(local, policy, name, {})["fault"]
    assert fault["Error"] == ("ContentLocked" if policy == "content-hash" else "KeyLocked")
    assert "stayed locked" in fault["Cause"]


@pytest.mark.parametrize(("policy", "name"), with_state("Processed", "Duplicate", "Superseded"))
def test_an_execution_tells_how_it_ended_and_with_which_event(
    local: LocalAws, policy: str, name: str
) -> None:
    result = {"outcome": "Processed", "output_key": "out-x.png"}
    data = {"object_key": "b/k", "sequencer": "0B", "expires_at": "1", "inversion": answer(result)}
    told: Data = {"outcome": name.removeprefix("Report "), "object_key": "b/k"}
    if policy != "content-hash":
        told["sequencer"] = "0B"
    if name == "Processed":
        told |= {"expires_at": "1"} if policy == "content-hash" else {"result": result}
    assert output_of(local, policy, name, data) == told


@pytest.mark.parametrize(("policy", "name"), with_state("Park Event", "Park Invalid Event"))
def test_a_parked_event_is_in_the_queue_whole_with_what_there_is_to_know_of_it(
    local: LocalAws, policy: str, name: str
) -> None:
    sqs = local.client("sqs")
    queue = sqs.create_queue(QueueName=f"states-{uuid4()}")["QueueUrl"]
    data = {"event": EVENT, "object_key": "b/k", "sequencer": "0B", "fault": FAULT}
    parked: Data = {"outcome": "Parked", "execution": "arn:test"}
    if name == "Park Event":
        parked |= {"object_key": "b/k", "event": EVENT, "reason": FAULT}
        parked |= {"sequencer": "0B"} if policy != "content-hash" else {}
    else:
        parked |= {"event": data}
    assert run_state(local, policy, name, data, queue=queue)["status"] == "SUCCEEDED"
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    body = json.loads(message["Body"])
    if name == "Park Invalid Event":
        reason = body.pop("reason")
        assert reason["Error"] == "InvalidEvent"
        assert reason["Cause"] == STATES[policy]["Invalid Event"]["Cause"]
    assert body == parked


def key_table(local: LocalAws, name: str) -> Any:
    return local.session.resource("dynamodb", endpoint_url=local.endpoint_url).create_table(
        TableName=f"{name}-{uuid4()}",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )


def test_the_event_of_a_dead_holder_is_parked_from_its_record(local: LocalAws) -> None:
    sqs = local.client("sqs")
    queue = sqs.create_queue(QueueName=f"states-{uuid4()}")["QueueUrl"]
    dead = item(event=json.dumps(EVENT), lock_token="theirs", sequencer="0A")
    data = {"event": DELETED, "object_key": "b/k", "sequencer": "0B", "record": dead}
    run_state(local, "first-wins", "Park Lost Event", data, queue=queue)
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    body = json.loads(message["Body"])
    reason = body.pop("reason")
    assert reason["Error"] == "HolderDied"
    assert "for a whole lease" in reason["Cause"]
    parked = {"outcome": "Parked", "object_key": "b/k", "execution": "arn:test", "event": EVENT}
    assert body == parked


LOCKS = [
    ("latest-wins", "watched_lock", "Claim Key", "Count Poll"),
    ("every-version", "watched_lock", "Claim Key", "Record Oldest Waiter"),
    ("first-wins", "watched_lock", "Claim Key", "Count Poll"),
    ("content-hash", "watched_lock", "Claim Content", "Count Poll"),
]


@pytest.mark.parametrize(("policy", "watched_lock", "claim", "look"), LOCKS)
def test_only_the_watched_lock_is_broken(
    local: LocalAws, policy: str, watched: str, claim: str, look: str
) -> None:
    table = key_table(local, policy)
    for token, following, left in [("theirs", claim, None), ("another", look, "another")]:
        table.put_item(Item={"id": "b/k", "lock_token": token, "execution": "theirs"})
        data = {"object_key": "b/k", watched: {"lock_token": "theirs", "break_at_poll": 29}}
        tested = run_state(local, policy, "Break Lock", data, table=table.name)
        assert tested["nextState"] == following
        found = table.get_item(Key={"id": "b/k"})["Item"]
        assert found.get("lock_token") == left
        assert ("execution" in found) == bool(left)


@pytest.mark.parametrize(
    ("key", "is_passed_over"),
    [
        ({"oldest_waiting": "0A"}, True),
        ({"oldest_waiting": "09"}, False),
        ({"oldest_waiting": "0A", "lock_token": "theirs"}, False),
    ],
    ids=str,
)
def test_only_the_watched_word_is_passed_over_and_only_of_a_free_key(
    local: LocalAws, key: Data, is_passed_over: bool
) -> None:
    table = key_table(local, "words")
    table.put_item(Item={"id": "b/k", **key})
    run_state(local, "every-version", "Clear Dead Waiter", every_version.PASSING, table=table.name)
    found = table.get_item(Key={"id": "b/k"})["Item"]
    assert ("oldest_waiting" not in found) == is_passed_over


@pytest.mark.parametrize(
    ("key", "word"),
    [
        (None, None),
        ({"lock_token": "theirs"}, "0B"),
        ({"oldest_waiting": "0C"}, "0B"),
        ({"oldest_waiting": "0B"}, "0B"),
        ({"oldest_waiting": "0A"}, "0A"),
    ],
    ids=str,
)
def test_word_is_left_of_the_oldest_and_of_none_at_a_key_that_is_gone(
    local: LocalAws, key: Data | None, word: str | None
) -> None:
    table = key_table(local, "turns")
    if key:
        table.put_item(Item={"id": "b/k", **key})
    run_state(local, "every-version", "Record Oldest Waiter", every_version.READ, table=table.name)
    found = table.get_item(Key={"id": "b/k"}).get("Item")
    assert found == ({"object_key": "b/k", **key, "oldest_waiting": word} if key else None)


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ({"execution": "arn:test", "status": "IN_PROGRESS"}, "FAILED"),
        ({"execution": "arn:test", "status": "DONE"}, "DONE"),
        ({"execution": "another's", "status": "IN_PROGRESS"}, "IN_PROGRESS"),
    ],
    ids=str,
)
def test_only_an_executions_own_event_that_is_not_done_is_failed(
    local: LocalAws, record: Data, status: str
) -> None:
    table = key_table(local, "events")
    own = {"object_key": every_version.READ["event_key"]}
    table.put_item(Item={**own, **record})
    run_state(local, "every-version", "Mark Event Failed", every_version.READ, table=table.name)
    assert table.get_item(Key=own)["Item"]["status"] == status
