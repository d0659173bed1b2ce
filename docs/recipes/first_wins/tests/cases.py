"""The cases of first_wins.asl.json, as they differ from those of latest-wins."""

from dataclasses import replace

from tests.policies import common, table
from tests.policies.common import refused
from tests.policies.latest_wins import cases as latest
from tests.policies.table import ANSWERED_PROCESSED, Effect, Row, Write

# Whichever event of the key is done, all others are duplicates.
DONE = [latest.polled(poll, **latest.NEWER | {"status": "DONE"}) for poll in (1, latest.POLLS)]
CHOICES = [
    *common.s3_events(deletions=False),
    *(
        row
        for row in latest.CHOICES
        if row.state != "S3 Object Event?" and row not in [Row("Key State?", DONE[0], "Superseded")]
    ),
    *(Row("Key State?", data, "Duplicate") for data in DONE),
]

# An event that is superseded leaves the key to the newer one.
FAILED = {"inversion": latest.DONE_WORK["inversion"] | {"status": "FAILED"}}
WORKED = Effect("Invert Image", latest.WAITER, latest.WAITER | latest.DONE_WORK, ANSWERED_PROCESSED)
OUTPUTS = [
    *(effect for effect in latest.OUTPUTS if effect != WORKED),
    WORKED._replace(output=latest.WAITER | FAILED),
]

OTHER_DONE = {"sequencer": "0A", "status": "DONE"}
RELEASED = latest.NEWER_WAITS | {"status": "DONE", "expires_at": int(table.EXPIRES_AT)}
del RELEASED["in_progress_since"]
WRITES = [
    *(
        write
        for write in latest.WRITES
        if not (write.state == "Claim Key" and (write.before or {}).get("hand_overs"))
        and write not in refused("Release Lock", latest.MINE | latest.NEWER_WAITS)
    ),
    *refused("Claim Key", OTHER_DONE),
    *refused("Record Newest Event", OTHER_DONE),
    Write("Release Lock", latest.MINE | latest.NEWER_WAITS, RELEASED),
]

STORIES = [
    "A1 1=Processed 1=Duplicate B2 2=Duplicate is=A",
    "A1 B2 1=Superseded 2=Processed 1=Duplicate is=B",
    "a1 1=Parked 1=Parked A2 1=Superseded 2=Processed 1=Duplicate is=A",
    "A1 -2 2=Parked is=",
    "A1 1=Processed expired 1=Processed is=A",
    "empty=Parked list=Parked no-key=Parked",
]

CASES = replace(latest.CASES, choices=CHOICES, outputs=OUTPUTS, writes=WRITES, stories=STORIES)
