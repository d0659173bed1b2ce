"""Is every path present where it is read? An absent one ends an execution, and no Catch sees it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from inorder.asl.definition import (
    INVOKE,
    OWN_LOCK,
    SEND,
    UPDATE,
    Finding,
    Json,
    Rule,
    is_renewal,
    paths,
    payload_paths,
    written,
)

DataPath = tuple[str, ...]
# Paths that are surely present, each with all its parents. Those of the context begin with "$$".
Known = frozenset[DataPath]
INPUT: DataPath = ("$$", "Execution", "Input")

# What a Task's result surely has. GetItem answers without Item if the record does not exist.
RESULTS = {INVOKE: "Payload", SEND: "MessageId"}

# attribute = :value, or attribute = if_not_exists(attribute, :value): then the type is the same.
SET_CLAUSE = re.compile(r"(#?\w+) = (?:if_not_exists\(\1, )?(:\w+)")
_STEP = re.compile(r"\.([\w-]+)|\['([^']+)'\]|\[(\d+)\]")


def _guard(definition: Json) -> Iterator[Finding]:
    """Find paths that may be absent where they are read.

    A path is known to be present if on every way to the state it was tested by IsPresent, or
    compared, or written: by a Pass, by a Task whose result surely has it, or by a Catch. An update
    that returns a record surely returns what it sets and, if the lock must be its own, what the
    claim has set. Nothing is known of what else a Task reads, nor of the execution's input: what
    the first state finds there may be read later as ``$$.Execution.Input``. In a file that parks no
    event only comparisons are checked: it promises nothing for the events that it loses.
    """
    states: Json = definition["States"]
    parks = any(state.get("Resource") == SEND for state in states.values())
    for name, known in sorted(_flow(definition).items()):
        state, absent = states[name], set[str]()
        list(_edges(states, state, known, absent))
        if parks:
            seen = _within(known, _path(state.get("InputPath", "$")))
            reads = list(payload_paths(state.get("Parameters")))
            for field in set(state) - {"InputPath", "OutputPath", "ResultPath"}:
                reads += paths(state[field]) if field.endswith("Path") else []
            absent |= {path for path in reads if not _is_known(path, seen)}
            selected = payload_paths(state.get("ResultSelector"))
            absent |= {path for path in selected if not _is_known(path, _result(states, state))}
        for path in sorted(absent):
            yield name, f"reads {path}, which may be absent"


def _flow(definition: Json) -> dict[str, Known]:
    """Tell for each state that may be reached which paths are surely present in its input."""
    states: Json = definition["States"]
    start = definition["StartAt"]
    flow: dict[str, Known] = {start: frozenset([()])}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        # No state leads to the first one, so its data is the execution's input.
        for target, known in _edges(
            states, states[name], flow[name], set(), is_first=name == start
        ):
            common = flow[target] & known if target in flow else known
            if flow.get(target) != common:
                flow[target] = common
                waiting.append(target)
    return flow


def _edges(
    states: Json, state: Json, known: Known, absent: set[str], is_first: bool = False
) -> Iterator[tuple[str, Known]]:
    """Follow a state's ways out, and add to `absent` what it compares without knowing it."""
    if state["Type"] == "Choice":
        known = _within(known, _path(state.get("InputPath", "$")))
        ways = []
        for rule in state["Choices"]:
            holds, known = _judge(rule, known, absent)
            ways.append((rule["Next"], holds))
        if "Default" in state:
            ways.append((state["Default"], known))
        for target, found in ways:
            of_input = _with_parents(INPUT + each for each in found) if is_first else frozenset()
            yield target, _within(found, _path(state.get("OutputPath", "$"))) | of_input
    elif "Next" in state:
        yield state["Next"], _after(states, state, known)
    for catcher in state.get("Catch", []):
        fault = _with_parents([("Error",), ("Cause",)])
        yield catcher["Next"], _placed(known, catcher.get("ResultPath", "$"), fault)


def _judge(rule: Json, known: Known, absent: set[str]) -> tuple[Known, Known]:
    """Tell what is known after a rule of a Choice holds, and what after it does not."""
    if "Not" in rule:
        holds, fails = _judge(rule["Not"], known, absent)
        return fails, holds
    if "And" in rule:
        ends = []
        for part in rule["And"]:
            known, fails = _judge(part, known, absent)
            ends.append(fails)
        return known, frozenset.intersection(*ends)
    if "Or" in rule:
        ends = []
        for part in rule["Or"]:
            holds, known = _judge(part, known, absent)
            ends.append(holds)
        return frozenset.intersection(*ends), known
    read = [rule["Variable"], *(rule[each] for each in rule if each.endswith("Path"))]
    read_then = known | _with_parents(map(_path, read))
    if "IsPresent" in rule:
        return (read_then, known) if rule["IsPresent"] else (known, read_then)
    absent |= {path for path in read if not _is_known(path, known)}
    return read_then, read_then


