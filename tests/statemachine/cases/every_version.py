"""The cases of every_version.asl.json."""

from __future__ import annotations

import json
from typing import Any

from tests.statemachine.cases import common
from tests.statemachine.cases.common import CONDITION, DONE, Case, Data, answer, error, item, write

READ = {
    **common.READ,
    "event_key": "event:b/k@0B",
    "turn": {},
    "watched_lock": {"lock_token": "", "break_at_look": 0},
    "watched_turn": {"sequencer": "", "pass_at_look": 0},
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
WATCHED_LOCK = {"lock_token": "theirs", "break_at_look": 29}
OLDER = {"oldest_waiting": "0A"}
WATCHED_TURN = {"sequencer": "0A", "pass_at_look": 6}
MINE = {"oldest_waiting": "0B"}
PASSING = READ | {"watched_turn": WATCHED_TURN}

CASES: list[Case] = [
    *common.events("Versioned Object?"),
    *common.versions("Record Event"),
    *write("Record Event", READ, "Claim Key", "Report Duplicate", "Park Event"),
    *write("Claim Key", READ, "Read Event Record", "Ask For Turn", "Park Event"),
    ("Read Event Record", READ, {"result": json.dumps(item(status="DONE"))}, "Done Meanwhile?"),
    ("Read Event Record", READ, error("States.Timeout"), "Park Event"),
    ("Done Meanwhile?", READ | {"event_record": {}}, None, "Invert Image"),
    ("Done Meanwhile?", event_record("IN_PROGRESS"), None, "Invert Image"),
    ("Done Meanwhile?", event_record("FAILED", **EXPIRES), None, "Invert Image"),
    ("Done Meanwhile?", event_record("DONE", **EXPIRES), None, "Note Duplicate"),
    ("Note Duplicate", event_record("DONE", **EXPIRES), None, "Release Lock"),
    *write("Ask For Turn", READ, "Count Look", "Count Look", "Count Look"),
    ("Count Look", READ, None, "Read Key"),
    ("Read Key", READ, {"result": json.dumps(item(**LOCKED))}, "Key State?"),
    ("Read Key", READ, error("States.Timeout"), "Key State?"),
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
        "Claim Key", MINE, turn=SAID_BEFORE, watched_turn={"sequencer": "0B", "pass_at_look": 1}
    ),
    judged("Watch Turn", MINE),
    judged("Watch Turn", MINE, turn={"Error": "States.Timeout", "Cause": ""}),
    judged("Watch Turn", OLDER, turn=SAID_BEFORE),
    judged("Wait For Turn", OLDER, watched_turn=WATCHED_TURN, looks={"count": 5}),
    judged("Pass Over", OLDER, watched_turn=WATCHED_TURN, looks={"count": 6}),
    judged("Watch Turn", {"oldest_waiting": "09"}, watched_turn=WATCHED_TURN, looks={"count": 6}),
    ("Watch Lock", seen(LOCKED), None, "Wait For Turn"),
    ("Watch Turn", seen(OLDER), None, "Wait For Turn"),
    ("Wait For Turn", READ, None, "Ask For Turn"),
    *write(
        "Break Lock",
        READ | {"watched_lock": WATCHED_LOCK},
        "Claim Key",
        "Ask For Turn",
        "Ask For Turn",
    ),
    *write("Pass Over", PASSING, "Wait For Turn", "Wait For Turn", "Wait For Turn"),
    *common.work(READ, processed="Mark Done", superseded="Mark Done"),
    ("Mark Done", PROCESSED, DONE, "Release Lock"),
    ("Mark Done", PROCESSED, CONDITION, "Park Event"),
    *write("Release Lock", PROCESSED, "What Was Done?", "What Was Done?", "Park Event"),
    ("What Was Done?", PROCESSED, None, "Report Processed"),
    ("What Was Done?", SUPERSEDED, None, "Report Superseded"),
    ("What Was Done?", DUPLICATE, None, "Report Duplicate"),
    *common.ends(READ, "Processed", "Duplicate", "Superseded"),
    ("Give Up Waiting", READ, None, "Park Event"),
    *common.parking(READ, "Fail Key"),
    *write("Fail Key", READ, "Fail Event", "Fail Event", "Fail Event"),
    *write("Fail Event", READ, "Parked", "Parked", "Parked"),
]
