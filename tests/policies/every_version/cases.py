"""The cases of every_version.asl.json."""

from unittest.mock import ANY

from tests.policies import common, table
from tests.policies.common import adds, refused
from tests.policies.table import EXECUTION, Cases, Data, Effect, Row, Write, answer, item

LIMITS = common.limits_of(__name__)
NO_WAITER = {"sequencer": "", "clear_at_poll": 0}
OLDER_WATCHED = {"sequencer": "0A", "clear_at_poll": LIMITS["turn_polls"] + 1}
DATA = common.waiter_data(LIMITS) | {
    "unrecorded": {"is_recorded": True},
    "record": item(lock_token="theirs", oldest_waiting="0A"),
    "watched_waiter": OLDER_WATCHED,
    "inversion": table.answer(table.PROCESSED)
    | {"Item": {"status": {"S": "DONE"}, "expires_at": {"N": "1"}}},
}
NOT_RECORDED = DATA | {"unrecorded": common.UNRECORDED}
NOTHING_SEEN = DATA | {"watched_lock": common.NO_LOCK, "watched_waiter": NO_WAITER}
LOCKED, OLDER, MINE = {"lock_token": "theirs"}, {"oldest_waiting": "0A"}, {"oldest_waiting": "0B"}
LOCK_WATCHED = {"watched_lock": DATA["watched_lock"]}
WAITER_WATCHED = {"watched_waiter": OLDER_WATCHED}


def judged(following: str, seen: dict[str, str], *more: Data, poll: int = 1) -> Row:
    data = NOTHING_SEEN | {"record": item(**seen), "polls": poll}
    for each in more:
        data |= each
    return Row("Key State?", data, following)


def event_record(**attributes: Data) -> Data:
    return {"inversion": {"Item": attributes}}


LEASE_OVER, GIVE_UP = LIMITS["lease_polls"] + 1, LIMITS["maximum_polls"]
TURN_OVER = LIMITS["turn_polls"] + 1

CHOICES = [
    *common.s3_events(),
    Row("Event Done?", {"inversion": {}}, "Invert Image"),
    Row("Event Done?", event_record(status={"S": "IN_PROGRESS"}), "Invert Image"),
    Row("Event Done?", event_record(status={"S": "FAILED"}, expires_at={"N": "1"}), "Invert Image"),
    Row("Event Done?", event_record(status={"S": "DONE"}, expires_at={"N": "1"}), "Skip Duplicate"),
    *common.first_poll(DATA, "Record Oldest Waiter", first="First Poll"),
    judged("Give Up Waiting", {}, poll=GIVE_UP),
    judged("Give Up Waiting", LOCKED, LOCK_WATCHED, poll=GIVE_UP),
    Row("Key State?", common.without("record", NOTHING_SEEN), "Record Oldest Waiter"),
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
    *common.attempts(DATA, 6),
    Row("Attempt Again?", common.without("polls", DATA), "Renew Lock"),
    Row("Attempt Again?", common.without("polls", DATA) | {"renewal": {}}, "Retry Event"),
    Row("Event Recorded?", DATA, "Release Failed Key"),
    Row("Event Recorded?", NOT_RECORDED, "Retried Later?"),
    *common.SENT,
    *common.answers(processed="Mark Event Done", superseded="Mark Event Done"),
    *(
        Row("Which Outcome?", {"inversion": answer({"outcome": outcome})}, outcome)
        for outcome in ("Processed", "Superseded", "Duplicate")
    ),
]

FLOW = {
    **common.begins("Record Event"),
    "Record Event": "Written: Claim Key; ConditionFailed: Duplicate; "
    f"{common.CLAIM_FAILED}: Retry Event",
    "Claim Key": "Written: Read Event Record; ConditionFailed Busy TimedOut: First Poll?",
    "Read Event Record": f"Found NoRecord: Event Done?; {common.WRITE_FAILED}: Retry Event",
    **dict.fromkeys(["First Poll", "Wait For Turn"], "Count Poll"),
    **common.polls("Record Oldest Waiter", attempts="Busy TimedOut"),
    "Record Oldest Waiter": "Written ConditionFailed Busy TimedOut: Wait For Turn",
    "Watch Oldest Waiter": "Record Oldest Waiter",
    "Clear Dead Waiter": "Written ConditionFailed TimedOut: Record Oldest Waiter",
    **common.function("Attempt Again?", 5),
    "Renew Lock": "Written: Read Event Record; ConditionFailed Busy TimedOut: Retry Event",
    "Skip Duplicate": "Release Lock",
    "Mark Event Done": f"Written: Release Lock; {common.WRITE_FAILED}: Check Expiry",
    "Release Lock": f"Written ConditionFailed: Which Outcome?; {common.WRITE_FAILED}: Check Expiry",
    **common.hands_over("Event Recorded?"),
    "Release Failed Key": f"Written ConditionFailed {common.WRITE_FAILED}: Mark Event Failed",
    "Mark Event Failed": "Written ConditionFailed TimedOut: Retried Later?",
    **common.ends("Superseded"),
}

