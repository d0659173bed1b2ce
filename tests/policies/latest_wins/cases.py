"""The cases of latest_wins.asl.json."""

from typing import Any
from unittest.mock import ANY

from tests.policies import common, table
from tests.policies.common import Text, adds, refused
from tests.policies.table import EXECUTION, FAULT, NEVER, Cases, Effect, Row, Write, answer, item
from tests.support.events import without

PREPARED = {"object_key": "b/k", "sequencer": "0B", "lock_token": "mine", "polls": 0}
UNRECORDED = {"unrecorded": common.UNRECORDED}
DONE_WORK = {"inversion": answer(table.PROCESSED) | {"status": "DONE"}}
WAITER = PREPARED | UNRECORDED | {"polls": 1, "record": item(lock_token="theirs", event="{}")}
NEWEST_EVENT = {"event": "{}", "sequencer": "0C", "state_machine": table.STATE_MACHINE}
DATA: table.Data = WAITER | DONE_WORK | {"fault": FAULT, "newest": NEWEST_EVENT}
HOLDER = DATA | {"unrecorded": {"is_recorded": True}}
POLLS = 6

LOCKED = {"sequencer": "0B", "status": "IN_PROGRESS", "lock_token": "theirs"}
NEWER = LOCKED | {"sequencer": "0C"}
FREE = LOCKED | {"lock_token": ""}
UNREAD = without(WAITER, "record")


def polled(count: int, **record: str) -> table.Data:
    return WAITER | {"polls": count, "record": item(**record)}


WAITING = [
    (
        "Superseded",
        [polled(1, **NEWER), polled(1, **NEWER | {"status": "DONE"}), polled(POLLS, **NEWER)],
    ),
    ("Duplicate", [polled(poll, **FREE | {"status": "DONE"}) for poll in (1, POLLS)]),
    ("Wait For Lock", [UNREAD, UNREAD | {"polls": POLLS - 1}]),
    ("Wait For Lock", [polled(poll, **LOCKED) for poll in (1, POLLS - 1)]),
    # The lock is its own: its claim was written late.
    ("Claim Key", [polled(poll, **LOCKED | {"lock_token": "mine"}) for poll in (1, POLLS - 1)]),
    ("Release Lock Only", [polled(poll, **NEWER | {"lock_token": "mine"}) for poll in (1, POLLS)]),
    ("Give Up Waiting", [polled(POLLS, **LOCKED | {"lock_token": "mine"})]),
    ("Claim Key", [polled(poll, **FREE) for poll in (1, POLLS - 1)]),
    ("Claim Key", [polled(1, **FREE | {"status": "FAILED"}), UNREAD | {"record": {}}]),
    (
        "Give Up Waiting",
        [polled(POLLS, **LOCKED), polled(POLLS, **FREE), UNREAD | {"polls": POLLS}],
    ),
]
REJECTED: table.Data = {
    "outcome": "Rejected",
    "error": "InvalidImage",
    "cause": "cut",
    "expires_at": "1",
}
ANSWERS: list[tuple[Any, str]] = [
    ({"outcome": "Processed", "expires_at": "1"}, "Release Lock"),
    ({"outcome": "Superseded", "expires_at": "1"}, "Release Unprocessed Key"),
    (REJECTED, "Reject Object"),
    (REJECTED | {"outcome": "Sure"}, "Reject Result"),
    *((without(REJECTED, name), "Reject Result") for name in ("error", "cause", "expires_at")),
    *((REJECTED | {"expires_at": expiry}, "Reject Result") for expiry in (1, None)),
    *(({"outcome": outcome, "expires_at": "1"}, "Reject Result") for outcome in ("Sure", 1)),
    *(({"outcome": outcome}, "Reject Result") for outcome in ("Processed", "Superseded")),
    *(
        ({"outcome": outcome, "expires_at": 1}, "Reject Result")
        for outcome in ("Processed", "Superseded")
    ),
    *[(payload, "Reject Result") for payload in list[Any]([{}, "Processed", None])],
]
OF_FUNCTION: table.Data = FAULT | {"rejected": True}
SUPERSEDED, UNSENT = {"inversion": answer(table.SUPERSEDED)}, {"unsent": FAULT}
ENDS: list[tuple[table.Data, str]] = [
    (DONE_WORK, "Processed"),
    *((SUPERSEDED | data, "Keep Answer") for data in ({}, {"record": item(**FREE)})),
    ({"record": item(**NEWER)}, "Superseded"),
    *((data, "Not Parked") for data in ({}, {"inversion": answer(table.UNKNOWN)})),
    *((data | {"fault": FAULT}, "Retrying") for data in (DONE_WORK, {})),
    *((data | {"fault": OF_FUNCTION}, "Parked") for data in (SUPERSEDED, {})),
    *((UNSENT | {"fault": fault}, "Not Parked") for fault in (FAULT, OF_FUNCTION)),
]
INVALID = {"object_key": "", "sequencer": "", "fault": OF_FUNCTION}
CHOICES = [
    *common.s3_events(),
    Row("Sequencer?", {"other_characters": 0}, "Claim Key"),
    Row("Sequencer?", {"other_characters": 1}, "Reject Event"),
    *(Row("Key State?", data, to) for to, inputs in WAITING for data in inputs),
    *(Row("Outcome?", {"inversion": answer(payload)}, to) for payload, to in ANSWERS),
    Row("Rejected?", INVALID, "Final Outcome?"),
    Row("Rejected?", INVALID | UNSENT, "Final Outcome?"),
    Row("Rejected?", DATA | {"fault": OF_FUNCTION}, "Release Unprocessed Key"),
    Row("Rejected?", DATA | {"fault": OF_FUNCTION} | UNSENT, "Release Lock Only"),
    Row("Rejected?", DATA, "Release Lock Only"),
    Row("Rejected?", DATA | UNSENT, "Release Lock Only"),
    Row("Newer Event?", DATA, "Start Newest Event"),
    Row("Newer Event?", DATA | {"newest": NEWEST_EVENT | {"sequencer": "0B"}}, "Final Outcome?"),
    Row(
        "Newer Event?",
        DATA | {"newest": NEWEST_EVENT | {"state_machine": "next"}},
        "Final Outcome?",
    ),
    *(Row("Final Outcome?", ended, outcome) for ended, outcome in ENDS),
]

