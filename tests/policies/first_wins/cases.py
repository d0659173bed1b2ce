"""The cases of first_wins.asl.json."""

from __future__ import annotations

from unittest.mock import ANY

from tests.policies import common
from tests.policies.common import (
    EXECUTION,
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
DATA = common.waiter_data(LIMITS) | {"record_id": "first:b/k"}

# --- What follows each Choice --------------------------------------------------------------------

LOCKED = {"sequencer": "0A", "status": "IN_PROGRESS", "lock_token": "theirs"}
WITH_EVENT = DATA | {"record": item(**LOCKED, event='{"a": 1}')}
WITHOUT_SEQUENCER = DATA | {"record": item(**LOCKED | {"sequencer": ""}, event='{"a": 1}')}
WITH_OWN_EVENT = DATA | {"record": item(**LOCKED | {"sequencer": "0B"}, event='{"a": 1}')}
LAST = LIMITS["lease_polls"] + 1

CHOICES = [
    *common.s3_events(deletions=False),
    *common.first_poll(DATA, "Wait For Lock"),
    *common.waiting(DATA, LOCKED),
    *common.attempts(DATA),
    Row("Key State?", DATA | {"record": item(status="DONE", sequencer="FF")}, "Duplicate"),
    Row("Key State?", WITH_EVENT | {"polls": LAST - 1}, "Wait For Lock"),
    Row("Key State?", WITH_EVENT | {"polls": LAST}, "Retry Lost Event"),
    Row("Key State?", WITHOUT_SEQUENCER | {"polls": LAST}, "Retry Lost Event"),
    Row("Key State?", WITH_OWN_EVENT | {"polls": LAST}, "Break Lock"),
    Row("Key State?", WITH_EVENT | {"polls": LAST, "watched_lock": common.NO_LOCK}, "Watch Lock"),
    *common.sent(),
    *common.answers(processed="Release Lock", superseded="Release Superseded Key"),
]

# --- What each Pass gives, and what each conditional write changes -------------------------------

OUTPUTS = [
    *common.prepared(common.WAITER_START, record_id="first:{key}"),
    *common.waiter_outputs(DATA),
    common.adds("Renew Lock", DATA, "Written", renewal={"attempt": 2}),
    *common.rejections(DATA),
    *common.handed_over(DATA),
    *common.outcomes(DATA, "Processed", "Duplicate", "Superseded", "Retrying"),
]

MINE = {"sequencer": "0B", "lock_token": "mine", "execution": EXECUTION, "status": "IN_PROGRESS"}
CLAIMED = MINE | {"in_progress_since": ANY, "event": ANY}
EXPIRES_AT = int(common.EXPIRES_AT)

WRITES = [
    Write("Claim Key", None, CLAIMED),
    Write("Claim Key", {"sequencer": "0C", "status": "FAILED"}, CLAIMED),
    Write("Claim Key", {"sequencer": "0A", "status": "IN_PROGRESS"}, CLAIMED),  # a broken lock
    Write("Claim Key", MINE, CLAIMED),  # its answer was lost
    *refused(
        "Claim Key",
        {"sequencer": "0A", "status": "DONE"},
        MINE | {"lock_token": "theirs", "execution": "theirs"},
    ),
    *common.break_lock(),
    *common.renew_lock(),
    *common.release("Release Lock", status="DONE", expires_at=EXPIRES_AT),
    *common.release("Release Superseded Key", status="FAILED", expires_at=EXPIRES_AT),
    *common.release("Release Failed Key", status="FAILED", expires_at=common.NEVER),
]

# --- Paths ---------------------------------------------------------------------------------------

polls = common.Polls(LIMITS)
waits = [*PREPARED, "Claim Key: ConditionFailed", "First Poll?"]
claimed = [*PREPARED, "Claim Key: Written"]
worked = [*claimed, *inverted("Processed")]
again = ["Claim Key: Written", *inverted("Processed"), "Release Lock: Written", "Processed"]
late = [*waits, *polls.watch("Locked", 6), *polls.poll("Free"), *again[:1]]
failed = [*common.ATTEMPT_FAILED, "Renew Lock: Written", *common.ATTEMPT_FAILED]
superseded = [*claimed, *inverted("Superseded")]
parked, retried = common.ends("Release Failed Key: Written")
_, retried_unlocked = common.ends("Release Failed Key: ConditionFailed")
holder_died = [*waits, *polls.lease("LockedWithEvent")]

PATHS = {
    **common.invalid_events(),
    **paths({"VersionProcessed": [*common.VERSION_PREPARED, *again]}, common.VERSIONED),
    **paths(
        {"DeletionParked": ["S3 Object Event?", "Park Invalid Event: Sent", "Invalid Event"]},
        common.DELETED,
    ),
    **paths(
        {
            **polls.named(waits, again, retried_unlocked),
            **common.second_attempts(claimed, late, again[1:], retried),
            **common.parked_answers(claimed, failed, parked, retried),
            "Processed": [*PREPARED, *again],
            "ProcessedAfterRetries": [
                *PREPARED,
                "Claim Key: Busy, Written",
                *inverted("Throttled, Processed"),
                "Release Lock: Busy, Written",
                "Processed",
            ],
            "LockLostProcessed": [*worked, "Release Lock: ConditionFailed", "Processed"],
            **{
                name: [*superseded, f"Release Superseded Key: {answers}", "Superseded"]
                for name, answers in (
                    ("Superseded", "Written"),
                    ("SupersededAfterRetry", "Busy, Written"),
                    ("LockLostSuperseded", "ConditionFailed"),
                )
            },
            "Duplicate": [*waits, *polls.poll("Done"), "Duplicate"],
            "DeadHolderWithEventThenProcessed": [
                *holder_died,
                "Retry Lost Event: Sent",
                "Break Lock: Written",
                *again,
            ],
            "DeadHolderWithEventThenProcessedAfterRetries": [
                *holder_died,
                "Retry Lost Event: QueueLost, Sent",
                "Break Lock: Busy, Written",
                *again,
            ],
            "DeadHolderNotParked": [
                *holder_died,
                "Retry Lost Event: QueueLost*2",
                *common.NOT_RETRIED,
            ],
            "ClaimFailedRetried": [*PREPARED, "Claim Key: Busy*2", *retried_unlocked],
            "ClaimUnansweredRetried": [*PREPARED, "Claim Key: Unanswered", *retried],
            "ReleaseFailedRetried": [*worked, "Release Lock: Busy*3", *retried],
            "ReleaseOfSupersededFailedRetried": [
                *superseded,
                "Release Superseded Key: Busy*3",
                *retried,
            ],
        }
    ),
}

CASES = Cases(DATA, CHOICES, OUTPUTS, WRITES, PATHS, common.CREATED)
