"""The states that several policies share: what follows them, what they give and change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import ANY

from inorder.events import created
from inorder.model.policies import definition
from tests.policies.table import (
    CREATED,
    DELETED,
    EXECUTION,
    FAULT,
    NEVER,
    NO_S3_EVENT,
    PROCESSED,
    REJECTED,
    RESPONSES,
    TIMED_OUT,
    VERSIONED,
    Data,
    Flow,
    Output,
    Row,
    Write,
    answer,
    item,
)

ID = "pictures/holiday/a b+c%2B'é.png"  # of the key record that belongs to CREATED
NO_LOCK = {"lock_token": "", "break_at_poll": 0}
SINCE = {"in_progress_since": "then"}  # has a record in the index


def limits_of(module: str) -> dict[str, int]:
    """Read the limits in the ASL file of the policy whose folder has a module."""
    state = definition(module.split(".")[-2])["States"]["Count Poll"]
    limits: dict[str, int] = state["Parameters"]["limits"]
    return limits


def waiter_data(limits: dict[str, int]) -> Data:
    """Build the data of an execution at its first poll, and of all later states."""
    return {
        "object_key": "b/k",
        "sequencer": "0B",
        "lock_token": "mine",
        "expires_at": str(NEVER),
        "limits": limits,
        "polls": 1,
        "watched_lock": {"lock_token": "theirs", "break_at_poll": limits["lease_polls"] + 1},
        "record": item(lock_token="theirs", event="{}"),
        "inversion": answer(PROCESSED),
        "fault": FAULT,
    }


# What *Prepare Event* prepares for an execution that may have to wait.
WAITER_START = {"lock_token": ANY, "expires_at": str(NEVER), "polls": 0, "watched_lock": NO_LOCK}

# --- What follows states that several files have --------------------------------------------------

S3_EVENTS = [CREATED, VERSIONED, DELETED, NO_S3_EVENT]
NOT_SENT, NOT_FORWARDED = "QueueLost*2 TimedOut", "ForwardFailed*2 TimedOut"
CLAIM_FAILED = "Busy*2 Unanswered TimedOut"
WRITE_FAILED = "Busy*2 TimedOut"
RELEASE_FAILED = "Busy*3 TimedOut"


def begins(claim: str, *, versions: bool = True) -> Flow:
    """Prepare an event, or refuse it, which is said in a queue or on the bus."""
    bus = "Send Invalid Event By EventBridge"
    return {
        **dict.fromkeys(["Prepare Event", *(["Prepare Version"] if versions else [])], claim),
        "Park Invalid Event": f"Sent: Invalid Event; {NOT_SENT}: {bus}",
        bus: f"Forwarded: Invalid Event; {NOT_FORWARDED}: Not Parked",
        **dict.fromkeys(["Invalid Event", "Not Parked"], ""),
    }


def polls(
    records: str, wait: str = "Wait For Lock", of: str = "Key", attempts: str = WRITE_FAILED
) -> Flow:
    """Read the lock again and again, and break it; `records` are what may be read."""
    return {
        "Count Poll": f"Read {of} Record",
        f"Read {of} Record": f"{records} Busy TimedOut: {of} State?",
        "Watch Lock": wait,
        "Break Lock": f"Written: Claim {of}; ConditionFailed {attempts}: {wait}",
        "Give Up Waiting": "Retry Event",
    }


def function(failed: str, attempts: str = "Throttled*3 FunctionFailed TimedOut") -> Flow:
    """Invoke the function, and park what cannot be processed."""
    answers = "Processed Superseded Rejected Unknown"
    return {
        "Invert Image": f"{answers}: Outcome?; {attempts}: {failed}",
        **dict.fromkeys(["Reject Object", "Reject Result"], "Park Event"),
    }


def hands_over(parked: str, retried: str = "") -> Flow:
    """Send the event to a queue or, if that fails, to the bus."""
    retried, bus = retried or parked, "Send By EventBridge"
    return {
        "Park Event": f"Sent: {parked}; {NOT_SENT}: {bus}",
        "Retry Event": f"Sent: {retried}; {NOT_SENT}: {bus}",
        bus: f"Forwarded: {retried}; {NOT_FORWARDED}: Not Parked",
    }


def ends(*more: str) -> Flow:
    return dict.fromkeys(["Processed", "Duplicate", "Parked", "Retrying", *more], "")


# --- Rows of states that several files have -------------------------------------------------------


def s3_events(*, deletions: bool = True, versions: bool = True) -> list[Row]:
    event = created()
    accepted: list[Any] = [CREATED, created(version_id=5)]
    refused: list[Any] = [
        *({}, [], "text", NO_S3_EVENT),
        {name: value for name, value in event.items() if name != "detail-type"},
        event | {"detail-type": "Object Restore Completed"},
        event | {"detail": event["detail"] | {"bucket": {}}},
        created(bucket=5),
        *(created(**{name: value}) for name in ("key", "sequencer", "etag") for value in (None, 5)),
        *(created(**{name: ""}) for name in ("sequencer", "etag")),
    ]
    (accepted if deletions else refused).append(DELETED)
    return [
        *(Row("S3 Object Event?", event, "Prepare Event") for event in accepted),
        Row("S3 Object Event?", VERSIONED, "Prepare Version" if versions else "Prepare Event"),
        *(Row("S3 Object Event?", event, "Park Invalid Event") for event in refused),
    ]


def without(name: str, data: Data) -> Data:
    return {field: value for field, value in data.items() if field != name}


def waiting(
    data: Data,
    locked: Data,
    *,
    judge: str = "Key State?",
    claim: str = "Claim Key",
    after_a_lease: str = "Break Lock",
) -> list[Row]:
    """Give the rows of a waiter's decision about a record that is `locked` as ``theirs``."""
    last, over = data["limits"]["lease_polls"] + 1, data["limits"]["maximum_polls"]
    watching = {"lock_token": "theirs", "break_at_poll": last}

    def seen(changed: Data, poll: int = 1, watched: Data = NO_LOCK) -> Data:
        record = item(**(locked | changed))
        return data | {"record": record, "polls": poll, "watched_lock": watched}

    unread = without("record", seen({}))
    free, done = {"lock_token": ""}, {"lock_token": "", "status": "DONE"}
    decided = [
        (unread, "Wait For Lock"),
        (unread | {"polls": last, "watched_lock": watching}, "Wait For Lock"),
        (unread | {"polls": over}, "Give Up Waiting"),
        (unread | {"record": {}}, claim),
        (seen(done), "Duplicate"),
        (seen(done, over), "Duplicate"),
        (seen(free), claim),
        (seen(free | {"status": "FAILED"}), claim),
        (seen(free, over - 1), claim),
        (seen(free, over), "Give Up Waiting"),
        (seen({}), "Watch Lock"),
        (seen({"lock_token": "mine"}), "Watch Lock"),
        (seen({}, last), "Watch Lock"),
        (seen({}, 1, watching), "Wait For Lock"),
        (seen({}, last - 1, watching), "Wait For Lock"),
        (seen({}, last, watching), after_a_lease),
        (seen({}, 1, watching | {"break_at_poll": 1}), after_a_lease),
        (seen({"lock_token": "another"}, last, watching), "Watch Lock"),
        (seen({}, over, watching), "Give Up Waiting"),
    ]
    return [Row(judge, seen_by, following) for seen_by, following in decided]


