"""Makes mutants of a state machine: each lacks one thing, or has one thing changed."""

import copy
import functools
import itertools
import json
import operator
import re
from collections.abc import Iterator
from typing import Any

from inorder import asl
from inorder.asl.definition import is_end
from tests.proof.model.engine import redirected
from tests.support.replacing import replaced

Json = dict[str, Any]
Path = tuple[str | int, ...]
# The name of each change, and what is changed: a state, a file, a rule or an expression.
Changes = Iterator[tuple[str, Json]]
LEFT_OUT = object()


def mutants_of(definition: str) -> Iterator[tuple[str, str, str]]:
    """Make all mutants of an ASL file: the state, what is changed, and the text of the file.

    A rule, a condition, a Retry or a Catch is missing, a state is bypassed, or a part is changed.
    """
    whole = json.loads(definition)
    for where in whole["States"]:
        for kind in (_without_rule, _without_handler, _substituted, _changed):
            for change, mutant in kind(whole, where):
                if "States" not in mutant:
                    mutant = {**whole, "States": {**whole["States"], where: mutant}}  # noqa: PLW2901
                yield where, change, json.dumps(mutant)


def is_refused(definition: str) -> bool:
    """Tell whether `inorder check` refuses a file, so that no test has to find what is wrong."""
    return bool(asl.check(json.loads(definition)))


def _edited(part: Any, path: Path, value: Any) -> Any:
    """Put another value at a path, or leave out what is there if the value is `LEFT_OUT`."""
    other = copy.deepcopy(part)
    parent = functools.reduce(operator.getitem, path[:-1], other)
    if value is LEFT_OUT:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return other


def _spliced(parts: list[Any], at: int, *instead: Any) -> list[Any]:
    """Leave out a part of a list, or put others in its place."""
    return [*parts[:at], *instead, *parts[at + 1 :]]


def _without_rule(whole: Json, where: str) -> Changes:
    state = whole["States"][where]
    rules = state.get("Choices", [])
    for at, rule in enumerate(rules):
        rest = _spliced(rules, at)  # a Choice must have one
        alone = {"Comment": state["Comment"], "Type": "Pass", "Next": state["Default"]}
        less = {**state, "Choices": rest} if rest else alone
        yield f"without rule {at + 1}, to {rule['Next']}", less
        for missing, changed in _without_condition(rule):
            yield f"without rule {at + 1}: {missing}", _edited(state, ("Choices", at), changed)


def _without_condition(rule: Json) -> Changes:
    for word in {"And", "Or"} & set(rule):
        parts = rule[word]
        for at, part in enumerate(parts):
            if len(parts) > 1:
                yield _describe(part), {**rule, word: _spliced(parts, at)}
            for missing, changed in _without_condition(part):
                yield missing, {**rule, word: _spliced(parts, at, changed)}
    if "Not" in rule:
        for missing, changed in _without_condition(rule["Not"]):
            yield missing, {**rule, "Not": changed}


def _without_handler(whole: Json, where: str) -> Changes:
    state = whole["States"][where]
    for field in ("Retry", "Catch"):
        for at, handler in enumerate(state.get(field, [])):
            path = (field,) if len(state[field]) == 1 else (field, at)
            yield (
                f"without {field} of {', '.join(handler['ErrorEquals'])}",
                _edited(state, path, LEFT_OUT),
            )


def _describe(condition: Json) -> str:
    for word in {"And", "Or"} & set(condition):
        return f" {word.lower()} ".join(map(_describe, condition[word]))
    if "Not" in condition:
        return f"not {_describe(condition['Not'])}"
    [(comparison, operand)] = condition.items() - {("Variable", condition["Variable"])}
    return f"{condition['Variable']} {comparison}" + (
        "" if operand is True else f" {json.dumps(operand)}"
    )


def _substituted(whole: Json, where: str) -> Changes:
    """Put the state that follows in a state's place; for an end, another end if there is one."""
    state = whole["States"][where]
    to = state.get("Next", state.get("Default"))
    if to in {None, where}:
        ends = (name for name, other in whole["States"].items() if is_end(other) and name != where)
        to = next(ends, None)
    if to:
        yield f"with {to} in its place", _bypassed(whole, where, to)


def _bypassed(whole: Json, where: str, to: str) -> Json:
    mutant: Json = redirected(whole, {where: to})
    del mutant["States"][where]
    return mutant


