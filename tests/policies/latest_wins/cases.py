"""The cases of latest_wins.asl.json."""

from __future__ import annotations

from tests.statemachine.cases import common
from tests.statemachine.cases.common import READ, Case, answer, item, write

LOCKED = {"newest": "0B", "sequencer": "0B", "status": "IN_PROGRESS", "lock_token": "theirs"}
NEWER = LOCKED | {"newest": "0C"}
OTHER_DONE = LOCKED | {"status": "DONE", "sequencer": "0A", "lock_token": ""}
PROCESSED = READ | {"inversion": answer({"outcome": "Processed", "expires_at": "1"})}
SUPERSEDED = READ | {"inversion": answer({"outcome": "Superseded", "expires_at": "1"})}

CASES: list[Case] = [
    *common.events("Versioned Object?"),
    *common.versions("Claim Key"),
    *write("Claim Key", READ, "Invert Image", "Record Newest Event", "Park Event"),
    *write("Record Newest Event", READ, "Count Poll", "Count Poll", "Park Event"),
    *common.waiting(READ, LOCKED, lease_polls=28),
    ("Key State?", READ | {"record": item(**NEWER)}, None, "Superseded"),
    (
        "Key State?",
        READ | {"record": item(**NEWER), "polls": {"count": 30}},
        None,
        "Superseded",
    ),
    (
        "Key State?",
        READ | {"record": item(**(NEWER | {"status": "DONE"}))},
        None,
        "Superseded",
    ),
    ("Key State?", READ | {"record": item(**OTHER_DONE)}, None, "Claim Key"),
    *common.work(READ, processed="Release Lock", superseded="Release Lock"),
    *write("Release Lock", PROCESSED, "Output Written?", "Output Written?", "Park Event"),
    ("Output Written?", PROCESSED, None, "Processed"),
    ("Output Written?", SUPERSEDED, None, "Superseded"),
    *common.ends(READ, "Processed", "Duplicate", "Superseded"),
    *common.parking(READ, "Release Failed Key"),
    *write("Release Failed Key", READ, "Parked", "Parked", "Parked"),
]
