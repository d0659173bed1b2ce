"""The cases of latest_wins.asl.json."""

from __future__ import annotations

from unittest.mock import ANY

from tests.policies import common
from tests.policies.common import (
    EXECUTION,
    NEVER,
    PREPARED,
    Cases,
    Row,
    Write,
    inverted,
    item,
    paths,
    refused,
)

LIMITS = common.limits_of(__name__)
DATA = common.waiter_data(LIMITS)

# --- What follows each Choice --------------------------------------------------------------------

LOCKED = {"sequencer": "0B", "status": "IN_PROGRESS", "lock_token": "theirs"}
NEWER = LOCKED | {"sequencer": "0C"}
OVER = {"polls": {"count": LIMITS["maximum_polls"]}}

CHOICES = [
    *common.s3_events(),
    Row("Lock Taken?", DATA | {"claim": {"lock_token": "mine"}}, "Invert Image"),
    Row("Lock Taken?", DATA | {"claim": {"lock_token": "theirs"}}, "Count Poll"),
    *common.waiting(DATA, LOCKED),
    Row("Key State?", DATA | {"record": item(**NEWER)}, "Superseded"),
    Row("Key State?", DATA | {"record": item(**NEWER | {"status": "DONE"})}, "Superseded"),
    Row("Key State?", DATA | {"record": item(**NEWER)} | OVER, "Superseded"),
    *common.sent(),
    *common.answers(processed="Release Lock", superseded="Release Lock"),
    Row("Output Written?", {"inversion": common.answer(common.PROCESSED)}, "Processed"),
    Row("Output Written?", {"inversion": common.answer(common.SUPERSEDED)}, "Superseded"),
]

# --- What each Pass gives, and what each conditional write changes -------------------------------

OUTPUTS = [
    *common.prepared(common.WAITER_START),
    *(
        common.adds("Claim Key", DATA, answer, claim={"lock_token": token})
        for answer, token in (("Claimed", "mine"), ("Recorded", "theirs"))
    ),
    *common.waiter_outputs(DATA),
    *common.rejections(DATA),
    *common.handed_over(DATA),
    *common.outcomes(DATA, "Processed", "Duplicate", "Superseded", "Retrying"),
]

MINE = {"sequencer": "0B", "lock_token": "mine", "execution": EXECUTION}
IN_PROGRESS = {"status": "IN_PROGRESS", "in_progress_since": ANY, "event": ANY}
CLAIMED = MINE | IN_PROGRESS
DONE = {"sequencer": "0B", "status": "DONE"}
THEIRS = {"lock_token": "theirs", "execution": "theirs"}
OLDER = {"sequencer": "0A", "event": "older"}
NEWER_WAITS = {"sequencer": "0C", "status": "IN_PROGRESS", "event": "newer"} | common.SINCE
HELD = common.SINCE | {"sequencer": "0B"}

WRITES = [
    Write("Claim Key", None, CLAIMED),
    Write("Claim Key", OLDER | {"status": "DONE", "expires_at": 1}, CLAIMED),
    Write("Claim Key", OLDER | {"status": "FAILED"}, CLAIMED),
    Write("Claim Key", DONE | {"status": "FAILED"}, CLAIMED),
    Write("Claim Key", {"status": "DONE"}, CLAIMED),  # another policy's
    Write("Claim Key", MINE | {"status": "IN_PROGRESS"}, CLAIMED),  # its answer was lost
    # The lock stays with whoever has it.
    Write("Claim Key", OLDER | THEIRS, {"sequencer": "0B"} | THEIRS | IN_PROGRESS),
    *refused(
        "Claim Key",
        DONE,
        DONE | {"sequencer": "0C"},
        DONE | {"status": "IN_PROGRESS"} | THEIRS,
        MINE | {"sequencer": "0C"},
    ),
    *common.break_lock(),
    *common.release(
        "Release Lock", HELD, sequencer="0B", status="DONE", expires_at=int(common.EXPIRES_AT)
    ),
    *common.release("Release Failed Key", HELD, sequencer="0B", status="FAILED", expires_at=NEVER),
    # The newer event stays in the index, whatever becomes of the holder's.
    *(
        write
        for end in ("Lock", "Failed Lock")
        for write in common.release(f"Release {end} Only", NEWER_WAITS, **NEWER_WAITS)
    ),
    *(
        write
        for state in ("Release Lock", "Release Failed Key")
        for write in refused(state, MINE | NEWER_WAITS)
    ),
]

