"""What may an execution do? Each state that it may enter, with what is sure of its data there.

A plain graph of a file has ways that no execution takes: one that has counted six reads, say, does
not read again. So this walks through a file with what is sure of the data: which fields are there,
the texts and whole numbers that the file writes, the sums that it counts, and how large a value may
be. Whatever else a Choice compares may turn out either way.
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-input-output-filtering.html
"""

import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from math import inf
from typing import Any, NamedTuple

from inorder.asl.definition import (
    EXPRESS_SECONDS,
    GET,
    INVOKE,
    SEND,
    UPDATE,
    Json,
    assigned,
    expressions,
    paths,
    removed,
)
from inorder.asl.values import (
    EVENT,
    FAULT,
    REST,
    SHORT,
    SHORT_BYTES,
    DataPath,
    Fields,
    Size,
    Unknown,
    size_of,
    sources,
    steps_of,
    without_source,
)

# Paths that are surely there, each with all its parents; a path begins with where a value is from.
Paths = frozenset[DataPath]

MOST_VISITS = 30_000  # a file that counts up to its end has a few thousand
# What a Task's result surely has. GetItem answers without Item if the record does not exist.
RESULTS = {INVOKE: "Payload", SEND: "MessageId"}
# Lambda refuses what it throttles at once, so only the delay after such an attempt takes time:
# https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html
THROTTLED = ["Lambda.TooManyRequestsException"]

_ADD = re.compile(r"States\.MathAdd\((\$[\w.]+), *(-?\d+)\)")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "NumericEquals": operator.eq,
    "NumericLessThan": operator.lt,
    "NumericLessThanEquals": operator.le,
    "NumericGreaterThan": operator.gt,
    "NumericGreaterThanEquals": operator.ge,
    "StringEquals": operator.eq,
    "BooleanEquals": operator.eq,
}


class Visit(NamedTuple):
    """A state, and what is sure of its input: `Fields`, a text, a number, or `Unknown`."""

    state: str
    data: Any
    present: Paths


def longest(state: Json) -> float:
    """Compute the seconds after which a state has ended or its Catch goes on.

    Each attempt may take the state's timeout, and each delay its longest, as jitter only shortens
    it. A Task without TimeoutSeconds may take for ever.
    """
    if state["Type"] == "Wait":
        return float(state.get("Seconds", inf))
    if state["Type"] != "Task":
        return 0
    timeout = total = float(state.get("TimeoutSeconds", inf))
    for retrier in state.get("Retry", []):
        delay = retrier.get("IntervalSeconds", 1)
        # No delay is below a second, so that more attempts than that are too many in any case.
        for _ in range(min(retrier.get("MaxAttempts", 3), EXPRESS_SECONDS)):
            total += min(delay, retrier.get("MaxDelaySeconds", delay))
            total += 0 if retrier["ErrorEquals"] == THROTTLED else timeout
            delay *= retrier.get("BackoffRate", 2)
    return total


@lru_cache(maxsize=1)  # several rules ask about one file
def _walked(text: str) -> "Walk":
    return Walk(json.loads(text))


def walk(definition: Json) -> "Walk":
    """Take all ways through a file."""
    return _walked(json.dumps(definition))


