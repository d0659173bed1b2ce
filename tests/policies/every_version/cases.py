"""The cases of every_version.asl.json."""

from __future__ import annotations

import json
from typing import Any

from tests.statemachine.cases import common
from tests.statemachine.cases.common import CONDITION, DONE, Case, Data, answer, error, item, write

READ = {
    **common.READ,
    "event_key": "event:b/k@0B",
    "recording": {},
    "watched_lock": {"lock_token": "", "break_at_poll": 0},
    "watched_waiter": {"sequencer": "", "clear_at_poll": 0},
}
PROCESSED = READ | {"inversion": answer({"outcome": "Processed", "expires_at": "1"})}
SUPERSEDED = READ | {"inversion": answer({"outcome": "Superseded", "expires_at": "1"})}
DUPLICATE = READ | {"inversion": answer({"outcome": "Duplicate", "expires_at": "1"})}
# What it answers to whoever left word before.
SAID_BEFORE = {"Error": "DynamoDB.ConditionalCheckFailedException", "Cause": ""}


def seen(attributes: dict[str, str], **more: Any) -> Data:
    return {**READ, "record": item(**attributes), **more}


def judged(following: str, attributes: dict[str, str], **more: Any) -> Case:
    return ("Key State?", seen(attributes, **more), None, following)


def event_record(status: str, **more: Data) -> Data:
    return {**READ, "event_record": {"Item": {"status": {"S": status}, **more}}}


EXPIRES = {"expires_at": {"N": "1"}}
LOCKED = {"lock_token": "theirs"}
WATCHED_LOCK = {"lock_token": "theirs", "break_at_poll": 29}
OLDER = {"oldest_waiting": "0A"}
WATCHED_TURN = {"sequencer": "0A", "clear_at_poll": 6}
MINE = {"oldest_waiting": "0B"}
PASSING = READ | {"watched_waiter": WATCHED_TURN}

CASES: list[Case] = [
    *common.events("Versioned Object?"),
    *common.versions("Record Event"),
    *write("Record Event", READ, "Claim Key", "Duplicate", "Park Event"),
    *write("Claim Key", READ, "Read Event Record", "Record Oldest Waiter", "Park Event"),
    ("Read Event Record", READ, {"result": json.dumps(item(status="DONE"))}, "Event Done?"),
    ("Read Event Record", READ, error("States.Timeout"), "Park Event"),
    ("Event Done?", READ | {"event_record": {}}, None, "Invert Image"),
    ("Event Done?", event_record("IN_PROGRESS"), None, "Invert Image"),
    ("Event Done?", event_record("FAILED", **EXPIRES), None, "Invert Image"),
    ("Event Done?", event_record("DONE", **EXPIRES), None, "Skip Duplicate"),
    ("Skip Duplicate", event_record("DONE", **EXPIRES), None, "Release Lock"),
    *write("Record Oldest Waiter", READ, "Count Poll", "Count Poll", "Count Poll"),
    ("Count Poll", READ, None, "Read Key Record"),
    ("Read Key Record", READ, {"result": json.dumps(item(**LOCKED))}, "Key State?"),
    ("Read Key Record", READ, error("States.Timeout"), "Key State?"),
    judged("Give Up Waiting", {}, looks={"count": 36}),
    judged("Claim Key", {}, looks={"count": 35}),
    judged("Give Up Waiting", LOCKED, watched_lock=WATCHED_LOCK, looks={"count": 36}),
    judged("Watch Lock", LOCKED),
    judged("Watch Lock", LOCKED | MINE, turn=SAID_BEFORE),
    judged("Watch Lock", {"lock_token": "b"}, watched_lock=WATCHED_LOCK, looks={"count": 29}),
    judged("Wait For Turn", LOCKED, watched_lock=WATCHED_LOCK, looks={"count": 28}),
    judged("Break Lock", LOCKED, watched_lock=WATCHED_LOCK, looks={"count": 29}),
    judged("Claim Key", {}),
    judged("Claim Key", MINE, turn=SAID_BEFORE),
    judged(
        "Claim Key", MINE, turn=SAID_BEFORE, watched_turn={"sequencer": "0B", "clear_at_poll": 1}
    ),
    judged("Watch Oldest Waiter", MINE),
    judged("Watch Oldest Waiter", MINE, turn={"Error": "States.Timeout", "Cause": ""}),
    judged("Watch Oldest Waiter", OLDER, turn=SAID_BEFORE),
    judged("Wait For Turn", OLDER, watched_turn=WATCHED_TURN, looks={"count": 5}),
    judged("Clear Dead Waiter", OLDER, watched_turn=WATCHED_TURN, looks={"count": 6}),
    judged("Watch Oldest Waiter", {"oldest_waiting": "09"}, watched_turn=WATCHED_TURN, looks={"count": 6}),
    ("Watch Lock", seen(LOCKED), None, "Wait For Turn"),
    ("Watch Oldest Waiter", seen(OLDER), None, "Wait For Turn"),
    ("Wait For Turn", READ, None, "Record Oldest Waiter"),
    *write(
        "Break Lock",
        READ | {"watched_lock": WATCHED_LOCK},
        "Claim Key",
        "Record Oldest Waiter",
        "Record Oldest Waiter",
    ),
    *write("Clear Dead Waiter", PASSING, "Wait For Turn", "Wait For Turn", "Wait For Turn"),
    *common.work(READ, processed="Mark Event Done", superseded="Mark Event Done"),
    ("Mark Event Done", PROCESSED, DONE, "Release Lock"),
    ("Mark Event Done", PROCESSED, CONDITION, "Park Event"),
    *write("Release Lock", PROCESSED, "Which Outcome?", "Which Outcome?", "Park Event"),
    ("Which Outcome?", PROCESSED, None, "Processed"),
    ("Which Outcome?", SUPERSEDED, None, "Superseded"),
    ("Which Outcome?", DUPLICATE, None, "Duplicate"),
    *common.ends(READ, "Processed", "Duplicate", "Superseded"),
    ("Give Up Waiting", READ, None, "Park Event"),
    *common.parking(READ, "Release Failed Key"),
    *write("Release Failed Key", READ, "Mark Event Failed", "Mark Event Failed", "Mark Event Failed"),
    *write("Mark Event Failed", READ, "Parked", "Parked", "Parked"),
]
