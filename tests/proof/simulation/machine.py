"""Runs executions of an ASL file, as far as the shipped files use the language.

Each state is compiled once. A path that leads nowhere ends an execution, as on AWS, and so do
an attribute for DynamoDB that is no string, a Pass with too much data, and a Fail with too long a
cause: States.Runtime, which no Catch handles.
"""

import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import zip_longest
from typing import Any, Protocol
from uuid import UUID

import simpy

from inorder.asl.definition import EXPRESS_SECONDS
from inorder.asl.size import MOST_BYTES, TOO_LARGE
from inorder.asl.values import CAUSE_CHARACTERS
from tests.proof.simulation.clock import Clock, ServiceError, Steps

KNOWN_FIELDS = {
    *("Catch", "Cause", "CausePath", "Choices", "Comment", "Default", "End", "Error", "Next"),
    *("OutputPath", "Parameters", "Resource", "Result", "ResultPath", "ResultSelector", "Retry"),
    *("InputPath", "Seconds", "SecondsPath", "TimeoutSeconds", "Type"),
}
ANY_FAILURE = "States.TaskFailed"  # each error of a task, but none that the engine itself makes

Json = dict[str, Any]


class UncaughtError(Exception):
    """An error that AWS would report as States.Runtime."""


@dataclass
class Execution:
    """An execution, and when it started and ended."""

    id: str
    input: Json
    started: float
    ended: float | None = None
    outcome: str = ""  # of its output or, if it failed, its error


class Services(Protocol):
    """What an execution needs."""

    clock: Clock

    def call(self, resource: str, parameters: Json, seconds: float) -> Steps:
        """Do a task; raise `ServiceError` if it fails."""

    def dies(self, execution: Execution, state: str) -> bool:
        """Tell whether an execution dies when it enters a state."""


@dataclass
class Context:
    """What a state reads beside its data."""

    execution: Execution
    clock: Clock
    machine: str  # the name of the state machine


Evaluate = Callable[[Any, Context], Any]


class Machine:
    """A state machine that runs executions."""

    def __init__(self, definition: Json, name: str = "") -> None:
        self.name = name
        self.start: str = definition["StartAt"]
        self.states = {name: CompiledState(state) for name, state in definition["States"].items()}

    def run(self, execution: Execution, services: Services) -> Generator[simpy.Event, Any, str]:
        clock, name, data = services.clock, self.start, execution.input
        context = Context(execution, clock, self.name)
        try:
            while True:
                state = self.states[name]
                if clock.now - execution.started > EXPRESS_SECONDS:
                    return "TimedOut"
                if services.dies(execution, name):
                    return "Died"
                following, data = yield from state.run(data, context, services)
                if following is None:
                    return str(data.get("outcome") or data.get("Error"))
                name = following
        except UncaughtError:
            return "States.Runtime"


class CompiledState:
    """A state. What follows it, and its output, are given as a pair; at an end, None follows."""

    def __init__(self, state: Json) -> None:
        assert state.keys() <= KNOWN_FIELDS, state.keys() - KNOWN_FIELDS
        assert state.get("OutputPath") is None
        self._state = state
        parameters = state.get("Parameters", state.get("Result"))
        self.parameters = _template(parameters) if parameters is not None else _all
        self._select = _template(state["ResultSelector"]) if "ResultSelector" in state else _all
        self._choose = chooser(state) if state["Type"] == "Choice" else None
        self._cause = _value(_TOKEN.finditer(state.get("CausePath", "$")))

    def run(
        self, data: Json, context: Context, services: Services
    ) -> Generator[simpy.Event, Any, tuple[str | None, Json]]:
        """Take the state, in its time."""
        if self._state["Type"] == "Task":
            return (yield from self._run_task(data, context, services))
        if self._state["Type"] == "Wait":
            yield services.clock.env.timeout(self._wait(data))
        return self.passed(data, context)

    def passed(self, data: Json, context: Context) -> tuple[str | None, Json]:
        """Take a state other than a Task, at once."""
        state, following = self._state, self._state.get("Next")
        if self._choose:
            following = self._choose(data, context)
        match state["Type"]:
            case "Wait":
                self._wait(data)
            case "Fail":
                _allow(self._cause(data, context), CAUSE_CHARACTERS)
                return None, {"Error": state["Error"]}
            case "Pass":
                seen = find(state.get("InputPath", "$"), data)
                data = _placed(data, self.parameters(seen, context), state)
                _allow(data, MOST_BYTES)
        return following, {} if "OutputPath" in state else data

    def succeeded(self, data: Json, result: Any, context: Context) -> tuple[str | None, Json]:
        """Let a Task end with the result of its service."""
        placed = _placed(data, self._select(result, context), self._state)
        return self._state.get("Next"), placed

    def failed(self, data: Json, error: ServiceError) -> tuple[str | None, Json]:
        """Let a Task end with an error, after its last attempt."""
        _, catcher = first_for(self._state.get("Catch", []), error.name)
        fault = {"Error": error.name, "Cause": error.cause}
        return (catcher["Next"], _placed(data, fault, catcher)) if catcher else (None, fault)

    def _wait(self, data: Json) -> float:
        seconds: float = self._state.get("Seconds") or find(self._state["SecondsPath"], data)
        return seconds

    def _run_task(
        self, data: Json, context: Context, services: Services
    ) -> Generator[simpy.Event, Any, tuple[str | None, Json]]:
        state, clock = self._state, services.clock
        parameters = self.parameters(data, context)
        attempts = [0] * len(state["Retry"])
        while True:
            try:
                if len(json.dumps(parameters, ensure_ascii=False).encode()) > MOST_BYTES:
                    raise ServiceError(TOO_LARGE)
                result = yield from services.call(
                    state["Resource"], parameters, state["TimeoutSeconds"]
                )
            except ServiceError as error:
                number, retrier = first_for(state["Retry"], error.name)
                if retrier is None or attempts[number] == retrier["MaxAttempts"]:
                    return self.failed(data, error)
                delay = retrier["IntervalSeconds"] * retrier["BackoffRate"] ** attempts[number]
                attempts[number] += 1
                assert retrier["JitterStrategy"] == "FULL"
                longest = min(delay, retrier.get("MaxDelaySeconds", delay))
                yield clock.env.timeout(clock.random.uniform(0, longest))
            else:
                return self.succeeded(data, result, context)


