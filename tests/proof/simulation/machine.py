"""Runs executions of an ASL file, as far as the shipped files use the language.

Each state is compiled once. Choices and paths are evaluated by the model checker's code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol
from uuid import UUID

import simpy

from inorder.asl.definition import EXPRESS_SECONDS
from inorder.asl.size import MOST_BYTES, TOO_LARGE
from tests.proof.simulation.clock import Clock, ServiceError, Steps
from tests.proof.simulation.runtime_errors import UncaughtError, chooser, find

KNOWN_FIELDS = {
    *("Catch", "Cause", "CausePath", "Choices", "Comment", "Default", "End", "Error", "Next"),
    *("OutputPath", "Parameters", "Resource", "Result", "ResultPath", "ResultSelector", "Retry"),
    *("InputPath", "Seconds", "SecondsPath", "TimeoutSeconds", "Type"),
}
ANY_FAILURE = "States.TaskFailed"  # each error of a task, but none that the engine itself makes

Json = dict[str, Any]


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
        self.states = {name: CompiledState(each) for name, each in definition["States"].items()}

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
    """A state; `Machine` runs it."""

    def __init__(self, state: Json) -> None:
        assert state.keys() <= KNOWN_FIELDS, state.keys() - KNOWN_FIELDS
        assert state.get("OutputPath") is None
        self._state = state
        parameters = state.get("Parameters", state.get("Result"))
        self._parameters = _template(parameters) if parameters is not None else _all
        self._select = _template(state["ResultSelector"]) if "ResultSelector" in state else _all
        self._choose = chooser(state) if state["Type"] == "Choice" else None

    def run(
        self, data: Json, context: Context, services: Services
    ) -> Generator[simpy.Event, Any, tuple[str | None, Json]]:
        """Give the following state and its data; None and the output at the end."""
        state, following = self._state, self._state.get("Next")
        if self._choose:
            following = self._choose(data, context.execution.input)
        match state["Type"]:
            case "Wait":
                seconds = state.get("Seconds") or find(state["SecondsPath"], data)
                yield services.clock.env.timeout(seconds)
            case "Fail":
                return None, {"Error": state["Error"]}
            case "Pass":
                seen = find(state.get("InputPath", "$"), data)
                data = _placed(data, self._parameters(seen, context), state)
            case "Task":
                following, data = yield from self._task(data, context, services)
        return following, {} if "OutputPath" in state else data

    def _task(
        self, data: Json, context: Context, services: Services
    ) -> Generator[simpy.Event, Any, tuple[str, Json]]:
        state, clock = self._state, services.clock
        parameters = self._parameters(data, context)
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
                if retrier and attempts[number] < retrier["MaxAttempts"]:
                    delay = retrier["IntervalSeconds"] * retrier["BackoffRate"] ** attempts[number]
                    attempts[number] += 1
                    assert retrier["JitterStrategy"] == "FULL"
                    longest = min(delay, retrier["MaxDelaySeconds"])
                    yield clock.env.timeout(clock.random.uniform(0, longest))
                    continue
                _, catcher = first_for(state["Catch"], error.name)
                if catcher is None:
                    raise UncaughtError(error.name) from error
                fault = {"Error": error.name, "Cause": error.cause}
                return catcher["Next"], _placed(data, fault, catcher)
            return state["Next"], _placed(data, self._select(result, context), state)


def first_for(rules: list[Json], error: str) -> tuple[int, Json | None]:
    """Find the first Retry or Catch for an error."""
    names = {error, "States.ALL"} | (set() if error.startswith("States.") else {ANY_FAILURE})
    for number, rule in enumerate(rules):
        if not names.isdisjoint(rule["ErrorEquals"]):
            return number, rule
    return -1, None


def _placed(data: Json, result: Any, rule: Json) -> Json:
    """Put a result where a state or its Catch wants it."""
    path = rule.get("ResultPath", "$")
    if path is None:
        return data
    name = path.removeprefix("$.")
    assert path == "$" or name.isidentifier()
    placed: Json = result if path == "$" else data | {name: result}
    return placed


def _all(data: Any, _: Context) -> Any:
    return data


# --- Payload templates ---------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:'([^']*)'|(-?\d+|false)|(\$\$?(?:\.[\w-]+|\['[^']*'\])*)|(States\.\w+)\(|([,)]))"
)
_CONTEXT: dict[str, Callable[[Context], Any]] = {
    "$$.Execution.Id": lambda context: context.execution.id,
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
    "States.StringSplit": lambda _, text, ends: re.findall(f"[^{re.escape(ends)}]+", text),
    "States.StringToJson": lambda _, text: json.loads(text),
    "States.UUID": lambda context: str(UUID(int=context.clock.random.getrandbits(128))),
}


def _template(template: Any) -> Evaluate:
    if isinstance(template, list):
        values = [_template(each) for each in template]
        return lambda data, context: [value(data, context) for value in values]
    if not isinstance(template, dict) or '.$": ' not in json.dumps(template):
        return lambda _, __: template
    fields = [
        (name.removesuffix(".$"), _value(_TOKEN.finditer(each)))
        if name.endswith(".$")
        else (name, _template(each))
        for name, each in template.items()
    ]
    return lambda data, context: {name: value(data, context) for name, value in fields}


def _value(tokens: Iterator[re.Match[str]]) -> Any:
    """Compile the expression that begins with the next token; a parenthesis has no value."""
    literal, number, path, function, end = next(tokens).groups()
    if end:
        return _value(tokens) if end == "," else None
    if function:
        intrinsic, arguments = _INTRINSICS[function], [*iter(lambda: _value(tokens), None)]
        return lambda data, context: intrinsic(
            context, *(each(data, context) for each in arguments)
        )
    if path in _CONTEXT:
        read = _CONTEXT[path]
        return lambda _, context: read(context)
    if path:
        return lambda data, context: find(path, data, context.execution.input)
    constant = json.loads(number) if number else literal
    return lambda _, __: constant
