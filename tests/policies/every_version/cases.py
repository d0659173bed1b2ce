"""The cases of every_version.asl.json."""

from __future__ import annotations

from unittest.mock import ANY

from tests.policies import common
from tests.policies.common import (
    EXECUTION,
    PREPARED,
    VERSIONED,
    Cases,
    Data,
    Row,
    Write,
    adds,
    answer,
    inverted,
    item,
    paths,
    refused,
)

LIMITS = common.limits_of(__name__)
NO_WAITER = {"sequencer": "", "clear_at_poll": 0}
OLDER_WATCHED = {"sequencer": "0A", "clear_at_poll": LIMITS["turn_polls"] + 1}
DATA = common.waiter_data(LIMITS) | {
    "object_key": "b/k",
    "event_id": "event:b/k@0B",
    "record": item(lock_token="theirs", oldest_waiting="0A"),
    "watched_waiter": OLDER_WATCHED,
    "event_record": {"Item": {"status": {"S": "DONE"}, "expires_at": {"N": "1"}}},
    "recorded": {"is_written": True},
}

# --- What follows each Choice --------------------------------------------------------------------

NOTHING_SEEN = DATA | {"watched_lock": common.NO_LOCK, "watched_waiter": NO_WAITER}
LOCKED, OLDER, MINE = {"lock_token": "theirs"}, {"oldest_waiting": "0A"}, {"oldest_waiting": "0B"}
LOCK_WATCHED = {"watched_lock": DATA["watched_lock"]}
WAITER_WATCHED = {"watched_waiter": OLDER_WATCHED}


def judged(following: str, seen: dict[str, str], *more: Data, poll: int = 1) -> Row:
    """Give a row of *Key State?*."""
    data = NOTHING_SEEN | {"record": item(**seen), "polls": poll}
    for each in more:
        data |= each
    return Row("Key State?", data, following)


def event_record(**attributes: Data) -> Data:
    return {"event_record": {"Item": attributes}}


LEASE_OVER, GIVE_UP = LIMITS["lease_polls"] + 1, LIMITS["maximum_polls"]
TURN_OVER = LIMITS["turn_polls"] + 1

CHOICES = [
    *common.s3_events(),
    Row("Event Done?", {"event_record": {}}, "Invert Image"),
    Row("Event Done?", event_record(status={"S": "IN_PROGRESS"}), "Invert Image"),
    Row("Event Done?", event_record(status={"S": "FAILED"}, expires_at={"N": "1"}), "Invert Image"),
    Row("Event Done?", event_record(status={"S": "DONE"}, expires_at={"N": "1"}), "Skip Duplicate"),
    *common.first_poll(DATA, "Record Oldest Waiter"),
    judged("Give Up Waiting", {}, poll=GIVE_UP),
    judged("Give Up Waiting", LOCKED, LOCK_WATCHED, poll=GIVE_UP),
    Row("Key State?", common.unread(NOTHING_SEEN), "Record Oldest Waiter"),
    Row("Key State?", NOTHING_SEEN | {"record": {}}, "Claim Key"),
    judged("Record Oldest Waiter", {}),
    judged("Record Oldest Waiter", {}, poll=GIVE_UP - 1),
    judged("Renew Lock", {"lock_token": "mine"}),
    judged("Renew Lock", OLDER | {"lock_token": "mine"}, LOCK_WATCHED, poll=LEASE_OVER),
    judged("Watch Lock", LOCKED),
    judged("Watch Lock", LOCKED | MINE),
    judged("Watch Lock", {"lock_token": "another"}, LOCK_WATCHED, poll=LEASE_OVER),
    judged("Record Oldest Waiter", LOCKED, LOCK_WATCHED, poll=LEASE_OVER - 1),
    judged("Break Lock", LOCKED, LOCK_WATCHED, poll=LEASE_OVER),
    judged("Claim Key", MINE),
    judged("Claim Key", MINE, {"watched_waiter": {"sequencer": "0B", "clear_at_poll": 1}}),
    judged("Watch Oldest Waiter", OLDER),
    judged("Watch Oldest Waiter", {"oldest_waiting": "09"}, WAITER_WATCHED, poll=TURN_OVER),
    judged("Record Oldest Waiter", OLDER, WAITER_WATCHED, poll=TURN_OVER - 1),
    judged("Clear Dead Waiter", OLDER, WAITER_WATCHED, poll=TURN_OVER),
    *common.attempts(DATA),
    Row("Event Recorded?", {"recorded": {}}, "Release Failed Key"),
    Row("Event Recorded?", {}, "Retried Later?"),
    *common.sent(),
    *common.answers(processed="Mark Event Done", superseded="Mark Event Done"),
    *(
        Row("Which Outcome?", {"inversion": answer({"outcome": outcome})}, outcome)
        for outcome in ("Processed", "Superseded", "Duplicate")
    ),
]

# --- What each Pass gives, and what each conditional write changes -------------------------------

