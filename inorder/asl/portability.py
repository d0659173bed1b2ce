"""Is it portable? The file uses only what means the same on AWS and on every local engine."""

import re
from collections.abc import Iterator
from typing import Any

from inorder.asl.definition import (
    RESOURCES,
    Json,
    Rule,
    Violation,
    conditions,
    each_state,
    expressions,
    paths,
    payload,
)

STATE_TYPES = {"Pass", "Task", "Choice", "Wait", "Succeed", "Fail"}
# EXPRESS waits for no job and no token, and has no activities:
# https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
OF_STANDARD = re.compile(r"\.sync(:2)?$|\.waitForTaskToken$|:activity:")
INTRINSICS = {
    *("ArrayLength", "Format", "Hash", "JsonMerge", "JsonToString", "MathAdd"),
    *("StringSplit", "StringToJson", "UUID"),
}
CONTEXT = {
    "$$.Execution.Id",
    "$$.Execution.Input",
    "$$.Execution.Name",
    "$$.State.EnteredTime",
    "$$.StateMachine.Id",
    "$$.StateMachine.Name",
}

NULLS = {("ResultPath", "Task"), ("OutputPath", "Choice")}


@each_state
def _type(state: Json) -> Iterator[str]:
    if state["Type"] not in STATE_TYPES:
        yield f"not every engine is known to run a {state['Type']}"
    resource = state.get("Resource", "none")
    if state["Type"] == "Task" and OF_STANDARD.sub("", resource) not in RESOURCES:
        yield f"not every engine has its Resource, {resource}"


@each_state
def _express(state: Json) -> Iterator[str]:
    if refused := OF_STANDARD.search(state.get("Resource", "")):
        yield (
            f"Step Functions refuses {refused[0].strip(':')} in an EXPRESS state machine: start the"
            " other one without it, or check a STANDARD file with --standard"
        )


def _jsonata(definition: Json) -> Iterator[Violation]:
    for name, state in [("", definition), *definition["States"].items()]:
        for part in [state, *state.get("Choices", []), *state.get("Catch", [])]:
            for field in sorted({"QueryLanguage", "Assign", "Arguments", "Output"} & set(part)):
                yield name, f"not every engine has {field}"


@each_state
def _operator(state: Json) -> Iterator[str]:
    for condition in [test for rule in state.get("Choices", []) for test in conditions(rule)]:
        for operator, value in condition.items():
            is_safe = operator == "StringEqualsPath" or operator.startswith("Numeric")
            if operator.endswith("Path") and not is_safe:
                yield f"{operator} is not the same on every engine"
            if operator == "IsPresent" and not value:
                yield "IsPresent: false is not the same on every engine; use Not"


@each_state
def _intrinsic(state: Json) -> Iterator[str]:
    for expression in expressions(state):
        functions = set(re.findall(r"States\.(\w+)\(", expression))
        for function in sorted(functions - INTRINSICS):
            yield f"not every engine has States.{function}"
        if functions and (not expression.isascii() or "\\" in expression):
            yield f"escapes and non-ASCII are not the same on every engine: {expression}"


@each_state
def _context(state: Json) -> Iterator[str]:
    for path in paths(*expressions(state)):
        plain = re.sub(r"(?<=^\$\$\.Execution\.Input)[.\[].*", "", path)
        if path.startswith("$$") and plain not in CONTEXT:
            yield f"{path} is not the same on every engine"
    if any(path.startswith("$$") for path in paths(*payload(state.get("ResultSelector")))):
        yield "not every engine has the context object in ResultSelector"


@each_state
def _null(state: Json) -> Iterator[str]:
    for field, value in state.items():
        if _has_null(value) and (field, state["Type"]) not in NULLS:
            yield f"a null in its {field} is not the same on every engine"


def _has_null(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    return value is None or (isinstance(value, dict | list) and any(map(_has_null, inside)))


RULES: dict[str, Rule] = {
    "null": _null,
    "type": _type,
    "express": _express,
    "jsonata": _jsonata,
    "operator": _operator,
    "intrinsic": _intrinsic,
    "context": _context,
}
