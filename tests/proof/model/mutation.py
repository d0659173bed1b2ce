"""Makes mutants of a state machine: each lacks one thing, or has one thing changed."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from inorder.asl.definition import INVOKE, PUT_EVENTS, SEND
from inorder.asl.roles import Role, does, doing

if TYPE_CHECKING:
    from tests.proof.model.source import Code

Json = dict[str, Any]
LEFT_OUT = object()


@dataclass(frozen=True)
class Mutant:
    """A state machine, a function or the schedule with a change; None is a shipped one."""

    where: str  # the state, or the function's file
    change: str
    definition: str | None = None
    function: Code | None = None
    sweep: Code | None = None

    def __str__(self) -> str:
        return f"{self.where} {self.change}"


def mutants_of(definition: str) -> Iterator[Mutant]:
    """Make all mutants of an ASL file that lack a rule, a condition, a Retry or a Catch."""
    whole = json.loads(definition)
    for where, state in whole["States"].items():
        for missing, less in (*_without_rule(state), *_without_handler(state)):
            yield Mutant(where, f"without {missing}", _with(whole, where, less))


def _with(whole: Json, where: str, state: Json) -> str:
    """Put a state into a file."""
    return json.dumps({**whole, "States": {**whole["States"], where: state}})


def _edited(state: Json, path: tuple[str | int, ...], value: Any) -> Json:
    """Put another value at a path, or leave out what is there if the value is `LEFT_OUT`."""
    other = copy.deepcopy(state)
    part: Any = other
    for key in path[:-1]:
        part = part[key]
    if value is LEFT_OUT:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return other


def _without_rule(state: Json) -> Iterator[tuple[str, Json]]:
    rules = state.get("Choices", [])
    for at, rule in enumerate(rules):
        name = f"rule {at + 1}"
        less: Json = {**state, "Choices": [*rules[:at], *rules[at + 1 :]]}
        if not less["Choices"]:  # a Choice must have one
            less = {"Type": "Pass", "Next": state["Default"]}
        yield f"{name}, to {rule['Next']}", less
        for missing, changed in _without_condition(rule):
            yield f"{name}: {missing}", _edited(state, ("Choices", at), changed)


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
            whole_field = len(state[field]) == 1
            less = _edited(state, (field,) if whole_field else (field, at), LEFT_OUT)
            yield f"{field} of {', '.join(handler['ErrorEquals'])}", less


def _describe(condition: Json) -> str:
    for operator in {"And", "Or"} & set(condition):
        return f" {operator.lower()} ".join(map(_describe, condition[operator]))
    if "Not" in condition:
        return f"not {_describe(condition['Not'])}"
    [(operator, operand)] = [
        each for each in condition.items() if each[0] not in {"Variable", "Next"}
    ]
    value = "" if operand is True else f" {json.dumps(operand)}"
    return f"{condition['Variable']} {operator}{value}"


def changes_of(definition: str) -> Iterator[Mutant]:
    """Make all mutants of an ASL file in which a state is bypassed, or a part of one changed."""
    whole = json.loads(definition)
    for where, state in whole["States"].items():
        for to in _substitutes(whole["States"], where):
            yield Mutant(where, f"with {to} in its place", json.dumps(_bypassed(whole, where, to)))
        for changed, other in _changed(state, _operands(whole)):
            yield Mutant(where, f"with {changed}", _with(whole, where, other))


def expression_changes_of(definition: str) -> Iterator[Mutant]:
    """Make those of `changes_of` that change what DynamoDB writes, or under which condition."""
    whole = json.loads(definition)
    for where, state in whole["States"].items():
        for changed, other in _changed_expressions(state, _operands(whole)):
            yield Mutant(where, f"with {changed}", _with(whole, where, other))


def sending_changes_of(definition: str) -> Iterator[Mutant]:
    """Make all mutants of an ASL file in which an event is not sent, or sent too late."""
    whole = json.loads(definition)
    for where, state in whole["States"].items():
        if not _is_sender(state):
            continue
        # It only says so.
        said = {"Result": state.get("ResultSelector", {}), "ResultPath": state["ResultPath"]}
        skipped = {"Type": "Pass", **said, "Next": state["Next"]}
        yield Mutant(where, f"with {state['Next']} in its place", _with(whole, where, skipped))
        for at, handler in enumerate(state["Catch"]):
            if handler["Next"] != "Not Parked":
                less = _edited(state, ("Catch", at, "Next"), "Not Parked")
                yield Mutant(where, "with Not Parked after a failure", _with(whole, where, less))
        if updates := _updates(whole["States"], _answered(whole["States"], state["Next"])):
            yield Mutant(where, f"with {updates[0]} before it", _released(whole, where, updates))


def time_changes_of(definition: str) -> Iterator[Mutant]:
    """Make all mutants of an ASL file whose lease is too short, or is not waited for."""
    whole = json.loads(definition)
    states = whole["States"]
    has_lock = bool(doing(states, Role.RENEWS))
    for where, state in states.items():
        for name, count in state.get("Parameters", {}).get("limits", {}).items():
            fewer = {"poll_seconds": count // 2, "lease_polls": count * 9 // 10}.get(name)
            if fewer:
                less = _edited(state, ("Parameters", "limits", name), fewer)
                yield Mutant(where, f"with {fewer} as its {name}", _with(whole, where, less))
        if does(state, Role.RENEWS):
            yield Mutant(
                where, "with no renewal", json.dumps(_bypassed(whole, where, state["Next"]))
            )
        if has_lock and state.get("Resource") == INVOKE:
            longer = {**state, "TimeoutSeconds": state["TimeoutSeconds"] * 11 // 10}
            yield Mutant(where, f"with {longer['TimeoutSeconds']} s", _with(whole, where, longer))
            again = _edited(state, ("Retry", -1, "MaxAttempts"), 1)
            yield Mutant(where, "with a second attempt in its Retry", _with(whole, where, again))
    if unwaited := _unwaited(states):
        made = json.dumps(whole | {"States": unwaited})
        yield Mutant("Count Poll", "with no wait if a read fails", made)


def _unwaited(states: Json) -> Json | None:
    """Let a failed read stand for a free lock, and a poll follow a refused claim at once."""
    made = copy.deepcopy(states)
    for path in ("$.record", "$.limits.poll_seconds"):
        present = {"Variable": path, "IsPresent": True}
        for where, state in made.items():
            rules = [
                rule
                for rule in state.get("Choices", [])
                if present not in (rule.get("Not"), {k: v for k, v in rule.items() if k != "Next"})
            ]
            if state["Type"] == "Choice" and rules != state["Choices"]:
                less = {**state, "Choices": rules}
                made[where] = less if rules else {"Type": "Pass", "Next": state["Default"]}
    return made if made != states else None


def late_changes_of(definition: str) -> Iterator[Mutant]:
    """Make all mutants of an ASL file that take a write without an answer for one that failed."""
    whole = json.loads(definition)
    states = whole["States"]
    sent = {state["Next"] for state in states.values() if _is_sender(state)}
    for where in sorted(sent):
        if (answered := _answered(states, where)) != where:
            less = {**states[where], "Default": answered}
            yield Mutant(where, f"with Default to {answered}", _with(whole, where, less))
    for where, state in states.items():
        for at, retrier in enumerate(state.get("Retry", [])):
            if "DynamoDB.ThrottlingException" in retrier["ErrorEquals"]:
                errors = ["States.TaskFailed", "States.Timeout"]
                again = _edited(state, ("Retry", at, "ErrorEquals"), errors)
                yield Mutant(where, "with Retry of States.Timeout", _with(whole, where, again))


def _is_sender(state: Json) -> bool:
    return state.get("Resource") in {SEND, PUT_EVENTS}


def _answered(states: Json, name: str) -> str:
    """Name what follows a state if the execution's first write was answered."""
    following: str = states[name]["Choices"][0]["Next"] if "Choices" in states[name] else name
    return following if "Parameters" in states[following] else name


