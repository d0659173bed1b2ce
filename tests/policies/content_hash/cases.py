"""The cases of content_hash.asl.json."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

from inorder.events import shipped
from tests.policies import common
from tests.policies.common import (
    EXECUTION,
    HASHED,
    Cases,
    Output,
    Row,
    Write,
    adds,
    answer,
    paths,
    refused,
)

LIMITS = common.limits_of(__name__)
ORDER = shipped("order-placed")
DATA = {
    **{name: value for name, value in common.waiter_data(LIMITS).items() if name != "object_key"},
    "content": "b/k",
    "now": HASHED["now"],
    "expires_at": HASHED["expires_at"],
    "hashing": answer(HASHED),
}

# --- What follows each Choice --------------------------------------------------------------------

FIELDS = ("source", "detail-type", "detail")
INCOMPLETE: list[Any] = [
    {},
    [],
    "text",
    ORDER | {"source": 5},
    ORDER | {"detail-type": 5},
    *({name: ORDER[name] for name in ORDER if name != left_out} for left_out in FIELDS),
]
NO_HASH: list[Any] = [
    None,
    "9f",
    *(HASHED | {name: 1} for name in HASHED),
    *({name: HASHED[name] for name in HASHED if name != left_out} for left_out in HASHED),
]
LOCKED = {"status": "IN_PROGRESS", "lock_token": "theirs"}

CHOICES = [
    Row("Complete Event?", ORDER, "Prepare Event"),
    Row("Complete Event?", ORDER | {"detail": {}}, "Prepare Event"),
    *(Row("Complete Event?", event, "Park Invalid Event") for event in INCOMPLETE),
    Row("Hashed?", {"hashing": answer(HASHED)}, "Name Content"),
    *(Row("Hashed?", {"hashing": answer(payload)}, "Reject Result") for payload in NO_HASH),
    *common.sent(),
    *common.first_poll(DATA, "Wait For Lock"),
    *common.waiting(DATA, LOCKED, judge="Content State?", claim="Claim Content"),
]

# --- What each Pass gives, and what each conditional write changes -------------------------------

NAME = f"{ORDER['source']}/{ORDER['detail-type']}"
UNKNOWN = DATA | {"hashing": answer(None)}
START = common.WAITER_START | {"lock_token": "mine"}
NAMED = START | {
    "content": f"content:{NAME}/{HASHED['hash']}",
    "now": HASHED["now"],
    "expires_at": HASHED["expires_at"],
}

OUTPUTS = [
    common.no_data("Complete Event?", ORDER),
    Output("Prepare Event", {}, common.WAITER_START | {"content": NAME}),
    Output("Name Content", START | {"hashing": answer(HASHED)}, NAMED),
    *common.waiter_outputs(DATA, "sequencer", "hashing", locked="content"),
    *common.handed_over(DATA),
    Output("Retrying", DATA, {"outcome": "Retrying", "content": "b/k", "reason": common.FAULT}),
    adds("Reject Result", UNKNOWN, fault=common.UNKNOWN_RESULT),
    Output(
        "Processed",
        DATA,
        {"outcome": "Processed", "content": "b/k", "expires_at": HASHED["expires_at"]},
    ),
    Output("Duplicate", DATA, {"outcome": "Duplicate", "content": "b/k"}),
]

MINE = {"lock_token": "mine", "execution": EXECUTION, "status": "IN_PROGRESS"}
CLAIMED = MINE | {"in_progress_since": ANY, "event": ANY}
NOW = int(HASHED["now"])

WRITES = [
    Write("Claim Content", None, CLAIMED),
    Write("Claim Content", {"status": "FAILED"}, CLAIMED),
    Write("Claim Content", {"status": "DONE", "expires_at": NOW - 1}, CLAIMED),
    Write("Claim Content", MINE, CLAIMED),  # its answer was lost
    *refused(
        "Claim Content",
        {"status": "DONE", "expires_at": NOW + 1},
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
]

# --- Paths ---------------------------------------------------------------------------------------

polls = common.Polls(LIMITS, read="Read Content Record", judge="Content State?")
prepared = ["Complete Event?", "Prepare Event"]
hashed = [*prepared, "Hash Detail: Hashed", "Hashed?", "Name Content"]
waits = [*hashed, "Claim Content: ConditionFailed", "First Poll?"]
claimed = [*hashed, "Claim Content: Written"]
again = ["Claim Content: Written", "Forward Event: Forwarded", "Release Lock: Written", "Processed"]
failed = [*prepared, "Hash Detail: FunctionFailed*3"]
forwarded = [*claimed, "Forward Event: Forwarded"]
unknown = [*prepared, "Hash Detail: Unknown", "Hashed?", "Reject Result"]
parked, retried = common.ends("Release Failed Content: Written")
parked_unlocked, retried_unlocked = common.ends("Release Failed Content: ConditionFailed")

PATHS = {
    **common.invalid_events("Complete Event?"),
    **paths(
        {
            **polls.named(waits, again, retried_unlocked),
            "Processed": [*hashed, *again],
            "ProcessedAfterRetries": [
                *prepared,
                "Hash Detail: Throttled, FunctionFailed, Hashed",
                "Hashed?",
                "Name Content",
                "Claim Content: Busy, Written",
                "Forward Event: ForwardFailed, Forwarded",
                "Release Lock: Busy, Written",
                "Processed",
            ],
            "LockLostProcessed": [*forwarded, "Release Lock: ConditionFailed", "Processed"],
            "Duplicate": [*waits, *polls.poll("Done"), "Duplicate"],
            "UnknownResultParked": [*unknown, *parked_unlocked],
            "UnknownResultParkedAfterRetries": [
                *unknown,
                "Park Event: QueueLost, Sent",
                "Release Failed Content: Busy, Written",
                *parked[-2:],
            ],
            "UnknownResultNotParked": [*unknown, "Park Event: QueueLost*2", *common.NO_BUS],
            "FunctionFailedRetriedAfterRetry": [
                *failed,
                "Retry Event: QueueLost, Sent",
                *retried_unlocked[1:],
            ],
            "FunctionFailedRetriedByBus": [
                *failed,
                *common.by_bus("Retry Event", retried_unlocked),
            ],
            "UnknownResultRetriedByBus": [
                *unknown,
                "Park Event: QueueLost*2",
                "Send By EventBridge: ForwardFailed, Forwarded",
                *retried_unlocked[1:],
            ],
            "FunctionFailedNotRetried": [*failed, *common.NOT_RETRIED],
            "FunctionFailedRetried": [*failed, *retried_unlocked],
            "TooLargeToHashParked": [*prepared, "Hash Detail: TooLarge", *parked_unlocked],
            "TooLargeToClaimParked": [*hashed, "Claim Content: TooLarge", *parked_unlocked],
            "TooLargeToForwardParked": [*claimed, "Forward Event: TooLarge", *parked],
            "ClaimFailedRetried": [*hashed, "Claim Content: Busy*2", *retried_unlocked],
            "ClaimUnansweredRetried": [*hashed, "Claim Content: Unanswered", *retried],
            "ForwardFailedRetried": [*claimed, "Forward Event: ForwardFailed*3", *retried],
            "ReleaseFailedRetried": [*forwarded, "Release Lock: Busy*3", *retried],
        },
        ORDER,
    ),
}

CASES = Cases(DATA, CHOICES, OUTPUTS, WRITES, PATHS, ORDER)
