"""How executions end, and how one is named that a holder starts: read from the default policy.

Its ASL file has all outcomes of the shipped policies; a policy of your own may have others.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from inorder.asl.definition import PUT_EVENTS, SEND, START, is_end, targets
from inorder.model.policies import definition, names


@cache
def finished() -> frozenset[str]:
    """Name the outcomes after which no message of the event can matter."""
    return frozenset(_ends("Pass").values()) - {retrying()}


@cache
def done() -> frozenset[str]:
    """Name the outcomes of an execution that has itself finished its event."""
    return finished() - {"Duplicate"}


@cache
def retrying() -> str:
    """Name the outcome of an execution after which another one starts."""
    [found] = {
        each["Parameters"]["MessageBody"]["outcome"]
        for each in _states().values()
        if each.get("Parameters", {}).get("QueueUrl") == "${RetryEventsQueueUrl}"
    }
    return str(found)


@cache
def parked() -> frozenset[str]:
    """Name the outcomes after which the event is in the queue of parked events."""
    unsent = {
        name
        for each in _states().values()
        if each.get("Resource") in {SEND, PUT_EVENTS}
        for name in targets({"Catch": each["Catch"]})
    }
    return frozenset(end for name, end in _ends("Fail").items() if name not in unsent)


@cache
def started_name() -> str:
    """Give the beginning of the name of an execution that a holder starts."""
    [start] = [each for each in _states().values() if each.get("Resource") == START]
    name: str = start["Parameters"]["Name.$"]  # States.Format('...{}', ...)
    return name.split("'")[1].partition("{")[0]


def _states() -> dict[str, Any]:
    states: dict[str, Any] = definition(names()[0])["States"]
    return states


def _ends(kind: str) -> dict[str, str]:
    """Give what the states of a type say in which an execution ends."""
    return {
        name: state["Error"] if kind == "Fail" else state["Parameters"]["outcome"]
        for name, state in _states().items()
        if state["Type"] == kind and is_end(state)
    }
