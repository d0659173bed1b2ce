"""The states that several policies share: what follows them, what they give and change."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import ANY

from inorder.asl.lease import limits
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
    Effect,
    Flow,
    Row,
    Write,
    answer,
    item,
)
from tests.support.events import created

UNRECORDED = {"account": "", "resources": []}  # fields that are empty in the record's event
NO_LOCK = {"lock_token": "", "break_at_poll": 0}
SINCE: Data = {"in_progress_since": "then"}  # has a record in the index
RECORDED = {"in_progress_since": ANY, "state_machine": "test", "event": ANY}


def limits_of(module: str) -> Data:
    """Read the limits in the ASL file of the policy whose folder has a module."""
    return dict(limits(definition(module.split(".")[-2].replace("_", "-"))))


def waiter_data(limits: dict[str, int]) -> Data:
    """Build the data of an execution at its first poll, and of all later states."""
    return {
        "object_key": "b/k",
        "sequencer": "0B",
        "lock_token": "mine",
        "expires_at": str(NEVER),
        "unrecorded": UNRECORDED,
        "limits": limits,
        "polls": 1,
        "watched_lock": {"lock_token": "theirs", "break_at_poll": limits["lease_polls"] + 1},
        "record": item(lock_token="theirs", event="{}"),
        "inversion": answer(PROCESSED),
        "fault": FAULT,
    }


# What *Prepare Event* prepares for an execution that may have to wait.
WAITER_START: Data = {
    **{"lock_token": ANY, "expires_at": str(NEVER), "unrecorded": UNRECORDED},
    **{"polls": 0, "watched_lock": NO_LOCK},
}

# After a dead holder, and after the key's records have expired.
RECOVERY = ["A1 lock 1=Processed is=A", "A1 1=Processed expired 1=Processed is=A"]
REFUSED_INPUTS = "empty=InvalidEvent list=InvalidEvent no-key=InvalidEvent"

NO_RECORD = (
    "without a record, status <> DONE is true too, on moto and ministack; AWS does not document it"
)

NOT_SENT, NOT_FORWARDED = "QueueLost*2 TimedOut", "ForwardFailed*2 TimedOut"
WRITE_FAILED, RELEASE_FAILED = "Busy*2 TimedOut", "Busy*3 TimedOut"
REFUSED = "TooLarge FarTooLarge NotJson"  # answers that a state does not take
CLAIM_FAILED = "Busy*2 Unanswered TimedOut"


def begins(claim: str) -> Flow:
    """Prepare an event, or refuse it, which is said in a queue or on the bus."""
    bus = "Send Invalid Event By EventBridge"
    return {
        **dict.fromkeys(["Prepare Event", "Prepare Version"], claim),
        "Park Invalid Event": f"Sent: Invalid Event; {NOT_SENT}: {bus}",
        bus: f"Forwarded: Invalid Event; {NOT_FORWARDED}: Not Parked",
        **dict.fromkeys(["Invalid Event", "Not Parked"], ""),
    }


def polls(wait: str = "Wait For Lock", attempts: str = WRITE_FAILED) -> Flow:
    """Read the lock again and again, and break it."""
    return {
        "Count Poll": "Read Key Record",
        "Read Key Record": "Found NoRecord Busy TimedOut: Key State?",
        "Watch Lock": wait,
        "Break Lock": f"Written: Claim Key; ConditionFailed {attempts}: {wait}",
        "Give Up Waiting": "Retry Event",
    }


def function(failed: str, attempts: int = 17) -> Flow:
    """Invoke the function, so often if it is throttled, and park what cannot be processed."""
    answers = "Processed Superseded Rejected Unknown"
    return {
        "Invert Image": f"{answers}: Outcome?; {REFUSED}: Reject Result; "
        f"Throttled*{attempts} FunctionFailed TimedOut: {failed}",
        "Check Expiry": "Expiry?",
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


def s3_events(*, deletions: bool = True) -> list[Row]:
    event, others = created(), list[Any]([None, "text", []])
    accepted: list[Any] = [CREATED, created(version_id=5), created(version_id="")]
    refused: list[Any] = [
        *({}, [], "text", NO_S3_EVENT),
        without("detail-type", event),
        event | {"detail-type": "Object Restore Completed"},
        event | {"detail": event["detail"] | {"bucket": {}}},
        without("detail", event),
        *(event | {"detail": each} for each in (*others, {"bucket": {"name": "b"}})),
        *(event | {"detail": event["detail"] | {"object": each}} for each in others),
        *(created(**{"bucket": value}) for value in (5, "")),
        *(
            created(**{name: value})
            for name in ("key", "sequencer", "etag")
            for value in (None, 5, "")
        ),
    ]
    (accepted if deletions else refused).append(DELETED)
    return [
        *(Row("S3 Object Event?", event, "Prepare Event") for event in accepted),
        Row("S3 Object Event?", VERSIONED, "Prepare Version"),
        *(Row("S3 Object Event?", event, "Park Invalid Event") for event in refused),
    ]


def without(name: str, data: Data) -> Data:
    return {field: value for field, value in data.items() if field != name}


def waiting(data: Data, locked: Data, after_a_lease: str = "Break Lock") -> list[Row]:
    """Give the rows of a waiter's decision about a record that is `locked` as ``theirs``."""
    last, over = data["limits"]["lease_polls"] + 1, data["limits"]["maximum_polls"]
    watching = {"lock_token": "theirs", "break_at_poll": last}

    def seen(changed: Data, poll: int = 1, watched: Data = NO_LOCK) -> Data:
        record = item(**(locked | changed))
        return data | {"record": record, "polls": poll, "watched_lock": watched}

    unread = without("record", seen({}))
    free, done = {"lock_token": ""}, {"lock_token": "", "status": "DONE"}
    decided = [
        ("Wait For Lock", [unread, unread | {"polls": last, "watched_lock": watching}]),
        ("Wait For Lock", [seen({}, poll, watching) for poll in (1, last - 1)]),
        ("Claim Key", [unread | {"record": {}}, seen(free | {"status": "FAILED"})]),
        ("Claim Key", [seen(free, poll) for poll in (1, over - 1)]),
        ("Duplicate", [seen(done), seen(done, over)]),
        ("Watch Lock", [seen({}), seen({}, last), seen({"lock_token": "mine"})]),
        ("Watch Lock", [seen({"lock_token": "another"}, last, watching)]),
        (after_a_lease, [seen({}, last, watching), seen({}, 1, watching | {"break_at_poll": 1})]),
        ("Give Up Waiting", [unread | {"polls": over}, seen(free, over)]),
        ("Give Up Waiting", [seen({}, over, watching)]),
    ]
    return [Row("Key State?", each, to) for to, inputs in decided for each in inputs]


