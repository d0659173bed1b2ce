"""The cases of optimistic.asl.json."""

from __future__ import annotations

from tests.statemachine.cases import common
from tests.statemachine.cases.common import EVENT, VERSIONED, Case

READ = {"event": EVENT, "object_key": "b/k", "sequencer": "0B"}

CASES: list[Case] = [
    *common.events("Prepare Event"),
    ("Prepare Event", EVENT, None, "Invert Image"),
    ("Prepare Event", VERSIONED, None, "Invert Image"),
    *common.work(READ, processed="Processed", superseded="Superseded", expires=False),
    *common.ends(READ, "Processed", "Superseded"),
    *common.parking(READ, "Parked"),
]
