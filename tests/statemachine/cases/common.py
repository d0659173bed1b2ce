"""What the tables of cases share: events, services' answers, states that several files have."""

from __future__ import annotations

import json
from typing import Any

from inorder import PROJECT

Data = dict[str, Any]
# state, input, mocked answer of its service, next state
Case = tuple[str, Any, Data | None, str | None]


def event(name: str) -> Data:
    loaded: Data = json.loads((PROJECT / "events" / f"{name}.json").read_text())
    return loaded


EVENT = event("object-created")
VERSIONED = event("object-created-in-versioned-bucket")
INCOMPLETE = event("object-created-without-sequencer")


def described(**changes: Any) -> Data:
    """Copy the event with changes of its object; with a None, a field is left out."""
    fields = {**EVENT["detail"]["object"], **changes}
    left = {name: value for name, value in fields.items() if value is not None}
    return {**EVENT, "detail": {**EVENT["detail"], "object": left}}


DELETED = described(etag=None) | {"detail-type": "Object Deleted"}
# What Prepare Event has made of an event.
READ = {
    "event": EVENT,
    "object_key": "b/k",
    "sequencer": "0B",
    "lock_token": "mine",
    "record": {},
    "polls": {"count": 1},
    "watched_lock": {"lock_token": "", "break_at_poll": 0},
}
FAULT = {"Error": "Some.Fault", "Cause": "because"}
DONE = {"result": "{}"}


def error(name: str) -> Data:
    return {"errorOutput": {"error": name, "cause": "mocked"}}


CONDITION = error("DynamoDB.ConditionalCheckFailedException")


def item(**attributes: str) -> Data:
    """Make what GetItem gives of an item; of an attribute that is empty, nothing."""
    return {"Item": {name: {"S": value} for name, value in attributes.items() if value}}


def answer(payload: Any) -> Data:
    """Make what lambda:invoke gives."""
    return {"Payload": payload}


def write(name: str, data: Data, done: str, refused: str, failed: str) -> list[Case]:
    """Make the cases of a conditional write."""
    return [
        (name, data, DONE, done),
        (name, data, CONDITION, refused),
        (name, data, error("DynamoDB.InternalServerErrorException"), failed),
        (name, data, error("States.Timeout"), failed),
    ]


def events(read_by: str, *, deletions: bool = True) -> list[Case]:
    """Make the cases of telling an S3 event from anything else."""
    wrong = [
        {},
        [],
        "text",
        INCOMPLETE,
        {name: value for name, value in EVENT.items() if name != "detail-type"},
        EVENT | {"detail": EVENT["detail"] | {"bucket": {}}},
        described(key=None),
        described(etag=None),
        EVENT | {"detail": EVENT["detail"] | {"bucket": {"name": 5}}},
        described(key=5),
        described(etag=5),
        described(sequencer=5),
        described(sequencer=""),
        EVENT | {"detail-type": "Object Restore Completed"},
    ]
    return [
        ("S3 Object Event?", EVENT, None, read_by),
        ("S3 Object Event?", VERSIONED, None, read_by),
        ("S3 Object Event?", DELETED, None, read_by if deletions else "Park Invalid Event"),
        *(("S3 Object Event?", each, None, "Park Invalid Event") for each in wrong),
    ]


def versions(then: str) -> list[Case]:
    """Make the cases of reading an event with a version or without."""
    return [
        ("Versioned Object?", EVENT, None, "Prepare Event"),
        ("Versioned Object?", VERSIONED, None, "Add Version"),
        ("Versioned Object?", described(**{"version-id": 5}), None, "Prepare Event"),
        ("Prepare Event", EVENT, None, then),
        ("Add Version", VERSIONED, None, then),
    ]


