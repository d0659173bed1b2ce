"""The cases of first_wins.asl.json."""

from __future__ import annotations

from tests.statemachine.cases import common
from tests.statemachine.cases.common import READ, Case, answer, item, write

LOCKED = {"sequencer": "0A", "status": "IN_PROGRESS", "lock_token": "theirs"}
OVER = {
    "record": item(**LOCKED, event='{"a": 1}'),
    "watched_lock": {"lock_token": "theirs", "break_at_poll": 29},
}
PROCESSED = READ | {"inversion": answer({"outcome": "Processed", "expires_at": "1"})}
SUPERSEDED = READ | {"inversion": answer({"outcome": "Superseded", "expires_at": "1"})}

CASES: list[Case] = [
    *common.events("Versioned Object?", deletions=False),
    *common.versions("Claim Key"),
    *write("Claim Key", READ, "Invert Image", "Count Poll", "Park Event"),
    *common.waiting(READ, LOCKED, lease_polls=28),
    (
        "Key State?",
        READ | {"record": item(status="DONE", sequencer="FF")},
        None,
        "Duplicate",
    ),
    ("Key State?", READ | OVER | {"polls": {"count": 28}}, None, "Wait For Lock"),
    ("Key State?", READ | OVER | {"polls": {"count": 29}}, None, "Park Lost Event"),
    (
        "Key State?",
        READ | OVER | {"polls": {"count": 29}, "watched_lock": {"lock_token": "", "break_at_poll": 0}},
        None,
        "Watch Lock",
    ),
    ("Park Lost Event", READ | OVER, common.DONE, "Break Lock"),
    ("Park Lost Event", READ | OVER, common.error("SQS.SdkClientException"), "Park Event"),
    ("Park Lost Event", READ | OVER, common.error("States.Timeout"), "Park Event"),
    *common.work(READ, processed="Release Lock", superseded="Release Superseded Key"),
    *write("Release Lock", PROCESSED, "Processed", "Processed", "Park Event"),
    *write("Release Superseded Key", SUPERSEDED, "Superseded", "Superseded", "Park Event"),
    *common.ends(READ, "Processed", "Duplicate", "Superseded"),
    *common.parking(READ, "Release Failed Key"),
    *write("Release Failed Key", READ, "Parked", "Parked", "Parked"),
]
