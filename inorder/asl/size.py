"""How large may an event be? All data of an execution must fit into what Step Functions carries."""

import json
import re
from collections.abc import Iterator
from typing import Any

from inorder.asl.definition import GET, UPDATE, Json, Rule, Violation, paths, payload
from inorder.asl.flow import Flow
from inorder.asl.roles import assigned

# Of the data of an execution, and of the input and the output of a state:
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_BYTES = 262_144
# An S3 event with the longest key, of 1,024 bytes that JSON writes with 6 bytes each, has 7,000.
LEAST_BYTES = 10_000
OTHER_BYTES = 1_024  # for each value that is not the event, or a part of it
# The fields of an event are short: an S3 key has at most 1,024 bytes.
EVENT = "$$.Execution.Input"
MANY = 1_000  # events are too many in any case, so that a loop which adds some is not followed on
# AWS documents that States.ALL does not catch it, and has been recorded to for a Task's result.
TOO_LARGE = "States.DataLimitExceeded"

# How often the event is in each field of the data. In a text it counts twice, because JSON may
# escape each of its characters. Data without known fields has the one field "".
Sizes = dict[str, int]


def largest_event(definition: Json) -> int:
    """Compute the bytes of the largest event that a file can handle.

    A Task that would send too much may lead on by a Catch for States.DataLimitExceeded.
    """
    return min((MOST_BYTES - other) // events for _, events, other in _sizes(definition) if events)


def _size(definition: Json) -> Iterator[Violation]:
    for name, events, other in _sizes(definition):
        if events and (most := (MOST_BYTES - other) // events) < LEAST_BYTES:
            yield name, f"its data is too large for an event of more than {most} bytes"


def _sizes(definition: Json) -> Iterator[tuple[str, int, int]]:
    """Give how often a state's data or payload has the event, and the bytes of the rest."""
    flow = _Sizes(definition)
    for name, data in flow.inputs({"": 1}).items():
        state = flow.states[name]
        kept = [data, flow.output(state, data)]
        for each in [*kept, {"": sum(flow.result(state).values())}]:
            yield name, sum(each.values()), OTHER_BYTES * len(each)
        caught = [error for each in state.get("Catch", []) for error in each["ErrorEquals"]]
        if "Parameters" in state and TOO_LARGE not in caught:
            sent = [_events(each, data) for each in payload(state["Parameters"])]
            literal = len(json.dumps(state["Parameters"]))
            yield name, sum(sent), literal + OTHER_BYTES * sent.count(0)


class _Sizes(Flow[Sizes]):
    unknown: Sizes = {"": 0}  # noqa: RUF012 - never changed

    def __init__(self, definition: Json) -> None:
        super().__init__(definition)
        self._stored: Sizes = {}  # in each attribute of a record
        for state in self.states.values():
            for attribute, value in assigned(state).items():
                events = sum(_events(each, {}) for each in payload(value))
                self._stored[attribute] = max(self._stored.get(attribute, 0), events)

    def at(self, data: Sizes, path: str | None) -> Sizes:
        return data if path == "$" else {"": _events(path, data)} if path else {}

    def value(self, expression: str, data: Sizes) -> Sizes:
        return {"": _events(expression, data)}

    def literal(self, _value: Any) -> Sizes:
        return self.unknown

    def fields(self, made: dict[str, Sizes]) -> Sizes:
        return {name: sum(each.values()) for name, each in made.items()}

    def placed(self, data: Sizes, path: str, value: Sizes) -> Sizes:
        if path == "$":
            return value
        return data | {path.removeprefix("$.").split(".")[0]: sum(value.values())}

    def result(self, state: Json) -> Sizes:
        """Give the attributes of a record that a Task returns."""
        parameters = state.get("Parameters", {})
        if state.get("Resource") == UPDATE and "ReturnValues" in parameters:
            return {f"Attributes.{name}": events for name, events in self._stored.items()}
        if state.get("Resource") != GET:
            return self.unknown
        projected = parameters.get("ProjectionExpression")
        names = self._stored if projected is None else map(str.strip, projected.split(","))
        return {f"Item.{name}": self._stored.get(name, 0) for name in names}

    def join(self, one: Sizes, other: Sizes) -> Sizes:
        largest = {each: max(one.get(each, 0), other.get(each, 0)) for each in one.keys() | other}
        return {field: min(events, MANY) for field, events in largest.items()}


def _events(expression: str, data: Sizes) -> int:
    """Tell how often the event is in the value of an expression."""
    found = 0
    for path in paths(expression):
        if path == EVENT:
            found += 1
        elif not path.startswith("$$"):
            found += sum(events for field, events in data.items() if _is_part(path, field))
    return 2 * found if "JsonToString" in expression else found


def _is_part(path: str, field: str) -> bool:
    """Tell whether a path leads to a field, or into it, or to what has it."""
    one, other = re.split(r"[.\[]", path)[1:], [*filter(None, field.split("."))]
    return all(each == step for each, step in zip(one, other, strict=False))


RULES: dict[str, Rule] = {"size": _size}