# --- Paths ---------------------------------------------------------------------------------------

polls = common.Polls(LIMITS)
refused_claim = [*PREPARED, "Claim Key: ConditionFailed"]
waits = [*PREPARED, "Claim Key: Recorded", "Lock Taken?"]
taken = ["Claim Key: Claimed", "Lock Taken?"]
released = ["Release Lock: Written", "Output Written?"]
again = [*taken, *inverted("Processed"), *released, "Processed"]
claimed = [*PREPARED, *taken]
parked, retried = common.ends("Release Failed Key: Written")
parked_unlocked, retried_unlocked = common.ends(
    "Release Failed Key: ConditionFailed", "Release Failed Lock Only: ConditionFailed"
)

PATHS = {
    **common.invalid_events(),
    **paths({"VersionProcessed": [*common.VERSION_PREPARED, *again]}, common.VERSIONED),
    **paths({"DeletionProcessed": [*PREPARED, *again]}, common.DELETED),
    **paths(
        {
            **polls.named(waits, again, retried_unlocked),
            **common.parked_answers(claimed, parked, retried),
            "Processed": [*PREPARED, *again],
            "ProcessedAfterRetries": [
                *PREPARED,
                "Claim Key: Busy, Claimed",
                "Lock Taken?",
                *inverted("Throttled, FunctionFailed, Processed"),
                "Release Lock: Busy, Written",
                "Output Written?",
                "Processed",
            ],
            "ProcessedWhileANewerEventCame": [
                *claimed,
                *inverted("Processed"),
                "Release Lock: ConditionFailed",
                "Release Lock Only: Written",
                "Output Written?",
                "Processed",
            ],
            "LockLostProcessed": [
                *claimed,
                *inverted("Processed"),
                "Release Lock: ConditionFailed",
                "Release Lock Only: ConditionFailed",
                "Output Written?",
                "Processed",
            ],
            "LockReleasedAfterRetry": [
                *claimed,
                *inverted("Processed"),
                "Release Lock: ConditionFailed",
                "Release Lock Only: Busy, Written",
                "Output Written?",
                "Processed",
            ],
            "LockNotReleased": [
                *claimed,
                *inverted("Processed"),
                "Release Lock: ConditionFailed",
                "Release Lock Only: Busy*2",
                "Output Written?",
                "Processed",
            ],
            "SupersededAtTheFence": [*claimed, *inverted("Superseded"), *released, "Superseded"],
            "Superseded": [*refused_claim, *polls.poll("NewerRecorded"), "Superseded"],
            "Duplicate": [*refused_claim, *polls.poll("Done"), "Duplicate"],
            "LockedByAnotherDeliveryThenDuplicate": [
                *refused_claim,
                *polls.watch("Locked", 1),
                *polls.poll("Done"),
                "Duplicate",
            ],
            "ClaimFailedRetried": [*PREPARED, "Claim Key: Busy*3", *retried_unlocked],
            "ReleaseFailedRetried": [
                *claimed,
                *inverted("Processed"),
                "Release Lock: Busy*3",
                *retried,
            ],
            "InvalidImageParkedWhileANewerEventCame": [
                *claimed,
                *inverted("Rejected"),
                "Reject Object",
                *parked_unlocked,
            ],
            "ReleaseFailedLockAfterRetry": [
                *claimed,
                *inverted("Rejected"),
                "Reject Object",
                "Park Event: Sent",
                "Release Failed Key: ConditionFailed",
                "Release Failed Lock Only: Busy, Written",
                "Retried Later?",
                "Parked",
            ],
            "LockOfAFailedEventNotReleased": [
                *claimed,
                *inverted("Rejected"),
                "Reject Object",
                "Park Event: Sent",
                "Release Failed Key: Busy*3",
                "Retried Later?",
                "Parked",
            ],
        }
    ),
}

CASES = Cases(DATA, CHOICES, OUTPUTS, WRITES, PATHS, common.CREATED)
