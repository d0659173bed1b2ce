"""What the cases of several policies share: states, outputs and writes that are alike."""

import re
from dataclasses import dataclass
from typing import Any
from unittest.mock import ANY

from tests.policies.table import (
    CREATED,
    DELETED,
    EXECUTION,
    NO_S3_EVENT,
    VERSIONED,
    Data,
    Effect,
    Response,
    Row,
    Write,
)
from tests.support.events import created, without

UNRECORDED = {"account": "", "resources": []}  # fields that are empty in the record's event
SINCE: Data = {"in_progress_since": "then"}  # has a record in the index
RECORDED = {"in_progress_since": ANY, "state_machine": "test", "event": ANY}


def s3_events(*, deletions: bool = True) -> list[Row]:
    event, others = created(), list[Any]([None, "text", []])
    accepted: list[Any] = [CREATED, created(version_id=5), created(version_id="")]
    refused: list[Any] = [
        *({}, [], "text", NO_S3_EVENT),
        without(event, "detail-type"),
        event | {"detail-type": "Object Restore Completed"},
        event | {"detail": event["detail"] | {"bucket": {}}},
        without(event, "detail"),
        *(event | {"detail": detail} for detail in (*others, {"bucket": {"name": "b"}})),
        *(event | {"detail": event["detail"] | {"object": described}} for described in others),
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
        *(Row("S3 Object Event?", event, "Reject Event") for event in refused),
    ]


def adds(state: str, data: Data, response: Response | None = None, **added: Any) -> Effect:
    """Let a state add fields to its input, or replace some."""
    return Effect(state, data, data | added, response)


def prepared(start: Data) -> list[Effect]:
    """Give what *Prepare Event* and *Prepare Version* prepare, from nothing but the event."""
    outputs = [Effect("S3 Object Event?", CREATED, {})]  # hands on nothing of the event
    for state, event in (("Prepare Event", CREATED), ("Prepare Version", VERSIONED)):
        described, bucket = event["detail"]["object"], event["detail"]["bucket"]["name"]
        version = f"#{described['version-id']}" if event is VERSIONED else ""
        key = f"{bucket}{version}/{described['key']}"
        output = {"object_key": key, "sequencer": described["sequencer"], **start}
        outputs.append(Effect(state, {}, output, event=event))
    return outputs


def sequencers() -> list[Effect]:
    """Give what *Prepare Event* counts: parts of a sequencer that are no hexadecimal digits."""
    odd = {"0Af": 0, "F" * 129: 0, "test": 2, "0A 0": 1, "\N{FULLWIDTH DIGIT ONE}": 1, "-0x": 2}
    ids = {"object_key": ANY, "lock_token": ANY, "polls": 0, "unrecorded": UNRECORDED}
    return [
        Effect(
            "Prepare Event",
            {},
            ids | {"sequencer": sequencer, "other_characters": count},
            event=created(sequencer=sequencer),
        )
        for sequencer, count in odd.items()
    ]


@dataclass(eq=False)
class Text:
    """Equals each text of a pattern."""

    pattern: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(re.fullmatch(self.pattern, other, re.DOTALL))

    __hash__ = None  # type: ignore[assignment]


NOW = Text("(?!then).+")


def refused(state: str, *records: Data) -> list[Write]:
    return [Write(state, record, record, is_refused=True) for record in records]


def release(state: str, since: Data, after: Data) -> list[Write]:
    """Let an execution release only its own lock; `after` is the record without it."""
    mine = {"lock_token": "mine", "execution": EXECUTION, **since}
    return [Write(state, mine, after), *refused(state, mine | {"lock_token": "theirs"})]
