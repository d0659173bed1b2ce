"""What does an ASL file consist of? The parts that the other modules share."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx

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
CONDITION_FAILED = ["DynamoDB.ConditionalCheckFailedException"]

_TOKEN = re.compile(r"(\$\$?(?:\.[\w-]+|\[[^\]]*\])*)|'(?:[^'\\]|\\.)*'")


def parse(text: str) -> Any:
    """Parse the text of a file.

    A ValueError says that it is not JSON, or that an object has a name twice, of which JSON would
    silently drop one.
    """
    return json.loads(text, object_pairs_hook=_once_each)


def _once_each(pairs: list[tuple[str, Any]]) -> Json:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is there twice in one object")
    return dict(pairs)


def each_state(check: Callable[[Json], Iterator[str]]) -> Rule:
    """Make a rule of a check that concerns one state at a time."""

    def rule(definition: Json) -> Iterator[Violation]:
        for name, state in definition["States"].items():
            yield from ((name, wrong) for wrong in check(state))

    return rule


def targets(state: Json, ignoring: list[str] | None = None) -> list[str]:
    """List the states that may follow a state, without the Catch for exactly `ignoring`."""
    catches = [each for each in state.get("Catch", []) if each["ErrorEquals"] != ignoring]
    rules = [state, *state.get("Choices", []), *catches]
    following = [rule["Next"] for rule in rules if "Next" in rule]
    return following + ([state["Default"]] if "Default" in state else [])


def is_end(state: Json) -> bool:
    """Tell whether an execution ends in a state: Succeed, Fail, or any state with ``End``."""
    return state["Type"] in {"Succeed", "Fail"} or state.get("End") is True


def graph(states: Json, following: Callable[[str, Json], list[str]] | None = None) -> nx.DiGraph:
    """Draw the states as a graph; `following` lists those that follow one, else `targets` does."""
    drawn = nx.DiGraph()
    drawn.add_nodes_from(states)
    for name, state in states.items():
        after = following(name, state) if following else targets(state)
        drawn.add_edges_from((name, target) for target in after)
    return drawn


def values_written(states: Json, path: str) -> list[str]:
    """List the expressions and the texts that Pass states write to a path."""
    found = []
    for state in states.values():
        if state["Type"] != "Pass":
            continue
        root = state.get("ResultPath", "$")
        for name, value in state.get("Parameters", {}).items():
            inside = value.items() if isinstance(value, dict) else ()
            places = {f"{root}.{name}": value}
            places |= {f"{root}.{name}.{key}": each for key, each in inside}
            found += [str(each) for at, each in places.items() if at.removesuffix(".$") == path]
    return found


def conditions(rule: Json) -> Iterator[Json]:
    """List a rule of a Choice and all rules inside it."""
    yield rule
    inside = [rule["Not"]] if "Not" in rule else rule.get("And", []) + rule.get("Or", [])
    for each in inside:
        yield from conditions(each)


def expressions(state: Json) -> Iterator[str]:
    """List all that an engine evaluates in a state."""
    yield from payload(state.get("Parameters"))
    yield from payload(state.get("ResultSelector"))
    parts = [each for rule in state.get("Choices", []) for each in conditions(rule)]
    for part in [state, *parts]:
        yield from (str(part[each]) for each in part if each == "Variable" or each.endswith("Path"))


def payload(template: Any) -> Iterator[str]:
    """List the expressions of a payload template."""
    yield from (str(value) for name, value in values(template) if name.endswith(".$"))


def values(template: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """List the values of a payload template that have no parts, each with its name."""
    if isinstance(template, dict):
        for key, value in template.items():
            yield from values(value, key)
    elif isinstance(template, list):
        for value in template:
            yield from values(value, name)
    else:
        yield name, template


def paths(*expressions: Any) -> list[str]:
    """List the paths of expressions, but not what looks like one in their literals."""
    return [path for each in expressions for path in _TOKEN.findall(str(each)) if path]
