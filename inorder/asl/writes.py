"""Do the writes keep a lock and drop duplicates? Two executions make them, on a record in SQLite.

A condition of DynamoDB reads as one of SQL, but for two things: a missing attribute is unequal to
everything, and its functions. An expression of which nothing is known stands for one text. Whether
that is less or more than another is not known: a violation counts if it is found in both cases.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import networkx as nx

from inorder.asl.definition import PUT, UPDATE, Json, Rule, Violation, graph, paths, targets
from inorder.asl.record import SEQUENCER, origins, record_of
from inorder.asl.roles import HANDS_OVER, TOKEN, Role, assigned, does, doing, kept, removed, working

UNKNOWN = "?"
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "attribute_exists": lambda value: value is not None,
    "attribute_not_exists": lambda value: value is None,
    "attribute_type": lambda value, _: value is not None,
    "begins_with": lambda value, start: str(value or "").startswith(start),
    "contains": lambda value, part: part in str(value or ""),
    "size": lambda value: len(value or ""),
}
_WORD = re.compile(r"[:#]?\w+(?:\.#?\w+)*")
_OPERAND = r"(size\(:\w+\)|:\w+)"
_BETWEEN = re.compile(rf"{_OPERAND} BETWEEN {_OPERAND} AND {_OPERAND}", re.IGNORECASE)
_ORDER = re.compile(rf"{_OPERAND} *([<>]=?) *{_OPERAND}")
_SQL = {"AND", "OR", "NOT", "IN", "BETWEEN", *FUNCTIONS}

Attributes = dict[str, str]


class By(NamedTuple):
    """The execution that makes a write, the sequencer of its event, and the token it watches."""

    name: str
    sequencer: str
    watched: str = ""


HOLDER, AGAIN = By("holder", "0B"), By("again", "0B")
OLDER, NEWER = By("older", "0A"), By("newer", "0C")


class _Writes:
    def __init__(self, states: Json, unknown: str) -> None:
        self.states, self._unknown = states, unknown
        self._sql = sqlite3.connect(":memory:")
        for name, function in FUNCTIONS.items():
            self._sql.create_function(name, -1, function)

    def after(self, name: str, record: Attributes, by: By) -> Attributes | None:
        """Give a record after a state's write; None if the condition refuses that."""
        state = self.states[name]
        parameters: Json = state["Parameters"]
        values = parameters.get("ExpressionAttributeValues", {})
        given = {each.removeprefix(":"): self._value(typed, by) for each, typed in values.items()}
        try:
            if not self._holds(parameters, record, given):
                return None
        except sqlite3.Error as error:
            raise ValueError(name, f"its condition cannot be evaluated: {error}") from None
        made = {each: self._value(typed, by) for each, typed in assigned(state).items()}
        if "Item" in parameters:
            return made
        made |= {each: record[each] for each in kept(state) if each in record}
        whole = record | {"id": UNKNOWN} | made
        return {each: value for each, value in whole.items() if each not in removed(state)}

    def _holds(self, parameters: Json, record: Attributes, given: Attributes) -> bool:
        names = parameters.get("ExpressionAttributeNames", {})
        columns: list[str | None] = []

        def column(found: re.Match[str]) -> str:
            word = found[0]
            if word.startswith(":") or word in _SQL or word.upper() in _SQL:
                return word
            columns.append(record.get(names.get(word, word)))
            return f":column{len(columns) - 1}"

        condition = _WORD.sub(column, parameters.get("ConditionExpression", "")) or "TRUE"
        values = {f"column{number}": value for number, value in enumerate(columns)} | given
        ordered = _BETWEEN.sub(r"(\1 >= \2 AND \1 <= \3)", condition.replace("<>", "IS NOT"))
        are_unknown = rf"'{UNKNOWN}' IN (\1, \3) AND \1 || \3 IS NOT NULL"
        query = _ORDER.sub(rf"IIF({are_unknown}, {self._unknown}, \g<0>)", f"SELECT {ordered}")
        [(holds,)] = self._sql.execute(query, values)
        return bool(holds)

    def _value(self, typed: Json, by: By) -> str:
        [(kind, value)] = typed.items()
        if not kind.endswith(".$"):
            return str(value)
        if TOKEN in paths(value):
            return by.name if value == TOKEN else f"{by.name}/2"
        if value == "$$.Execution.Id":
            return f"execution of {by.name}"
        made_from = origins(self.states, value)
        if SEQUENCER in made_from:
            return by.sequencer
        is_watched = any(each.endswith(".Item.lock_token.S") for each in made_from)
        return by.watched if is_watched else UNKNOWN


def _writes(definition: Json) -> Iterator[Violation]:
    found, others = (list(_found(_Writes(definition["States"], it))) for it in ("FALSE", "TRUE"))
    yield from (each for each in found if each in others)


