"""What may an execution do? Each state that it may enter, with what is known of its data there.

A plain graph of a file has ways that no execution takes: one that has counted six reads, say, does
not read again. So this walks through a file with what it knows of the data: which fields are there,
the texts and whole numbers that the file writes, the sums that it counts, and how large a value may
be. Whatever else a Choice compares may turn out either way.
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-input-output-filtering.html
"""

import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, reduce
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from inorder.asl.definition import (
    GET,
    INVOKE,
    SEND,
    UPDATE,
    Json,
    assigned,
    paths,
    payload,
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
    """A state, and what is known of its input: `Fields`, a text, a number, or `Unknown`."""

    state: str
    data: Any
    present: Paths


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
        self.start = Visit(definition["StartAt"], EVENT, frozenset([EVENT.source]))
        # The visits from which an execution may come to each, and all visits in such an order.
        self.before: dict[Visit, list[Visit]] = {self.start: []}
        self.ordered: list[Visit] = []
        self.endless = ""  # a state to which an execution seems to come again and again
        # States, paths that may be absent there, and whether those are of the execution's input.
        self.absent: set[tuple[str, str, bool]] = set()
        self.left_out: set[tuple[str, str]] = set()  # reads, and attributes they do not ask for
        # By state and what is large there: its "data", what it "sends", or its "cause".
        self.sizes: set[tuple[str, str, Size]] = set()
        self._stored = Counter[str]()  # how often the event is in an attribute of a record
        for state in self.states.values():
            for name, typed in assigned(state).items():
                for text in payload(typed):
                    events = self._length(text, Fields()).events
                    self._stored[name] = max(self._stored[name], events)
        self._explore()

    def _explore(self) -> None:
        waiting = [self.start]
        while waiting and len(self.before) <= MOST_VISITS:
            visit = waiting.pop()
            for after in self._following(visit):
                if after not in self.before:
                    waiting.append(after)
                self.before.setdefault(after, []).append(visit)
        way = []  # of visits, on which an execution comes to a state again and again
        if waiting:
            while visit != self.start:
                way.append(visit)
                visit = self.before[visit][0]  # from which it was come to first
        else:
            try:
                self.ordered = [*TopologicalSorter(self.before).static_order()]
            except CycleError as error:
                way = error.args[1][:-1]
        if way:
            [(self.endless, _)] = Counter(visit.state for visit in way).most_common(1)

    def _following(self, visit: Visit) -> Iterator[Visit]:
        """List the states that may follow one, each with what is known then."""
        name, state = visit.state, self.states[visit.state]
        passed = self.read(visit, state.get("InputPath", "$"))
        for field in sorted(state):
            if field.endswith("Path") and field not in {"InputPath", "OutputPath", "ResultPath"}:
                self._evaluate(state[field], visit._replace(data=passed))
        if "CausePath" in state:
            self.sizes.add((name, "cause", self._length(state["CausePath"], passed)))
        if state["Type"] == "Choice":
            yield from self._chosen(state, visit._replace(data=passed))
            return
        if state["Type"] == "Task":
            seen = visit._replace(data=passed)
            sent = self._shaped(state["Parameters"], seen) if "Parameters" in state else passed
            self.sizes.add((name, "sends", size_of(sent)))
        for target, output, then in self._outputs(state, visit, passed):
            live = sources(output) | {*EVENT.source}
            yield Visit(target, output, frozenset(path for path in then if path[0] in live))

    def _outputs(self, state: Json, visit: Visit, passed: Any) -> Iterator[tuple[str, Any, Paths]]:
        """List the states that may follow a state that is no Choice, each with its input."""
        name, data, present = visit
        for catcher in state.get("Catch", []):
            caught = self._placed(data, catcher.get("ResultPath", "$"), FAULT)
            self.sizes.add((name, "data", size_of(caught)))
            yield catcher["Next"], caught, present
        # What is known of this state's last result does not hold for the next one.
        data, present, result = without_source(data, name), self._returned(name, present), passed
        if state["Type"] == "Task":
            result = Unknown(self._size((name,), SHORT.size), (name,))
            self.sizes.add((name, "data", result.size))
        if state["Type"] in {"Pass", "Task"}:
            template = "ResultSelector" if state["Type"] == "Task" else "Parameters"
            if "Result" in state or template in state:
                shape = state.get("Result", state.get(template))
                result = self._shaped(shape, Visit(name, result, present))
            result = self._placed(data, state.get("ResultPath", "$"), result)
        output = self.read(Visit(name, result, present), state.get("OutputPath", "$"))
        if state["Type"] in {"Pass", "Task"}:
            self.sizes.add((name, "data", size_of(output)))
        if "Next" in state:
            yield state["Next"], output, present

    def _returned(self, name: str, present: Paths) -> Paths:
        """Tell what is known when a state has ended: what a Task's result surely has.

        An update that returns a record returns what it sets and what its condition compares with
        ``=``. Another write has set that, with all else that each such write of the file sets and
        none removes.
        """
        state = self.states[name]
        resource, parameters = state.get("Resource", ""), state.get("Parameters", {})
        fields: set[DataPath] = {(RESULTS[resource],)} if resource in RESULTS else set()
        if resource == UPDATE and parameters.get("ReturnValues") == "ALL_NEW":
            attributes = _typed(state)
            condition = parameters.get("ConditionExpression", "")
            if " OR " not in condition:
                compared = set(re.findall(r"(?:^|AND )(\w+) = :", condition))
                writes = [write for write in self.states.values() if assigned(write)]
                gone = set[str]().union(*map(removed, self.states.values()))
                for attribute in compared:
                    sets = [_typed(write) for write in writes if attribute in assigned(write)]
                    common = set.intersection(*sets) if sets else set()
                    attributes |= {path for path in common if path[0] not in gone}
            fields = {("Attributes", *path) for path in attributes}
        others = (path for path in present if path[0] != name)
        return frozenset([*others, *_with_parents([(name,), *((name, *path) for path in fields)])])

    def _chosen(self, state: Json, visit: Visit) -> Iterator[Visit]:
        otherwise: Paths | None = visit.present
        ways: list[tuple[str, Paths | None]] = []
        for rule in state["Choices"]:
            if otherwise is not None:
                holds, otherwise = self._judged(rule, visit._replace(present=otherwise))
                ways.append((rule["Next"], holds))
        for target, present in [*ways, (state["Default"], otherwise)]:
            if present is not None:
                output = self.read(visit._replace(present=present), state.get("OutputPath", "$"))
                yield Visit(target, output, present)

    def _judged(self, rule: Json, visit: Visit) -> tuple[Paths | None, Paths | None]:
        """Tell what is known if a rule of a Choice holds, and if not; None: it cannot be."""
        if "Not" in rule:
            holds, fails = self._judged(rule["Not"], visit)
            return fails, holds
        if "And" not in rule and "Or" not in rule:
            return self._compared(rule, visit)
        is_and = "And" in rule
        ended: list[Paths] = []  # what is known where a part has decided
        undecided: Paths | None = visit.present
        for part in rule["And" if is_and else "Or"]:
            if undecided is not None:
                holds, fails = self._judged(part, visit._replace(present=undecided))
                undecided, decided = (holds, fails) if is_and else (fails, holds)
                ended += [] if decided is None else [decided]
        either = reduce(operator.and_, ended) if ended else None
        return (undecided, either) if is_and else (either, undecided)

    def _compared(self, rule: Json, visit: Visit) -> tuple[Paths | None, Paths | None]:
        present = visit.present
        if "IsPresent" in rule:
            value, is_sure = self._find(rule["Variable"], visit.data, present)
            if_present = None if value is None else present | self._learned(rule["Variable"], visit)
            if_absent = None if is_sure else present
            return (if_present, if_absent) if rule["IsPresent"] else (if_absent, if_present)
        for field in rule:
            if field == "Variable" or field.endswith("Path"):
                self.read(visit, rule[field])
                present |= self._learned(rule[field], visit)
        result = self._holds(rule, visit)
        return present if result is not False else None, present if not result else None

    def _holds(self, rule: Json, visit: Visit) -> bool | None:
        """Tell whether a comparison holds; None if it may turn out either way."""
        for name, compare in _COMPARISONS.items():
            if name in rule or f"{name}Path" in rule:
                value = self._find(rule["Variable"], *visit[1:])[0]
                path = rule.get(f"{name}Path")
                operand = self._find(path, *visit[1:])[0] if path else rule[name]
                is_comparable = type(value) is type(operand) and isinstance(value, str | int)
                return compare(value, operand) if is_comparable else None
        return None

    def read(self, visit: Visit, path: str | None) -> Any:
        """Tell what is known of the value at a path, and note that it may be absent."""
        if path is None:
            return Fields()
        value, is_sure = self._find(path, visit.data, visit.present)
        if not is_sure:
            is_input = isinstance(value, Unknown) and value.source[:1] == EVENT.source
            self.absent.add((visit.state, path, is_input))
        return SHORT if value is None else value

    def _find(self, path: str, data: Any, present: Paths) -> tuple[Any, bool]:
        """Give what is known of the value at a path, None if there is none; and if it is sure."""
        steps = steps_of(path)
        if steps is None:
            return Unknown(size_of(data)), False
        if path.startswith("$$"):
            if steps[:2] != ("Execution", "Input"):
                return SHORT, True
            data, steps = EVENT, steps[2:]
        is_sure = True
        for step in steps:
            is_named = step in _fields(data)
            data = self._part(data, step)
            if data is None:
                return None, False
            if not is_named:
                is_sure = data.source in present
                self._note_left_out(*data.source[:3])
        return data, is_sure

    def _note_left_out(self, state: str = "", field: str = "", name: str = "") -> None:
        """Note that a read does not ask for an attribute of its record that is looked for."""
        projected = _projected(self.states.get(state, {}))
        if field == "Item" and name and projected and name not in projected:
            self.left_out.add((state, name))

    def _part(self, data: Any, name: str) -> Any:
        """Give what is known of a field, None if there is none."""
        if isinstance(data, Unknown):
            source = (*data.source, name) if data.source else ()
            return Unknown(self._size(source, data.size), source)
        fields = _fields(data)
        if name not in fields and REST in fields:
            return self._part(fields[REST], name)
        return fields.get(name)

    def _placed(self, data: Any, path: str | None, value: Any) -> Any:
        """Tell what is known of data after a value was put at a path; None: it is dropped."""
        return data if path is None else self._put(data, steps_of(path) or (), value)

    def _put(self, data: Any, steps: DataPath, value: Any) -> Any:
        if not steps:
            return value
        inner = self._put(self._part(data, steps[0]), steps[1:], value)
        fields = {REST: data} if isinstance(data, Unknown) else _fields(data)
        return Fields((fields | {steps[0]: inner}).items())

    def _learned(self, path: str, visit: Visit) -> Paths:
        value, _ = self._find(path, visit.data, visit.present)
        return _with_parents([value.source] if isinstance(value, Unknown) else [])

    def _evaluate(self, expression: str, visit: Visit) -> Any:
        """Tell what is known of an expression's value; a sum of known numbers is known."""
        for path in paths(expression):
            self.read(visit, path)
        if expression.startswith("$"):
            value, _ = self._find(expression, visit.data, visit.present)
            return SHORT if value is None else value
        if added := _ADD.fullmatch(expression):
            count = self._find(added[1], visit.data, visit.present)[0]
            return count + int(added[2]) if type(count) is int else SHORT
        length = self._length(expression, visit.data)
        source = (visit.state, expression) if "StringToJson" in expression else ()
        # In a text, JSON may escape each character.
        doubled = Size(*(2 * part for part in length))
        return Unknown(doubled if "JsonToString" in expression else length, source)

    def _length(self, expression: str, data: Any) -> Size:
        """Tell the most characters of an expression's value; a UUID or a hash has 128."""
        read = [self._find(path, data, frozenset())[0] for path in paths(expression)]
        length = size_of(Fields((str(number), value) for number, value in enumerate(read)))
        return length._replace(other=length.other + len(expression) + 128)

    def _shaped(self, template: Any, visit: Visit) -> Any:
        """Tell what is known of what a payload template makes."""
        if isinstance(template, list):
            template = {str(index): value for index, value in enumerate(template)}
        if not isinstance(template, dict):
            return template
        return Fields(
            (name, self._evaluate(value, visit) if name != key else self._shaped(value, visit))
            for key, value in template.items()
            for name in [key.removesuffix(".$")]
        )

    def _size(self, source: DataPath, whole: Size) -> Size:
        """Tell the most bytes of what a source has at a path; it is a part of a whole."""
        name, *steps = source or ("",)
        if (name,) == EVENT.source:
            return EVENT.size if steps in ([], ["detail"]) else SHORT.size
        state = self.states.get(name, {})
        resource, parameters = state.get("Resource"), state.get("Parameters", {})
        if resource == INVOKE:
            return Size(answers=1, other=0 if steps else SHORT_BYTES)
        if resource == GET or (resource == UPDATE and "ReturnValues" in parameters):
            names = _projected(state) or [*self._stored]
            wanted = [attribute for attribute in names if attribute in steps[1:2]] or names
            events = sum(self._stored[attribute] for attribute in wanted)
            return Size(events=events, other=SHORT_BYTES * len(wanted))
        return whole


def _fields(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Fields) else {}


def _projected(state: Json) -> list[str]:
    """List the attributes that a read asks for; none if it asks for all."""
    parameters = state.get("Parameters", {})
    aliases = parameters.get("ExpressionAttributeNames", {})
    names = re.findall(r"[#\w]+", parameters.get("ProjectionExpression", ""))
    return [aliases.get(name, name) for name in names]


def _typed(state: Json) -> set[DataPath]:
    """List the attributes that a write sets, each with its type."""
    written = assigned(state).items()
    return {(name, kind.removesuffix(".$")) for name, typed in written for kind in typed}


def _with_parents(data_paths: Iterable[DataPath]) -> Paths:
    return frozenset(path[:n] for path in data_paths for n in range(1, len(path) + 1))
