"""The cases of content_hash.asl.json."""

from __future__ import annotations

import json

from tests.statemachine.cases import common
from tests.statemachine.cases.common import EVENT, READ, Case, answer, error, write

HASHED = {"hash": "9f", "now": "1", "expires_at": "2"}
NAMED = {**READ, "object_key": "content:s/t/9f", "now": "1", "expires_at": "2"}
LOCKED = {"status": "IN_PROGRESS", "lock_token": "theirs"}

CASES: list[Case] = [
    ("Complete Event?", EVENT, None, "Prepare Event"),
    ("Complete Event?", EVENT | {"detail": {}}, None, "Prepare Event"),
    *(
        ("Complete Event?", event, None, "Park Invalid Event")
        for event in [
            {},
            [],
            "text",
            *(
                {name: EVENT[name] for name in EVENT if name != left_out}
                for left_out in ("source", "detail-type", "detail")
            ),
            EVENT | {"source": 5},
            EVENT | {"detail-type": 5},
        ]
    ),
    ("Prepare Event", EVENT, None, "Hash Detail"),
    ("Hash Detail", READ, {"result": json.dumps(answer(HASHED))}, "Hashed?"),
    ("Hash Detail", READ, error("Lambda.Unknown"), "Park Event"),
    ("Hashed?", READ | {"content": answer(HASHED)}, None, "Name Content"),
    *(
        ("Hashed?", READ | {"content": answer(payload)}, None, "Reject Result")
        for payload in [
            None,
            "9f",
            *(HASHED | {name: 1} for name in HASHED),
            *({name: HASHED[name] for name in HASHED if name != left_out} for left_out in HASHED),
        ]
    ),
    ("Reject Result", READ | {"content": answer(None)}, None, "Park Event"),
    ("Name Content", READ | {"content": answer(HASHED)}, None, "Claim Content"),
    *write("Claim Content", NAMED, "Forward Event", "Count Poll", "Park Event"),
    *common.waiting(
        NAMED,
        LOCKED,
        lease_polls=20,
        read="Read Content Record",
        judge="Content State?",
        claim="Claim Content",
    ),
    ("Forward Event", NAMED, {"result": '{"FailedEntryCount": 0}'}, "Release Lock"),
    ("Forward Event", NAMED, error("EventBridge.FailedEntry"), "Park Event"),
    *write("Release Lock", NAMED, "Processed", "Processed", "Park Event"),
    *common.ends(NAMED, "Processed", "Duplicate"),
    *common.parking(NAMED, "Release Failed Content"),
    *write("Release Failed Content", NAMED, "Parked", "Parked", "Parked"),
]
