"""What does an ASL file consist of? The parts that the other modules share."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]
Violation = tuple[str, str]  # state, or "" for the whole file; what is wrong
Rule = Callable[[Json], Iterator[Violation]]

PUT, UPDATE, DELETE, GET = (
    f"arn:aws:states:::dynamodb:{action}Item" for action in ("put", "update", "delete", "get")
)
INVOKE, SEND, PUT_EVENTS, START = (
    f"arn:aws:states:::{action}"
    for action in ("lambda:invoke", "sqs:sendMessage", "events:putEvents", "states:startExecution")
)
RESOURCES = {PUT, UPDATE, DELETE, GET, INVOKE, SEND, PUT_EVENTS, START}
# No Express execution lives longer:
# https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
EXPRESS_SECONDS = 300

_TOKEN = re.compile(r"(\$\$?(?:\.[\w-]+|\[[^\]]*\])*)|'(?:[^'\\]|\\.)*'")
# attribute = :value, or attribute = if_not_exists(attribute, :value)
_ASSIGNED = re.compile(r"(#?\w+) *= *(?:if_not_exists\(\1 *, *)?(:\w+)")
_REMOVED = re.compile(r"\bREMOVE +(.+?) *(?:\b(?:SET|ADD|DELETE)\b|$)")


def parse(text: str) -> Any:
    """Parse the text of a file.

    A ValueError says that it is not JSON, or that an object has a name twice, of which JSON would
    silently drop one.
    """
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is there twice in one object")
    return dict(pairs)


def of_states(check: Callable[[Json], Iterator[str]]) -> Rule:
    """Make a rule of a check that concerns one state at a time."""

    def rule(definition: Json) -> Iterator[Violation]:
        for name, state in definition["States"].items():
            yield from ((name, wrong) for wrong in check(state))

    return rule


def targets(state: Json) -> list[str]:
    """List the states that may follow a state."""
    rules = [state, *state.get("Choices", []), *state.get("Catch", [])]
    following = [rule["Next"] for rule in rules if "Next" in rule]
    return following + ([state["Default"]] if "Default" in state else [])


def is_end(state: Json) -> bool:
    """Tell whether an execution ends in a state: Succeed, Fail, or any state with ``End``."""
    return state["Type"] in {"Succeed", "Fail"} or state.get("End") is True


def values(part: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """List the values of a part of a file that have no parts, each with its name."""
    if isinstance(part, dict):
        for field, value in part.items():
            yield from values(value, field)
    elif isinstance(part, list):
        for value in part:
            yield from values(value, name)
    else:
        yield name, part


def expressions(part: Any) -> Iterator[str]:
    """List all that an engine evaluates in a part of a file."""
    for name, value in values(part):
        if name == "Variable" or name.endswith((".$", "Path")):
            yield str(value)


def paths(*expressions: Any) -> list[str]:
    """List the paths of expressions, but not what looks like one in their literals."""
    return [path for expression in expressions for path in _TOKEN.findall(str(expression)) if path]


def assigned(state: Json) -> Json:
    """Give the attributes that a write to DynamoDB sets, each with its typed value."""
    parameters = state.get("Parameters", {})
    names = parameters.get("ExpressionAttributeNames", {})
    values = parameters.get("ExpressionAttributeValues", {})
    clauses = _ASSIGNED.findall(parameters.get("UpdateExpression", ""))
    updated = {names.get(name, name): values.get(value, {}) for name, value in clauses}
    return {**parameters.get("Item", {}), **updated}


def removed(state: Json) -> set[str]:
    """List the attributes that an update of DynamoDB removes."""
    parameters = state.get("Parameters", {})
    names = parameters.get("ExpressionAttributeNames", {})
    clause = _REMOVED.search(parameters.get("UpdateExpression", ""))
    return {names.get(name, name) for name in re.split(", *", clause[1])} if clause else set()
