"""What does a state do to its key's record and to its event? Decided here, and nowhere else.

A record is locked while it has a ``lock_token``. Each execution makes a token of its own and keeps
it at ``$.lock_token`` of its data. A message to a queue, or to the retry bus, names its outcome.
"""

import re
from enum import StrEnum

from inorder.asl.definition import (
    DELETE,
    INVOKE,
    PUT,
    PUT_EVENTS,
    SEND,
    START,
    UPDATE,
    Json,
    payload,
)
from inorder.model.outcomes import PARKED, RETRYING

TOKEN = "$.lock_token"  # noqa: S105 - where an execution has the token of its own lock
# The condition of a write that only the lock's holder may make begins with this. A renewed lock's
# token begins with the token of the claim.
OWN_LOCK = "begins_with(lock_token, :lock_token)"

_GIVEN = ("Names", "Values")
# attribute = :value, or attribute = if_not_exists(attribute, :value)
_ASSIGNED = re.compile(r"(#?\w+) *= *(?:if_not_exists\(\1 *, *)?(:\w+)")
_KEPT = re.compile(r"if_not_exists\((\w+) *,")
_REMOVED = re.compile(r"\bREMOVE +(.+?) *(?:\b(?:SET|ADD|DELETE)\b|$)")


class Role(StrEnum):
    """Something that a state does."""

    CLAIMS = "claims"  # takes the lock: writes its token into a record that is not its own yet
    SHARES = "shares"  # claims, and may succeed although another execution keeps the lock
    TAKES_OVER = "takes over"  # claims, also in place of a lock that it has watched
    RENEWS = "renews"  # gives its own lock another token
    RELEASES = "releases"  # removes the token of its own lock
    BREAKS = "breaks"  # removes the token of a lock that it has watched
    RECORDS = "records"  # writes its execution's event to the table
    WORKS = "works"  # has an effect elsewhere: invokes, or sends what is neither parked nor retried
    STARTS = "starts"  # starts an execution of its own state machine
    PARKS = "parks"  # sends the event to the queue of parked events
    RETRIES = "retries"  # sends the event to the retry queue, or to the bus that leads there


HANDS_OVER = (Role.PARKS, Role.RETRIES)


def roles(state: Json) -> frozenset[Role]:
    """Tell what a state does, from its ASL, substituted or not."""
    resource, parameters = state.get("Resource"), state.get("Parameters", {})
    values = parameters.get("ExpressionAttributeValues", {})
    found = set[Role]()
    if resource in {PUT, UPDATE}:
        found |= _lock(resource, parameters, values)
    if resource in {PUT, UPDATE} and "event" in assigned(state):
        found.add(Role.RECORDS)
    outcome = _outcome(parameters) if resource in {SEND, PUT_EVENTS} else ""
    if outcome == RETRYING:
        found.add(Role.RETRIES)
    elif resource == SEND and outcome in PARKED:
        found.add(Role.PARKS)
    elif resource == START and parameters.get("StateMachineArn.$") == "$$.StateMachine.Id":
        found.add(Role.STARTS)
    elif resource in {INVOKE, SEND, PUT_EVENTS, START}:
        found.add(Role.WORKS)
    return frozenset(found)


def does(state: Json, *wanted: Role) -> bool:
    """Tell whether a state does one of some things."""
    return not roles(state).isdisjoint(wanted)


def doing(states: Json, *wanted: Role) -> list[str]:
    """List the states that do one of some things."""
    return [name for name, state in states.items() if does(state, *wanted)]


def working(states: Json) -> list[str]:
    """List the states that have an effect elsewhere: also a write to a table without locks."""
    tables = [states[name]["Parameters"].get("TableName") for name in doing(states, Role.CLAIMS)]
    return [
        name
        for name, state in states.items()
        if does(state, Role.WORKS)
        or (
            state.get("Resource") in {PUT, UPDATE, DELETE}
            and state.get("Parameters", {}).get("TableName") not in tables
        )
    ]


def assigned(state: Json) -> Json:
    """Give the attributes that a write sets, each with its value in DynamoDB's JSON."""
    parameters = state.get("Parameters", {})
    names, values = (parameters.get(f"ExpressionAttribute{each}", {}) for each in _GIVEN)
    clauses = _ASSIGNED.findall(parameters.get("UpdateExpression", ""))
    made = {names.get(attribute, attribute): values.get(value, {}) for attribute, value in clauses}
    return {**parameters.get("Item", {}), **made}


def kept(state: Json) -> set[str]:
    """List the attributes that an update sets only if the record lacks them."""
    return set(_KEPT.findall(state["Parameters"].get("UpdateExpression", "")))


def removed(state: Json) -> set[str]:
    """List the attributes that an update removes."""
    parameters = state.get("Parameters", {})
    names = parameters.get("ExpressionAttributeNames", {})
    found = _REMOVED.search(parameters.get("UpdateExpression", ""))
    return {names.get(each, each) for each in re.split(", *", found[1])} if found else set()


def _lock(resource: str, parameters: Json, values: Json) -> set[Role]:
    """Tell what a write does to the lock."""
    condition = parameters.get("ConditionExpression", "")
    if resource == PUT:
        compared = re.findall(r"\block_token = (:\w+)", condition)
        claims = {Role.CLAIMS} if "lock_token" in parameters.get("Item", {}) else set()
        others = any(values.get(each, {}).get("S.$") != TOKEN for each in compared)
        return claims | ({Role.TAKES_OVER} if claims and others else set())
    found = set[Role]()
    update = {"Parameters": parameters}
    if "lock_token" in assigned(update):
        found.add(Role.RENEWS if condition.startswith(OWN_LOCK) else Role.CLAIMS)
        if "lock_token" in kept(update) and Role.CLAIMS in found:
            found.add(Role.SHARES)
    if "lock_token" in removed(update):
        found.add(Role.RELEASES if TOKEN in payload(values) else Role.BREAKS)
    return found


def _outcome(parameters: Json) -> str:
    """Give the outcome that a message names, or ""."""
    details = [each.get("Detail") for each in parameters.get("Entries", [])]
    for message in (parameters.get("MessageBody"), *details):
        if isinstance(message, dict):
            return str(message.get("outcome"))
    return ""
