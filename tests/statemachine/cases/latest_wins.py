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
    *write("Claim Key", READ, "Invert Image", "Record Sequencer", "Park Event"),
    *write("Record Sequencer", READ, "Count Look", "Count Look", "Park Event"),
    *common.waiting(READ, LOCKED, leased_looks=28),
    ("Key State?", READ | {"record": item(**NEWER)}, None, "Report Superseded"),
    (
        "Key State?",
        READ | {"record": item(**NEWER), "looks": {"count": 30}},
        None,
        "Report Superseded",
    ),
    (
        "Key State?",
        READ | {"record": item(**(NEWER | {"status": "DONE"}))},
        None,
        "Report Superseded",
    ),
    ("Key State?", READ | {"record": item(**OTHER_DONE)}, None, "Claim Key"),
    *common.work(READ, processed="Release Lock", superseded="Release Lock"),
    *write("Release Lock", PROCESSED, "Output Written?", "Output Written?", "Park Event"),
    ("Output Written?", PROCESSED, None, "Report Processed"),
    ("Output Written?", SUPERSEDED, None, "Report Superseded"),
    *common.ends(READ, "Processed", "Duplicate", "Superseded"),
    *common.parking(READ, "Fail Key"),
    *write("Fail Key", READ, "Parked", "Parked", "Parked"),
]
