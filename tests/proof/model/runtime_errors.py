"""What ends an execution uncaught on AWS, and does not on ministack.

There an absent path gives null, or a comparison that does not hold; on AWS it gives States.Runtime,
which no Catch sees, and so does an attribute of DynamoDB whose value is no string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_PATH = re.compile(r"'[^']*'|(\$\$?(?:\.\w+|\['[^']*'\])*)")
_STEP = re.compile(r"\.(\w+)|\['([^']*)'\]")

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "IsString": lambda value, told: isinstance(value, str) == told,
    "StringEquals": lambda value, told: isinstance(value, str) and value == told,
    "NumericGreaterThanEquals": lambda value, told: value >= told,
}


class UncaughtError(Exception):
    """States.Runtime."""


def check_paths(state: dict[str, Any], data: Any) -> None:
    """Raise if a Pass, Task or Fail reads what is not there, or not of the type that it must be.

    Parameters
    ----------
    state : dict
        The state.
    data : JSON value
        Its input.
    """
    _check_payload(state.get("Parameters", {}), data)
    for field in ("CausePath", "SecondsPath"):
        for path in paths(state.get(field, "")):
            find(path, data)


def choose(state: dict[str, Any], data: Any) -> str:
    """Give the state that follows a Choice, or raise if it compares what is not there."""
    for rule in state["Choices"]:
        if _holds(rule, data):
            following: str = rule["Next"]
            return following
    default: str = state["Default"]
    return default


def paths(expression: str) -> Iterator[str]:
    """List the paths of an expression, those of the context apart."""
    for path in _PATH.findall(expression):
        if path and not path.startswith("$$"):
            yield path


def find(path: str, data: Any) -> Any:
    """Follow a path."""
    for name, quoted in _STEP.findall(path):
        if not isinstance(data, dict) or (name or quoted) not in data:
            raise UncaughtError(f"{path} is not there")
        data = data[name or quoted]
    return data


def _check_payload(template: dict[str, Any], data: Any) -> None:
    for name, value in template.items():
        if isinstance(value, dict):
            _check_payload(value, data)
        elif name.endswith(".$"):
            found = [find(path, data) for path in paths(value)]
            if name in {"S.$", "N.$"} and value.startswith("$.") and not isinstance(found[0], str):
                raise UncaughtError(f"{value} is no string")


def _holds(rule: dict[str, Any], data: Any) -> bool:
    if "And" in rule:
        return all(_holds(each, data) for each in rule["And"])
    if "Or" in rule:
        return any(_holds(each, data) for each in rule["Or"])
    if "Not" in rule:
        return not _holds(rule["Not"], data)
    [(operator, told)] = [each for each in rule.items() if each[0] not in {"Variable", "Next"}]
    try:
        value = find(rule["Variable"], data)
    except UncaughtError:
        if operator == "IsPresent":
            return not told
        raise
    if operator == "IsPresent":
        return bool(told)
    if operator.endswith("Path"):
        operator, told = operator.removesuffix("Path"), find(told, data)
    return bool(_OPERATORS[operator](value, told))