def waiting(
    data: Data,
    locked: Data,
    *,
    lease_polls: int,
    read: str = "Read Key Record",
    judge: str = "Key State?",
    claim: str = "Claim Key",
) -> list[Case]:
    """Make the cases of waiting for a lock; `locked` is the item of a key that somebody holds."""
    watched = {"lock_token": "theirs", "break_at_poll": lease_polls + 1}
    last, too_many = {"count": lease_polls + 1}, {"count": lease_polls + 2}

    def seen(attributes: Data, **more: Any) -> Data:
        return {**data, "record": item(**(locked | attributes)), **more}

    held: Data = {}
    free = {"lock_token": ""}
    done = {"lock_token": "", "status": "DONE"}
    return [
        ("Count Poll", data, None, read),
        (read, data, {"result": json.dumps(item(**locked))}, judge),
        (read, data, error("States.Timeout"), judge),
        (judge, data, None, claim),  # no item
        (judge, seen(done), None, "Duplicate"),
        (judge, seen(done, looks=too_many), None, "Duplicate"),
        (judge, seen(free), None, claim),
        (judge, seen(free | {"status": "FAILED"}), None, claim),
        (judge, seen(free, looks=too_many), None, "Give Up Waiting"),
        (judge, seen(held), None, "Watch Lock"),
        (judge, seen(held | {"lock_token": "mine"}), None, "Watch Lock"),
        (judge, seen(held, watched=watched), None, "Wait For Lock"),
        (judge, seen(held, watched=watched, looks={"count": lease_polls}), None, "Wait For Lock"),
        (judge, seen(held, watched=watched, looks=last), None, "Break Lock"),
        (judge, seen({"lock_token": "another"}, watched=watched, looks=last), None, "Watch Lock"),
        (judge, seen(held, watched=watched, looks=too_many), None, "Give Up Waiting"),
        ("Watch Lock", seen(held), None, "Wait For Lock"),
        ("Wait For Lock", data, None, "Count Poll"),
        *write("Break Lock", {**data, "watched_lock": watched}, claim, "Count Poll", "Count Poll"),
        ("Give Up Waiting", data, None, "Park Event"),
    ]


def work(data: Data, *, processed: str, superseded: str, expires: bool = True) -> list[Case]:
    """Make the cases of the function and of what it answers."""
    answers = [
        ({"outcome": "Processed", "expires_at": "1"}, processed),
        ({"outcome": "Superseded", "expires_at": "1"}, superseded),
        ({"outcome": "Rejected", "error": "InvalidImage", "cause": "cut"}, "Reject Object"),
        ({"outcome": "Rejected", "error": "InvalidImage"}, "Reject Result"),
        ({"outcome": "Rejected", "cause": "cut"}, "Reject Result"),
        ({"outcome": "Sure", "expires_at": "1"}, "Reject Result"),
        ({"outcome": "Sure", "error": "InvalidImage", "cause": "cut"}, "Reject Result"),
        ({"outcome": 1, "expires_at": "1"}, "Reject Result"),
        ({}, "Reject Result"),
        ("Processed", "Reject Result"),
        (None, "Reject Result"),
    ]
    if expires:
        answers += [
            ({"outcome": outcome, **more}, "Reject Result")
            for outcome in ("Processed", "Superseded")
            for more in ({}, {"expires_at": 1})
        ]
    rejected = answer({"outcome": "Rejected", "error": "InvalidImage", "cause": "cut"})
    invoked = {"result": json.dumps(answer({"outcome": "Processed"}))}
    return [
        ("Invert Image", data, invoked, "Outcome?"),
        ("Invert Image", data, error("Lambda.Unknown"), "Park Event"),
        ("Invert Image", data, error("States.Timeout"), "Park Event"),
        *(
            ("Outcome?", {**data, "inversion": answer(payload)}, None, following)
            for payload, following in answers
        ),
        ("Reject Object", {**data, "inversion": rejected}, None, "Park Event"),
        ("Reject Result", {**data, "inversion": answer(None)}, None, "Park Event"),
    ]


def ends(data: Data, *outcomes: str) -> list[Case]:
    """Make the cases of reporting an outcome."""
    return [
        case
        for outcome in outcomes
        for case in [
            (f"Report {outcome}", {**data, "inversion": answer({})}, None, outcome),
            (outcome, {}, None, None),
        ]
    ]


def parking(data: Data, then: str) -> list[Case]:
    """Make the cases of parking an event, and of what is no event."""
    return [
        ("Park Event", {**data, "fault": FAULT}, DONE, then),
        ("Park Event", {**data, "fault": FAULT}, error("SQS.SdkClientException"), "Not Parked"),
        ("Parked", {"fault": FAULT}, None, None),
        ("Park Invalid Event", {}, DONE, "Invalid Event"),
        ("Park Invalid Event", {}, error("States.Timeout"), "Not Parked"),
        ("Invalid Event", {}, None, None),
        ("Not Parked", {}, None, None),
    ]
