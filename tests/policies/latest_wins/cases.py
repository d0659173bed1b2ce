"""The cases of latest_wins.asl.json."""

from tests.policies import common, table
from tests.policies.common import refused
from tests.policies.table import EXECUTION, NEVER, Cases, Effect, Row, Write, item

LIMITS = common.limits_of(__name__)
WAITER = common.without("expires_at", common.waiter_data(LIMITS)) | {"newest": {"event": "{}"}}
# *Release Failed Key* has an expiry, from *Reject Object* or *Reject Result*.
DATA = WAITER | {"expires_at": str(NEVER)}
NOT_POLLED = {name: value for name, value in WAITER.items() if name != "polls"}
START = {name: common.WAITER_START[name] for name in ("lock_token", "unrecorded")}
HOLDER = DATA | {"unrecorded": {"is_recorded": True}}

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
    *common.first_poll(DATA, "Count Poll", first="Record Newest Event"),
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
    *common.answers(processed="Release Lock", superseded="Release Superseded Key"),
    *(Row("Final Outcome?", ended, outcome) for ended, outcome in ENDS),
]

FLOW = {
    **common.begins("Claim Key"),
    "Claim Key": "Written: Invert Image; ConditionFailed: First Poll?; "
    f"{common.CLAIM_FAILED}: Retry Event",
    "Record Newest Event": "Written ConditionFailed: First Poll; "
    f"{common.CLAIM_FAILED}: Retry Event",
    **dict.fromkeys(["Wait Briefly", "Wait For Lock"], "Count Poll"),
    "First Poll": "Read Key Record",
    **common.polls(),
    **common.function("Attempt Again?"),
    "Renew Lock": f"Written: Invert Image; ConditionFailed {common.WRITE_FAILED}: Retry Event",
    **{
        state: f"Written: {end}; ConditionFailed: Release Lock Only; "
        f"{common.RELEASE_FAILED}: Check Expiry"
        for state, end in (("Release Lock", "Processed"), ("Release Superseded Key", "Superseded"))
    },
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
    Effect("Claim Key", DATA, HOLDER, "Written"),
    *common.waiter_outputs(WAITER, "newest"),
    Effect("First Poll", STARTED, STARTED | FIRST | {"limits": LIMITS}),
    *common.rejections(WAITER),
    *common.handed_over(DATA),
    common.adds("Renew Lock", DATA, "Written", renewal={"attempt": 2}),
    common.adds("Release Lock Only", DATA, "Released", newest={"event": "{}"}),
    common.adds("Start Newest Event", DATA, "Started", newest={"is_started": True}),
    Effect("Release Lock", DATA, {"outcome": "Processed"}, "Written"),
    Effect("Processed", {}, {"outcome": "Processed"}),
    *common.outcomes(DATA, "Duplicate", "Superseded", "Retrying"),
]

MINE = {"sequencer": "0B", "lock_token": "mine", "execution": EXECUTION}
IN_PROGRESS = {"status": "IN_PROGRESS", **common.RECORDED, "in_progress_since": common.NOW}
CLAIMED = MINE | IN_PROGRESS
NEWEST = {"sequencer": "0B"} | IN_PROGRESS
DONE = {"sequencer": "0B", "status": "DONE"}
THEIRS = {"lock_token": "theirs", "execution": "theirs"}
OLDER = {"sequencer": "0A", "event": "older"}
NEWER_WAITS = {"sequencer": "0C", "status": "IN_PROGRESS", "event": "newer"} | common.SINCE
RELEASES = ("Release Lock", "Release Superseded Key", "Release Failed Key", "Release Retried Key")
HELD = common.SINCE | {"sequencer": "0B"}

WRITES = [
    Write("Claim Key", None, CLAIMED),
    Write("Claim Key", OLDER | {"status": "DONE", "expires_at": 1, "hand_overs": 2}, CLAIMED),
    Write("Claim Key", OLDER | {"status": "FAILED"}, CLAIMED),
    Write("Claim Key", DONE | {"status": "FAILED"}, CLAIMED),
    Write("Claim Key", {"status": "DONE"}, CLAIMED),  # another policy's
    Write("Claim Key", MINE | {"status": "IN_PROGRESS"}, CLAIMED),  # its answer was lost
    *refused(
        "Claim Key",
        DONE,
        DONE | {"sequencer": "0C"},
        DONE | {"status": "IN_PROGRESS"} | THEIRS,
        OLDER | THEIRS,
        MINE | {"sequencer": "0C"},
        NEWER_WAITS,
        THEIRS,  # what another policy left
    ),
    # The lock stays with whoever has it, and the time is the newest waiter's.
    Write("Record Newest Event", OLDER | THEIRS | common.SINCE, NEWEST | THEIRS),
    Write("Record Newest Event", OLDER | {"expires_at": 1, "hand_overs": 2}, NEWEST),
    Write("Record Newest Event", THEIRS, NEWEST | THEIRS),
    *refused("Record Newest Event", DONE, MINE, DONE | THEIRS, MINE | {"sequencer": "0C"}),
    *common.break_lock(),
    *common.renew_lock(),
    *(
        write
        for state in ("Release Lock", "Release Superseded Key")
        for write in common.release(
            state, HELD, sequencer="0B", status="DONE", expires_at=int(table.EXPIRES_AT)
        )
    ),
    *common.release("Release Failed Key", HELD, sequencer="0B", status="FAILED", expires_at=NEVER),
    # The newer event stays in the index, whatever becomes of the holder's.
    *common.release("Release Lock Only", NEWER_WAITS, **NEWER_WAITS),
    *refused("Release Lock Only", MINE | common.SINCE),  # it would start its own event
    *common.release("Release Retried Key", HELD, **HELD),
    *(write for state in RELEASES for write in refused(state, MINE | NEWER_WAITS)),
]

SECONDS = (110.75, 112, 119, 294.75)  # holder, lease, waiter, longest execution
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

SURVIVORS = {"Key State? with Choices 3 and 4 swapped": "poll 0 is never the last one"}

CASES = Cases(HOLDER, CHOICES, FLOW, OUTPUTS, WRITES, STORIES, SECONDS, SURVIVORS)