def first_poll(
    data: Data, wait: str, state: str = "First Poll?", first: str = "Count Poll"
) -> list[Row]:
    return [Row(state, without("limits", data), first), Row(state, data, wait)]


def attempts(data: Data, most: int = 3) -> list[Row]:
    """Tell after how many polls at most an execution makes a second attempt."""
    return [
        *(Row("Attempt Again?", data | {"polls": poll}, "Renew Lock") for poll in (1, most)),
        Row("Attempt Again?", data | {"polls": most + 1}, "Retry Event"),
        Row("Attempt Again?", data | {"polls": 0, "renewal": {"attempt": 2}}, "Retry Event"),
    ]


def answers(*, processed: str, superseded: str, expires: bool = True) -> list[Row]:
    rejected = {"outcome": "Rejected", "error": "InvalidImage", "cause": "cut", "expires_at": "1"}
    unknown: list[Any] = [
        *({"outcome": outcome, "expires_at": "1"} for outcome in ("Sure", 1)),
        rejected | {"outcome": "Sure"},
        *({}, "Processed", None),
    ]
    if expires:
        for name in ("Processed", "Superseded"):
            unknown += [{"outcome": name}, {"outcome": name, "expires_at": 1}]
        unknown += [rejected | {"expires_at": 1}, rejected | {"expires_at": None}]
    decided: list[tuple[Any, str]] = [
        ({"outcome": "Processed", "expires_at": "1"}, processed),
        ({"outcome": "Superseded", "expires_at": "1"}, superseded),
        *((each, "Check Expiry") for each in (rejected, without("error", rejected))),
        *((payload, "Reject Result") for payload in unknown),
    ]
    rows = [Row("Outcome?", {"inversion": answer(payload)}, to) for payload, to in decided]
    return rows + (_expiries(rejected) if expires else [])


