"""Finds what ends an execution with States.Runtime on AWS but not on ministack.

On ministack, an absent path gives null, or a comparison that is false. On AWS it gives
States.Runtime, which no Catch handles; so does an attribute for DynamoDB that is not a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

_PATH = re.compile(r"'[^']*'|(\$\$?(?:\.\w+|\['[^']*'\])*)")
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


class UncaughtError(Exception):
    """An error that AWS would report as States.Runtime."""


def check_paths(state: dict[str, Any], data: Any, event: Any) -> None:
    """Raise if a state other than a Choice reads an absent path, or a value of a wrong type."""
    _check_payload(state.get("Parameters", {}), data, event)
    for field in ("CausePath", "SecondsPath"):
        for path in paths(state.get(field, "")):
            find(path, data, event)


def chooser(state: dict[str, Any]) -> Callable[..., str]:
    """Compile a Choice: give what tells, of its data and the execution's input, what follows.

    It raises if it compares an absent path.
    """
    rules = [(_condition(rule), rule["Next"]) for rule in state["Choices"]]
    default: str = state["Default"]
    return lambda data, event=None: next(
        (following for holds, following in rules if holds(data, event)), default
    )


def paths(expression: str) -> Iterator[str]:
    """List the paths of an expression; in the context, only into the execution's input."""
    for path in _PATH.findall(expression):
        if path and (not path.startswith("$$") or path.startswith(_INPUT)):
            yield path


def find(path: str, data: Any, event: Any = None) -> Any:
    """Follow a path in a state's input, or in the execution's."""
    is_of_event, names = _names(path)
    if is_of_event:
        data = event
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


def _check_payload(template: dict[str, Any], data: Any, event: Any) -> None:
    for name, value in template.items():
        if isinstance(value, dict):
            _check_payload(value, data, event)
        elif name.endswith(".$"):
            found = [find(path, data, event) for path in paths(value)]
            is_attribute = name in {"S.$", "N.$"} and value.startswith("$") and found
            if is_attribute and not isinstance(found[0], str):
                raise UncaughtError(f"{value} is not a string")


def _condition(rule: dict[str, Any]) -> Callable[[Any, Any], bool]:
    if "And" in rule:
        parts = [_condition(each) for each in rule["And"]]
        return lambda data, event: all(part(data, event) for part in parts)
    if "Or" in rule:
        parts = [_condition(each) for each in rule["Or"]]
        return lambda data, event: any(part(data, event) for part in parts)
    if "Not" in rule:
        negated = _condition(rule["Not"])
        return lambda data, event: not negated(data, event)
    variable: str = rule["Variable"]
    [(operator, operand)] = [each for each in rule.items() if each[0] not in {"Variable", "Next"}]
    if operator == "IsPresent":

        def is_present(data: Any, event: Any) -> bool:
            with suppress(UncaughtError):
                find(variable, data, event)
                return bool(operand)
            return not operand

        return is_present
    compare = _OPERATORS[operator.removesuffix("Path")]
    if operator.endswith("Path"):
        return lambda data, event: compare(find(variable, data, event), find(operand, data, event))
    return lambda data, event: compare(find(variable, data, event), operand)