def first_poll(data: Data, wait: str, state: str = "First Poll?") -> list[Row]:
    """Let only the first poll come without a wait."""
    return [Row(state, without("limits", data), "Count Poll"), Row(state, data, wait)]


def attempts(data: Data) -> list[Row]:
    return [
        *(Row("Attempt Again?", data | {"polls": poll}, "Renew Lock") for poll in (0, 6)),
        Row("Attempt Again?", data | {"polls": 7}, "Retry Event"),
        Row("Attempt Again?", data | {"polls": 0, "renewal": {"attempt": 2}}, "Retry Event"),
    ]


def answers(*, processed: str, superseded: str, expires: bool = True) -> list[Row]:
    accepted = {"Processed": processed, "Superseded": superseded}
    rejected = {"outcome": "Rejected", "error": "InvalidImage", "cause": "cut", "expires_at": "1"}
    unknown: list[Any] = [
        *(without(name, rejected) for name in ("error", "cause")),
        rejected | {"outcome": "Sure"},
        {"outcome": "Sure", "expires_at": "1"},
        {"outcome": 1, "expires_at": "1"},
        *({}, "Processed", None),
    ]
    if expires:
        unknown += [{"outcome": name} for name in accepted]
        unknown += [{"outcome": name, "expires_at": 1} for name in accepted]
        unknown += [rejected | {"expires_at": 1}, rejected | {"expires_at": None}]
    decided: list[tuple[Any, str]] = [
        *(({"outcome": name, "expires_at": "1"}, to) for name, to in accepted.items()),
        (rejected, "Reject Object"),
        *((payload, "Reject Result") for payload in unknown),
    ]
    return [Row("Outcome?", {"inversion": answer(payload)}, to) for payload, to in decided]


SENT = [
    Row("Retried Later?", {"sent": {"outcome": outcome}}, outcome)
    for outcome in ("Retrying", "Parked")
]


# --- What states give ----------------------------------------------------------------------------


def adds(state: str, data: Data, response: str = "", **added: Any) -> Output:
    """Let a state add fields to its input, or replace some."""
    return Output(state, data, data | added, response)


def prepared(start: Data, **ids: str) -> list[Output]:
    """Give what *Prepare Event* and *Prepare Version* prepare, from nothing but the event.

    `ids` are formats with the fields ``key``, which has the version, and ``sequencer``.
    """
    outputs = [Output("S3 Object Event?", CREATED, {})]  # hands on nothing of the event
    for state, event in (("Prepare Event", CREATED), ("Prepare Version", VERSIONED)):
        described = event["detail"]["object"]
        name = f"{event['detail']['bucket']['name']}/{described['key']}"
        key = f"{name}#{described['version-id']}" if event is VERSIONED else name
        sequencer = described["sequencer"]
        own = {each: text.format(key=key, sequencer=sequencer) for each, text in ids.items()}
        output = {"object_key": key, **own, "sequencer": sequencer, **start}
        outputs.append(Output(state, {}, output, event=event))
    return outputs


