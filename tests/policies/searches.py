"""What the searches of several policies share: how to write scenarios, and mutants that survive."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.proof.model.scenario import Scenario
from tests.proof.model.suite import SECOND_ATTEMPT

FLAGS = {"versioned", "blind", "odd"}


def scenarios(text: str) -> tuple[Scenario, ...]:
    """Read scenarios, such as ``1 2, 11 12 A- Ab breaks=1 versioned``.

    Each of the events, 11 and 12, happens with each of the contents, A- and Ab.
    """
    found = []
    for part in text.split(", "):
        fields: dict[str, Any] = {}
        events, contents = [], []
        for word in part.split():
            name, _, count = word.partition("=")
            if word.isdigit():
                events.append(tuple(map(int, word)))
            elif word in FLAGS or count:
                fields[name] = int(count) if count else True
            else:
                contents.append(word)
        pairs = product(events, contents or [""])
        found += [Scenario(each, contents=content, **fields) for each, content in pairs]
    return tuple(found)


def named(*mutants: str) -> frozenset[str]:
    return frozenset(mutants)


# --- Mutants that break no promise, and what the shipped code is for ------------------------------

TASK_FAULTS, ALL = "States.TaskFailed, States.Timeout", "States.ALL"


def no_retry(*states: str, of: str = TASK_FAULTS) -> tuple[str, ...]:
    """Name mutants without a Retry; one of States.ALL has no attempts, and is the same as none."""
    return tuple(f"{state} without Retry of {of}" for state in states)


def no_update(change: str, *states: str) -> tuple[str, ...]:
    return tuple(f"{state} with UpdateExpression: no {change}" for state in states)


# EventBridge takes the event instead.
UNSENT = no_retry("Retry Event")
LOCKING = (
    *UNSENT,
    *no_retry("Read Key Record", of=ALL),
    # A record has `execution` only while it has a lock.
    *no_update("REMOVE execution", "Break Lock", "Release Failed Key"),
    # The table does not grow for ever.
    *no_update("SET expires_at = :expires_at", "Release Lock", "Release Failed Key"),
    *SECOND_ATTEMPT,
)
# Of a fence that keeps the newest output.
OF_NEWEST = (
    # Saves a read of the source.
    "fenced_output.py without 2: a right output is not checked",
    # Without versions: saves the work that the later event does.
    "fenced_output.py without 2: a later upload has its own event",
    # The outcome's name, if an output has been there only briefly.
    "fenced_output.py without 4: a stale event is superseded",
)
