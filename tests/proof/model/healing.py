"""How an event comes back, as the functions `retry_events` and `heal_keys` decide it.

Both take a time, and the search has none. So an event that is retried is as many seconds old as it
has attempts. A sweep may come whenever the search says that what it frees is dead, and finds that
enough time has passed.
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

Items = tuple[tuple[str, str], ...]


class Swept(NamedTuple):
    """What a sweep did: the records afterwards, and the messages it sent to the retry queue."""

    items: Items
    messages: tuple[str, ...]


@cache
def sweep(code: Code, items: Items) -> Swept:
    """Sweep the records, as the handler does."""
    module, table, messages = code.run(), _table(items), list[str]()
    for record_id in module["oldest"](table, "", SWEPT_AT):
        if key := module["read"](table, "", record_id, SWEPT_AT):
            module["hand_over"](_sqs(messages), RETRIES, table, "", key, NOW, "", claims_keys=True)
    return Swept(_items(table), tuple(messages))


@cache
def hand_over(code: Code, record: tuple[str, str], items: Items) -> Swept:
    """End a sweep that has read a record some time ago, of which there are others now."""
    module, table, messages = code.run(), _table(items), list[str]()
    if key := module["read"](_table((record,)), "", record[0], SWEPT_AT):
        module["hand_over"](_sqs(messages), RETRIES, table, "", key, NOW, "", claims_keys=True)
    return Swept(_items(table), tuple(messages))


def _table(items: Items) -> Table:
    table = Table(Clock(seed=0))
    table.items = {key: json.loads(item) for key, item in items}
    return table


def _items(table: Table) -> Items:
    return tuple(
        sorted((key, json.dumps(item, sort_keys=True)) for key, item in table.items.items())
    )


def _sqs(messages: list[str]) -> SimpleNamespace:
    """Make a client that keeps the messages to the retry queue."""

    def send_message(QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        messages.extend([MessageBody] if QueueUrl == RETRIES else [])

    return SimpleNamespace(send_message=send_message)


def retried(body: str) -> dict[str, Any] | None:
    """Give the input of the execution that a message of the retry queue leads to, unless it parks.

    Retries go on for as long as it takes, and are not counted, so that a path on which it takes for
    ever comes back to a state.
    """
    fault = Fault.read(Received("", body, sent=0))
    if fault is None:
        return None
    sent = float(fault.attempt)
    fault = Fault.read(Received("", body, sent))
    decision = fault.decide(now=sent + 1_000_000, patience=inf) if fault else None
    if not isinstance(decision, Start):
        return None
    event: dict[str, Any] = json.loads(decision.input)
    # No state reads this field, and states that are alike should be equal.
    event["retry"] |= {"reasons": [], "attempt": 1}
    return event