NOT_CLAIMED = [table.BUSY.times(2), table.UNANSWERED, table.TIMED_OUT]
RELEASE_FAILS: table.Targets = {
    "Release Lock Only": [table.CONDITION_FAILED],
    "Hand Over Event": [table.BUSY.times(6), table.UNANSWERED.times(3), table.TIMED_OUT],
}
TRANSITIONS: table.Transitions = {
    "Prepare Event": {"Sequencer?": []},
    "Prepare Version": {"Sequencer?": []},
    "Claim Key": {
        "Invert Image": [table.WRITTEN],
        "Record Newest Event": [table.CONDITION_FAILED],
        "Hand Over Event": NOT_CLAIMED,
    },
    "Record Newest Event": {
        "Count Poll": [table.WRITTEN, table.CONDITION_FAILED],
        "Hand Over Event": NOT_CLAIMED,
    },
    "Count Poll": {"Read Key Record": []},
    "Read Key Record": {"Key State?": [table.FOUND, table.NO_RECORD, table.BUSY, table.TIMED_OUT]},
    "Wait For Lock": {"Count Poll": []},
    "Invert Image": {
        "Outcome?": [
            *(table.ANSWERED_PROCESSED, table.ANSWERED_SUPERSEDED),
            *(table.ANSWERED_REJECTED, table.ANSWERED_UNKNOWN),
        ],
        "Reject Result": [table.TOO_LARGE, table.FAR_TOO_LARGE, table.NOT_JSON],
        "Hand Over Event": [table.THROTTLED.times(12), table.FUNCTION_FAILED, table.TIMED_OUT],
    },
    "Release Lock": {"Processed": [table.WRITTEN], **RELEASE_FAILS},
    "Release Unprocessed Key": {"Final Outcome?": [table.WRITTEN], **RELEASE_FAILS},
    "Release Lock Only": {
        "Newer Event?": [table.RELEASED],
        "Final Outcome?": [table.CONDITION_FAILED, table.BUSY.times(2), table.TIMED_OUT],
    },
    "Start Newest Event": {
        "Final Outcome?": [table.STARTED, table.START_REFUSED.times(2), table.TIMED_OUT]
    },
    "Give Up Waiting": {"Hand Over Event": []},
    "Reject Event": {"Hand Over Event": []},
    "Reject Object": {"Hand Over Event": []},
    "Reject Result": {"Reject Object": []},
    "Hand Over Event": {
        "Rejected?": [table.SENT],
        "Send By EventBridge": [table.QUEUE_LOST, table.TIMED_OUT],
    },
    "Send By EventBridge": {
        "Rejected?": [table.FORWARDED, table.FORWARD_FAILED.times(2), table.TIMED_OUT]
    },
    "Keep Answer": {"Superseded": []},
    **dict.fromkeys(["Processed", "Superseded", "Duplicate", "Retrying", "Parked"], table.END),
    "Not Parked": table.END,
}

