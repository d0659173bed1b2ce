"""Which ways may an execution take? Each state, with the counts and fields that decide its next.

A plain graph of a file has ways that no execution takes: one that has polled before, say, does not
poll again without a wait. So this walks through a file with what it knows of the data: which fields
are there, the texts and whole numbers that the file writes, and the sums that it counts. Whatever
else a Choice compares may turn out either way.
"""

import json
import operator
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import networkx as nx

from inorder.asl.definition import EXPRESS_SECONDS, Json, graph
from inorder.asl.flow import Flow

_FIELD = re.compile(r'(?<!ResultPath": ")\$\.(\w+)')
_ADD = re.compile(r"States\.MathAdd\((\$[\w.]+), *(\$[\w.]+|\d+)\)")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "NumericEquals": operator.eq,
    "NumericLessThan": operator.lt,
    "NumericLessThanEquals": operator.le,
    "NumericGreaterThan": operator.gt,
    "NumericGreaterThanEquals": operator.ge,
    "StringEquals": operator.eq,
}


@dataclass(frozen=True)
class Unknown:
    """A value of which nothing is known but, if it is a number, that it is `least` or more."""

    least: float = float("-inf")
    may_be_absent: bool = False


ANY, PERHAPS = Unknown(), Unknown(may_be_absent=True)


class Fields(frozenset[tuple[str, Any]]):
    """An object of which all fields are known: their names, and their values or `Unknown`."""


class Visit(NamedTuple):
    """A state, and what is known of its input: `Fields`, a text, a number, or `Unknown`."""

    state: str
    data: Any


def ways(definition: Json) -> tuple[Visit, nx.DiGraph]:
    """Draw all ways through a file; a ValueError says that nothing bounds a count."""
    return _ways(json.dumps(definition))


@lru_cache(maxsize=1)  # several rules ask about one file
def _ways(text: str) -> tuple[Visit, nx.DiGraph]:
    definition = json.loads(text)
    flow, plain = _Walk(definition), graph(definition["States"])
    reads = {name: set(_FIELD.findall(json.dumps(state))) for name, state in flow.states.items()}
    live = {
        name: set().union(*(reads[each] for each in (name, *nx.descendants(plain, name))))
        for name in flow.states
    }
    start = Visit(flow.start, ANY)
    drawn = nx.DiGraph()
    drawn.add_node(start)
    waiting = [start]
    most = len(flow.states) * EXPRESS_SECONDS
    while waiting:
        visit = waiting.pop()
        for name, data in flow.following(*visit):
            # What no later state reads makes no difference.
            is_known = isinstance(data, Fields)
            read = Fields(each for each in data if each[0] in live[name]) if is_known else data
            after = Visit(name, read)
            if after not in drawn:
                waiting.append(after)
            drawn.add_edge(visit, after)
        if len(drawn) > most:
            [(again, _)] = Counter(each.state for each in drawn).most_common(1)
            raise ValueError(f"nothing bounds how often an execution may come to {again}")
    return start, nx.freeze(drawn)


def slowest(drawn: nx.DiGraph, start: Any, seconds: Callable[[str], float]) -> dict[str, float]:
    """Find the slowest way from a start to an end: the seconds that it spends in each state.

    The nodes are visits, or the names of states. A ValueError says that there is a cycle.
    """

    def name(node: Visit | str) -> str:
        return node if isinstance(node, str) else node.state

    if not nx.is_directed_acyclic_graph(drawn):
        again = min(name(node) for node, *_ in nx.find_cycle(drawn, start))
        raise ValueError(f"nothing bounds how often an execution may come to {again}")
    weighted = nx.DiGraph()
    weighted.add_node(start)
    weighted.add_weighted_edges_from((at, to, seconds(name(to))) for at, to in drawn.edges)
    spent = Counter[str]()
    for node in [start, *nx.dag_longest_path(weighted)[1:]]:
        spent[name(node)] += seconds(name(node))  # type: ignore[assignment]
    return spent  # type: ignore[return-value]


class _Walk(Flow[Any]):
    unknown = ANY

    def at(self, data: Any, path: str | None) -> Any:
        if path is None:
            return Fields()
        found = _found(path, data)
        return ANY if found in (None, PERHAPS) else found

    def value(self, expression: str, data: Any) -> Any:
        """Tell what is known of an expression's value; one more of a count is followed exactly."""
        added = _ADD.fullmatch(expression)
        if not added:
            return self.at(data, expression)
        count, more = self.at(data, added[1]), added[2]
        if more.isdigit():
            return count + int(more) if isinstance(count, int) else ANY
        least = self.at(data, more)
        return Unknown(1 + least) if isinstance(least, int) else ANY  # a count of polls begins at 1

    def literal(self, value: Any) -> Any:
        return ANY if value is None else value

    def fields(self, made: dict[str, Any]) -> Fields:
        return Fields(made.items())

    def placed(self, data: Any, path: str, value: Any) -> Any:
        steps = path.split(".")[1:]
        if not steps:
            return value
        known = dict(data) if isinstance(data, Fields) else {}
        inner = self.placed(known.get(steps[0], Fields()), ".".join(["$", *steps[1:]]), value)
        return Fields({**known, steps[0]: inner}.items()) if isinstance(data, Fields) else ANY

    def result(self, _state: Json) -> Any:
        return ANY

    def judge(self, _name: str, condition: Json, data: Any) -> tuple[Any, Any]:
        holds = self._holds(condition, data)
        return data if holds is not False else None, data if not holds else None

    def _holds(self, condition: Json, data: Any) -> bool | None:
        """Tell whether a comparison holds; None if it may turn out either way."""
        if "IsPresent" in condition:
            value = _found(condition["Variable"], data)
            return None if value == PERHAPS else (value is not None) == condition["IsPresent"]
        for name, compare in _COMPARISONS.items():
            if name in condition or f"{name}Path" in condition:
                path = condition.get(f"{name}Path")
                other = self.at(data, path) if path else condition[name]
                return _compared(compare, self.at(data, condition["Variable"]), other)
        return None


def _found(path: str, data: Any) -> Any:
    """Give what is at a path: None if nothing is."""
    if not re.fullmatch(r"\$(\.\w+)*", path):
        return PERHAPS
    for step in path.split(".")[1:]:
        if not isinstance(data, Fields):
            return PERHAPS
        data = dict(data).get(step)
        if data is None:
            return None
    return data


def _compared(compare: Callable[[Any, Any], bool], value: Any, other: Any) -> bool | None:
    if isinstance(value, int) and isinstance(other, Unknown):
        return False if value < other.least and compare is operator.ge else None
    if "" in (value, other) and isinstance(other if value == "" else value, Unknown):
        return False  # no token, sequencer or key is an empty text, which stands for none
    return compare(value, other) if type(value) is type(other) is not Unknown else None
