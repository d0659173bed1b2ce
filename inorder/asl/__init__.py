"""What is wrong with an ASL file? One module per question, and `check_file`, which asks them all.

A finding reads ``state: rule: what is wrong``, without the state if it concerns the whole file.
The rules follow from what this project promises, and from the states, operators, intrinsics and
integrations that mean the same on AWS and on every local engine.
"""

from pathlib import Path

from inorder.asl import graph, language, lease, portability, presence, record, size
from inorder.asl.definition import Rule, parse

# A rule relies on the stages before it: they have found nothing.
STAGES: tuple[dict[str, Rule], ...] = (
    language.SCHEMA,
    {**language.FIELDS, **portability.NULL},
    {**language.RULES, **graph.RULES, **portability.RULES},
    {**presence.RULES, **record.RULES, **lease.RULES, **size.RULES},
)


def check_file(file: Path) -> list[str]:
    """Check one ASL file."""
    try:
        definition = parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        return [f"json: cannot be read: {error.strerror}"]
    except (ValueError, RecursionError) as error:
        return [f"json: not valid JSON: {error}"]
    states = definition.get("States") if isinstance(definition, dict) else None
    if not isinstance(states, dict) or not all(isinstance(each, dict) for each in states.values()):
        return ["schema: not a state machine: it has no States"]
    for stage in STAGES:
        findings = [
            _finding(state, rule, wrong)
            for rule, check in stage.items()
            for state, wrong in check(definition)
        ]
        if findings:
            return findings
    return []


def _finding(state: str, rule: str, wrong: str) -> str:
    return f"{state}: {rule}: {wrong}" if state else f"{rule}: {wrong}"


def numbers(file: Path) -> str:
    """Say what a file without findings adds up to: its seconds, and its largest event."""
    definition = parse(file.read_text(encoding="utf-8"))
    found = lease.lease_numbers(definition)
    seconds = (
        f"longest execution {lease.longest_execution(definition):g} s"
        if not found
        else (
            f"holder {found.holder:g} s, lease {found.lease:g} s, waiter {found.waiter:g} s,"
            f" longest execution {found.longest_execution:g} s"
        )
    )
    return f"{seconds}, events of up to {size.largest_event(definition):,} bytes"
