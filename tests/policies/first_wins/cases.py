"""The cases of first_wins.asl.json."""

from tests.policies import common, table
from tests.policies.common import refused
from tests.policies.table import EXECUTION, Cases, Row, Write, item

LIMITS = common.limits_of(__name__)
UNTIL = table.PROCESSED | {"done_until": "2026-11-27T09:30:00Z"}
ANSWERED = {"inversion": table.answer(UNTIL)}
DATA = common.waiter_data(LIMITS) | ANSWERED
DATA |= {"record_id": "first:b/k", "sent": {"outcome": "Retrying"}}
UNSENT = DATA | {"sent": {"outcome": ""}}

LOCKED = {"sequencer": "0A", "status": "IN_PROGRESS", "lock_token": "theirs"}
WITH_EVENT = DATA | {"record": item(**LOCKED, event='{"a": 1}')}
WITHOUT_SEQUENCER = DATA | {"record": item(**LOCKED | {"sequencer": ""}, event='{"a": 1}')}
WITH_OWN_EVENT = DATA | {"record": item(**LOCKED | {"sequencer": "0B"}, event='{"a": 1}')}
LAST, OVER = LIMITS["lease_polls"] + 1, {"polls": LIMITS["maximum_polls"]}

FOR_EVER = table.answer(table.PROCESSED | {"done_until": "9999-12-31T23:59:59Z"})

CHOICES = [
    *common.s3_events(deletions=False),
    *common.first_poll(DATA, "Count Poll"),
    Row("First Poll?", UNSENT, "Send Before Waiting"),
    Row("Key State?", common.without("record", UNSENT), "Send Before Waiting"),
    Row("Key State?", UNSENT, "Send Before Waiting"),
    Row("Key State?", common.without("record", UNSENT) | OVER, "Give Up Waiting"),
    Row("Key State?", UNSENT | {"record": {}}, "Claim Key"),
    Row("Key State?", UNSENT | {"record": item(status="DONE")}, "Duplicate"),
    *common.waiting(DATA, LOCKED, after_a_lease="Claim Key"),  # without an event
    *common.attempts(DATA),
    Row("Key State?", DATA | {"record": item(status="DONE", sequencer="FF")}, "Duplicate"),
    Row("Key State?", WITH_EVENT | {"polls": LAST - 1}, "Wait For Lock"),
    Row("Key State?", WITH_EVENT | {"polls": LAST}, "Retry Lost Event"),
    Row("Key State?", WITH_EVENT | {"polls": LAST, "sent": UNSENT["sent"]}, "Send Before Waiting"),
    Row("Key State?", WITHOUT_SEQUENCER | {"polls": LAST}, "Retry Lost Event"),
    Row("Key State?", WITH_OWN_EVENT | {"polls": LAST}, "Claim Key"),  # it takes the lock over
    Row("Key State?", WITH_EVENT | {"polls": LAST, "watched_lock": common.NO_LOCK}, "Watch Lock"),
    *common.SENT,
    *common.answers(processed="Keep Until Deleted", superseded="Release Superseded Key"),
    Row("Outcome?", ANSWERED, "Release Lock"),
    Row("Outcome?", {"inversion": table.answer(UNTIL | {"expires_at": 5})}, "Reject Result"),
    Row("Outcome?", {"inversion": table.answer(UNTIL | {"done_until": 5})}, "Keep Until Deleted"),
]

FLOW = {
    **common.begins("Claim Key"),
    "Claim Key": "Written: Invert Image; ConditionFailed: First Poll?; "
    f"{common.CLAIM_FAILED}: Retry Event",
    "Wait For Lock": "Count Poll",
    **common.polls(),
    "Send Before Waiting": f"Sent: Key State?; {common.NOT_SENT}: Retry Event",
    "Give Up Waiting": "Retrying",
    "Retry Lost Event": f"Sent: Break Lock; {common.NOT_SENT}: Retry Event",
    **common.function("Attempt Again?"),
    "Renew Lock": f"Written: Invert Image; ConditionFailed {common.WRITE_FAILED}: Retry Event",
    **{
        state: f"Written ConditionFailed: {end}; {common.RELEASE_FAILED}: Check Expiry"
        for state, end in (("Release Lock", "Processed"), ("Release Superseded Key", "Superseded"))
    },
    "Keep Until Deleted": "Release Lock",
    **common.hands_over("Release Failed Key"),
    "Release Failed Key": f"Written ConditionFailed {common.RELEASE_FAILED}: Retried Later?",
    **common.ends("Superseded"),
}

OUTPUTS = [
    *common.prepared(common.WAITER_START | {"sent": UNSENT["sent"]}, record_id="first:{key}"),
    *common.waiter_outputs(DATA),
    common.adds("Send Before Waiting", UNSENT, "Sent", sent=DATA["sent"]),
    common.adds("Keep Until Deleted", DATA, inversion=FOR_EVER),
    common.adds("Renew Lock", DATA, "Written", renewal={"attempt": 2}),
    *common.rejections(DATA),
    *common.handed_over(DATA),
    *common.outcomes(DATA, "Processed", "Duplicate", "Superseded", "Retrying"),
]

MINE = {"sequencer": "0B", "lock_token": "mine", "execution": EXECUTION, "status": "IN_PROGRESS"}
CLAIMED = MINE | common.RECORDED
EXPIRES_AT = int(table.EXPIRES_AT)

WRITES = [
    Write("Claim Key", None, CLAIMED),
    Write("Claim Key", {"sequencer": "0C", "status": "FAILED"}, CLAIMED),
    Write("Claim Key", {"sequencer": "0A", "status": "IN_PROGRESS"}, CLAIMED),  # a broken lock
    Write("Claim Key", {"status": "DONE", "done_until": "2000-01-01T00:00:00Z"}, CLAIMED),
    Write("Claim Key", MINE, CLAIMED),  # its answer was lost
    Write("Claim Key", MINE | {"lock_token": "theirs", "execution": "theirs"}, CLAIMED),  # watched
    *refused(
        "Claim Key",
        {"sequencer": "0A", "status": "DONE"},
        {"sequencer": "0A", "status": "DONE", "done_until": "2100-01-01T00:00:00Z"},
        MINE | {"lock_token": "another", "execution": "another"},
    ),
    *common.break_lock(),
    *common.renew_lock(),
    *common.release(
        "Release Lock", status="DONE", expires_at=EXPIRES_AT, done_until=UNTIL["done_until"]
    ),
    *common.release("Release Superseded Key", status="FAILED", expires_at=EXPIRES_AT),
    *common.release("Release Failed Key", status="FAILED", expires_at=table.NEVER),
]

SECONDS = (110.75, 112, 119, 292.75)  # holder, lease, waiter, longest execution
STORIES = [
    "A1 1=Processed 1=Duplicate B2 2=Duplicate is=A",
    "A1 B2 1=Superseded 2=Processed 1=Duplicate is=B",
    "a1 1=Parked 1=Parked A2 1=Superseded 2=Processed 1=Duplicate is=A",
    "A1 -2 2=InvalidEvent is=",
    *common.RECOVERY,
    common.REFUSED_INPUTS,
]
CLAIM = "Claim Key with ConditionExpression:"
SURVIVORS = {
    f"{CLAIM} no attribute_not_exists(id)": common.NO_RECORD,
    f"{CLAIM} comparison 4, <, as <=": "no event comes at the very instant at which its time is up",
}

CASES = Cases(
    DATA,
    CHOICES,
    FLOW,
    OUTPUTS,
    WRITES,
    STORIES,
    SECONDS,
    SURVIVORS,
    lock="first:{}",
)
