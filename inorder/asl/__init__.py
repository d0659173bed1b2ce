"""What is wrong with an ASL file? One module per question, and `check_file`, which asks them all.

A finding reads ``state: rule: what is wrong``, without the state if it concerns the whole file.
The rules follow from what this project promises, and from the states, operators, intrinsics and
integrations that mean the same on AWS and on every local engine.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inorder.asl import language, portability, seconds, services, size
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


# Each stage relies on the ones before: they have found nothing.
STAGES: tuple[dict[str, Rule], ...] = (
    language.LANGUAGE,
    {**language.RULES, **services.RULES, **portability.RULES},
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
    return check(definition, standard=standard)


def check(definition: Json, *, standard: bool = False) -> list[str]:
    """Check a state machine."""
    for stage in STAGES:
        rules = {name: stage[name] for name in stage if not (standard and name in OF_EXPRESS)}
        try:
            findings = [
                f"{state}: {name}: {wrong}" if state else f"{name}: {wrong}"
                for name, rule in rules.items()
                for state, wrong in rule(definition)
            ]
        except (AttributeError, KeyError, TypeError) as error:
            findings = [f"language: a value has a wrong type: {error}"]
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
