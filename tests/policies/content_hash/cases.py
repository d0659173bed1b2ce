"""The cases of content_hash.asl.json."""

from typing import Any

from tests.policies import common, table
from tests.policies.common import adds, refused
from tests.policies.table import EXECUTION, HASHED, Cases, Effect, Row, Write, answer
from tests.support.events import shipped

LIMITS = common.limits_of(__name__)
ORDER = shipped("order-placed")
DATA = common.without("object_key", common.waiter_data(LIMITS)) | {
    "content": "b/k",
    "now": HASHED["now"],
    "expires_at": HASHED["expires_at"],
    "hashing": answer(HASHED),
}

INCOMPLETE: list[Any] = [
    {},
    [],
    "text",
    ORDER | {"source": 5},
    ORDER | {"detail-type": 5},
    *(common.without(name, ORDER) for name in ("source", "detail-type", "detail")),
]
NO_HASH: list[Any] = [
    None,
    "9f",
    *(HASHED | {name: 1} for name in HASHED),
    *(common.without(name, HASHED) for name in HASHED),
]
LOCKED = {"status": "IN_PROGRESS", "lock_token": "theirs"}

CHOICES = [
    Row("Complete Event?", ORDER, "Prepare Event"),
    Row("Complete Event?", ORDER | {"detail": {}}, "Prepare Event"),
    *(Row("Complete Event?", event, "Park Invalid Event") for event in INCOMPLETE),
    Row("Hashed?", {"hashing": answer(HASHED)}, "Name Content"),
    *(Row("Hashed?", {"hashing": answer(payload)}, "Reject Result") for payload in NO_HASH),
    *common.first_poll(DATA, "Wait For Lock"),
    *common.waiting(DATA, LOCKED, of="Content"),
]

FLOW = {
    **common.begins("Hash Detail", versions=False),
    "Hash Detail": "Hashed Unknown: Hashed?; TooLarge: Park Event; "
    "Throttled*33 FunctionFailed*3 TimedOut: Retry Event",
    "Name Content": "Claim Content",
    "Claim Content": "Written: Forward Event; ConditionFailed: First Poll?; TooLarge: Park Event; "
    f"{common.CLAIM_FAILED}: Retry Event",
    "Wait For Lock": "Count Poll",
    **common.polls(of="Content"),
    "Forward Event": "Forwarded: Release Lock; TooLarge: Park Event; "
    "ForwardFailed*3 TimedOut: Retry Event",
    "Release Lock": f"Written ConditionFailed: Processed; {common.RELEASE_FAILED}: Retry Event",
    "Reject Result": "Park Event",
    **common.hands_over("Release Failed Content", "Release Retried Content"),
    "Release Failed Content": f"Written ConditionFailed {common.RELEASE_FAILED}: Parked",
    "Release Retried Content": f"Written ConditionFailed {common.RELEASE_FAILED}: Retrying",
    **common.ends(),
}

NAME = f"{ORDER['source']}/{ORDER['detail-type']}"
UNKNOWN = DATA | {"hashing": answer(None)}
START = common.WAITER_START | {"lock_token": "mine"}
NAMED = START | {
    "content": f"content:{NAME}/{HASHED['hash']}",
    "now": HASHED["now"],
    "expires_at": HASHED["expires_at"],
}

OUTPUTS = [
    Effect("Complete Event?", ORDER, {}),
    Effect("Prepare Event", {}, common.WAITER_START | {"content": NAME}),
    Effect("Name Content", START | {"hashing": answer(HASHED)}, NAMED),
    *common.waiter_outputs(DATA, "sequencer", "hashing", locked="content"),
    *common.handed_over(DATA),
    Effect("Retrying", DATA, {"outcome": "Retrying", "content": "b/k", "reason": table.FAULT}),
    adds("Reject Result", UNKNOWN, fault=common.UNKNOWN_RESULT),
    Effect(
        "Processed",
        DATA,
        {"outcome": "Processed", "content": "b/k", "expires_at": HASHED["expires_at"]},
    ),
    Effect("Duplicate", DATA, {"outcome": "Duplicate", "content": "b/k"}),
]

MINE = {"lock_token": "mine", "execution": EXECUTION, "status": "IN_PROGRESS"}
CLAIMED = MINE | common.RECORDED
NOW = int(HASHED["now"])

WRITES = [
    Write("Claim Content", None, CLAIMED),
    Write("Claim Content", {"status": "FAILED"}, CLAIMED),
    Write("Claim Content", {"status": "DONE", "expires_at": NOW - 1}, CLAIMED),
    Write("Claim Content", MINE, CLAIMED),  # its answer was lost
    *refused(
        "Claim Content",
        *({"status": "DONE", "expires_at": NOW + seconds} for seconds in (0, 1)),
        MINE | {"lock_token": "theirs", "execution": "theirs"},
    ),
    *common.break_lock(),
    *(
        write
        for state, status in (("Release Lock", "DONE"), ("Release Failed Content", "FAILED"))
        for write in common.release(
            state, tokens=["mine"], status=status, expires_at=int(HASHED["expires_at"])
        )
    ),
    *common.release("Release Retried Content", tokens=["mine"], **common.SINCE),
]

SECONDS = (32, 36, 42, 238.75)  # holder, lease, waiter, longest execution
STORIES = ["paid=Processed again=Duplicate other=Processed shipped=Processed"]
CLAIM = "Claim Content with"
SURVIVORS = {
    f"{CLAIM} ConditionExpression: no attribute_not_exists(id)": common.NO_RECORD,
    f"{CLAIM} Catch 1 and 2 swapped": "no error is both of them",
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
    event=ORDER,
    mocked={"Forward Event": "Forwarded"},
)