def _expiries(rejected: Data) -> list[Row]:
    """Give the rows of an answer whose event is rejected, or whose record was not written."""
    processed, fault = {"outcome": "Processed", "expires_at": "1"}, {"fault": FAULT}
    wrong = [(rejected, 1), (processed, 1)]
    wrong += [(each | {"expires_at": ""}, 0) for each in (processed, rejected)]
    decided = [
        *((rejected, 0, more, "Reject Object") for more in ({}, fault)),  # at either attempt
        *((each, 0, fault, "Retry Event") for each in (processed, rejected | processed)),
        *((each, parts, fault, "Reject Result") for each, parts in wrong),
        *((without(name, rejected), 0, {}, "Reject Result") for name in ("error", "cause")),
    ]
    return [
        Row("Expiry?", {"inversion": answer(each), "expiry": {"other_parts": parts}} | more, to)
        for each, parts, more, to in decided
    ]


SENT = [Row("Retried Later?", {"sent": {"outcome": to}}, to) for to in ("Retrying", "Parked")]


def adds(state: str, data: Data, response: str = "", **added: Any) -> Effect:
    """Let a state add fields to its input, or replace some."""
    return Effect(state, data, data | added, response)


def prepared(start: Data, **ids: str) -> list[Effect]:
    """Give what *Prepare Event* and *Prepare Version* prepare, from nothing but the event.

    `ids` are formats with the fields ``key``, which has the version, and ``sequencer``.
    """
    outputs = [Effect("S3 Object Event?", CREATED, {})]  # hands on nothing of the event
    for state, event in (("Prepare Event", CREATED), ("Prepare Version", VERSIONED)):
        described, bucket = event["detail"]["object"], event["detail"]["bucket"]["name"]
        version = f"#{described['version-id']}" if event is VERSIONED else ""
        key, sequencer = f"{bucket}/{described['key']}{version}", described["sequencer"]
        own = {each: text.format(key=key, sequencer=sequencer) for each, text in ids.items()}
        output = {"object_key": key, "sequencer": sequencer, **own, **start}
        outputs.append(Effect(state, {}, output, event=event))
    return outputs


def outcomes(data: Data, *names: str) -> list[Effect]:
    told = {"object_key": data["object_key"], "sequencer": data["sequencer"]}
    result, reason = {"result": data["inversion"]["Payload"]}, {"reason": data["fault"]}
    more: Data = {"Processed": result, "Retrying": reason}
    return [Effect(name, data, {"outcome": name} | told | more.get(name, {})) for name in names]


def rejections(data: Data, *keeps: str) -> list[Effect]:
    rejected = data | {"inversion": answer(REJECTED)}
    reason = {"Error": REJECTED["error"], "Cause": REJECTED["cause"], "rejected": True}
    odd = data | {"inversion": answer(None)}
    unknown = adds("Reject Result", odd, fault=UNKNOWN_RESULT)
    if "lock_token" not in data:
        return [adds("Reject Object", rejected, fault=reason), unknown]
    expiries = [
        adds(
            "Check Expiry",
            data | {"inversion": answer(REJECTED | {"expires_at": expires_at})},
            expiry={"other_parts": parts},
        )
        for expires_at, parts in (("0123456789", 0), ("", 0), ("1a2", 1), ("-1", 1), ("1.5,6", 2))
    ]
    ids = ("object_key", "record_id", "sequencer", "lock_token", *keeps)
    kept = {name: data[name] for name in ids if name in data}
    if "expires_at" not in data:  # only the record of a parked event needs it
        parked = kept | {"expires_at": str(NEVER), "fault": UNKNOWN_RESULT}
        unknown = Effect("Reject Result", odd, parked)
    kept |= {"expires_at": REJECTED["expires_at"], "fault": reason}
    refused = adds("Invert Image", data, "TooLarge", inversion=data["inversion"] | answer(ANY))
    return [Effect("Reject Object", rejected, kept), unknown, refused, *expiries]