def _found(writes: _Writes) -> Iterator[Violation]:
    try:
        records = set(doing(writes.states, Role.RECORDS)).difference(working(writes.states))
        for claim in doing(writes.states, Role.CLAIMS):
            yield from _lock(writes, claim)
            yield from _order(writes, claim)
            if claim in records:  # it decides also about what another state records in its key
                records -= {name for name, _ in _recorded(writes, claim, {})} - {claim}
        for record in records:
            yield from _finished(writes, record)
    except ValueError as error:
        yield error.args[0], error.args[1]


def _lock(writes: _Writes, claim: str) -> Iterator[Violation]:
    """Follow a lock: a claim takes it, and other executions must leave it until it is released."""
    held = writes.after(claim, {}, HOLDER)
    if held is None or held.get("lock_token") != HOLDER.name:
        yield claim, "it does not take the lock of a key that was never seen"
        return
    others = [writes.after(claim, held, by) for by in (OLDER, AGAIN, NEWER)]
    if any(each and each["lock_token"] != HOLDER.name for each in others):
        yield claim, "its condition lets it take the lock of another execution"
    renewals = doing(writes.states, Role.RENEWS)
    own = [held, *(newer for _, newer in _recorded(writes, claim, held) if newer)]
    for name in (*renewals, *doing(writes.states, Role.RELEASES)):
        if writes.after(name, held, AGAIN):
            yield name, "its condition does not ask whose the lock is"
        allowed = [each for each in own if writes.after(name, each, HOLDER)]
        renewed = [writes.after(each, record, HOLDER) for each in renewals for record in allowed]
        if not allowed:
            yield name, "its condition refuses the lock's own holder"
        elif not all(each and writes.after(name, each, HOLDER) for each in renewed):
            yield name, "it does not know a renewed lock: its condition must be begins_with"
    watching = [by._replace(watched=HOLDER.name) for by in (OLDER, AGAIN, NEWER)]
    for name in doing(writes.states, Role.BREAKS, Role.TAKES_OVER):
        if writes.after(name, held, NEWER._replace(watched=AGAIN.name)):
            yield name, "it breaks another lock than the watched one"
        broken = [writes.after(name, held, by) for by in watching]
        if not all(each and each.get("lock_token") != HOLDER.name for each in broken):
            yield name, "it does not break the watched lock"


def _order(writes: _Writes, claim: str) -> Iterator[Violation]:
    """Record a newer event while a holder works: its writes leave that, and no older one passes."""
    held, states = writes.after(claim, {}, HOLDER) or {}, writes.states
    for record, newer in _recorded(writes, claim, held) if held else ():
        if newer is None:
            yield record, "it does not record a newer event while another execution has the lock"
            continue
        for name in {claim, record}:
            if writes.after(name, held, OLDER) or writes.after(name, newer, HOLDER):
                yield name, "its condition lets an older event take the place of a newer one"
        # What the holder has written, and the newer event has not.
        lock = kept(states[claim]) or assigned(states[claim]).keys() - assigned(states[record])
        for name in doing(states, Role.RELEASES):
            if released := writes.after(name, newer, HOLDER):
                changed = {each for each in newer if newer[each] != released.get(each)}
                if changed - lock:
                    yield name, "its condition lets it change the record of a newer event"


def _recorded(
    writes: _Writes, claim: str, held: Attributes
) -> Iterator[tuple[str, Attributes | None]]:
    """Record a newer event in a locked key's record, by each state that is to do that."""
    for name in doing(writes.states, Role.RECORDS):
        state = writes.states[name]
        may_be_held = does(state, Role.SHARES) or not does(state, Role.CLAIMS)
        if may_be_held and record_of(state) == record_of(writes.states[claim]):
            yield name, writes.after(name, held, NEWER)


def _finished(writes: _Writes, record: str) -> Iterator[Violation]:
    """Deliver an event again: one that is done is refused, and one that was handed over is not."""
    states, held = writes.states, writes.after(record, {}, HOLDER)
    if held is None:
        yield record, "it does not record the event of a key that was never seen"
        return
    later = [
        name
        for name, state in states.items()
        if state.get("Resource") in {PUT, UPDATE}
        and record_of(state) == record_of(states[record])
        and not does(state, Role.RECORDS, Role.RENEWS, Role.BREAKS)
    ]
    before = graph(states, lambda _, each: [] if does(each, *HANDS_OVER) else targets(each))
    done = set().union(*(nx.descendants(before, each) for each in working(states)))
    handed = set().union(
        *(nx.descendants(graph(states), each) for each in doing(states, *HANDS_OVER))
    )
    ended = {name: writes.after(name, held, HOLDER) for name in later}
    again = {name: writes.after(record, each, AGAIN) for name, each in ended.items() if each}
    if all(again[name] for name in done & set(again)):
        yield record, "an event that is done, and comes again, is not refused"
    for name in sorted(handed.intersection(again) - done):
        if not again[name]:
            yield name, "an event that is parked or retried is refused when it comes again"


RULES: dict[str, Rule] = {"writes": _writes}
