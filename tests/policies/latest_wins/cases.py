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
DATA = common.waiter_data(LIMITS) | {"newest": {"event": "{}"}}
THEIR_CLAIM, OWN_CLAIM = ({"claim": {"lock_token": token}} for token in ("theirs", "mine"))
HOLDER = DATA | OWN_CLAIM

# --- What follows each Choice --------------------------------------------------------------------

LOCKED = {"sequencer": "0B", "status": "IN_PROGRESS", "lock_token": "theirs"}
NEWER = LOCKED | {"sequencer": "0C"}
OVER = {"polls": LIMITS["maximum_polls"]}
FAULT = {"fault": common.FAULT}
PROCESSED = {"inversion": common.answer(common.PROCESSED)}
ENDS = [
    (PROCESSED, "Processed"),
    ({"inversion": common.answer(common.SUPERSEDED)}, "Superseded"),
    (PROCESSED | FAULT, "Processed"),  # at the second attempt
    (FAULT | {"sent": {"outcome": "Retrying"}}, "Retrying"),
    (FAULT | {"sent": {"outcome": "Parked"}}, "Parked"),
    *(
        (PROCESSED | FAULT | {"sent": {"outcome": outcome}}, outcome)
        for outcome in ("Retrying", "Parked")
    ),
]

CHOICES = [
    *common.s3_events(),
    *(
        row
        for claim in ({}, THEIR_CLAIM)
        for row in common.first_poll(DATA | claim, "Wait For Lock", "Lock Taken?")
    ),
    Row("Lock Taken?", HOLDER, "Invert Image"),
    Row("Claim Answered?", HOLDER, "Release Failed Key"),
    Row("Claim Answered?", DATA, "Release Unanswered Claim"),
    *common.waiting(DATA, LOCKED),
    *common.attempts(DATA),
    Row("Key State?", DATA | {"record": item(**NEWER)}, "Superseded"),
    Row("Key State?", DATA | {"record": item(**NEWER | {"status": "DONE"})}, "Superseded"),
    Row("Key State?", DATA | {"record": item(**NEWER)} | OVER, "Superseded"),
    *common.answers(processed="Release Lock", superseded="Release Lock"),
    *(Row("Final Outcome?", ended, outcome) for ended, outcome in ENDS),
]

# --- What each Pass gives, and what each conditional write changes -------------------------------

OUTPUTS = [
    *common.prepared(common.WAITER_START),
    *(
        common.adds("Claim Key", DATA, answer, claim={"lock_token": token})
        for answer, token in (("Claimed", "mine"), ("Recorded", "theirs"))
    ),
    *common.waiter_outputs(DATA, "newest"),
    *common.rejections(HOLDER),
    *common.handed_over(DATA),
    common.adds("Renew Lock", DATA, "Written", renewal={"attempt": 2}),
    common.adds("Release Lock Only", DATA, "Released", newest={"event": "{}"}),
    common.adds("Start Newest Event", DATA, "Started"),
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
    *common.renew_lock(),
    *common.release(
        "Release Lock", HELD, sequencer="0B", status="DONE", expires_at=int(common.EXPIRES_AT)
    ),
    *common.release("Release Failed Key", HELD, sequencer="0B", status="FAILED", expires_at=NEVER),
    # The newer event stays in the index, whatever becomes of the holder's.
    *common.release("Release Lock Only", NEWER_WAITS, **NEWER_WAITS),
    *common.release("Release Unanswered Claim", HELD, **HELD),
    *(
        write
        for state in ("Release Lock", "Release Failed Key")
        for write in refused(state, MINE | NEWER_WAITS)
    ),
]

# --- Paths ---------------------------------------------------------------------------------------

