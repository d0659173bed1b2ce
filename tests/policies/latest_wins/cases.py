"""The cases of latest_wins.asl.json."""

from __future__ import annotations

from tests.policies import common, table
from tests.policies.common import refused
from tests.policies.table import EXECUTION, NEVER, Cases, Effect, Row, Write, item

LIMITS = common.limits_of(__name__)
WAITER = common.without("expires_at", common.waiter_data(LIMITS)) | {"newest": {"event": "{}"}}
# *Release Failed Key* has an expiry, from *Reject Object* or *Reject Result*.
DATA = WAITER | {"expires_at": str(NEVER)}
NOT_POLLED = {name: value for name, value in WAITER.items() if name != "polls"}
START = {name: common.WAITER_START[name] for name in ("lock_token", "unrecorded")}
THEIR_CLAIM, OWN_CLAIM = ({"claim": {"lock_token": token}} for token in ("theirs", "mine"))
HOLDER = DATA | OWN_CLAIM

LOCKED = {"sequencer": "0B", "status": "IN_PROGRESS", "lock_token": "theirs"}
NEWER = LOCKED | {"sequencer": "0C"}
OVER = {"polls": LIMITS["maximum_polls"]}
FIRST = {"polls": 0, "watched_lock": common.NO_LOCK}
FAULT = {"fault": table.FAULT}
PROCESSED = {"inversion": table.answer(table.PROCESSED)}
ENDS = [
    (PROCESSED, "Processed"),
    ({"inversion": table.answer(table.SUPERSEDED)}, "Superseded"),
    (PROCESSED | FAULT, "Processed"),  # at the second attempt
    *(
        (ended | {"sent": {"outcome": outcome}}, outcome)
        for ended in (FAULT, PROCESSED | FAULT)
        for outcome in ("Retrying", "Parked")
    ),
]

CHOICES = [
    *common.s3_events(),
    *(
        row
        for claim in ({}, THEIR_CLAIM)
        for row in common.first_poll(DATA | claim, "Wait For Lock", "Lock Taken?", "First Poll")
    ),
    Row("Lock Taken?", HOLDER, "Invert Image"),
    *common.waiting(DATA, LOCKED),
    *(
        Row("Key State?", DATA | FIRST | {"record": record}, following)
        for record, following in (
            ({}, "Wait Briefly"),
            (item(**LOCKED), "Wait Briefly"),
            (item(**NEWER), "Superseded"),
            (item(**LOCKED | {"status": "DONE", "lock_token": ""}), "Duplicate"),
        )
    ),
    *common.attempts(DATA),
    Row("Attempt Again?", NOT_POLLED, "Renew Lock"),
    Row("Attempt Again?", NOT_POLLED | {"renewal": {"attempt": 2}}, "Retry Event"),
    Row("Key State?", DATA | {"record": item(**NEWER)}, "Superseded"),
    Row("Key State?", DATA | {"record": item(**NEWER | {"status": "DONE"})}, "Superseded"),
    Row("Key State?", DATA | {"record": item(**NEWER)} | OVER, "Superseded"),
    *common.answers(processed="Release Lock", superseded="Release Lock"),
    *(Row("Final Outcome?", ended, outcome) for ended, outcome in ENDS),
]

FLOW = {
    **common.begins("Claim Key"),
    "Claim Key": "Claimed Recorded ConditionFailed: Lock Taken?; "
    f"{common.CLAIM_FAILED}: Retry Event",
    **dict.fromkeys(["Wait Briefly", "Wait For Lock"], "Count Poll"),
    "First Poll": "Read Key Record",
    **common.polls(),
    **common.function("Attempt Again?"),
    "Renew Lock": f"Written: Invert Image; ConditionFailed {common.WRITE_FAILED}: Retry Event",
    "Release Lock": "Written: Final Outcome?; ConditionFailed: Release Lock Only; "
    f"{common.RELEASE_FAILED}: Check Expiry",
    "Release Lock Only": "Released: Start Newest Event; "
    f"ConditionFailed {common.WRITE_FAILED}: Final Outcome?",
    "Start Newest Event": "Started StartRefused*2 TimedOut: Final Outcome?",
    **common.hands_over("Release Failed Key", "Release Retried Key"),
    **dict.fromkeys(
        ["Release Failed Key", "Release Retried Key"],
        f"Written {common.RELEASE_FAILED}: Final Outcome?; ConditionFailed: Release Lock Only",
    ),
    **common.ends("Superseded"),
}

STARTED = {"object_key": "b/k", "sequencer": "0B", "lock_token": "mine"} | {
    "unrecorded": common.UNRECORDED
}

OUTPUTS = [
    *common.prepared(START),
    *(
        common.adds("Claim Key", DATA, answer, claim={"lock_token": token})
        for answer, token in (("Claimed", "mine"), ("Recorded", "theirs"))
    ),
    *common.waiter_outputs(WAITER, "newest"),
    Effect("First Poll", STARTED, STARTED | FIRST | {"limits": LIMITS}),
    *common.rejections(WAITER | OWN_CLAIM),
    *common.handed_over(DATA),
    common.adds("Renew Lock", DATA, "Written", renewal={"attempt": 2}),
    common.adds("Release Lock Only", DATA, "Released", newest={"event": "{}"}),
    common.adds("Start Newest Event", DATA, "Started"),
    *common.outcomes(DATA, "Processed", "Duplicate", "Superseded", "Retrying"),
]

MINE = {"sequencer": "0B", "lock_token": "mine", "execution": EXECUTION}
IN_PROGRESS = {"status": "IN_PROGRESS", **common.RECORDED, "in_progress_since": common.NOW}
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
    # The lock stays with whoever has it, and the time is the newest waiter's.
    Write("Claim Key", OLDER | THEIRS | common.SINCE, {"sequencer": "0B"} | THEIRS | IN_PROGRESS),
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
        "Release Lock", HELD, sequencer="0B", status="DONE", expires_at=int(table.EXPIRES_AT)
    ),
    *common.release("Release Failed Key", HELD, sequencer="0B", status="FAILED", expires_at=NEVER),
    # The newer event stays in the index, whatever becomes of the holder's.
    *common.release("Release Lock Only", NEWER_WAITS, **NEWER_WAITS),
    *refused("Release Lock Only", MINE | common.SINCE),  # it would start its own event
    *common.release("Release Retried Key", HELD, **HELD),
    *(
        write
        for state in ("Release Lock", "Release Failed Key", "Release Retried Key")
        for write in refused(state, MINE | NEWER_WAITS)
    ),
]

SECONDS = (70, 72, 78, 260)  # holder, lease, waiter, longest execution
STORIES = [
    "A1 1=Processed 1=Duplicate B2 2=Processed 1=Superseded 2=Duplicate is=B",
    "A1 B2 C3 2=Superseded 3=Processed 1=Superseded is=C",
    "a1 1=Parked 1=Parked A2 2=Processed 1=Superseded is=A",
    "A1 1=Processed -2 2=Processed is= B3 3=Processed 2=Superseded 1=Superseded is=B",
    "A1 1=Processed -2 B3 2=Superseded 3=Processed 2=Superseded is=B",
    "A1 -2 2=Processed 1=Superseded is=",
    *common.RECOVERY,
    common.REFUSED_INPUTS,
]

CASES = Cases(
    HOLDER,
    CHOICES,
    FLOW,
    OUTPUTS,
    WRITES,
    STORIES,
    SECONDS,
)
