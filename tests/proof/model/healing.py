"""How an event comes back, as the functions `retry_events` and `heal_keys` decide it.

Both take a time, and the search has none. So an event that is retried is as many seconds old as it
has attempts, and a sweep comes two days after everything else.
"""

import json
from datetime import timedelta
from functools import cache
from math import inf
from types import SimpleNamespace
from typing import Any, NamedTuple

from retry_events.retries import Fault, Start
from retry_events.retries import Message as Received
from tests.proof.model.source import NOW, Code
from tests.proof.simulation.clock import Clock
from tests.proof.simulation.table import Table

RETRIES = "retries"  # the URL of the retry queue
SWEPT_AT = NOW + timedelta(days=2)
PATIENCE = 3  # retries of an event that no retry helps

Items = tuple[tuple[str, str], ...]


class Swept(NamedTuple):
    """What a sweep did: the records afterwards, and the messages it sent to the retry queue."""

    items: Items
    messages: tuple[str, ...]


@cache
def sweep(schedule: Code, items: Items) -> Swept:
    """Sweep the records, as the handler does."""
    table, module, sent = Table(Clock(seed=0)), schedule.run(), list[tuple[str, str]]()
    table.items = {key: json.loads(item) for key, item in items}
    sqs = SimpleNamespace(
        send_message=lambda QueueUrl, MessageBody: sent.append((QueueUrl, MessageBody))  # noqa: N803
    )
    for record_id in module["oldest"](table, "", SWEPT_AT, 100):
        key = module["read"](table, "", record_id, SWEPT_AT)
        module["hand_over"](sqs, RETRIES, "", table, "", key, NOW, "")
    texts = ((key, json.dumps(item, sort_keys=True)) for key, item in table.items.items())
    return Swept(tuple(sorted(texts)), tuple(body for url, body in sent if url == RETRIES))


def retried(body: str, is_patient: bool) -> dict[str, Any] | None:
    """Give the input of the execution that a message of the retry queue leads to, unless it parks.

    If retries go on for as long as it takes, they are not counted, so that a path on which it takes
    for ever comes back to a state.
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