class Walk:
    """All ways through a file, and what was seen on them."""

    def __init__(self, definition: Json) -> None:
        self.states: Json = definition["States"]
        self.seconds = Counter[str]()  # what the slowest way spends in each state
        self.endless = ""  # a state to which an execution seems to come again and again
        # States, paths that may be absent there, and whether those are of the execution's input.
        self.absent: set[tuple[str, str, bool]] = set()
        # By state and what is large there: its "data", what it "sends", or its "cause".
        self.sizes: set[tuple[str, str, Size]] = set()
        self._stored = Counter[str]()  # how often the event is in an attribute of a record
        start = Visit(definition["StartAt"], EVENT, frozenset([EVENT.source]))
        for state in self.states.values():
            for name, typed in assigned(state).items():
                for text in expressions(typed):
                    events = self._length(text, start).events
                    self._stored[name] = max(self._stored[name], events)
        self._explore(start)

    def _explore(self, start: Visit) -> None:
        """Visit all that an execution may reach, and find the slowest way from its start."""
        following: dict[Visit, list[Visit]] = {}
        ahead = [start]
        while ahead and len(following) <= MOST_VISITS:
            visit = ahead.pop()
            if visit not in following:
                following[visit] = [*self._following(visit)]
                ahead += reversed(following[visit])  # the first one is the next
        if ahead:
            [(self.endless, _)] = Counter(visit.state for visit in following).most_common(1)
            return
        longest_from: dict[Visit, float] = {}  # the seconds from a visit to the end
        try:
            for visit in TopologicalSorter(following).static_order():  # the end comes first
                rest = max((longest_from[after] for after in following[visit]), default=0)
                longest_from[visit] = self._seconds(visit) + rest
        except CycleError as error:
            self.endless = next(visit.state for visit in following if visit in error.args[1])
            return
        slowest: Visit | None = start
        while slowest:
            self.seconds[slowest.state] += self._seconds(slowest)  # type: ignore[assignment]
            slowest = max(following[slowest], key=longest_from.__getitem__, default=None)

    def _seconds(self, visit: Visit) -> float:
        state = self.states[visit.state]
        pause = self.read(state["SecondsPath"], visit) if "SecondsPath" in state else None
        return float(pause) if type(pause) is int else longest(state)

    def _following(self, visit: Visit) -> Iterator[Visit]:
        """List the visits that may follow one."""
        state = self.states[visit.state]
        seen = visit._replace(data=self.read(state.get("InputPath", "$"), visit))
        for field in state:
            if field.endswith("Path") and field not in {"InputPath", "OutputPath", "ResultPath"}:
                self._evaluate(state[field], seen)
        if "CausePath" in state:
            self.sizes.add((visit.state, "cause", self._length(state["CausePath"], seen)))
        follow = self._chosen(state, seen) if state["Type"] == "Choice" else self._left(visit, seen)
        for after in follow:
            live = sources(after.data) | {*EVENT.source}
            yield after._replace(present=frozenset(p for p in after.present if p[0] in live))

    def _left(self, visit: Visit, seen: Visit) -> Iterator[Visit]:
        """List what may follow a state that is no Choice, and sees a part of its input."""
        name, state = visit.state, self.states[visit.state]
        makes_result = state["Type"] in {"Pass", "Task"}
        if state["Type"] == "Task":
            sent = self._shaped(state["Parameters"], seen) if "Parameters" in state else seen.data
            self.sizes.add((name, "sends", size_of(sent)))
        for catcher in state.get("Catch", []):
            caught = self._placed(visit.data, catcher.get("ResultPath", "$"), FAULT)
            self.sizes.add((name, "data", size_of(caught)))
            yield Visit(catcher["Next"], caught, visit.present)
        # What is sure of this state's last result does not hold for the next one.
        others = frozenset(path for path in visit.present if path[0] != name)
        output = seen._replace(present=others | self._returned(name))
        template = state.get("Result", state.get("Parameters"))
        if state["Type"] == "Task":
            result = Unknown(self._size((name,), SHORT.size), (name,))
            self.sizes.add((name, "data", result.size))
            output, template = output._replace(data=result), state.get("ResultSelector")
        if makes_result:
            result = output.data if template is None else self._shaped(template, output)
            data = without_source(visit.data, name)
            placed = self._placed(data, state.get("ResultPath", "$"), result)
            output = output._replace(data=placed)
        data = self.read(state.get("OutputPath", "$"), output)
        if makes_result:
            self.sizes.add((name, "data", size_of(data)))
        if "Next" in state:
            yield output._replace(state=state["Next"], data=data)

    def _returned(self, name: str) -> Paths:
        """Tell what a Task's result surely has.

        An update that returns its record returns what the file's states write to one and never
        remove. Only the model finds a record that lacks some of it.
        """
        state = self.states[name]
        resource, parameters = state.get("Resource", ""), state.get("Parameters", {})
        fields: list[DataPath] = [(RESULTS[resource],)] if resource in RESULTS else []
        if resource == UPDATE and parameters.get("ReturnValues") == "ALL_NEW":
            gone = set[str]().union(*map(removed, self.states.values()))
            for write in self.states.values():
                for attribute in assigned(write).keys() - gone:
                    kinds = [kind.removesuffix(".$") for kind in assigned(write)[attribute]]
                    fields += [("Attributes", attribute, kind) for kind in kinds]
        return _with_parents(*((name, *field) for field in [(), *fields]))

    def _chosen(self, state: Json, seen: Visit) -> Iterator[Visit]:
        """List what may follow a Choice."""
        otherwise: Paths | None = seen.present
        for rule in [*state["Choices"], None]:
            if otherwise is None:
                return
            visit = seen._replace(present=otherwise)
            holds, otherwise = self._judged(rule, visit) if rule else (otherwise, None)
            if holds is not None:
                visit = visit._replace(present=holds)
                output = self.read(state.get("OutputPath", "$"), visit)
                yield Visit(rule["Next"] if rule else state["Default"], output, holds)

    def _judged(self, rule: Json, visit: Visit) -> tuple[Paths | None, Paths | None]:
        """Tell what is present if a rule of a Choice holds, and if not; None: it cannot be."""
        if "Not" in rule:
            holds, fails = self._judged(rule["Not"], visit)
            return fails, holds
        if "Or" in rule:
            return self._judged({"Not": {"And": [{"Not": part} for part in rule["Or"]]}}, visit)
        if "And" not in rule:
            return self._compared(rule, visit)
        holds, may_fail = visit.present, False
        for part in rule["And"]:
            if holds is not None:
                holds, fails = self._judged(part, visit._replace(present=holds))
                may_fail = may_fail or fails is not None
        return holds, visit.present if may_fail else None

    def _compared(self, rule: Json, visit: Visit) -> tuple[Paths | None, Paths | None]:
        present = visit.present
        if "IsPresent" in rule:
            value, is_sure = self._find(rule["Variable"], visit)
            if_present = None if value is None else present | self._learned(rule["Variable"], visit)
            if_absent = None if is_sure else present
            return (if_present, if_absent) if rule["IsPresent"] else (if_absent, if_present)
        for field in rule:
            if field == "Variable" or field.endswith("Path"):
                self.read(rule[field], visit)
                present |= self._learned(rule[field], visit)
        result = self._holds(rule, visit)
        return present if result is not False else None, present if not result else None

    def _holds(self, rule: Json, visit: Visit) -> bool | None:
        """Tell whether a comparison holds; None if it may turn out either way."""
        for name, compare in _COMPARISONS.items():
            if name in rule or f"{name}Path" in rule:
                value, _ = self._find(rule["Variable"], visit)
                path = rule.get(f"{name}Path")
                operand = self._find(path, visit)[0] if path else rule[name]
                is_comparable = type(value) is type(operand) and isinstance(value, str | int)
                return compare(value, operand) if is_comparable else None
        return None

    def read(self, path: str | None, visit: Visit) -> Any:
        """Tell what is sure of the value at a path, and note that it may be absent."""
        if path is None:
            return Fields()
        value, is_sure = self._find(path, visit)
        if not is_sure:
            is_input = isinstance(value, Unknown) and value.source[:1] == EVENT.source
            self.absent.add((visit.state, path, is_input))
        return SHORT if value is None else value

    def _find(self, path: str, visit: Visit) -> tuple[Any, bool]:
        """Give what is sure of the value at a path, None if there is none; and if it is there."""
        data, steps, is_sure = visit.data, steps_of(path), True
        if steps is None:
            return Unknown(size_of(data)), False
        if path.startswith("$$"):
            if steps[:2] != ("Execution", "Input"):
                return SHORT, True
            data, steps = EVENT, steps[2:]
        for step in steps:
            is_named = step in _fields(data)
            data = self._part(data, step)
            if data is None:
                return None, False
            if not is_named:
                is_sure = data.source in visit.present
        return data, is_sure

    def _part(self, data: Any, name: str) -> Any:
        """Give what is sure of a field, None if there is none."""
        if isinstance(data, Unknown):
            source = (*data.source, name) if data.source else ()
            return Unknown(self._size(source, data.size), source)
        fields = _fields(data)
        if name not in fields and REST in fields:
            return self._part(fields[REST], name)
        return fields.get(name)

    def _placed(self, data: Any, path: str | None, value: Any) -> Any:
        """Tell what is sure of data after a value was put at a path; None: it is dropped."""
        return data if path is None else self._put(data, steps_of(path) or (), value)

    def _put(self, data: Any, steps: DataPath, value: Any) -> Any:
        if not steps:
            return value
        inner = self._put(self._part(data, steps[0]), steps[1:], value)
        fields = {REST: data} if isinstance(data, Unknown) else _fields(data)
        return Fields((fields | {steps[0]: inner}).items())

    def _learned(self, path: str, visit: Visit) -> Paths:
        value, _ = self._find(path, visit)
        return _with_parents(value.source) if isinstance(value, Unknown) else frozenset()

    def _evaluate(self, expression: str, visit: Visit) -> Any:
        """Tell what is sure of an expression's value; a sum of numbers in the file is computed."""
        if expression.startswith("$"):
            return self.read(expression, visit)
        for path in paths(expression):
            self.read(path, visit)
        if added := _ADD.fullmatch(expression):
            count, _ = self._find(added[1], visit)
            return count + int(added[2]) if type(count) is int else SHORT
        length = self._length(expression, visit)
        if "JsonToString" in expression:  # in a text, JSON may escape each character
            length = Size(*(2 * part for part in length))
        return Unknown(length, (visit.state, expression) if "StringToJson" in expression else ())

    def _length(self, expression: str, visit: Visit) -> Size:
        """Tell the most characters of an expression's value; a UUID or a hash has 128."""
        read = [self._find(path, visit)[0] for path in paths(expression)]
        length = size_of(Fields((str(number), value) for number, value in enumerate(read)))
        return length._replace(other=length.other + len(expression) + 128)

    def _shaped(self, template: Any, visit: Visit) -> Any:
        """Tell what is sure of what a payload template makes."""
        if isinstance(template, list):
            template = {str(index): value for index, value in enumerate(template)}
        if not isinstance(template, dict):
            return template
        return Fields(
            (name.removesuffix(".$"), shape(value, visit))
            for name, value in template.items()
            for shape in [self._evaluate if name.endswith(".$") else self._shaped]
        )

    def _size(self, source: DataPath, whole: Size) -> Size:
        """Tell the most bytes of what a source has at a path; it is a part of a whole."""
        if source[:1] == EVENT.source:
            return EVENT.size if source[1:] in {(), ("detail",)} else SHORT.size
        state = self.states[source[0]] if source else {}
        resource, parameters = state.get("Resource"), state.get("Parameters", {})
        if resource == INVOKE:
            return Size(answers=1, other=0 if source[1:] else SHORT_BYTES)
        if resource == GET or (resource == UPDATE and "ReturnValues" in parameters):
            names = _projected(parameters) or [*self._stored]
            wanted = [attribute for attribute in names if attribute in source[2:3]] or names
            events = sum(self._stored[attribute] for attribute in wanted)
            return Size(events=events, other=SHORT_BYTES * len(wanted))
        return whole


def _fields(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Fields) else {}


def _projected(parameters: Json) -> list[str]:
    """List the attributes that a read asks for; none if it asks for all."""
    aliases = parameters.get("ExpressionAttributeNames", {})
    names = re.findall(r"[#\w]+", parameters.get("ProjectionExpression", ""))
    return [aliases.get(name, name) for name in names]


def _with_parents(*data_paths: DataPath) -> Paths:
    return frozenset(path[:n] for path in data_paths for n in range(1, len(path) + 1))
