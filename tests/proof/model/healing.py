"""How an event comes back, as the functions `retry_events` and `heal_keys` decide it.

Both take a time, and the search has none. So an event that is retried is as many seconds old as it
has attempts, and a sweep comes two days after everything else.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from math import inf
from typing import Any, NamedTuple

import stuck
from retries import Fault, Start
from retries import Message as Received

from tests.proof.model.source import SWEEP, Code, call, change, code

CLAIMED_AT = "2000-01-01T00:00:00+00:00"  # what each record says
# A record has been in an index for long enough to be started for the last time, but no longer.
SWEPT_AT = datetime.fromisoformat(CLAIMED_AT) + timedelta(days=2)
PATIENCE = 3  # retries of an event that no retry helps

Items = tuple[tuple[str, str], ...]


class Swept(NamedTuple):
    """What a sweep did: the records afterwards, and the inputs of the executions it started."""

    items: Items
    inputs: tuple[str, ...]


class _Aws:
    """The clients of a sweep, on the records of a state of the search."""

    def __init__(self, items: Items) -> None:
        self.records: dict[str, Any] = {key: json.loads(item) for key, item in items}
        self.inputs: list[str] = []

    def get_paginator(self, _: str) -> _Aws:
        return self

    def paginate(self, IndexName: str, **_: str) -> Iterator[dict[str, Any]]:  # noqa: N803
        assert IndexName == stuck.INDEX
        found = [record for record in self.records.values() if stuck.SINCE in record]
        yield {"Items": [{name: record[name] for name in ("id", stuck.SINCE)} for record in found]}

    def get_item(self, Key: dict[str, dict[str, str]], **_: Any) -> dict[str, Any]:  # noqa: N803
        return {"Item": self.records[Key["id"]["S"]]}

    def start_execution(self, input: str, **_: str) -> dict[str, str]:  # noqa: A002
        self.inputs.append(input)
        return {"executionArn": ""}


def sweep(schedule: Code, items: Items) -> Swept:
    """Sweep the records, as the handler does; one that a sweep cannot read ends it."""
    aws, module = _Aws(items), schedule.run()
    try:
        for key in module["find"](aws, "", SWEPT_AT):
            if key.is_due:
                module["start"](aws, "", key, key.restarts + 1)
    except LookupError:
        return Swept(items, ())
    texts = ((key, json.dumps(item, sort_keys=True)) for key, item in aws.records.items())
    return Swept(tuple(sorted(texts)), tuple(aws.inputs))


def retried(body: str, is_patient: bool) -> dict[str, Any] | None:
    """Give the input of the execution that a message of the retry queue leads to.

    Parameters
    ----------
    body : str
        The message.
    is_patient : bool
        Whether retries go on for as long as it takes. Then they are not counted, so that a path on
        which it takes for ever comes back to a state.

    Returns
    -------
    dict or None
        None if the message is parked.
    """
    fault = Fault.read(Received("", body, sent=0))
    if fault is None:
        return None
    sent = float(fault.attempt)
    fault = Fault.read(Received("", body, sent))
    patience = inf if is_patient else PATIENCE
    decision = fault.decide(now=sent + 1_000_000, patience=patience) if fault else None
    if not isinstance(decision, Start):
        return None
    made: dict[str, Any] = json.loads(decision.input)
    # No state reads this field, and states that are alike should be equal.
    made["retry"] |= {"reasons": []} | ({"attempt": 1} if is_patient else {})
    return made


def _unmarking(found: ast.Yield) -> ast.Yield:
    """Take the record from the index before its event is started."""
    value = ast.unparse(found.value or found)
    taken = ast.parse(f"({value}, record.pop(SINCE, None))[0]", mode="eval").body
    return ast.Yield(taken)


# The mutants of the schedule.
_SWEEPS = (
    change("the records of the index", "find", call("paginate"), "()", SWEEP),
    change("the mark until the claim", "find", code(ast.Yield, "StuckKey"), _unmarking, SWEEP),
)


def sweeps_of(definition: str) -> tuple[Code, ...]:
    """Give the mutants of the schedule that can change what becomes of a policy's records."""
    return _SWEEPS if stuck.SINCE in definition else ()
