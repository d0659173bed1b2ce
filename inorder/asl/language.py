"""Is it valid Amazon States Language? Two libraries know most of it, and this the rest."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from botocore.session import get_session
from botocore.validate import ParamValidator

from inorder.asl.definition import (
    RESOURCES,
    START,
    Json,
    Rule,
    Violation,
    conditions,
    each_state,
    values,
)

# A text that AWS would evaluate under a name that ends in .$, but not the name of a substitution.
_UNSURE = r"value: Ellipsis|(MessageBody|Detail|Payload|input), value: \{"
_EXPRESSION = re.compile(r"\$(?!\{)|States\.\w+\(")


def _statelint(definition: Json) -> Iterator[Violation]:
    """Ask statelint, which knows what the fields of ASL may be, and which exclude each other."""
    # Its import takes longer than most commands, which need only what else is known of a file.
    from statelint.config import Config  # noqa: PLC0415
    from statelint.linter import Linter  # noqa: PLC0415
    from statelint.problem import ProblemType  # noqa: PLC0415

    # It wants 2.0 for a rate of 2, and takes only letters and digits for a name in brackets.
    plain = re.sub(r"(?<=\[')[\w-]+(?='\])", "name", json.dumps(definition))
    try:
        problems = Linter.validate(plain, Config({ProblemType.FLOAT}))
    except (AttributeError, KeyError, TypeError) as error:
        problems = [f"a value has a wrong type: {error}"]
    for problem in dict.fromkeys(problems):  # it finds some twice
        place = problem.rpartition("State Machine.")[2].removeprefix("States.")
        state = max(filter(place.startswith, definition["States"]), key=len, default="")
        yield state, re.sub(r"State Machine\.(States\.)?", "", problem)
    if not problems:
        yield from _types(definition)


@each_state
def _types(state: Json) -> Iterator[str]:
    """Find values of types that statelint does not compare."""
    for field in ("Parameters", "ResultSelector"):
        if not isinstance(state.get(field, {}), dict):
            yield f"its {field} must be an object"
    for condition in [test for rule in state.get("Choices", []) for test in conditions(rule)]:
        if not isinstance(condition.get("Variable", ""), str):
            yield f"the Variable of a rule must be a text, and not {condition['Variable']}"
    for retrier in state.get("Retry", []):
        if not isinstance(retrier.get("BackoffRate", 2), int | float):
            yield f"a BackoffRate must be a number, and not {retrier['BackoffRate']}"


@each_state
def _default(state: Json) -> Iterator[str]:
    if state["Type"] == "Choice" and "Default" not in state:
        yield "a Choice without Default ends an execution that no rule fits, and no Catch sees it"


def _parameters(definition: Json) -> Iterator[Violation]:
    """Ask botocore, which knows the parameters of each API, what an integration may send to it.

    Its names begin with a capital letter, and it takes JSON where an API takes a text.
    https://docs.aws.amazon.com/step-functions/latest/dg/connect-parameters.html
    """
    for name, state in definition["States"].items():
        if (resource := state.get("Resource")) in RESOURCES:
            parameters = _evaluated(state.get("Parameters", {}))
            if resource == START:
                parameters = {key[0].lower() + key[1:]: value for key, value in parameters.items()}
            report = ParamValidator().validate(parameters, _input(resource)).generate_report()
            for line in report.splitlines():
                if not re.search(_UNSURE, line):
                    yield name, line


@cache
def _input(resource: str) -> Any:
    service, _, action = resource.rpartition(":::")[2].partition(":")
    name = "stepfunctions" if resource == START else service
    model = get_session().get_service_model(name)
    return model.operation_model(action[0].upper() + action[1:]).input_shape


@each_state
def _placeholders(state: Json) -> Iterator[str]:
    """https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.html says so."""
    parameters = state.get("Parameters") or {}
    texts = " ".join(str(parameters[name]) for name in parameters if name.endswith("Expression"))
    fields = [f"ExpressionAttribute{kind}" for kind in ("Names", "Values")]
    defined = {name for field in fields for name in parameters.get(field) or {}}
    for name in sorted(defined ^ set(re.findall(r"[:#]\w+", texts))):
        yield f"{name} is {'not used' if name in defined else 'used, and not given'}"


def _evaluated(template: Any) -> Any:
    """Put an ellipsis, of which nothing is known, in place of each expression of a template."""
    if isinstance(template, list):
        return [_evaluated(item) for item in template]
    if not isinstance(template, dict):
        return template
    return {
        name.removesuffix(".$"): ... if name.endswith(".$") else _evaluated(value)
        for name, value in template.items()
    }


@each_state
def _literal(state: Json) -> Iterator[str]:
    """Find what looks like an expression, but that AWS would take as it is (NO_DOLLAR).

    https://docs.aws.amazon.com/step-functions/latest/apireference/API_ValidateStateMachineDefinitionDiagnostic.html
    """
    for field in ("Parameters", "ResultSelector", "Result"):
        for name, value in values(state.get(field), field):
            if _EXPRESSION.match(str(value)) and not name.endswith(".$"):
                yield f"in {field}, {value} is a text: an expression is under a name with .$"
            if name.endswith(".$") and field == "Result":
                yield f"a Result has no expressions: {name} belongs into Parameters"


@each_state
def _smaller(state: Json) -> Iterator[str]:
    """https://docs.aws.amazon.com/step-functions/latest/dg/state-task.html says what is smaller."""
    if state.get("HeartbeatSeconds", -1) >= state.get("TimeoutSeconds", 0):
        yield "its HeartbeatSeconds must be below its TimeoutSeconds"
    for retrier in state.get("Retry", []):
        if retrier.get("MaxDelaySeconds", float("inf")) < retrier.get("IntervalSeconds", 1):
            yield "MaxDelaySeconds must not be below IntervalSeconds"


LANGUAGE: dict[str, Rule] = {"language": _statelint}
PARAMETERS: dict[str, Rule] = {"parameters": _parameters}
RULES: dict[str, Rule] = {
    "default": _default,
    "placeholders": _placeholders,
    "literal": _literal,
    "smaller": _smaller,
}