def outcomes(data: Data, *names: str) -> list[Output]:
    told = {"object_key": data["object_key"], "sequencer": data["sequencer"]}
    results = {
        "Processed": {"result": data["inversion"]["Payload"]},
        "Retrying": {"reason": data["fault"]},
    }
    return [Output(name, data, {"outcome": name} | told | results.get(name, {})) for name in names]


def rejections(data: Data) -> list[Output]:
    """Give the reasons for which a function's answer is parked."""
    rejected = data | {"inversion": answer(REJECTED)}
    reason = {"Error": REJECTED["error"], "Cause": REJECTED["cause"], "rejected": True}
    if "lock_token" in data:
        ids = ("object_key", "event_id", "record_id", "sequencer", "lock_token")
        kept = {name: data[name] for name in (*ids, "claim", "recorded") if name in data}
        expires = {"expires_at": REJECTED["expires_at"], "fault": reason}
        parked = Output("Reject Object", rejected, kept | expires)
    else:
        parked = adds("Reject Object", rejected, fault=reason)
    unknown = data | {"inversion": answer(None)}
    return [parked, adds("Reject Result", unknown, fault=UNKNOWN_RESULT)]


class Text:
    """Equals each text of a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(re.fullmatch(self._pattern, other, re.DOTALL))

    __hash__ = None  # type: ignore[assignment]


NOW = Text("(?!then).+")
UNKNOWN_RESULT = {
    "Error": "UnknownResult",
    "Cause": Text(".* It returned: null"),
    "rejected": True,
}


def handed_over(data: Data) -> list[Output]:
    """Give what the states add that send an event to a queue."""
    return [
        adds("Park Event", data, "Sent", sent={"outcome": "Parked"}),
        adds("Retry Event", data, "Sent", sent={"outcome": "Retrying"}),
        adds("Send By EventBridge", data, "Forwarded", sent={"outcome": "Retrying"}),
    ]


def waiter_outputs(data: Data, *drops: str, locked: str = "key") -> list[Output]:
    """Give what a waiter reads, counts (which drops fields) and remembers, and why it gives up."""
    dropped = {"record", "inversion", "fault", *drops}
    counted = {name: value for name, value in data.items() if name not in dropped}
    seen = data | {"polls": 7, "watched_lock": NO_LOCK}
    watched = {"lock_token": "theirs", "break_at_poll": 7 + data["limits"]["lease_polls"]}
    cause = f"The {locked} stayed locked for as long as an execution can wait."
    reason = {"Error": f"{locked.capitalize()}Locked", "Cause": cause}
    read = f"Read {locked.capitalize()} Record"
    return [
        adds(read, data, "Free", record=RESPONSES["Free"]["Return"]),
        adds(read, data, TIMED_OUT, refusal=ANY),
        Output("Count Poll", seen, counted | {"polls": 8, "watched_lock": NO_LOCK}),
        adds("Watch Lock", seen, watched_lock=watched),
        adds("Give Up Waiting", data, fault=reason),
    ]


# --- What conditional writes change --------------------------------------------------------------


def refused(state: str, *records: Data | None) -> list[Write]:
    """Let a write be refused for each of some records."""
    return [Write(state, record, record, is_refused=True) for record in records]


def break_lock(kept: Data | None = None) -> list[Write]:
    """Let only the watched lock be broken; what is `kept` stays as it is.

    Otherwise the record is in the index afterwards, whether it was or not: its event is not done.
    """
    lock, after = {"lock_token": "theirs", "execution": "theirs"}, {"in_progress_since": ANY}
    befores = [kept] if kept else [SINCE, {}]
    return [
        *(Write("Break Lock", before | lock, kept or after) for before in befores),
        *refused("Break Lock", {"lock_token": "another", "execution": "another"}, {}),
    ]


def renew_lock() -> list[Write]:
    """Let an execution give another token to its own lock only."""
    renewed = {"lock_token": "mine/2", "execution": EXECUTION}
    return [
        *(
            Write("Renew Lock", renewed | {"lock_token": token}, renewed)
            for token in ("mine", "mine/2")  # the second one's answer was lost
        ),
        *refused("Renew Lock", None, {}, renewed | {"lock_token": "theirs"}),
    ]


def release(
    state: str,
    since: Mapping[str, str] = SINCE,
    tokens: Sequence[str] = ("mine", "mine/2"),
    **after: Any,
) -> list[Write]:
    """Let an execution release only its own lock, and take its record from the index.

    `since` is what has the record there, and `after` are the other attributes after the release.
    """
    mine = {"lock_token": "mine", "execution": EXECUTION, **since}
    return [
        *(Write(state, mine | {"lock_token": token}, after) for token in tokens),
        *refused(state, mine | {"lock_token": "theirs"}),
    ]
