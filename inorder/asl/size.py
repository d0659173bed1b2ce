"""How large may an event be? All data of an execution must fit into what Step Functions carries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from inorder.asl.definition import GET, UPDATE, Finding, Json, Rule, paths, payload

# Of the data of an execution, and of the input and the output of a state:
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_BYTES = 262_144
# An S3 event with the longest key, of 1,024 bytes that JSON writes with 6 bytes each, has 7,000.
LEAST_BYTES = 10_000
OTHER_BYTES = 1_024  # for each value that is not the event, or a part of it
# The other fields of an event are short: an S3 key has at most 1,024 bytes.
EVENTS = {"$$.Execution.Input", "$$.Execution.Input.detail"}
TOO_LARGE = "States.DataLimitExceeded"  # States.ALL does not catch it

# How often the event is in each field of the data. In a text it counts twice, because JSON may
# escape each of its characters. Data that is the event itself has the one field "".
Data = dict[str, int]


def largest_event(definition: Json) -> int:
    """Compute the bytes of the largest event that a file can handle.

    A Task that would send too much may lead on by a Catch for States.DataLimitExceeded.
    """
    return min((MOST_BYTES - other) // events for _, events, other in _sizes(definition) if events)


def _size(definition: Json) -> Iterator[Finding]:
    for name, events, other in _sizes(definition):
        if events and (most := (MOST_BYTES - other) // events) < LEAST_BYTES:
            yield name, f"its data is too large for an event of more than {most} bytes"


def _sizes(definition: Json) -> Iterator[tuple[str, int, int]]:
    """Give how often a state's data or payload has the event, and the bytes of the rest."""
    states: Json = definition["States"]
    stored = _stored(states)
    for name, data in _flow(definition, stored).items():
        state = states[name]
        output = _output(state, data, stored)
        yield name, sum(data.values()), OTHER_BYTES * len(data)
        yield name, sum(output.values()), OTHER_BYTES * len(output)
        yield name, _read(state, stored), OTHER_BYTES
        caught = [error for each in state.get("Catch", []) for error in each["ErrorEquals"]]
        if "Parameters" in state and TOO_LARGE not in caught:
            expressions = list(payload(state["Parameters"]))
            sent = sum(_events(each, data) for each in expressions)
            others = sum(not _events(each, data) for each in expressions)
            literal = len(json.dumps(state["Parameters"]))
            yield name, sent, literal + OTHER_BYTES * others


def _stored(states: Json) -> Data:
    """Tell how often the event is in each attribute of a record."""
    stored: Data = {}
    for state in states.values():
        parameters = state.get("Parameters", {})
        written = dict(parameters.get("Item", {}))
        values = parameters.get("ExpressionAttributeValues", {})
        for clause in re.findall(r"#?\w+ = :\w+", parameters.get("UpdateExpression", "")):
            attribute, value = clause.split(" = ")
            written[attribute] = values.get(value, {})
        for attribute, value in written.items():
            events = sum(_events(each, {}) for each in payload(value))
            stored[attribute] = max(stored.get(attribute, 0), events)
    return stored


def _flow(definition: Json, stored: Data) -> dict[str, Data]:
    """Tell for each state what its input may hold."""
    flow: dict[str, Data] = {definition["StartAt"]: {"": 1}}
    waiting = [definition["StartAt"]]
    while waiting:
        name = waiting.pop()
        for target, data in _edges(definition["States"][name], flow[name], stored):
            before = flow.get(target, {})
            fields = before.keys() | data.keys()
            merged = {field: max(before.get(field, 0), data.get(field, 0)) for field in fields}
            if target not in flow or merged != before:
                flow[target] = merged
                waiting.append(target)
    return flow


def _edges(state: Json, data: Data, stored: Data) -> Iterator[tuple[str, Data]]:
    after = _output(state, data, stored)
    for rule in [state, *state.get("Choices", [])]:
        if "Next" in rule:
            yield rule["Next"], after
    if "Default" in state:
        yield state["Default"], after
    for each in state.get("Catch", []):
        yield each["Next"], _placed(data, each.get("ResultPath", "$"), {"Error": 0, "Cause": 0})


def _output(state: Json, data: Data, stored: Data) -> Data:
    """Tell what a state's output may hold."""
    result = data
    if state["Type"] in {"Pass", "Task"}:
        if state["Type"] == "Task":
            result = {"result": _read(state, stored)}
        elif "Parameters" in state:
            result = _shape(state["Parameters"], data)
        elif "Result" in state:
            result = {"result": 0}
        if "ResultSelector" in state:
            result = _selected(state, result, stored)
        result = _placed(data, state.get("ResultPath", "$"), result)
    return {} if state.get("OutputPath", "$") is None else result


def _selected(state: Json, result: Data, stored: Data) -> Data:
    """Tell what a ResultSelector leaves of a result: the attributes of a record that it names."""
    record = _read(state, stored)
    if not record:
        return _shape(state["ResultSelector"], result)
    named = re.sub(r"\$\.(Attributes|Item)\.", "$.", json.dumps(state["ResultSelector"]))
    return _shape(json.loads(named), stored | {"Attributes": record, "Item": record})


def _read(state: Json, stored: Data) -> int:
    """Tell how often the event is in what a Task returns."""
    parameters = state.get("Parameters", {})
    returns_record = state.get("Resource") == UPDATE and "ReturnValues" in parameters
    if state.get("Resource") != GET and not returns_record:
        return 0
    projected = parameters.get("ProjectionExpression")
    names = stored if projected is None else [each.strip() for each in projected.split(",")]
    return sum(stored.get(name, 0) for name in names)


def _shape(template: Any, data: Data) -> Data:
    return {
        name.removesuffix(".$"): sum(_events(each, data) for each in payload({name: value}))
        for name, value in template.items()
    }


def _placed(data: Data, at: str | None, result: Data) -> Data:
    if at is None:
        return data
    if at == "$":
        return result
    return data | {at.removeprefix("$.").split(".")[0]: sum(result.values())}


def _events(expression: str, data: Data) -> int:
    """Tell how often the event is in the value of an expression."""
    found = 0
    for path in paths(expression):
        if path in EVENTS:
            found += 1
        elif path == "$":
            found += sum(data.values())
        elif path.startswith("$."):
            found += data.get(re.split(r"[.\[]", path[2:])[0], data.get("", 0))
    return 2 * found if "JsonToString" in expression else found


RULES: dict[str, Rule] = {"size": _size}
