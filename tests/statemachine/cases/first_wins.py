"""The cases of first_wins.asl.json."""

from __future__ import annotations

from tests.statemachine.cases import common
from tests.statemachine.cases.common import READ, Case, answer, item, write

LOCKED = {"sequencer": "0A", "status": "IN_PROGRESS", "lock_token": "theirs"}
OVER = {
    "record": item(**LOCKED, event='{"a": 1}'),
    "watched": {"lock_token": "theirs", "break_at_look": 29},
}
PROCESSED = READ | {"inversion": answer({"outcome": "Processed", "expires_at": "1"})}
SUPERSEDED = READ | {"inversion": answer({"outcome": "Superseded", "expires_at": "1"})}

CASES: list[Case] = [
    *common.events("Versioned Object?", deletions=False),
    *common.versions("Claim Key"),
    *write("Claim Key", READ, "Invert Image", "Count Look", "Park Event"),
    *common.waiting(READ, LOCKED, leased_looks=28),
    (
        "Key State?",
        READ | {"record": item(status="DONE", sequencer="FF")},
        None,
        "Report Duplicate",
    ),
    ("Key State?", READ | OVER | {"looks": {"count": 28}}, None, "Wait For Lock"),
    ("Key State?", READ | OVER | {"looks": {"count": 29}}, None, "Park Lost Event"),
    (
        "Key State?",
        READ | OVER | {"looks": {"count": 29}, "watched": {"lock_token": "", "break_at_look": 0}},
        None,
        "Watch Lock",
    ),
    ("Park Lost Event", READ | OVER, common.DONE, "Break Lock"),
    ("Park Lost Event", READ | OVER, common.error("SQS.SdkClientException"), "Park Event"),
    ("Park Lost Event", READ | OVER, common.error("States.Timeout"), "Park Event"),
    *common.work(READ, processed="Release Lock", superseded="Open Key"),
    *write("Release Lock", PROCESSED, "Report Processed", "Report Processed", "Park Event"),
    *write("Open Key", SUPERSEDED, "Report Superseded", "Report Superseded", "Park Event"),
    *common.ends(READ, "Processed", "Duplicate", "Superseded"),
    *common.parking(READ, "Fail Key"),
    *write("Fail Key", READ, "Parked", "Parked", "Parked"),
]