START = {each: common.WAITER_START[each] for each in ("lock_token", "expires_at", "unrecorded")}
STARTED_DATA = {"object_key": "b/k", "sequencer": "0B"} | START | {"lock_token": "mine"}
FIRST = {"polls": 0, "watched_lock": common.NO_LOCK, "watched_waiter": NO_WAITER}

OUTPUTS = [
    *common.prepared(START),
    adds("Record Event", NOT_RECORDED, "Written", unrecorded=DATA["unrecorded"]),
    Effect("First Poll", STARTED_DATA, STARTED_DATA | FIRST),
    adds("Skip Duplicate", DATA, inversion=answer({"outcome": "Duplicate", "expires_at": "1"})),
    *common.waiter_outputs(DATA),
    adds(
        "Watch Oldest Waiter",
        NOTHING_SEEN | {"polls": 7},
        watched_waiter={"sequencer": "0A", "clear_at_poll": 7 + LIMITS["turn_polls"]},
    ),
    adds("Renew Lock", DATA, "Written", renewal={"attempt": 2}),
    # What an earlier watch left is replaced.
    adds("Clear Dead Waiter", DATA, "Written", watched_waiter=NO_WAITER),
    adds("Read Event Record", DATA, "Found", inversion=table.RESPONSES["Found"]["Return"]),
    *common.rejections(DATA, "unrecorded"),
    *common.handed_over(DATA),
    *common.outcomes(DATA, "Processed", "Duplicate", "Superseded", "Retrying"),
]

OWN = {"sequencer": "0B", "execution": EXECUTION}
STARTED = OWN | {"status": "IN_PROGRESS"}
RECORDED = STARTED | common.RECORDED
CLAIMED = {"execution": EXECUTION, "lock_token": "mine", "claimed_at": ANY}
# Another policy's event, which no execution has yet, and which may be newer or older.
OTHER_EVENT = {"event": "{}", "sequencer": "0C"} | common.SINCE
LOCK = {"lock_token": "theirs", "execution": "theirs"}
EXPIRES_AT = int(table.EXPIRES_AT)
FAILED = {"status": "FAILED", "expires_at": table.NEVER}

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
    *refused(
        "Clear Dead Waiter", *({"oldest_waiting": each} for each in ("09", "0C")), LOCK | OLDER
    ),
    *common.break_lock({"claimed_at": "then"}),
    *common.renew_lock(),
    Write(
        "Mark Event Done",
        STARTED | common.SINCE,
        STARTED | {"status": "DONE", "expires_at": EXPIRES_AT},
    ),
    *common.release("Release Lock", since={}, expires_at=EXPIRES_AT),
    *common.release("Release Failed Key", since={}, expires_at=table.NEVER, failed_sequencer="0B"),
    Write("Mark Event Failed", STARTED | common.SINCE, STARTED | FAILED),
    *refused("Mark Event Failed", STARTED | {"status": "DONE"}, STARTED | {"execution": "another"}),
]

SECONDS = (74.75, 75, 93, 292.75)  # holder, lease, waiter, longest execution
STORIES = [
    "A1 1=Processed 1=Duplicate B2 2=Processed 1=Duplicate is=AB -3 3=Processed is=",
    "A1 -2 2=Processed 1=Superseded 2=Duplicate is=",
    "A1 B2 1=Parked 2=Processed is=B",
    "a1 1=Parked 1=Parked is=",
    "A1 waiter 1=Processed is=A",
    *common.RECOVERY,
    common.REFUSED_INPUTS,
]

OWN_LOCK = "a waiter's own lock is in a record, and is never the lock that it watches"
SURVIVORS = {
    "Record Event with ConditionExpression: no attribute_not_exists(id)": common.NO_RECORD,
    "Key State? with Choices 3 and 4 swapped": OWN_LOCK,
    "Key State? with Choices 4 and 5 swapped": OWN_LOCK,
}

CASES = Cases(DATA, CHOICES, FLOW, OUTPUTS, WRITES, STORIES, SECONDS, SURVIVORS)
