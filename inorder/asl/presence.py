"""Is every path present where it is read? An absent one ends an execution, and no Catch sees it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from inorder.asl.definition import INVOKE, SEND, Finding, Json, Rule, paths, payload_paths

DataPath = tuple[str, ...]
Known = frozenset[DataPath]  # paths that are surely present, each with all its parents

# What a Task's result surely has. GetItem gives no Item if there is none.
RESULTS = {INVOKE: "Payload", SEND: "MessageId"}

_STEP = re.compile(r"\.([\w-]+)|\['([^']+)'\]|\[(\d+)\]")


def _guard(definition: Json) -> Iterator[Finding]:
    """Find paths that may be absent where they are read.

    A path is known to be present if on every way to the state it was tested by IsPresent, or
    compared, or written: by a Pass, by a Task whose result surely has it, or by a Catch. Nothing
    is known of the execution's input, nor of what a Task reads. In a file that parks no event only
    comparisons are checked: it promises nothing for the events that it loses.
    """
    states: Json = definition["States"]
    parks = any(state.get("Resource") == SEND for state in states.values())
    for name, known in sorted(_flow(definition).items()):
        state, absent = states[name], set[str]()
        list(_edges(state, known, absent))
        if parks:
            seen = _within(known, _path(state.get("InputPath", "$")))
            reads = list(payload_paths(state.get("Parameters")))
            for field in set(state) - {"InputPath", "OutputPath", "ResultPath"}:
                reads += paths(state[field]) if field.endswith("Path") else []
            absent |= {path for path in reads if not _is_known(path, seen)}
            selected = payload_paths(state.get("ResultSelector"))
            absent |= {path for path in selected if not _is_known(path, _result(state))}
        for path in sorted(absent):
            yield name, f"reads {path}, which may be absent"


def _flow(definition: Json) -> dict[str, Known]:
    """Tell for each state that may be reached which paths are surely present in its input."""
    states: Json = definition["States"]
    flow: dict[str, Known] = {definition["StartAt"]: frozenset([()])}
    waiting = [definition["StartAt"]]
    while waiting:
        name = waiting.pop()
        for target, known in _edges(states[name], flow[name], set()):
            common = flow[target] & known if target in flow else known
            if flow.get(target) != common:
                flow[target] = common
                waiting.append(target)
    return flow


def _edges(state: Json, known: Known, absent: set[str]) -> Iterator[tuple[str, Known]]:
    """Follow a state's ways out, and add to `absent` what it compares without knowing it."""
    if state["Type"] == "Choice":
        known = _within(known, _path(state.get("InputPath", "$")))
        for rule in state["Choices"]:
            holds, known = _judge(rule, known, absent)
            yield rule["Next"], holds
        if "Default" in state:
            yield state["Default"], known
    elif "Next" in state:
        yield state["Next"], _after(state, known)
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


def _after(state: Json, known: Known) -> Known:
    """Tell what is known of a state's output, of Choices apart."""
    seen = _within(known, _path(state.get("InputPath", "$")))
    output = seen
    if state["Type"] in {"Pass", "Task"}:
        result = _result(state)
        if "ResultSelector" in state:
            result = _shape(state["ResultSelector"], result)
        elif state["Type"] == "Pass":
            result = _shape(state["Parameters"], seen) if "Parameters" in state else seen
            result = _shape(state["Result"], seen) if "Result" in state else result
        output = _placed(known, state.get("ResultPath", "$"), result)
    return _within(output, _path(state.get("OutputPath", "$")))


def _result(state: Json) -> Known:
    field = RESULTS.get(state.get("Resource", ""))
    return _with_parents([(field,)] if field else [()])


def _shape(template: Any, known: Known) -> Known:
    """Tell what is known of the value that a payload template makes."""
    found: set[DataPath] = {()}
    for key, value in template.items() if isinstance(template, dict) else ():
        is_read = key.endswith(".$")
        inside = _within(known, _path(value)) if is_read else _shape(value, known)
        name = key.removesuffix(".$")
        found |= {(name, *path) for path in inside}
    return frozenset(found)


def _placed(known: Known, at: str | None, value: Known) -> Known:
    """Tell what is known after a value was put at a path; `at` is a ResultPath."""
    if at is None:
        return known
    path = _path(at)
    others = [each for each in known if each[: len(path)] != path]
    return _with_parents([*others, *(path + each for each in value)])


def _within(known: Known, path: DataPath) -> Known:
    """Tell what is known of the value at a path; at the least that it is there."""
    inside = [each[len(path) :] for each in known if each[: len(path)] == path]
    return frozenset([(), *inside])


def _with_parents(data_paths: Iterable[DataPath]) -> Known:
    return frozenset(path[:length] for path in data_paths for length in range(len(path) + 1))


def _path(text: str) -> DataPath:
    """Take a path apart. Of one that is not plain, or no path at all, nothing is ever known."""
    if not text.startswith("$") or _STEP.sub("", text[1:]):
        return (text,)
    return tuple("".join(step) for step in _STEP.findall(text[1:]))


def _is_known(path: str, known: Known) -> bool:
    return path.startswith("$$") or _path(path) in known


RULES: dict[str, Rule] = {"guard": _guard}