def _after(states: Json, state: Json, known: Known) -> Known:
    """Tell what is known of the output of a state that is not a Choice."""
    seen = _within(known, _path(state.get("InputPath", "$")))
    output = seen
    if state["Type"] in {"Pass", "Task"}:
        result = _result(states, state)
        if "ResultSelector" in state:
            result = _shape(state["ResultSelector"], result)
        elif state["Type"] == "Pass":
            result = _shape(state["Parameters"], seen) if "Parameters" in state else seen
            result = _shape(state["Result"], seen) if "Result" in state else result
        output = _placed(known, state.get("ResultPath", "$"), result)
    return _within(output, _path(state.get("OutputPath", "$")))


def _result(states: Json, state: Json) -> Known:
    parameters = state.get("Parameters", {})
    if state.get("Resource") == UPDATE and parameters.get("ReturnValues") == "ALL_NEW":
        found = _updated(state)
        if parameters.get("ConditionExpression") == OWN_LOCK:
            found |= _claimed(states)
        return _with_parents(("Attributes", *path) for path in found)
    field = RESULTS.get(state.get("Resource", ""))
    return _with_parents([(field,)] if field else [()])


def _claimed(states: Json) -> set[DataPath]:
    """Tell which attributes a record has whose lock is this execution's: all that a claim sets."""
    updates = [each for each in states.values() if each.get("Resource") == UPDATE]
    claims = [
        found
        for each in updates
        if ("lock_token", "S") in (found := _updated(each)) and not is_renewal(each)
    ]
    removed = {name for each in updates for name in written(each, "REMOVE")}
    common = set.intersection(*claims) if claims else set()
    return {path for path in common if path[0] not in removed}


def _updated(state: Json) -> set[DataPath]:
    """Tell what a record surely has after an update: each attribute that it sets, and its type.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_UpdateItem.html
    """
    parameters = state.get("Parameters", {})
    types = {
        name: next(iter(value)).removesuffix(".$")
        for name, value in parameters.get("ExpressionAttributeValues", {}).items()
    }
    names = parameters.get("ExpressionAttributeNames", {})
    clauses = SET_CLAUSE.findall(parameters["UpdateExpression"])
    return {(names.get(attribute, attribute), types[value]) for attribute, value in clauses}


def _shape(template: Any, known: Known) -> Known:
    """Tell what is known of the value that a payload template makes."""
    found: set[DataPath] = {()}
    for key, value in template.items() if isinstance(template, dict) else ():
        is_read = key.endswith(".$")
        inside = _within(known, _path(value)) if is_read else _shape(value, known)
        name = key.removesuffix(".$")
        found |= {(name, *path) for path in inside - _context(inside)}
    return frozenset(found)


def _placed(known: Known, at: str | None, value: Known) -> Known:
    """Tell what is known after a value was put at a path; `at` is a ResultPath."""
    if at is None:
        return known
    path = _path(at)
    others = [each for each in known - _context(known) if each[: len(path)] != path]
    placed = _with_parents([*others, *(path + each for each in value - _context(value))])
    return placed | _context(known)


def _within(known: Known, path: DataPath) -> Known:
    """Tell what is known of the value at a path; at the least that it is there."""
    inside = [each[len(path) :] for each in known if each[: len(path)] == path]
    return frozenset([(), *inside]) | _context(known)


def _context(known: Known) -> Known:
    return frozenset(each for each in known if each[:1] == INPUT[:1])


def _with_parents(data_paths: Iterable[DataPath]) -> Known:
    return frozenset(path[:length] for path in data_paths for length in range(len(path) + 1))


def _path(text: str | None) -> DataPath:
    """Take a path apart. Of one that is not plain, or no path at all, nothing is ever known."""
    root, steps = ("$$",) if str(text).startswith("$$") else (), str(text).lstrip("$")
    if not str(text).startswith("$") or _STEP.sub("", steps):
        return (str(text),)
    return root + tuple("".join(step) for step in _STEP.findall(steps))


def _is_known(path: str, known: Known) -> bool:
    found = _path(path)
    is_other_context = found[:1] == INPUT[:1] and (found[:3] != INPUT or found == INPUT)
    return is_other_context or found in known


RULES: dict[str, Rule] = {"guard": _guard}