KEY = {name: DATA[name] for name in ("object_key", "sequencer")}
KEPT = {name: DATA[name] for name in ("object_key", "sequencer", "lock_token")}
CONTRACT = Text(".*docs/function.md.*")
UNKNOWN = {"error": "UnknownResult", "cause": CONTRACT, "expires_at": str(NEVER)}
REASON = {"Error": "InvalidImage", "Cause": "cut", "rejected": True}
NO_EVENT = {"Error": "InvalidEvent", "Cause": Text(".*S3 Object.*"), "rejected": True}
LOCKED_REASON = {"Error": "KeyLocked", "Cause": Text(".*locked.*")}
OUTPUTS = [
    *common.prepared({"lock_token": ANY, "polls": 0, "other_characters": 0} | UNRECORDED),
    *common.sequencers(),
    Effect("Claim Key", DATA, HOLDER, table.WRITTEN),
    adds("Read Key Record", UNREAD, table.FOUND, record=table.FOUND.result),
    adds("Read Key Record", UNREAD, table.TIMED_OUT, refusal=ANY),
    Effect("Count Poll", DATA, PREPARED | UNRECORDED | {"polls": 2}),
    adds("Give Up Waiting", WAITER, fault=LOCKED_REASON),
    adds("Invert Image", WAITER, table.ANSWERED_PROCESSED, **DONE_WORK),
    adds("Invert Image", WAITER, table.TOO_LARGE, inversion=ANY),
    Effect("Reject Event", {}, {"object_key": "", "sequencer": "", "fault": ANY}),
    Effect("Reject Event", DATA, INVALID | {"fault": NO_EVENT}),  # has no lock
    adds("Reject Result", WAITER, inversion=answer(UNKNOWN)),
    Effect(
        "Reject Object",
        DATA | {"inversion": answer(REJECTED)},
        KEPT | {"fault": REASON, "inversion": answer({"expires_at": "1"}) | {"status": "FAILED"}},
    ),
    Effect("Hand Over Event", DATA, DATA, table.SENT),
    adds("Hand Over Event", DATA, table.TIMED_OUT, refusal=ANY),
    Effect("Send By EventBridge", DATA, DATA, table.FORWARDED),
    adds("Send By EventBridge", DATA, table.TIMED_OUT, unsent=ANY),
    adds("Release Lock Only", DATA, table.TIMED_OUT, refusal=ANY),
    adds("Start Newest Event", DATA, table.STARTED, newest={"is_started": True}),
    adds("Start Newest Event", DATA, table.TIMED_OUT, refusal=ANY),
    Effect("Release Lock", DATA, {"outcome": "Processed"}, table.WRITTEN),
    Effect("Release Unprocessed Key", DATA, DATA, table.WRITTEN),
    Effect("Processed", {}, {"outcome": "Processed"}),
    adds("Keep Answer", DATA, record={"Item": {"answer": "Superseded"}}),
    Effect("Duplicate", DATA, KEY | {"outcome": "Duplicate", "read": DATA["record"]["Item"]}),
    Effect("Superseded", DATA, KEY | {"outcome": "Superseded", "read": DATA["record"]["Item"]}),
    Effect("Retrying", DATA, KEY | {"outcome": "Retrying", "reason": DATA["fault"]}),
]

