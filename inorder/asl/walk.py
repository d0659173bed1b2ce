"""Which ways may an execution take? Each state, with the counts and fields that decide its next.

A plain graph of a file has ways that no execution takes: one that has polled before, say, does not
poll again without a wait. So this walks through a file with what it knows of the data: which fields
are there, the texts and whole numbers that the file writes, and the sums that it counts. Whatever
else a Choice compares may turn out either way.
"""

from __future__ import annotations

import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import networkx as nx

from inorder.asl.definition import EXPRESS_SECONDS, Json, graph

# A value of which only this is known: that it is there. A number that is added to a count, which is
# 1 or more by then, is known to be "at least" so much.
SOME, AT_LEAST = "some value", "at least "
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


class Place(NamedTuple):
    """A state, and what is known of its input, as JSON."""

    state: str
    data: str


def ways(definition: Json) -> tuple[Place, nx.DiGraph]:
    """Draw all ways through a file; a ValueError says that nothing bounds a count."""
    states: Json = definition["States"]
    reads = {name: set(_FIELD.findall(json.dumps(state))) for name, state in states.items()}
    plain = graph(states)
    live = {
        name: set().union(*(reads[each] for each in (name, *nx.descendants(plain, name))))
        for name in states
    }
    start = Place(definition["StartAt"], json.dumps(SOME))
    drawn = nx.DiGraph()
    drawn.add_node(start)
    waiting = [start]
    most = len(states) * EXPRESS_SECONDS
    while waiting:
        place = waiting.pop()
        for name, output in _following(states[place.state], json.loads(place.data)):
            data = output
            if isinstance(output, dict):  # what no later state reads makes no difference
                data = {field: output[field] for field in output if field in live[name]}
            after = Place(name, json.dumps(data, sort_keys=True))
            if after not in drawn:
                waiting.append(after)
            drawn.add_edge(place, after)
        if len(drawn) > most:
            [(again, _)] = Counter(each.state for each in drawn).most_common(1)
            raise ValueError(f"an execution may come to {again} again and again")
    return start, drawn


def slowest(drawn: nx.DiGraph, start: Place, seconds: Callable[[str], float]) -> float:
    """Add up the slowest way from a place to an end; a ValueError says that there is a cycle."""
    if not nx.is_directed_acyclic_graph(drawn):
        again = min(place.state for place, *_ in nx.find_cycle(drawn, start))
        raise ValueError(f"an execution may come to {again} again and again")
    weighted = nx.DiGraph()
    weighted.add_node(start)
    weighted.add_weighted_edges_from(
        (place, after, seconds(after.state)) for place, after in drawn.edges
    )
    rest: float = nx.dag_longest_path_length(weighted)
    return seconds(start.state) + rest


def _following(state: Json, data: Any) -> Iterator[tuple[str, Any]]:
    """List the states that may follow, each with its input."""
    if state["Type"] == "Choice":
        output = {} if state.get("OutputPath", "$") is None else data
        for rule in state["Choices"]:
            holds = _holds(rule, data)
            if holds is not False:
                yield rule["Next"], output
            if holds:
                return
        if "Default" in state:
            yield state["Default"], output
        return
    if "Next" in state:
        yield state["Next"], _output(state, data)
    fault = {"Error": SOME, "Cause": SOME}
    for catcher in state.get("Catch", []):
        yield catcher["Next"], _placed(data, catcher.get("ResultPath", "$"), fault)


def _output(state: Json, data: Any) -> Any:
    """Tell what is known of the output of a state that is not a Choice."""
    result: Any = data
    if state["Type"] == "Task":
        result = _shape(state["ResultSelector"], SOME, "") if "ResultSelector" in state else SOME
    elif state["Type"] == "Pass":
        result = state.get("Result", data)
        if "Parameters" in state:
            at = state.get("ResultPath", "$") or ""
            result = _shape(state["Parameters"], data, at.removeprefix("$"))
    else:
        return data
    output = _placed(data, state.get("ResultPath", "$"), result)
    return {} if state.get("OutputPath", "$") is None else output


def _shape(template: Any, data: Any, at: str) -> Any:
    """Tell what is known of what a payload template makes; `at` is where it will be."""
    if not isinstance(template, dict):
        return template
    made = {}
    for key, value in template.items():
        name = key.removesuffix(".$")
        shape = _shape if key == name else _value
        made[name] = shape(value, data, f"{at}.{name}")
    return made


def _value(expression: str, data: Any, at: str) -> Any:
    """Tell what is known of an expression's value; a count adds to its own place."""
    if added := _ADD.fullmatch(expression):
        count, more = (
            int(each) if each.isdigit() else _read(each, data)[1] for each in added.groups()
        )
        if not isinstance(more, int):
            return SOME
        if f"${at}" != added[1]:
            return f"{AT_LEAST}{1 + more}"
        return count + more if isinstance(count, int) else SOME
    there, value = _read(expression, data)
    return value if there else SOME


def _read(path: str, data: Any) -> tuple[bool | None, Any]:
    """Tell whether something is at a path (None: perhaps), and what."""
    if not re.fullmatch(r"\$(\.\w+)*", path):
        return None, SOME
    for step in path.split(".")[1:]:
        if not isinstance(data, dict):
            return None, SOME
        if step not in data:
            return False, SOME
        data = data[step]
    return True, data


def _placed(data: Any, path: str | None, value: Any) -> Any:
    """Tell what is known of the data after a value was put at a path."""
    if path is None:
        return data
    steps = path.split(".")[1:]
    if not steps:
        return value
    known = dict(data) if isinstance(data, dict) else {}
    inner = _placed(known.get(steps[0], {}), ".".join(["$", *steps[1:]]), value)
    return {**known, steps[0]: inner} if isinstance(data, dict) else SOME


def _holds(rule: Json, data: Any) -> bool | None:
    """Tell whether a rule of a Choice holds; None if it may turn out either way."""
    if "Not" in rule:
        holds = _holds(rule["Not"], data)
        return None if holds is None else not holds
    if "And" in rule or "Or" in rule:
        is_and = "And" in rule
        parts = [_holds(each, data) for each in rule["And" if is_and else "Or"]]
        if (not is_and) in parts:
            return not is_and
        return None if None in parts else is_and
    there, value = _read(rule["Variable"], data)
    if "IsPresent" in rule:
        return None if there is None else there == rule["IsPresent"]
    name = next((each for each in _COMPARISONS if each in rule or f"{each}Path" in rule), None)
    if name is None:
        return None
    other = rule[name] if name in rule else _read(rule[f"{name}Path"], data)[1]
    return _compared(_COMPARISONS[name], value, other)


def _compared(compare: Callable[[Any, Any], bool], value: Any, other: Any) -> bool | None:
    if isinstance(value, int) and str(other).startswith(AT_LEAST):
        is_below = value < int(other.removeprefix(AT_LEAST))
        return False if is_below and compare is operator.ge else None
    if "" in (value, other) and SOME in (value, other):
        return False  # no token, sequencer or key is an empty text, which stands for none
    if SOME in (value, other) or type(value) is not type(other):
        return None
    return compare(value, other)
