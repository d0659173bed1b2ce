"""Is the graph complete? Each state says why it is there, and has an answer to an error."""

from collections.abc import Iterator

from inorder.asl.definition import Json, Rule, Violation, each_state, is_end
from inorder.asl.roles import HANDS_OVER, doing


@each_state
def _comment(state: Json) -> Iterator[str]:
    if not state.get("Comment"):
        yield "has no Comment that says why it is there"


@each_state
def _timeout_retry_catch(state: Json) -> Iterator[str]:
    if state["Type"] != "Task":
        return
    for field in ("TimeoutSeconds", "Retry", "Catch"):
        if not state.get(field):
            yield f"a Task without {field}"
    if state.get("Catch") and "States.ALL" not in state["Catch"][-1]["ErrorEquals"]:
        yield "its Catch does not end with States.ALL, so that an error may lose the event"


@each_state
def _all_errors(state: Json) -> Iterator[str]:
    """Check States.ALL in a Retry, as statelint does in a Catch."""
    *others, last = [each["ErrorEquals"] for each in state.get("Retry", [])] or [[]]
    if any("States.ALL" in each for each in others) or ("States.ALL" in last and len(last) > 1):
        yield "States.ALL is not alone in the last of its Retry"


def _result(definition: Json) -> Iterator[Violation]:
    states: Json = definition["States"]
    for name, state in states.items() if doing(states, *HANDS_OVER) else ():
        for rule in [state, *state.get("Catch", [])] if state["Type"] == "Task" else []:
            if "ResultPath" not in rule:
                what = "result" if rule is state else "error"
                yield name, f"its {what} takes the place of all data: it has no ResultPath"
        if state.get("OutputPath") not in {"$", None}:
            yield name, f"its OutputPath drops all data but {state['OutputPath']}"


def _outcome(definition: Json) -> Iterator[Violation]:
    """Compare the name of each end with what it reports: commands read this, metrics the name."""
    for name, state in definition["States"].items():
        if not is_end(state):
            continue
        if (kind := state["Type"]) not in {"Pass", "Fail"}:
            yield name, f"ends with a {kind}, which reports no outcome: add a Pass after it"
            continue
        field = "Error" if kind == "Fail" else "Parameters.outcome"
        told = state.get("Error", state.get("Parameters", {}).get("outcome"))
        if told != name.replace(" ", ""):
            yield name, f"ends with {field} {told}, and not {name.replace(' ', '')}, its own name"


RULES: dict[str, Rule] = {
    "comment": _comment,
    "timeout-retry-catch": _timeout_retry_catch,
    "all-errors": _all_errors,
    "outcome": _outcome,
    "result": _result,
}
