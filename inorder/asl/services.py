"""Does a service have each parameter and error that a state names? botocore has its model.

A name of an error that there is not never matches. An optimized integration names an error by its
class in the SDK for Java, not by the API's code: AWS has been recorded to call the code
StateMachineDoesNotExist StepFunctions.StateMachineDoesNotExistException, and what has no class
DynamoDB.AmazonDynamoDBException.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any

from botocore.session import get_session
from botocore.validate import ParamValidator

from inorder.asl.definition import INVOKE, RESOURCES, START, Json, Rule, Violation, of_states

# By the service in the ARN of an integration: its name in errors and in botocore, and what the
# integration adds to the classes of its service:
# https://docs.aws.amazon.com/step-functions/latest/dg/connect-eventbridge.html
# https://docs.aws.amazon.com/step-functions/latest/dg/sfn-best-practices.html
OF_LAMBDA = {"AWSLambdaException", "ClientExecutionTimeoutException", "Unknown"}
SERVICES: dict[str, tuple[str, str, set[str]]] = {
    "dynamodb": ("DynamoDB", "dynamodb", set()),
    "events": ("EventBridge", "events", {"FailedEntry"}),
    "lambda": ("Lambda", "lambda", OF_LAMBDA),
    "sqs": ("SQS", "sqs", set()),
    "states": ("StepFunctions", "stepfunctions", {"AWSStepFunctionsException"}),
}
# https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
STATES = {
    f"States.{name}"
    for name in (
        *("ALL", "BranchFailed", "DataLimitExceeded", "ExceedToleratedFailureThreshold"),
        *("HeartbeatTimeout", "Http.Socket", "IntrinsicFailure", "ItemReaderFailed"),
        *("NoChoiceMatched", "ParameterPathFailure", "Permissions", "QueryEvaluationError"),
        *("ResultPathMatchFailure", "ResultWriterFailed", "Runtime", "TaskFailed", "Timeout"),
    )
}
# A text that AWS would evaluate under a name that ends in .$, but not the name of a substitution.
_UNSURE = r"value: Ellipsis|(MessageBody|Detail|Payload|input), value: \{"
# What Lambda itself reports of a function that gave no answer begins with one of these.
RUNTIME = ("Extension.", "Function.", "Runtime.", "Sandbox.")


@of_states
def _error(state: Json) -> Iterator[str]:
    if (resource := state.get("Resource", "").partition(".")[0]) not in RESOURCES:
        return
    service = resource.split(":")[-2]
    errors = STATES | _errors(service)
    for rule in [*state.get("Retry", []), *state.get("Catch", [])]:
        for name in rule["ErrorEquals"]:
            if name in errors or (resource == INVOKE and name.startswith(RUNTIME)):
                continue
            if resource == INVOKE and not name.startswith(("States.", "Lambda.")):
                yield (
                    f"not every engine names the function's exception {name}: let the function"
                    " return what it decides, and a Choice compare it"
                )
                continue
            similar = get_close_matches(name, errors, 1, 0.8)
            instead = f": write {similar[0]}" if similar else ""
            yield f"{service} has no error {name}, so nothing matches it{instead}"


@cache
def _model(service: str) -> Any:
    return get_session().get_service_model(SERVICES[service][1])


@cache
def _errors(service: str) -> set[str]:
    """List the errors of a service's integration, by the classes of its exceptions."""
    name, _, added = SERVICES[service]
    codes = {shape.name for shape in _model(service).error_shapes}
    codes |= {"SdkClientException", f"Amazon{name}Exception"}
    classes = {f"{code.removesuffix('Exception')}Exception" for code in codes}
    return {f"{name}.{error}" for error in classes | added}


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
            service, action = resource.split(":")[-2:]
            operation = _model(service).operation_model(action[0].upper() + action[1:])
            report = ParamValidator().validate(parameters, operation.input_shape)
            for line in report.generate_report().splitlines():
                if not re.search(_UNSURE, line):
                    yield name, line


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


RULES: dict[str, Rule] = {"parameters": _parameters, "error": _error}