MINE = {"sequencer": "0B", "lock_token": "mine", "execution": EXECUTION}
IN_PROGRESS = {"status": "IN_PROGRESS", **common.RECORDED, "in_progress_since": common.NOW}
CLAIMED = MINE | IN_PROGRESS
NEWEST = {"sequencer": "0B"} | IN_PROGRESS
DONE = {"sequencer": "0B", "status": "DONE"}
THEIRS = {"lock_token": "theirs", "execution": "theirs"}
OLDER = {"sequencer": "0A", "event": "older"}
NEWER_WAITS = {"sequencer": "0C", "status": "IN_PROGRESS", "event": "newer"} | common.SINCE
RELEASES = ("Release Lock", "Release Unprocessed Key")
HELD = common.SINCE | {"sequencer": "0B"}

WRITES = [
    Write("Claim Key", None, CLAIMED),
    Write("Claim Key", OLDER | {"status": "DONE", "expires_at": 1, "hand_overs": 2}, CLAIMED),
    Write("Claim Key", OLDER | {"status": "FAILED"}, CLAIMED),
    Write("Claim Key", DONE | {"status": "FAILED"}, CLAIMED),
    Write("Claim Key", MINE | {"status": "IN_PROGRESS"}, CLAIMED),  # its answer was lost
    *refused(
        "Claim Key",
        DONE,
        DONE | {"sequencer": "0C"},
        DONE | {"status": "IN_PROGRESS"} | THEIRS,
        OLDER | THEIRS,
        MINE | {"sequencer": "0C"},
        NEWER_WAITS,
    ),
    # The lock stays with whoever has it, and so does the time of its claim.
    Write("Record Newest Event", OLDER | THEIRS | common.SINCE, NEWEST | THEIRS | common.SINCE),
    Write("Record Newest Event", None, NEWEST),  # the record has expired since the claim
    Write("Record Newest Event", OLDER | {"expires_at": 1, "hand_overs": 2}, NEWEST),
    *refused("Record Newest Event", DONE, MINE, DONE | THEIRS, MINE | {"sequencer": "0C"}),
    *(
        write
        for state in RELEASES
        for write in (
            *common.release(state, HELD, DONE | {"expires_at": int(table.EXPIRES_AT)}),
            *refused(state, MINE | NEWER_WAITS),
        )
    ),
    # The event stays in the index, the newer one's or the retried one's.
    *common.release("Release Lock Only", NEWER_WAITS, NEWER_WAITS),
    *common.release("Release Lock Only", HELD, HELD),
]

SECONDS = 292
STORIES = [
    "A1 1=Processed 1=Duplicate B2 2=Processed 1=Superseded 2=Duplicate is=B",
    "A1 B2 C3 2=Superseded 3=Processed 1=Superseded is=C",
    "a1 1=Parked 1=Parked A2 2=Processed 1=Superseded is=A",
    "A1 1=Processed -2 2=Processed is= B3 3=Processed 2=Superseded 1=Superseded is=B",
    "A1 1=Processed -2 B3 2=Superseded 3=Processed 2=Superseded is=B",
    "A1 -2 2=Processed 1=Superseded is=",
    "A1 1=Processed expired 1=Processed is=A",
    "empty=Parked list=Parked no-key=Parked",
    "A1 1=Processed Bw w=Parked C2 2=Processed w=Parked is=C",
]

SURVIVORS = {
    "Key State? with Choices 2 and 3 swapped": "What both rules fit, rule 1 has taken before.",
    "Release Lock with no ResultPath": "A result replaces the input, too, if no path is named.",
}

CASES = Cases(HOLDER, CHOICES, TRANSITIONS, OUTPUTS, WRITES, STORIES, SECONDS, SURVIVORS)