def _updates(states: Json, first: str) -> list[str]:
    """Name the states that update records one after the other, from a state on."""
    if "UpdateExpression" not in states[first].get("Parameters", {}):
        return []
    return [first, *_updates(states, states[first]["Next"])]


def _released(whole: Json, where: str, updates: list[str]) -> str:
    """Put the states that update records after a state before it."""
    made = copy.deepcopy(whole)
    states = made["States"]
    last = states[updates[-1]]["Next"]
    renamed = {name: f"{name} First" for name in updates} | {last: where}
    copies = {renamed[name]: redirected(states[name], renamed) for name in updates}
    entered = redirected(states, {where: renamed[updates[0]]})
    states |= entered | copies
    states[where]["Next"] = last
    return json.dumps(made)


def _substitutes(states: Json, where: str) -> Iterator[str]:
    """Name the state that follows; for an end, another end if there is one."""
    following = states[where].get("Next", states[where].get("Default"))
    if following in {None, where}:
        ends = [name for name, state in states.items() if is_end(state) and name != where]
        following = next(iter(ends), None)
    if following:
        yield following


def is_end(state: Json) -> bool:
    """Tell whether an execution ends in a state."""
    return state["Type"] in {"Succeed", "Fail"} or state.get("End", False)


def _bypassed(whole: Json, where: str, to: str) -> Json:
    made: Json = redirected(whole, {where: to})
    del made["States"][where]
    return made


