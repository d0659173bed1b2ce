"""The cases of optimistic.asl.json."""

from __future__ import annotations

from tests.policies import common, table
from tests.policies.common import ID
from tests.policies.table import CREATED, FAULT, Cases, Output, answer
from tests.support.events import SEQUENCER

DATA = {
    "object_key": "b/k",
    "sequencer": "0B",
    "inversion": answer(table.PROCESSED),
    "fault": FAULT,
}

CHOICES = [
    *common.s3_events(versions=False),
    *common.answers(processed="Processed", superseded="Superseded", expires=False),
]

FLOW = {
    **common.begins("Invert Image", versions=False),
    **common.function("Retry Event", "Throttled*7 FunctionFailed*6 TimedOut"),
    **common.hands_over("Parked", "Retrying"),
    **dict.fromkeys(["Processed", "Superseded", "Parked", "Retrying"], ""),
}

OUTPUTS = [
    Output("S3 Object Event?", CREATED, {}),
    Output("Prepare Event", {}, {"object_key": ID, "sequencer": SEQUENCER}),
    *common.rejections(DATA),
    *common.outcomes(DATA, "Processed", "Superseded", "Retrying"),
]

CASES = Cases(DATA, CHOICES, FLOW, OUTPUTS, [], common.S3_EVENTS)
