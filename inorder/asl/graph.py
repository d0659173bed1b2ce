"""Is the graph complete? Each state is valid, reached, explained, and has an answer to an error."""

from __future__ import annotations

import json
from collections.abc import Iterator

import networkx as nx

from inorder.asl.definition import Json, Rule, Violation, each_state, graph, is_end, targets


def _schema(definition: Json) -> Iterator[Violation]:
    """Ask cfn-lint, which knows ASL's schema, by way of the resource that would hold the file."""
    # Their import takes longer than most commands, which need only what else is known of a file.
    from cfnlint import ManualArgs  # noqa: PLC0415
    from cfnlint.api import lint  # noqa: PLC0415

    template = {
        "Resources": {
            "StateMachine": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {
                    "RoleArn": "arn:aws:iam::123456789012:role/check",
                    "Definition": definition,
                },
            }
        }
    }
    for match in lint(json.dumps(template), config=ManualArgs(regions=["us-east-1"])):
        place = [str(part) for part in (match.path or [])[4:]]
        in_state = place[:1] == ["States"] and len(place) > 1
        inside = " > ".join(place[2:] if in_state else place)
        where = f"{inside}: " if inside else ""
        yield place[1] if in_state else "", f"{where}{match.message} ({match.rule.id})"


def _next(definition: Json) -> Iterator[Violation]:
    states: Json = definition["States"]
    for name, state in states.items():
        for target in targets(state):
            if target not in states:
                yield name, f"goes on to {target}, and there is no such state"


def _reached(definition: Json) -> Iterator[Violation]:
    states, start = definition["States"], definition["StartAt"]
    for name in sorted(set(states) - {start} - nx.descendants(graph(states), start)):
        yield name, "no state leads to it"


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
def _default(state: Json) -> Iterator[str]:
    if state["Type"] == "Choice" and "Default" not in state:
        yield "a Choice without Default"


@each_state
def _all_errors(state: Json) -> Iterator[str]:
    for field in ("Retry", "Catch"):
        errors = [each["ErrorEquals"] for each in state.get(field, [])]
        if any("States.ALL" in each for each in errors[:-1]):
            yield f"States.ALL is not the last in its {field}"
        if any("States.ALL" in each and len(each) > 1 for each in errors):
            yield f"States.ALL is not alone in its {field}"


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


SCHEMA: dict[str, Rule] = {"schema": _schema}
NEXT: dict[str, Rule] = {"next": _next}
RULES: dict[str, Rule] = {
    "reached": _reached,
    "comment": _comment,
    "timeout-retry-catch": _timeout_retry_catch,
    "default": _default,
    "all-errors": _all_errors,
    "outcome": _outcome,
}
