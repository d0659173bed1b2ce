"""Is it portable? The file uses only what means the same on AWS and on every local engine."""

import re
from collections.abc import Iterator

from inorder.asl.definition import (
    RESOURCES,
    Json,
    Rule,
    Violation,
    expressions,
    of_states,
    paths,
    values,
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


@of_states
def _type(state: Json) -> Iterator[str]:
    if state["Type"] not in STATE_TYPES:
        yield f"not every engine is known to run a {state['Type']}"
    resource = state.get("Resource", "none")
    if state["Type"] == "Task" and OF_STANDARD.sub("", resource) not in RESOURCES:
        yield f"not every engine has its Resource, {resource}"


@of_states
def _express(state: Json) -> Iterator[str]:
    if refused := OF_STANDARD.search(state.get("Resource", "")):
        yield (
            f"Step Functions refuses {refused[0].strip(':')} in an EXPRESS state machine: start the"
            " other one without it, or check a STANDARD file with --standard"
        )


def _jsonata(definition: Json) -> Iterator[Violation]:
    """Without QueryLanguage, statelint refuses the other fields that go with JSONata."""
    for name, state in [("", definition), *definition["States"].items()]:
        if "QueryLanguage" in state:
            yield name, "not every engine has QueryLanguage"


@of_states
def _operator(state: Json) -> Iterator[str]:
    for operator, value in values(state.get("Choices")):
        is_safe = operator == "StringEqualsPath" or operator.startswith("Numeric")
        if operator.endswith("Path") and not is_safe:
            yield f"{operator} is not the same on every engine"
        if operator == "IsPresent" and not value:
            yield "IsPresent: false is not the same on every engine; use Not"


@of_states
def _intrinsic(state: Json) -> Iterator[str]:
    for expression in expressions(state):
        functions = set(re.findall(r"States\.(\w+)\(", expression))
        for function in sorted(functions - INTRINSICS):
            yield f"not every engine has States.{function}"
        if functions and (not expression.isascii() or "\\" in expression):
            yield f"escapes and non-ASCII are not the same on every engine: {expression}"


@of_states
def _context(state: Json) -> Iterator[str]:
    for path in paths(*expressions(state)):
        plain = re.sub(r"(?<=^\$\$\.Execution\.Input)[.\[].*", "", path)
        if path.startswith("$$") and plain not in CONTEXT:
            yield f"{path} is not the same on every engine"
    if any(path.startswith("$$") for path in paths(*expressions(state.get("ResultSelector")))):
        yield "not every engine has the context object in ResultSelector"


@of_states
def _null(state: Json) -> Iterator[str]:
    for field, part in state.items():
        has_null = any(value is None for _, value in values(part))
        if has_null and (field, state["Type"]) not in NULLS:
            yield f"a null in its {field} is not the same on every engine"


RULES: dict[str, Rule] = {
    "null": _null,
    "type": _type,
    "express": _express,
    "jsonata": _jsonata,
    "operator": _operator,
    "intrinsic": _intrinsic,
    "context": _context,
}