def redirected(part: Any, renamed: dict[str, str]) -> Any:
    """Let what leads to some states lead to others."""
    if isinstance(part, list):
        return [redirected(each, renamed) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        key: renamed.get(value, value)
        if key in {"Next", "Default", "StartAt"}
        else redirected(value, renamed)
        for key, value in part.items()
    }


class _Operands(NamedTuple):
    """What a file compares with or writes, by kind, as a mutant has another one in its place."""

    texts: list[str]  # that DynamoDB writes or compares with
    paths: list[list[str]]  # of numbers, and those that texts are compared with

    def exchanged(self, key: str, value: str) -> Iterator[str]:
        """Exchange a path that is compared, added or waited for, for the next one of its kind."""
        if not key.endswith("Path") and "MathAdd" not in value:
            return
        for paths in self.paths:
            for old, new in zip(paths, [*paths[1:], *paths[:1]], strict=True):
                if old != new and re.search(rf"{re.escape(old)}(?!\w)", value):
                    yield value.replace(old, new)


def _operands(whole: Json) -> _Operands:
    parameters = [state.get("Parameters", {}) for state in whole["States"].values()]
    texts = {
        value
        for each in parameters
        for field in _TYPED
        for typed in each.get(field, {}).values()
        for kind, value in typed.items()
        if kind == "S"
    }
    text = json.dumps(whole)
    numbers = [f"$.limits.{name}" for each in parameters for name in each.get("limits", {})]
    numbers += re.findall(r'"NumericGreaterThanEqualsPath": "(.+?)"', text)
    compared = re.findall(r'"StringEqualsPath": "(.+?)"', text)
    return _Operands(sorted(texts), [list(dict.fromkeys(each)) for each in (numbers, compared)])


def _changed(state: Json, operands: _Operands) -> Iterator[tuple[str, Json]]:
    yield from _other_rules(state)
    for field in ("Choices", "Retry", "Catch"):
        parts = state.get(field, [])
        for at, (one, other) in enumerate(itertools.pairwise(parts)):
            same = field != "Retry" and one["Next"] == other["Next"]
            if not same and not _exclude(one, other):
                swapped = [*parts[:at], parts[at + 1], parts[at], *parts[at + 2 :]]
                yield f"{field} {at + 1} and {at + 2} swapped", {**state, field: swapped}
    yield from _changed_expressions(state, operands)
    for path in _leaves(state):
        if not _is_attribute(path):
            yield from _other_leaf(state, path, operands)


