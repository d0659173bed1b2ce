"""Is each error handled, by a name that there is? Another name never matches.

An optimized integration names an error by its class in the SDK for Java, not by the API's code. AWS
has been recorded to call the code StateMachineDoesNotExist
StepFunctions.StateMachineDoesNotExistException, and what has no class
DynamoDB.AmazonDynamoDBException.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache

from botocore.session import get_session

from inorder.asl.definition import INVOKE, RESOURCES, Json, Rule, each_state

# By the service in the ARN of an integration: its name in errors, and in botocore.
SERVICES = {
    "dynamodb": ("DynamoDB", "dynamodb"),
    "events": ("EventBridge", "events"),
    "lambda": ("Lambda", "lambda"),
    "sqs": ("SQS", "sqs"),
    "states": ("StepFunctions", "stepfunctions"),
}
# What an integration adds to the classes of its service:
# https://docs.aws.amazon.com/step-functions/latest/dg/connect-eventbridge.html
# https://docs.aws.amazon.com/step-functions/latest/dg/sfn-best-practices.html
ADDED = {
    "EventBridge.FailedEntry",
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.Unknown",
    "StepFunctions.AWSStepFunctionsException",
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
# What Lambda itself reports of a function that gave no answer begins with one of these.
RUNTIME = ("Extension.", "Function.", "Runtime.", "Sandbox.")


@each_state
def _error(state: Json) -> Iterator[str]:
    if (resource := state.get("Resource", "").partition(".")[0]) not in RESOURCES:
        return
    errors = STATES | _errors(resource.split(":")[-2])
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
            meant = get_close_matches(name, errors, 1, 0.8)
            instead = f": write {meant[0]}" if meant else ""
            yield f"{resource.split(':')[-2]} has no error {name}, so nothing matches it{instead}"


@cache
def _errors(service: str) -> set[str]:
    """List the errors of a service's integration, by the classes of its exceptions."""
    name, model = SERVICES[service]
    codes = {shape.name for shape in get_session().get_service_model(model).error_shapes}
    codes |= {"SdkClientException", f"Amazon{name}Exception"}
    added = {error for error in ADDED if error.startswith(f"{name}.")}
    return added | {f"{name}.{code.removesuffix('Exception')}Exception" for code in codes}


@each_state
def _catch(state: Json) -> Iterator[str]:
    catches = state.get("Catch") or [{"ErrorEquals": []}]
    if state["Type"] == "Task" and "States.ALL" not in catches[-1]["ErrorEquals"]:
        yield "an error may end the execution, and lose its event: end with a Catch of States.ALL"


@each_state
def _all_errors(state: Json) -> Iterator[str]:
    """Check States.ALL in a Retry, as statelint does in a Catch."""
    *others, last = [retrier["ErrorEquals"] for retrier in state.get("Retry", [])] or [[]]
    if any("States.ALL" in names for names in others) or ("States.ALL" in last and len(last) > 1):
        yield "States.ALL is not alone in the last of its Retry"


RULES: dict[str, Rule] = {"error": _error, "catch": _catch, "all-errors": _all_errors}
