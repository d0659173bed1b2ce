"""Any state machine without one of its rules, conditions, retriers or catchers."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Mutant:
    """A state machine, or a function, without something.

    Attributes
    ----------
    where, missing : str
        The state, or the file of the function, and what it lacks. Both together are the name.
    definition, function : str or None
        The ASL and the function's source; None for what is shipped.
    """

    where: str
    missing: str
    definition: str | None = None
    function: str | None = None

    def __str__(self) -> str:
        return f"{self.where} without {self.missing}"


def mutants_of(definition: str) -> Iterator[Mutant]:
    """Make all mutants of an ASL file that lack one thing.

    Parameters
    ----------
    definition : str
        The file, as it stands before substitution.
    """
    whole = json.loads(definition)
    for where, state in whole["States"].items():
        for missing, less in (*_without_rule(state), *_without_handler(state)):
            made = {**whole, "States": {**whole["States"], where: less}}
            yield Mutant(where, missing, json.dumps(made))


def _without_rule(state: Json) -> Iterator[tuple[str, Json]]:
    rules = state.get("Choices", [])
    for at, rule in enumerate(rules):
        name = f"rule {at + 1}"
        less: Json = {**state, "Choices": [*rules[:at], *rules[at + 1 :]]}
        if not less["Choices"]:  # a Choice must have one
            less = {"Type": "Pass", "Next": state["Default"]}
        yield f"{name}, to {rule['Next']}", less
        for missing, changed in _without_condition(rule):
            yield (
                f"{name}: {missing}",
                {**state, "Choices": [*rules[:at], changed, *rules[at + 1 :]]},
            )


def _without_condition(rule: Json) -> Iterator[tuple[str, Json]]:
    for operator in {"And", "Or"} & set(rule):
        parts = rule[operator]
        for at, part in enumerate(parts):
            before, after = parts[:at], parts[at + 1 :]
            if before or after:
                yield _describe(part), {**rule, operator: [*before, *after]}
            for missing, changed in _without_condition(part):
                yield missing, {**rule, operator: [*before, changed, *after]}
    if "Not" in rule:
        for missing, changed in _without_condition(rule["Not"]):
            yield missing, {**rule, "Not": changed}


def _without_handler(state: Json) -> Iterator[tuple[str, Json]]:
    for field in ("Retry", "Catch"):
        for at, handler in enumerate(state.get(field, [])):
            less = copy.deepcopy(state)
            del less[field][at]
            if not less[field]:
                del less[field]
            yield f"{field} of {', '.join(handler['ErrorEquals'])}", less


def _describe(condition: Json) -> str:
    for operator in {"And", "Or"} & set(condition):
        return f" {operator.lower()} ".join(map(_describe, condition[operator]))
    if "Not" in condition:
        return f"not {_describe(condition['Not'])}"
    [(operator, told)] = [each for each in condition.items() if each[0] not in {"Variable", "Next"}]
    value = "" if told is True else f" {json.dumps(told)}"
    return f"{condition['Variable']} {operator}{value}"