def _changed_expressions(state: Json, operands: _Operands) -> Iterator[tuple[str, Json]]:
    parameters = state.get("Parameters", {})
    for name in ("ConditionExpression", "UpdateExpression"):
        for changed, less in _other_expressions(parameters.get(name, "")):
            other = _without_unused({**parameters, name: less})
            yield f"{name}: {changed}", {**state, "Parameters": other}
    for field in _TYPED:
        typed = parameters.get(field, {})
        for name, [(kind, value)] in ((name, typed[name].items()) for name in typed):
            texts = [text for text in operands.texts if text != value]
            for text in {"S": texts, "N": ["1"]}.get(kind, []):
                other = {**parameters, field: {**typed, name: {kind: text}}}
                yield f"{field}: {name} {text}", {**state, "Parameters": other}
    for path in filter(_is_attribute, _leaves(state)):
        yield from _other_leaf(state, path, operands)


def _is_attribute(path: tuple[str | int, ...]) -> bool:
    """Tell whether a path is that of an item's attribute other than its key."""
    return path[:2] == ("Parameters", "Item") and path[2] != "id"


def _exclude(one: Json, other: Json) -> bool:
    """Tell whether two rules never fit both, as they want a variable to equal different texts."""
    wanted, unwanted = _texts(one), _texts(other)
    return any(wanted[name].isdisjoint(unwanted[name]) for name in wanted.keys() & unwanted.keys())


def _texts(condition: Json) -> dict[str, set[str]]:
    """List the texts that a condition allows, for each variable that it compares with some."""
    if "StringEquals" in condition:
        return {condition["Variable"]: {condition["StringEquals"]}}
    if "Or" in condition:
        each = [_texts(part) for part in condition["Or"]]
        names = set.intersection(*map(set, each))
        return {name: set.union(*(texts[name] for texts in each)) for name in names}
    return {k: v for part in condition.get("And", []) for k, v in _texts(part).items()}


def _other_rules(state: Json) -> Iterator[tuple[str, Json]]:
    rules = state.get("Choices", [])
    for at, rule in enumerate(rules):
        inverted = {"Not": {k: v for k, v in rule.items() if k != "Next"}, "Next": rule["Next"]}
        changed = _edited(state, ("Choices", at), inverted)
        yield f"rule {at + 1}, to {rule['Next']}, inverted", changed
    if rules:
        yield f"Default to {rules[0]['Next']}", {**state, "Default": rules[0]["Next"]}


