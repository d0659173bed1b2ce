"""What is wrong with an ASL file? One module per question, and `check_file`, which asks them all.

A finding reads ``state: rule: what is wrong``, without the state if it concerns the whole file.
The rules follow from what this project promises, and from the states, operators, intrinsics and
integrations that mean the same on AWS and on every local engine.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inorder.asl import errors, language, portability, seconds, size
from inorder.asl.definition import Json, Rule, Violation, parse
from inorder.asl.roles import Role, doing
from inorder.asl.walk import walk


def _absent(definition: Json) -> Iterator[Violation]:
    """Find reads of what may be absent: States.Runtime ends the execution, and no Catch sees it.

    A file that hands no event over relies on whoever starts it with the right input.
    """
    hands_over = doing(definition["States"], Role.HANDS_OVER)
    for state, path, is_input in sorted(walk(definition).absent):
        if hands_over or not is_input:
            yield state, f"reads {path}, which may be absent: test it with IsPresent before"
    for state, name in sorted(walk(definition).left_out):
        yield state, f"its ProjectionExpression leaves out {name}, which a later state reads"


# A rule relies on the stages before it: they have found nothing.
STAGES: tuple[dict[str, Rule], ...] = (
    language.LANGUAGE,
    language.PARAMETERS,
    {**language.RULES, **errors.RULES, **portability.RULES},
    {"absent": _absent, **seconds.RULES, **size.RULES},
)
# STANDARD lasts for a year, waits for tasks, and keeps an execution that failed.
# https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
OF_EXPRESS = {"express", "catch", "absent", "seconds", "size"}


def check_file(file: Path, *, standard: bool = False) -> list[str]:
    """Check the ASL file of an EXPRESS state machine, or of a STANDARD one."""
    try:
        definition = parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        return [f"json: cannot be read: {error.strerror}"]
    except (ValueError, RecursionError) as error:
        return [f"json: not valid JSON: {error}"]
    states = definition.get("States") if isinstance(definition, dict) else None
    if not isinstance(states, dict) or not all(isinstance(body, dict) for body in states.values()):
        return ["language: not a state machine: it has no States"]
    for stage in STAGES:
        findings = [
            f"{state}: {rule}: {wrong}" if state else f"{rule}: {wrong}"
            for rule, check in stage.items()
            if not (standard and rule in OF_EXPRESS)
            for state, wrong in check(definition)
        ]
        if findings:
            return findings
    return []


def numbers(file: Path) -> str:
    """Say what an EXPRESS file without findings adds up to: its seconds and its sizes."""
    definition: Any = parse(file.read_text(encoding="utf-8"))
    return (
        f"longest execution {seconds.longest_execution(definition):g} s, events of up to"
        f" {size.largest_event(definition):,} bytes, answers of up to"
        f" {size.largest_answer(definition):,} bytes"
    )
