"""Is it valid Amazon States Language, and is each fault handled? statelint knows most of it."""

import json
import re
from collections.abc import Iterator

from inorder.asl.definition import Json, Rule, Violation, of_states, values


def _statelint(definition: Json) -> Iterator[Violation]:
    """Ask statelint, which knows what the fields of ASL may be, and which exclude each other."""
    # Its import takes longer than most commands, which need only what else a file tells.
    from statelint.linter import Linter  # noqa: PLC0415

    # It takes only letters and digits for a name in brackets, and wants 2.0 for a rate of 2.
    plain = re.sub(r"(?<=\[')[\w-]+(?='\])", "name", json.dumps(definition))
    plain = re.sub(r'"BackoffRate": \d+(?=[,}])', r"\g<0>.0", plain)
    for problem in dict.fromkeys(Linter.validate(plain)):  # it finds some twice
        place = problem.rpartition("State Machine.")[2].removeprefix("States.")
        state = max(filter(place.startswith, definition["States"]), key=len, default="")
        yield state, re.sub(r"State Machine\.(States\.)?", "", problem)
    yield from _types(definition)


@of_states
def _types(state: Json) -> Iterator[str]:
    """Find values of types that statelint does not compare."""
    for field in ("Parameters", "ResultSelector"):
        if not isinstance(state.get(field, {}), dict):
            yield f"its {field} must be an object"
    for field, value in values(state.get("Choices")):
        if field == "Variable" and not isinstance(value, str):
            yield f"the Variable of a rule must be a text, and not {value}"


@of_states
def _default(state: Json) -> Iterator[str]:
    if state["Type"] == "Choice" and "Default" not in state:
        yield "a Choice without Default ends an execution that no rule fits, and no Catch sees it"


@of_states
def _catch(state: Json) -> Iterator[str]:
    catches = state.get("Catch") or [{"ErrorEquals": []}]
    if state["Type"] == "Task" and "States.ALL" not in catches[-1]["ErrorEquals"]:
        yield "an error may end the execution, and lose its event: end with a Catch of States.ALL"


LANGUAGE: dict[str, Rule] = {"language": _statelint}
RULES: dict[str, Rule] = {"default": _default, "catch": _catch}