START = common.WAITER_START | {"watched_waiter": NO_WAITER}

OUTPUTS = [
    *common.prepared(START, event_id="event:{key}@{sequencer}"),
    adds("Record Event", DATA, "Written", recorded={"is_written": True}),
    adds("Skip Duplicate", DATA, inversion=answer({"outcome": "Duplicate", "expires_at": "1"})),
    *common.waiter_outputs(DATA, "event_record"),
    adds(
        "Watch Oldest Waiter",
        NOTHING_SEEN | {"polls": 7},
        watched_waiter={"sequencer": "0A", "clear_at_poll": 7 + LIMITS["turn_polls"]},
    ),
    adds("Renew Lock", DATA, "Written", renewal={"attempt": 2}),
    # What an earlier watch left is replaced.
    adds("Clear Dead Waiter", DATA, "Written", watched_waiter=NO_WAITER),
    adds("Read Event Record", DATA, "Free", event_record=common.RESPONSES["Free"]["Return"]),
    *common.rejections(DATA),
    *common.handed_over(DATA),
    *common.outcomes(DATA, "Processed", "Duplicate", "Superseded", "Retrying"),
]

OWN = {"sequencer": "0B", "execution": EXECUTION}
STARTED = OWN | {"status": "IN_PROGRESS"}
RECORDED = STARTED | {"in_progress_since": ANY, "event": ANY}
CLAIMED = {"execution": EXECUTION, "lock_token": "mine", "claimed_at": ANY}
# Another policy's event, which no execution has yet, and which may be newer or older.
OTHER_EVENT = {"event": "{}", "sequencer": "0C"} | common.SINCE
LOCK = {"lock_token": "theirs", "execution": "theirs"}
EXPIRES_AT = int(common.EXPIRES_AT)
FAILED = {"status": "FAILED", "expires_at": common.NEVER}

WRITES = [
    Write("Record Event", None, RECORDED),
    Write("Record Event", {"status": "FAILED", "execution": "another"}, RECORDED),
    *refused("Record Event", {"status": "DONE"}),
    Write("Claim Key", None, CLAIMED),
    Write("Claim Key", MINE, CLAIMED),
    Write("Claim Key", {"oldest_waiting": "0C", "expires_at": 1}, CLAIMED),
    Write("Claim Key", OTHER_EVENT, CLAIMED | OTHER_EVENT),
    Write("Claim Key", CLAIMED | {"claimed_at": "then"} | OLDER, CLAIMED),  # its answer was lost
    *refused("Claim Key", OLDER, LOCK, LOCK | MINE),
    *(
        Write("Record Oldest Waiter", LOCK | before, LOCK | MINE)
        for before in ({}, {"oldest_waiting": "0C"})
    ),
    *refused("Record Oldest Waiter", None, LOCK | OLDER, LOCK | MINE),
    Write("Clear Dead Waiter", OLDER, {}),
    *refused("Clear Dead Waiter", {"oldest_waiting": "09"}, LOCK | OLDER),
    *common.break_lock({"claimed_at": "then"}),
    *common.renew_lock(),
    Write(
        "Mark Event Done",
        STARTED | common.SINCE,
        STARTED | {"status": "DONE", "expires_at": EXPIRES_AT},
    ),
    *common.release("Release Lock", since={}, expires_at=EXPIRES_AT),
    *common.release("Release Failed Key", since={}, expires_at=common.NEVER),
    Write("Mark Event Failed", STARTED | common.SINCE, STARTED | FAILED),
    *refused("Mark Event Failed", STARTED | {"status": "DONE"}, STARTED | {"execution": "another"}),
]

# --- Paths ---------------------------------------------------------------------------------------

polls = common.Polls(LIMITS, wait=("Record Oldest Waiter: ConditionFailed", "Wait For Turn"))
recorded = [*PREPARED, "Record Event: Written"]
claimed = [*recorded, "Claim Key: Written"]
waits = [*recorded, "Claim Key: ConditionFailed", "First Poll?"]
held = ["Read Event Record: EventInProgress", "Event Done?"]
released = ["Mark Event Done: Written", "Release Lock: Written", "Which Outcome?"]
worked = [*claimed, *held, *inverted("Processed")]
works = [*held, *inverted("Processed"), *released, "Processed"]
again = ["Claim Key: Written", *works]
turn = [*polls.poll("OwnTurn"), *again]
late = [*waits, *polls.watch("Locked", 6), *polls.poll("OwnTurn"), *claimed[-1:], *held]
failed = [*common.ATTEMPT_FAILED, "Renew Lock: Written", *held, *common.ATTEMPT_FAILED]
marked = "Mark Event Failed: Written"
recorded_event = "Event Recorded?"
parked, retried = common.ends("Release Failed Key: Written", marked, answered=recorded_event)
_, retried_unlocked = common.ends(
    "Release Failed Key: ConditionFailed", marked, answered=recorded_event
)
unrecorded = ["Retry Event: Sent", recorded_event, "Retried Later?", "Retrying"]
older_is_slow = [
    *waits,
    *polls.watch("OlderWaits", LIMITS["turn_polls"], "Watch Oldest Waiter"),
    *polls.poll("OlderWaits"),
]
# Nobody else waits: recorded now, its turn comes at the next poll.
turn_comes = [*polls.poll("Free"), "Record Oldest Waiter: Written", "Wait For Turn", *turn]
lease, unread = [*waits, *polls.lease()], [*claimed, "Read Event Record: Busy*2"]