def _changed(whole: Json, where: str) -> Changes:
    state = whole["States"][where]
    for change, changed in _other_rules(state):
        yield f"with {change}", changed
    for field in ("Choices", "Retry", "Catch"):
        parts = state.get(field, [])
        for at, (one, other) in enumerate(itertools.pairwise(parts)):
            same = field != "Retry" and one["Next"] == other["Next"]
            if not same and not _exclude(one, other):
                swapped = _spliced(_spliced(parts, at), at, other, one)
                yield f"with {field} {at + 1} and {at + 2} swapped", {**state, field: swapped}
    yield from _changed_expressions(whole, where)
    for path in _leaves(state):
        yield from _other_leaf(whole, where, path)


def _other_rules(state: Json) -> Changes:
    rules = state.get("Choices", [])
    for at, rule in enumerate(rules):
        inverted = {"Not": {k: v for k, v in rule.items() if k != "Next"}, "Next": rule["Next"]}
        changed = _edited(state, ("Choices", at), inverted)
        yield f"rule {at + 1}, to {rule['Next']}, inverted", changed
    if rules and state.get("Default") != rules[0]["Next"]:
        yield f"Default to {rules[0]['Next']}", {**state, "Default": rules[0]["Next"]}


def _exclude(one: Json, other: Json) -> bool:
    """Tell whether two rules never fit both: they want different texts or errors."""
    wanted, unwanted = _wanted(one), _wanted(other)
    return any(wanted[name].isdisjoint(unwanted[name]) for name in wanted.keys() & unwanted.keys())


def _wanted(condition: Json) -> dict[str, set[str]]:
    """List the texts that a rule allows for what it compares: a variable, or an error's name."""
    errors = set(condition.get("ErrorEquals", []))
    if errors and not errors & {"States.ALL", "States.TaskFailed"}:
        return {"error": errors}
    if "StringEquals" in condition:
        return {condition["Variable"]: {condition["StringEquals"]}}
    if "Or" in condition:
        alternatives = [_wanted(part) for part in condition["Or"]]
        names = set.intersection(*map(set, alternatives))
        return {name: set.union(*(texts[name] for texts in alternatives)) for name in names}
    return {k: v for part in condition.get("And", []) for k, v in _wanted(part).items()}


def _changed_expressions(whole: Json, where: str) -> Changes:
    state = whole["States"][where]
    parameters = state.get("Parameters", {})
    for name in ("ConditionExpression", "UpdateExpression"):
        for change, less in _other_expressions(parameters.get(name, "")):
            other = _without_unused({**parameters, name: less})
            yield f"with {name}: {change}", {**state, "Parameters": other}
    for field in _TYPED:
        for name, typed in parameters.get(field, {}).items():
            [(kind, value)] = typed.items()
            texts = [text for text in _texts(whole) if text != value]
            for text in {"S": texts, "N": ["1"]}.get(kind, []):
                other = _edited(state, ("Parameters", field, name), {kind: text})
                yield f"with {field}: {name} {text}", other


def _texts(whole: Json) -> list[str]:
    """List the texts that a file's states write to DynamoDB, or compare with."""
    parameters = [state.get("Parameters", {}) for state in whole["States"].values()]
    typed = [
        value
        for request in parameters
        for field in _TYPED
        for value in request.get(field, {}).values()
    ]
    return sorted({value["S"] for value in typed if "S" in value})


