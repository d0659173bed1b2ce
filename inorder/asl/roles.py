"""What does a state do to its key's record and to its event? Decided here, and nowhere else.

A record is locked while it has a ``lock_token``. A message that hands an event over names its
outcome.
"""

from enum import StrEnum

from inorder.asl.definition import (
    INVOKE,
    PUT,
    PUT_EVENTS,
    SEND,
    START,
    UPDATE,
    Json,
    assigned,
    removed,
)
from inorder.model.outcomes import RETRYING


class Role(StrEnum):
    """Something that a state does."""

    CLAIMS = "claims"  # takes the key's lock
    RELEASES = "releases"  # removes the token of its own lock
    RECORDS = "records"  # writes its execution's event to the table
    WORKS = "works"  # has an effect elsewhere
    STARTS = "starts"  # starts an execution of its own state machine
    HANDS_OVER = "hands over"  # sends the event to the retry queue, or to the bus that leads there


def roles(state: Json) -> frozenset[Role]:
    """Tell what a state does, from its ASL, substituted or not."""
    resource, parameters = state.get("Resource"), state.get("Parameters", {})
    if resource in {PUT, UPDATE}:
        written = assigned(state)
        tells = {
            Role.CLAIMS: "lock_token" in written,
            Role.RELEASES: "lock_token" in removed(state),
            Role.RECORDS: "event" in written,
        }
        return frozenset(role for role, does_it in tells.items() if does_it)
    if resource == START and parameters.get("StateMachineArn.$") == "$$.StateMachine.Id":
        return frozenset({Role.STARTS})
    if resource in {SEND, PUT_EVENTS}:
        messages = [entry.get("Detail") for entry in parameters.get("Entries", [])]
        for message in [parameters.get("MessageBody"), *messages]:
            if isinstance(message, dict) and message.get("outcome") == RETRYING:
                return frozenset({Role.HANDS_OVER})
    return frozenset({Role.WORKS} if resource in {INVOKE, SEND, PUT_EVENTS, START} else ())


def doing(states: Json, wanted: Role) -> list[str]:
    """List the states that do something."""
    return [name for name, state in states.items() if wanted in roles(state)]
