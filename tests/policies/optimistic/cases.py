"""The cases of optimistic.asl.json."""

from __future__ import annotations

from inorder.events import SEQUENCER
from tests.policies import common
from tests.policies.common import CREATED, FAULT, ID, Cases, Output, answer, inverted, paths

DATA = {
    "object_key": "b/k",
    "sequencer": "0B",
    "inversion": answer(common.PROCESSED),
    "fault": FAULT,
}

CHOICES = [
    *common.s3_events(versions=False),
    *common.answers(processed="Processed", superseded="Superseded", expires=False),
]

OUTPUTS = [
    common.no_data("S3 Object Event?", CREATED),
    Output("Prepare Event", {}, {"object_key": ID, "sequencer": SEQUENCER}),
    *common.rejections(DATA),
    *common.outcomes(DATA, "Processed", "Superseded", "Retrying"),
]

prepared = ["S3 Object Event?", "Prepare Event"]
processed = [*prepared, *inverted("Processed"), "Processed"]
parked, retried = ["Park Event: Sent", "Parked"], ["Retry Event: Sent", "Retrying"]

PATHS = {
    **common.invalid_events(),
    **paths({"VersionProcessed": processed}, common.VERSIONED),
    **paths({"DeletionProcessed": processed}, common.DELETED),
    **paths(
        {
            **common.parked_answers(prepared, ["Invert Image: FunctionFailed*6"], parked, retried),
            "Processed": processed,
            "ProcessedAfterRetries": [
                *prepared,
                *inverted("Throttled, FunctionFailed, Processed"),
                "Processed",
            ],
            "Superseded": [*prepared, *inverted("Superseded"), "Superseded"],
        }
    ),
}

CASES = Cases(DATA, CHOICES, OUTPUTS, writes=[], paths=PATHS, event=CREATED)