JUDGE = "Final Outcome?"
polls = common.Polls(LIMITS)
refused_claim = [*PREPARED, "Claim Key: ConditionFailed", "Lock Taken?"]
waits = [*PREPARED, "Claim Key: Recorded", "Lock Taken?"]
taken = ["Claim Key: Claimed", "Lock Taken?"]
released = ["Release Lock: Written", JUDGE]
refused_release, started = "Release Lock: ConditionFailed", ["Start Newest Event: Started"]
lock_lost = [refused_release, "Release Lock Only: ConditionFailed"]
processed = ["Final Outcome?", "Processed"]
again = [*taken, *inverted("Processed"), *released, "Processed"]
claimed = [*PREPARED, *taken]
worked = [*claimed, *inverted("Processed")]
lost = [*worked, refused_release, "Release Lock Only: Released"]
rejected = [*claimed, *inverted("Rejected"), "Reject Object"]
late = [*waits, *polls.watch("Locked", 6), *polls.poll("Free"), *taken]
failed = [*common.ATTEMPT_FAILED, "Renew Lock: Written", *common.ATTEMPT_FAILED]
ENDS_AS = {"judge": JUDGE, "answered": "Claim Answered?"}
parked, retried = common.ends("Release Failed Key: Written", **ENDS_AS)
parked_unlocked, _ = common.ends(
    "Release Failed Key: ConditionFailed", "Release Lock Only: ConditionFailed", **ENDS_AS
)
_, retried_unlocked = common.ends("Release Unanswered Claim: ConditionFailed", **ENDS_AS)
_, retried_unanswered = common.ends("Release Unanswered Claim: Written", **ENDS_AS)

PATHS = {
    **common.invalid_events(),
    **paths({"VersionProcessed": [*common.VERSION_PREPARED, *again]}, common.VERSIONED),
    **paths({"DeletionProcessed": [*PREPARED, *again]}, common.DELETED),
    **paths(
        {
            **polls.named(waits, again, retried_unlocked),
            **common.second_attempts(claimed, late, again[2:], retried),
            **common.parked_answers(claimed, failed, parked, retried),
            "Processed": [*PREPARED, *again],
            "ProcessedAfterRetries": [
                *PREPARED,
                "Claim Key: Busy, Claimed",
                "Lock Taken?",
                *inverted("Throttled, Processed"),
                "Release Lock: Busy, Written",
                "Final Outcome?",
                "Processed",
            ],
            "ProcessedWhileANewerEventCame": [*lost, *started, *processed],
            "NewestEventStartedAfterRetry": [
                *lost,
                "Start Newest Event: StartRefused, Started",
                *processed,
            ],
            "NewestEventNotStarted": [*lost, "Start Newest Event: StartRefused*2", *processed],
            "LockLostProcessed": [*worked, *lock_lost, *processed],
            "LockReleasedAfterRetry": [
                *worked,
                refused_release,
                "Release Lock Only: Busy, Released",
                *started,
                *processed,
            ],
            "LockNotReleased": [*worked, refused_release, "Release Lock Only: Busy*2", *processed],
            "SupersededAtTheFence": [*claimed, *inverted("Superseded"), *released, "Superseded"],
            "Superseded": [*refused_claim, *polls.poll("NewerRecorded"), "Superseded"],
            "Duplicate": [*refused_claim, *polls.poll("Done"), "Duplicate"],
            "LockedByAnotherDeliveryThenDuplicate": [
                *refused_claim,
                *polls.watch("Locked", 1),
                *polls.poll("Done"),
                "Duplicate",
            ],
            "ClaimFailedRetried": [*PREPARED, "Claim Key: Busy*2", *retried_unlocked],
            "ClaimUnansweredRetried": [*PREPARED, "Claim Key: Unanswered", *retried_unanswered],
            "ReleaseFailedRetried": [*worked, "Release Lock: Busy*3", *retried],
            "InvalidImageParkedWhileANewerEventCame": [*rejected, *parked_unlocked],
            "NewestEventStartedAfterARejection": [
                *rejected,
                *parked[:2],
                "Release Failed Key: ConditionFailed",
                "Release Lock Only: Released",
                *started,
                *parked[-2:],
            ],
            "LockOfAFailedEventNotReleased": [
                *rejected,
                *parked[:2],
                "Release Failed Key: Busy*3",
                *parked[-2:],
            ],
        }
    ),
}

CASES = Cases(HOLDER, CHOICES, OUTPUTS, WRITES, PATHS, common.CREATED)