PATHS = {
    **common.invalid_events(),
    **paths({"VersionProcessed": [*common.VERSION_PREPARED, *recorded[2:], *again]}, VERSIONED),
    **paths({"DeletionProcessed": [*recorded, *again]}, common.DELETED),
    **paths(
        {
            **common.second_attempts([*claimed, *held], late, works, retried, is_repeated=False),
            **common.parked_answers([*claimed, *held], failed, parked, retried),
            "Processed": [*recorded, *again],
            "ProcessedAfterRetries": [
                *PREPARED,
                "Record Event: Busy, Written",
                "Claim Key: Written",
                "Read Event Record: Busy, EventInProgress",
                "Event Done?",
                *inverted("Throttled, Processed"),
                "Mark Event Done: Busy, Written",
                "Release Lock: Busy, Written",
                "Which Outcome?",
                "Processed",
            ],
            "LockLostProcessed": [
                *worked,
                released[0],
                "Release Lock: ConditionFailed",
                *works[-2:],
            ],
            "Superseded": [*claimed, *held, *inverted("Superseded"), *released, "Superseded"],
            "Duplicate": [*PREPARED, "Record Event: ConditionFailed", "Duplicate"],
            "DoneMeanwhileDuplicate": [
                *claimed,
                "Read Event Record: EventDone",
                "Event Done?",
                "Skip Duplicate",
                *released[1:],
                "Duplicate",
            ],
            "LockedThenProcessed": [*waits, *polls.watch("Locked", 2), *turn],
            "PollFailedThenProcessed": [
                *waits,
                *polls.poll("Busy"),
                "Record Oldest Waiter: Written",
                "Wait For Turn",
                *turn,
            ],
            "RefusedAgainThenProcessed": [
                *waits,
                *polls.poll("OwnTurn"),
                *waits[-2:],
                "Record Oldest Waiter: Busy",
                "Wait For Turn",
                *turn,
            ],
            "RecordExpiredThenProcessed": [*waits, *polls.poll("NoRecord"), *again],
            "ClaimedWithoutAnAnswerThenProcessed": [
                *recorded,
                "Claim Key: Busy",
                "First Poll?",
                *polls.poll("OwnLock"),
                "Renew Lock: Written",
                *works,
            ],
            "OlderFirstThenProcessed": [
                *waits,
                *polls.watch("OlderWaits", 2, "Watch Oldest Waiter"),
                *turn_comes,
            ],
            "DeadWaiterClearedThenProcessed": [
                *older_is_slow,
                "Clear Dead Waiter: Written",
                *polls.wait,
                *turn,
            ],
            "WaiterClaimedAsItWasClearedThenProcessed": [
                *older_is_slow,
                "Clear Dead Waiter: ConditionFailed",
                *polls.wait,
                *turn_comes,
            ],
            "DeadHolderThenProcessed": [*lease, "Break Lock: Written", *again],
            "LockBrokenAtTheNextPollThenProcessed": [
                *lease,
                "Break Lock: Busy",
                *polls.wait,
                *polls.poll("Locked"),
                "Break Lock: Written",
                *again,
            ],
            "LockChangedAsItWasBrokenThenProcessed": [
                *lease,
                "Break Lock: ConditionFailed",
                *polls.wait,
                *turn,
            ],
            "GaveUpWaiting": [*waits, *polls.all(), "Give Up Waiting", *retried_unlocked],
            "InvalidImageParkedAfterRetries": [
                *claimed,
                *held,
                *inverted("Rejected"),
                "Reject Object",
                "Park Event: QueueLost, Sent",
                recorded_event,
                "Release Failed Key: Busy, Written",
                *parked[3:],
            ],
            "RecordFailedRetried": [*PREPARED, "Record Event: Busy*2", *unrecorded],
            "RecordUnansweredRetried": [*PREPARED, "Record Event: Unanswered", *unrecorded],
            "MarkedByAnotherExecutionRetried": [
                *unread,
                *retried[:-3],
                "Mark Event Failed: ConditionFailed",
                *retried[-2:],
            ],
            "ReadOfEventFailedRetried": [*unread, *retried],
            "MarkFailedRetried": [*worked, "Mark Event Done: Busy*2", *retried],
            "ReleaseFailedRetried": [*worked, released[0], "Release Lock: Busy*2", *retried],
        }
    ),
}

CASES = Cases(DATA, CHOICES, OUTPUTS, WRITES, PATHS, common.CREATED)