def _other_expressions(expression: str) -> Iterator[tuple[str, str]]:
    """Leave out each clause of a DynamoDB expression, and change each comparison."""
    if re.match("SET|REMOVE", expression):
        yield from _without_assignment(expression)
    elif expression:
        yield "none", ""
        for missing, less in _without_clause(expression):
            yield f"no {missing}", less
        others = {"=": "<>", "<>": "=", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
        for number, comparison in enumerate(re.finditer(r"(?<= )[<=>]+(?= )", expression), 1):
            other = others[comparison[0]]
            changed = expression[: comparison.start()] + other + expression[comparison.end() :]
            yield f"comparison {number}, {comparison[0]}, as {other}", changed


def _without_clause(expression: str) -> Iterator[tuple[str, str]]:
    for word in (" OR ", " AND "):
        parts = _split(expression, word)
        if len(parts) == 1:
            continue
        for at, part in enumerate(parts):
            yield part, word.join(_spliced(parts, at))
            inner = part[1:-1] if part.startswith("(") else part
            for missing, less in _without_clause(inner):
                # DynamoDB refuses redundant parentheses.
                is_one = len(_split(less, " OR ")) == len(_split(less, " AND ")) == 1
                yield missing, word.join(_spliced(parts, at, less if is_one else f"({less})"))
        return


def _without_assignment(expression: str) -> Iterator[tuple[str, str]]:
    words = re.split(r" ?\b(SET|REMOVE)\b ", expression)[1:]
    clauses = dict(zip(words[::2], words[1::2], strict=True))
    for word, assignments in clauses.items():
        parts = _split(assignments, ", ")
        for at, part in enumerate(parts):
            changes: dict[str, list[str]] = {f"no {word} {part}": []}
            if assignment := re.fullmatch(r"(.+ = )if_not_exists\(.+, (.+)\)", part):
                changes[f"always {part}"] = [assignment[1] + assignment[2]]
            for change, by in changes.items():
                others = {**clauses, word: ", ".join(_spliced(parts, at, *by))}
                yield change, " ".join(f"{k} {v}" for k, v in others.items() if v)


def _split(text: str, separator: str) -> list[str]:
    """Split a text, but not inside parentheses."""
    parts = [""]
    for piece in text.split(separator):
        whole = parts[-1].count("(") == parts[-1].count(")")
        parts[-1:] = [parts[-1], piece] if whole else [parts[-1] + separator + piece]
    return parts[1:]


def _without_unused(parameters: Json) -> Json:
    """Drop empty expressions and unused names and values, because DynamoDB refuses them."""
    cleaned = {key: value for key, value in parameters.items() if value != ""}
    used = [cleaned.get(name, "") for name in _EXPRESSIONS]
    for field in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        entries = cleaned.pop(field, {}).items()
        if kept := {k: v for k, v in entries if re.search(rf"{k}\b", " ".join(used))}:
            cleaned[field] = kept
    return cleaned


_TYPED = ("Item", "ExpressionAttributeValues")
_EXPRESSIONS = ("ConditionExpression", "UpdateExpression")
_NOT_CHANGED = {"Comment", "Type", "Resource", "Next", "End", "Default", "ErrorEquals", "Variable"}
_REMOVED = {"IntervalSeconds", "BackoffRate", "MaxDelaySeconds", "JitterStrategy", "CausePath"}


def _leaves(part: Any, path: Path = ()) -> Iterator[Path]:
    """List the paths of all values that are not objects; DynamoDB's typed ones count as one."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        at = (*path, key)
        if key in {*_NOT_CHANGED, *_EXPRESSIONS} or str(key).startswith("ExpressionAttribute"):
            continue
        is_typed = isinstance(value, dict) and [str(kind)[:1] for kind in value] in (["S"], ["N"])
        if value and isinstance(value, dict | list) and not (is_typed and "Parameters" in path):
            yield from _leaves(value, at)
        else:
            yield at


def _other_leaf(whole: Json, where: str, path: Path) -> Changes:
    state, key, name = whole["States"][where], str(path[-1]), ".".join(map(str, path))
    value: Any = functools.reduce(operator.getitem, path, state)
    others: dict[str, Any] = {}
    if key == "ResultPath":
        others = {f"no {name}": LEFT_OUT} | ({f"{name} null": None} if value is not None else {})
    elif key not in {"IsPresent", "IsString"}:  # `mutants_of` leaves the condition out
        others = {f"{name} {path}": path for path in _exchanged(whole, key, str(value))}
        is_path = key.endswith(".$") or isinstance(value, dict) or value is None
        if key in _REMOVED or is_path:
            if added := re.fullmatch(r"(States\.MathAdd\(.*, )(\d+)\)", str(value)):
                more = f"{added[1]}{int(added[2]) + 1})"
                others[f"{name} {more}"] = more
            others[f"no {name}"] = LEFT_OUT
        elif isinstance(value, bool):
            others[f"{name} {not value}"] = not value
        elif isinstance(value, int | float):
            others[f"{name} {value + 1}"] = value + 1
        elif not key.endswith("Path"):
            others[f"{name} changed"] = "changed"
    for change, other in others.items():
        yield f"with {change}", _edited(state, path, other)


def _exchanged(whole: Json, key: str, value: str) -> Iterator[str]:
    """Exchange a path that is compared, added or waited for, for the next one of its kind."""
    if not key.endswith("Path") and "MathAdd" not in value:
        return
    parameters = [state.get("Parameters", {}) for state in whole["States"].values()]
    numbers = [f"$.limits.{name}" for request in parameters for name in request.get("limits", {})]
    numbers += re.findall(r'"NumericGreaterThanEqualsPath": "(.+?)"', json.dumps(whole))
    compared = re.findall(r'"StringEqualsPath": "(.+?)"', json.dumps(whole))
    for paths in (list(dict.fromkeys(paths)) for paths in (numbers, compared)):
        for old, new in zip(paths, [*paths[1:], *paths[:1]], strict=True):
            if old != new and re.search(rf"{re.escape(old)}(?!\w)", value):
                yield replaced(value, old, new)