@dataclass(eq=False)
class Text:
    """Equals each text of a pattern."""

    pattern: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(re.fullmatch(self.pattern, other, re.DOTALL))

    __hash__ = None  # type: ignore[assignment]


NOW = Text("(?!then).+")
NULL = Text(".* It returned: null")
UNKNOWN_RESULT = {"Error": "UnknownResult", "Cause": NULL, "rejected": True}


def handed_over(data: Data) -> list[Effect]:
    """Let a sender tell what it has sent, if a later state asks."""
    return [
        adds("Park Event", data, "Sent", sent={"outcome": "Parked"}),
        adds("Retry Event", data, "Sent", sent={"outcome": "Retrying"}),
        adds("Send By EventBridge", data, "Forwarded", sent={"outcome": "Retrying"}),
    ]


def waiter_outputs(data: Data, *drops: str) -> list[Effect]:
    """Give what a waiter reads, counts (which drops fields) and remembers, and why it gives up."""
    dropped = {"record", "inversion", "fault", *drops}
    counted = {name: value for name, value in data.items() if name not in dropped}
    seen = data | {"polls": 7, "watched_lock": NO_LOCK}
    watched = {"lock_token": "theirs", "break_at_poll": 7 + data["limits"]["lease_polls"]}
    cause = "The key stayed locked for as long as an execution can wait."
    reason = {"Error": "KeyLocked", "Cause": cause}
    return [
        adds("Read Key Record", data, "Found", record=RESPONSES["Found"]["Return"]),
        adds("Read Key Record", data, TIMED_OUT, refusal=ANY),
        Effect("Count Poll", seen, counted | {"polls": 8, "watched_lock": NO_LOCK}),
        adds("Watch Lock", seen, watched_lock=watched),
        adds("Give Up Waiting", data, fault=reason),
    ]


def refused(state: str, *records: Data | None) -> list[Write]:
    return [Write(state, record, record, is_refused=True) for record in records]


def break_lock(kept: Data | None = None) -> list[Write]:
    """Let only the watched lock be broken; what is not `kept` is in the index afterwards."""
    lock, after = {"lock_token": "theirs", "execution": "theirs"}, {"in_progress_since": ANY}
    befores: list[Data] = [kept] if kept else [SINCE, {}, {"hand_overs": 3}]
    return [
        *(Write("Break Lock", before | lock, kept or after) for before in befores),
        *refused("Break Lock", {"lock_token": "another", "execution": "another"}, {}),
    ]


def renew_lock() -> list[Write]:
    before, renewed = ({"lock_token": each, "execution": EXECUTION} for each in ("mine", "mine/2"))
    return [
        Write("Renew Lock", before, renewed),
        Write("Renew Lock", renewed, renewed),  # its answer was lost
        *refused("Renew Lock", None, {}, renewed | {"lock_token": "theirs"}),
    ]


def release(
    state: str,
    since: Mapping[str, Any] = SINCE,
    tokens: Sequence[str] = ("mine", "mine/2"),
    **after: Any,
) -> list[Write]:
    """Let an execution release only its own lock; `after` is the record without it."""
    mine = {"lock_token": "mine", "execution": EXECUTION, **since}
    return [
        *(Write(state, mine | {"lock_token": token}, after) for token in tokens),
        *refused(state, mine | {"lock_token": "theirs"}),
    ]
