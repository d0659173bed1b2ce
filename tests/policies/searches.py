"""The mutants that break no promise in several policies, and what the shipped code is for."""

from __future__ import annotations

from tests.proof.model.suite import SECOND_ATTEMPT


def named(*mutants: str) -> frozenset[str]:
    return frozenset(mutants)


TASK_FAULTS, ALL = "States.TaskFailed, States.Timeout", "States.ALL"


def no_retry(*states: str, of: str = TASK_FAULTS) -> tuple[str, ...]:
    """Name mutants without a Retry; one of States.ALL has no attempts, and is the same as none."""
    return tuple(f"{state} without Retry of {of}" for state in states)


def no_update(change: str, *states: str) -> tuple[str, ...]:
    return tuple(f"{state} with UpdateExpression: no {change}" for state in states)


# EventBridge takes the event instead.
UNSENT = no_retry("Retry Event")
# The model's function answers in JSON, with few bytes and with digits. The tables have the others.
EXPIRY = (
    *(f"Expiry? without rule {rule}, to Reject Result" for rule in (1, 2)),
    'Expiry? without rule 3: $.inversion.Payload.outcome StringEquals "Rejected"',
    "Invert Image without Catch of "
    "States.DataLimitExceeded, Function.ResponseSizeTooLarge, Runtime.MarshalError",
)
LOCKING = (
    *EXPIRY,
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