def _other_expressions(expression: str) -> Iterator[tuple[str, str]]:
    """Leave out each clause of a DynamoDB expression, and change each comparison."""
    if not expression:
        return
    if re.match("SET|REMOVE", expression):
        yield from _without_assignment(expression)
        return
    yield "none", ""
    for missing, less in _without_clause(expression):
        yield f"no {missing}", less
    others = {"=": "<>", "<>": "=", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
    for number, found in enumerate(re.finditer(r"(?<= )[<=>]+(?= )", expression), 1):
        other = others[found[0]]
        made = expression[: found.start()] + other + expression[found.end() :]
        yield f"comparison {number}, {found[0]}, as {other}", made


def _without_clause(expression: str) -> Iterator[tuple[str, str]]:
    for word in (" OR ", " AND "):
        parts = _split(expression, word)
        if len(parts) == 1:
            continue
        for at, part in enumerate(parts):
            before, after = parts[:at], parts[at + 1 :]
            yield part, word.join([*before, *after])
            inner = part[1:-1] if part.startswith("(") else part
            for missing, less in _without_clause(inner):
                yield missing, word.join([*before, _grouped(less), *after])
        return


def _grouped(expression: str) -> str:
    """Put an expression in parentheses if needed; DynamoDB refuses redundant ones."""
    alone = len(_split(expression, " OR ")) == len(_split(expression, " AND ")) == 1
    return expression if alone else f"({expression})"


def _without_assignment(expression: str) -> Iterator[tuple[str, str]]:
    words = re.split(r" ?\b(SET|REMOVE)\b ", expression)[1:]
    clauses = dict(zip(words[::2], words[1::2], strict=True))
    for word, assignments in clauses.items():
        parts = _split(assignments, ", ")
        for at, part in enumerate(parts):
            others = {**clauses, word: ", ".join([*parts[:at], *parts[at + 1 :]])}
            yield f"no {word} {part}", " ".join(f"{k} {v}" for k, v in others.items() if v)
            if found := re.fullmatch(r"(.+ = )if_not_exists\(.+, (.+)\)", part):
                kept = [*parts[:at], found[1] + found[2], *parts[at + 1 :]]
                others = {**clauses, word: ", ".join(kept)}
                yield f"always {part}", " ".join(f"{k} {v}" for k, v in others.items())


def _split(text: str, separator: str) -> list[str]:
    """Split a text, but not inside parentheses."""
    parts = [""]
    for piece in text.split(separator):
        whole = parts[-1].count("(") == parts[-1].count(")")
        parts[-1:] = [parts[-1], piece] if whole else [parts[-1] + separator + piece]
    return parts[1:]


def _without_unused(parameters: Json) -> Json:
    """Drop empty expressions and unused names and values, because DynamoDB refuses them."""
    made = {key: value for key, value in parameters.items() if value != ""}
    used = [made.get(name, "") for name in ("ConditionExpression", "UpdateExpression")]
    for field in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        kept = {
            k: v for k, v in made.pop(field, {}).items() if re.search(rf"{k}\b", " ".join(used))
        }
        made |= {field: kept} if kept else {}
    return made


_TYPED = ("Item", "ExpressionAttributeValues")
_NOT_CHANGED = {"Comment", "Type", "Resource", "Next", "End", "Default", "ErrorEquals", "Variable"}
_REMOVED = {"IntervalSeconds", "BackoffRate", "MaxDelaySeconds", "JitterStrategy", "CausePath"}
_EXPRESSIONS = {"ConditionExpression", "UpdateExpression"}


def _leaves(part: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """List the paths of all values that are not objects; DynamoDB's typed ones count as one."""
    inside = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in inside:
        at = (*path, key)
        if key in _NOT_CHANGED | _EXPRESSIONS or str(key).startswith("ExpressionAttribute"):
            continue
        is_typed = isinstance(value, dict) and [str(each)[:1] for each in value] in (["S"], ["N"])
        if value and isinstance(value, dict | list) and not (is_typed and "Parameters" in path):
            yield from _leaves(value, at)
        else:
            yield at


def _other_leaf(
    state: Json, path: tuple[str | int, ...], operands: _Operands
) -> Iterator[tuple[str, Json]]:
    value: Any = state
    for part in path:
        value = value[part]
    key, name = str(path[-1]), ".".join(map(str, path))

    def others() -> Iterator[tuple[str, Any]]:
        if key == "ResultPath":
            yield f"no {name}", LEFT_OUT
            if value is not None:
                yield f"{name} null", None
        elif key not in {"IsPresent", "IsString"}:  # `mutants_of` leaves the condition out
            for exchanged in operands.exchanged(key, str(value)):
                yield f"{name} {exchanged}", exchanged
            is_path = key.endswith(".$") or isinstance(value, dict) or value is None
            if key in _REMOVED or is_path:
                if added := re.fullmatch(r"(States\.MathAdd\(.*, )(\d+)\)", str(value)):
                    more = f"{added[1]}{int(added[2]) + 1})"
                    yield f"{name} {more}", more
                yield f"no {name}", LEFT_OUT
            elif isinstance(value, bool):
                yield f"{name} {not value}", not value
            elif isinstance(value, int | float):
                yield f"{name} {value + 1}", value + 1
            elif not key.endswith("Path"):
                yield f"{name} changed", "changed"

    for changed, other in others():
        yield changed, _edited(state, path, other)