def first_for(rules: list[Json], error: str) -> tuple[int, Json | None]:
    """Find the first Retry or Catch for an error."""
    names = {error}
    if error != TOO_LARGE:  # as AWS documents, States.ALL does not catch it
        names |= {"States.ALL"} | (set() if error.startswith("States.") else {ANY_FAILURE})
    for number, rule in enumerate(rules):
        if not names.isdisjoint(rule["ErrorEquals"]):
            return number, rule
    return -1, None


def _allow(data: Any, most: int) -> None:
    """Let AWS's limits end an execution."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    if len(text.encode()) > most:
        raise UncaughtError(TOO_LARGE)


def _placed(data: Json, result: Any, rule: Json) -> Json:
    """Put a result where a state or its Catch wants it."""
    path = rule.get("ResultPath", "$")
    return data if path is None else _placed_at(data, path.split(".")[1:], result)


def _placed_at(data: Json, names: list[str], result: Any) -> Any:
    if not names:
        return result
    name, *more = names
    return data | {name: _placed_at(data.get(name, {}), more, result)}


def _all(data: Any, _: Context) -> Any:
    return data


# --- Payload templates ---------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:'([^']*)'|(-?\d+|false)|(\$\$?(?:\.[\w-]+|\['[^']*'\])*)|(States\.\w+)\(|([,)]))"
)
_CONTEXT: dict[str, Callable[[Context], Any]] = {
    "$$.Execution.Id": lambda context: context.execution.id,
    "$$.Execution.Name": lambda context: context.execution.id,
    "$$.StateMachine.Id": lambda _: "",  # there is one
    "$$.StateMachine.Name": lambda context: context.machine,
    "$$.State.EnteredTime": lambda context: context.clock.datetime().isoformat(),
}
_INTRINSICS: dict[str, Callable[..., Any]] = {
    "States.ArrayLength": lambda _, values: len(values),
    "States.Format": lambda _, text, *values: "".join(  # not the {} of a ${Name}
        f"{part}{value}" for part, value in zip_longest(text.split("{}"), values, fillvalue="")
    ),
    "States.JsonToString": lambda _, value: json.dumps(
        value, ensure_ascii=False, separators=(",", ":")
    ),
    "States.JsonMerge": lambda _, one, other, _deep: one | other,
    "States.MathAdd": lambda _, one, other: one + other,
    "States.StringSplit": lambda _, text, ends: _split(text, ends),
    "States.StringToJson": lambda _, text: json.loads(text),
    "States.UUID": lambda context: str(UUID(int=context.clock.random.getrandbits(128))),
}


def _split(text: Any, ends: str) -> list[str]:
    """Split at each of the characters, and leave empty parts out."""
    if not isinstance(text, str):
        raise UncaughtError(f"{text} is no text")
    return re.findall(f"[^{re.escape(ends)}]+", text)


def _template(template: Any) -> Evaluate:
    if isinstance(template, list):
        values = [_template(element) for element in template]
        return lambda data, context: [value(data, context) for value in values]
    if not isinstance(template, dict) or '.$": ' not in json.dumps(template):
        return lambda _, __: template
    fields = [
        (name.removesuffix(".$"), _value(_TOKEN.finditer(value)))
        if name.endswith(".$")
        else (name, _template(value))
        for name, value in template.items()
    ]
    attributes = template.keys() & {"S.$", "N.$"}

    def evaluate(data: Any, context: Context) -> Json:
        values = {name: value(data, context) for name, value in fields}
        if attributes and not all(isinstance(value, str) for value in values.values()):
            raise UncaughtError(f"{values} is no attribute")
        return values

    return evaluate


def _value(tokens: Iterator[re.Match[str]]) -> Any:
    """Compile the expression that begins with the next token; a parenthesis has no value."""
    literal, number, path, function, end = next(tokens).groups()
    if end:
        return _value(tokens) if end == "," else None
    if function:
        intrinsic, arguments = _INTRINSICS[function], [*iter(lambda: _value(tokens), None)]
        return lambda data, context: intrinsic(
            context, *(argument(data, context) for argument in arguments)
        )
    if path in _CONTEXT:
        read = _CONTEXT[path]
        return lambda _, context: read(context)
    if path:
        return lambda data, context: find(path, data, context)
    constant = json.loads(number) if number else literal
    return lambda _, __: constant


# --- Choices and paths ---------------------------------------------------------------------------

_STEP = re.compile(r"\.(\w+)|\['([^']*)'\]")
_INPUT = "$$.Execution.Input"

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "IsString": lambda value, operand: isinstance(value, str) == operand,
    "IsNumeric": lambda value, operand: isinstance(value, int | float) == operand,
    "StringMatches": lambda value, pattern: isinstance(value, str) and fnmatchcase(value, pattern),
    "NumericEquals": lambda value, operand: value == operand,
    "NumericGreaterThan": lambda value, operand: value > operand,
    "NumericLessThan": lambda value, operand: value < operand,
    "StringEquals": lambda value, operand: isinstance(value, str) and value == operand,
    "NumericGreaterThanEquals": lambda value, operand: value >= operand,
    "NumericLessThanEquals": lambda value, operand: value <= operand,
}


def chooser(state: dict[str, Any]) -> Callable[..., str]:
    """Compile a Choice: give what tells, of its data and the context, what follows.

    It raises if it compares an absent path.
    """
    rules = [(_condition(rule), rule["Next"]) for rule in state["Choices"]]
    default: str = state["Default"]
    return lambda data, context=None: next(
        (following for holds, following in rules if holds(data, context)), default
    )


def find(path: str, data: Any, context: Context | None = None) -> Any:
    """Follow a path in a state's input or, in its context, in the execution's."""
    if context and path in _CONTEXT:
        return _CONTEXT[path](context)
    is_of_event, names = _names(path)
    if is_of_event:
        assert context
        data = context.execution.input
    for name in names:
        if not isinstance(data, dict) or name not in data:
            raise UncaughtError(f"{path.removeprefix(_INPUT)} is absent")
        data = data[name]
    return data


@cache
def _names(path: str) -> tuple[bool, list[str]]:
    """Tell whether a path is one into the execution's input, and give the names in it."""
    names = [name or quoted for name, quoted in _STEP.findall(path.removeprefix(_INPUT))]
    return path.startswith(_INPUT), names


def _condition(rule: dict[str, Any]) -> Callable[[Any, Context | None], bool]:
    if "And" in rule:
        parts = [_condition(part) for part in rule["And"]]
        return lambda data, context: all(part(data, context) for part in parts)
    if "Or" in rule:
        parts = [_condition(part) for part in rule["Or"]]
        return lambda data, context: any(part(data, context) for part in parts)
    if "Not" in rule:
        negated = _condition(rule["Not"])
        return lambda data, context: not negated(data, context)
    variable: str = rule["Variable"]
    [(operator, operand)] = [
        entry for entry in rule.items() if entry[0] not in {"Variable", "Next"}
    ]
    if operator == "IsPresent":

        def is_present(data: Any, context: Context | None) -> bool:
            with suppress(UncaughtError):
                find(variable, data, context)
                return bool(operand)
            return not operand

        return is_present
    compare = _OPERATORS[operator.removesuffix("Path")]
    if operator.endswith("Path"):
        return lambda data, context: compare(
            find(variable, data, context), find(operand, data, context)
        )
    return lambda data, context: compare(find(variable, data, context), operand)
