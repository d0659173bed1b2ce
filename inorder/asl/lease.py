"""Is every lock released in time? A holder ends before its lease, and an execution before Express.

The numbers are fields of the prepared data. A Pass writes ``limits``, with ``poll_seconds`` (the
wait between two polls), ``lease_polls`` (after so many polls a waiter breaks an unchanged lock) and
``maximum_polls`` (after so many polls it gives up). A file may have a second, shorter Wait: then
``short_poll_seconds`` is the wait after each of the first ``short_polls`` polls, and it may also
follow a poll that finds a new lock. The states must read them from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import networkx as nx

from inorder.asl.definition import (
    CONDITION_FAILED,
    PUT,
    SEND,
    UPDATE,
    Finding,
    Json,
    Rule,
    conditions,
    graph,
    is_end,
    targets,
    written,
)
from inorder.execution import EXPRESS_SECONDS

NO_TIMEOUT = 99_999_999  # what AWS takes for a Task without TimeoutSeconds
THROTTLED = ["Lambda.TooManyRequestsException"]
LIMITS = "$.limits"


class LeaseNumbers(NamedTuple):
    """What a file's timeouts, retries and limits add up to, in seconds.

    Attributes
    ----------
    holder : float
        The longest that a living execution holds a lock.
    lease : float
        How long a waiter sees the same lock before it breaks it.
    waiter : float
        The longest that a waiter waits before it gives up.
    longest_execution : float
        An execution that is slow to claim, is refused, waits as long as it may, breaks the lock,
        and is then the slowest holder, with what it does after the release.
    """

    holder: float
    lease: float
    waiter: float
    longest_execution: float


def limits(definition: Json) -> dict[str, int]:
    """Read the limits that a Pass prepares; an empty dict if none does.

    Parameters
    ----------
    definition : dict
        The file.

    Raises
    ------
    ValueError
        Two states write them, or one of them is not a positive whole number.
    """
    found: dict[str, Any] = {}
    writers = []
    for name, state in definition["States"].items():
        prepared = state.get("Parameters", {}).get("limits") if state["Type"] == "Pass" else None
        if isinstance(prepared, dict):
            found = prepared
        if prepared is not None or re.match(r"\$\.limits\b", state.get("ResultPath") or ""):
            writers.append(name)
    if len(writers) > 1:
        raise ValueError(f"{LIMITS} is written by {' and by '.join(writers)}")
    for name, value in found.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{LIMITS}.{name} is {value!r} instead of a positive whole number")
    return found


def longest(state: Json, given: dict[str, int] | None = None) -> float:
    """Compute the seconds after which a state has ended or its Catch goes on.

    Each attempt may take the state's timeout, and each delay its longest, as jitter only shortens
    it. But a throttled invocation is refused at once, so that only its delays count.

    Parameters
    ----------
    state : dict
        A state of an ASL file.
    given : dict, optional
        The file's `limits`, for a Wait that reads its seconds from there.
    """
    if state["Type"] == "Wait":
        named = str(state.get("SecondsPath", "")).removeprefix(f"{LIMITS}.")
        pause: float = state.get("Seconds", (given or {}).get(named, NO_TIMEOUT))
        return pause
    if state["Type"] != "Task":
        return 0
    timeout = state.get("TimeoutSeconds", NO_TIMEOUT)
    total: float = timeout
    for retrier in state.get("Retry", []):
        delay = retrier.get("IntervalSeconds", 1)
        # No delay is below a second, so that more attempts than that are too many in any case.
        for _ in range(min(retrier.get("MaxAttempts", 3), EXPRESS_SECONDS)):
            total += min(delay, retrier.get("MaxDelaySeconds", delay))
            total += 0 if retrier["ErrorEquals"] == THROTTLED else timeout
            delay *= retrier.get("BackoffRate", 2)
    return total


def longest_execution(definition: Json) -> float:
    """Compute the seconds that the slowest way through a file takes.

    Parameters
    ----------
    definition : dict
        The file, without a finding of the earlier rules.

    Raises
    ------
    ValueError
        There is no slowest way, as an execution may come to a state again and again.
    """
    states = definition["States"]
    return _longest_path(states, graph(states), definition["StartAt"], limits(definition))


def lease_numbers(definition: Json) -> LeaseNumbers | None:
    """Compute what must be in order: holder < lease < waiter, and all of it within Express.

    Parameters
    ----------
    definition : dict
        The file, without a finding of the earlier rules.

    Returns
    -------
    LeaseNumbers or None
        None if the file claims no key, or breaks no lock.

    Raises
    ------
    ValueError
        The file does so in a way that this cannot compute. The message names what is missing.
    """
    states: Json = definition["States"]
    claims = _claims(states)
    breaks = [
        (name, rule["Next"], condition)
        for name, state in states.items()
        for rule in state.get("Choices", [])
        for condition in conditions(rule)
        if "NumericGreaterThanEqualsPath" in condition and _is_release(states[rule["Next"]])
    ]
    if not claims or not breaks:
        return None
    claim = _only(claims, "state that claims a key")
    choice, breaker, condition = _only(breaks, "rule that breaks a lock")
    waits = {name: state for name, state in states.items() if state["Type"] == "Wait"}
    wait = _only([name for name in waits if not _is_short(waits[name])], "Wait")
    given = limits(definition)
    missing = [
        *_unused_limits(states, given, choice, condition, wait),
        *_unused_short_limits(states, given, choice, condition["Variable"], wait),
    ]
    if missing:
        raise ValueError("; ".join(missing))
    refused = _only(
        [
            each["Next"]
            for each in states[claim]["Catch"]
            if each["ErrorEquals"] == CONDITION_FAILED
        ],
        f"Catch of {claim} for a failed condition",
    )
    drawn = graph(states)
    started = _between(drawn, definition["StartAt"], claim)
    each_poll = _between(drawn, states[wait]["Next"], choice)
    first_poll = _between(drawn, refused, choice) - each_poll
    breaking = _before_breaking(drawn, states[choice], condition, breaker)

    def seconds(names: set[str]) -> float:
        return sum(longest(states[name], given) for name in names)

    after_claim = graph(states, lambda name, state: _as_holder(states, claim, name, state))
    held = graph(states, lambda name, state: _while_held(states, claim, name, state))
    holder = _longest_path(states, held, claim, given)
    waiter = waited(given, given["maximum_polls"] - 1)
    return LeaseNumbers(
        holder=holder,
        # A lock that is seen at the first poll has the shortest lease.
        lease=waited(given, given["lease_polls"]),
        waiter=waiter,
        longest_execution=seconds(started | {claim})
        + seconds(first_poll)
        + waiter
        + given["maximum_polls"] * seconds(each_poll)
        + seconds(breaking | {breaker})
        + _longest_path(states, after_claim, claim, given),
    )


def _unused_limits(
    states: Json, given: dict[str, int], choice: str, condition: Json, wait: str
) -> Iterator[str]:
    """Find the limits that are not prepared, or that the states do not use.

    `condition` compares a count of polls with the poll at which the lock is broken.
    """
    for name in ("poll_seconds", "lease_polls", "maximum_polls"):
        if name not in given:
            yield f"no Pass prepares {LIMITS}.{name}"
    count, broken_at = condition["Variable"], condition["NumericGreaterThanEqualsPath"]
    give_up = {"Variable": count, "NumericGreaterThanEqualsPath": f"{LIMITS}.maximum_polls"}
    if not any(give_up.items() <= rule.items() for rule in states[choice]["Choices"]):
        yield f"{choice} does not give up at {LIMITS}.maximum_polls"
    sums = [
        value
        for state in states.values()
        for key, value in state.get("Parameters", {}).items()
        if state["Type"] == "Pass" and f"{state.get('ResultPath')}.{key}" == f"{broken_at}.$"
    ]
    added = re.escape(f"States.MathAdd({count}, {LIMITS}.lease_polls)").replace(r"\ ", " *")
    if len(sums) != 1 or not re.fullmatch(added, str(sums[0])):
        yield f"no Pass sets {broken_at} to {count} plus {LIMITS}.lease_polls"
    if states[wait].get("SecondsPath") != f"{LIMITS}.poll_seconds":
        yield f"{wait} does not wait for {LIMITS}.poll_seconds"


def _is_short(wait: Json) -> bool:
    return wait.get("SecondsPath") == f"{LIMITS}.short_poll_seconds"


def _unused_short_limits(
    states: Json, given: dict[str, int], choice: str, count: str, longer: str
) -> Iterator[str]:
    """Find the limits of a shorter Wait that are not prepared, or not used.

    `count` is the path of the number of polls, and `longer` is the other Wait.
    """
    short = [name for name, state in states.items() if _is_short(state)]
    if not short:
        if unused := [name for name in given if name.startswith("short_")]:
            yield f"no Wait waits for {LIMITS}.{unused[0]}"
        return
    wait = _only(short, f"Wait for {LIMITS}.short_poll_seconds")
    for name in ("short_poll_seconds", "short_polls"):
        if name not in given:
            yield f"no Pass prepares {LIMITS}.{name}"
    first = {"Variable": count, "NumericLessThanEqualsPath": f"{LIMITS}.short_polls"}
    rules = [rule for rule in states[choice]["Choices"] if rule["Next"] in {wait, longer}]
    if not rules or rules[0]["Next"] != wait or first not in conditions(rules[0]):
        yield f"{choice} does not go to {wait} for the first {LIMITS}.short_polls polls"
    for name, state in states.items():
        if name != choice and longer in targets(state):
            yield f"{name} goes to {longer} after any number of polls"


def waited(given: dict[str, int], polls: int) -> int:
    """Compute the seconds of so many waits, the first of which are short.

    Parameters
    ----------
    given : dict
        The file's `limits`.
    polls : int
        How many waits.
    """
    short = min(polls, given.get("short_polls", 0))
    return short * given.get("short_poll_seconds", 0) + (polls - short) * given["poll_seconds"]


def _claim(definition: Json) -> Iterator[Finding]:
    """Follow each claim until its lock is released or its event is parked.

    A release frees the key if it succeeds, and if its condition fails the lock was another's. A
    park counts even if it fails, as nothing better can be done: then the lease ends the lock.
    """
    states: Json = definition["States"]
    for claim in _claims(states):
        if states[claim]["Resource"] == UPDATE and not _compares(states, claim):
            yield (
                claim,
                "it may leave the lock to another execution, and the next state does not tell",
            )

        def following(name: str, state: Json, claim: str = claim) -> list[str]:
            if state.get("Resource") == SEND:
                return []
            if _is_release(state):
                return targets({"Catch": state.get("Catch", [])}, CONDITION_FAILED)
            return _as_holder(states, claim, name, state)

        reached = {claim} | nx.descendants(graph(states, following), claim)
        for name in sorted(reached):
            state = states[name]
            frees = _is_release(state) or state.get("Resource") == SEND
            if is_end(state) and not frees:
                yield claim, f"its lock is neither released nor its event parked on a way to {name}"


def _lease(definition: Json) -> Iterator[Finding]:
    claims = _claims(definition["States"])
    try:
        numbers = lease_numbers(definition)
    except ValueError as error:
        yield claims[0], f"its seconds cannot be computed: {error}"
        return
    if not numbers:
        return
    holder, lease, waiter, execution = numbers
    if not holder < lease < waiter:
        yield (
            claims[0],
            f"not in order: a holder's {holder:g} s, a lease's {lease:g}, a waiter's {waiter:g}",
        )
    if execution >= EXPRESS_SECONDS:
        yield (
            claims[0],
            f"the longest execution takes {execution:g} of Express's {EXPRESS_SECONDS} s",
        )


def _express(definition: Json) -> Iterator[Finding]:
    """Add up a file without a lease; one that has a lease polls, and `_lease` counts the polls."""
    try:
        if lease_numbers(definition):
            return
    except ValueError:
        return
    try:
        seconds = longest_execution(definition)
    except ValueError as error:
        yield "", f"its seconds cannot be computed: {error}"
        return
    if seconds >= EXPRESS_SECONDS:
        yield "", f"the longest execution takes {seconds:g} of Express's {EXPRESS_SECONDS} s"


def _claims(states: Json) -> list[str]:
    """List the states that write a lock token, with the whole record or into it."""
    return [
        name
        for name, state in states.items()
        if (state.get("Resource") == PUT and "lock_token" in state["Parameters"].get("Item", {}))
        or (state.get("Resource") == UPDATE and "lock_token" in written(state, "SET"))
    ]


def _compares(states: Json, claim: str) -> bool:
    """Tell whether the state after a claim compares the lock token that the claim returned."""
    first = states[states[claim]["Next"]].get("Choices", [{}])[0]
    returned = f"{states[claim].get('ResultPath')}.lock_token"
    return {first.get("Variable"), first.get("StringEqualsPath")} == {returned, "$.lock_token"}


def _as_holder(states: Json, claim: str, name: str, state: Json) -> list[str]:
    """List what may follow a state if the claim was not refused, and took the lock.

    An update may leave the lock to another execution. Then a Choice after it compares the lock
    token that the claim returned, and a holder takes the first rule.
    """
    compares = state["Type"] == "Choice" and name in targets(states[claim], CONDITION_FAILED)
    if compares and states[claim]["Resource"] == UPDATE:
        return [state["Choices"][0]["Next"]]
    return targets(state, CONDITION_FAILED if name == claim else None)


def _while_held(states: Json, claim: str, name: str, state: Json) -> list[str]:
    """List what may follow a state while the lock is held: a release ends that if it succeeds."""
    if _is_release(state):
        return targets({"Catch": state.get("Catch", [])})
    return _as_holder(states, claim, name, state)


def _is_release(state: Json) -> bool:
    """Tell whether a state removes a lock token."""
    return state.get("Resource") == UPDATE and "lock_token" in written(state, "REMOVE")


def _between(drawn: nx.DiGraph, start: str, stop: str) -> set[str]:
    """List the states that an execution may pass on its way from `start` to `stop`, without it."""
    once = drawn.copy()
    once.remove_edges_from(list(drawn.out_edges(stop)))
    passed: set[str] = ({start} | nx.descendants(once, start)) & nx.ancestors(once, stop)
    return passed


def _before_breaking(drawn: nx.DiGraph, choice: Json, condition: Json, breaker: str) -> set[str]:
    """List the states between the end of a lease and the state that breaks the lock."""
    limit = condition["NumericGreaterThanEqualsPath"]
    over = {
        rule["Next"]
        for rule in choice["Choices"]
        for each in conditions(rule)
        if each.get("NumericGreaterThanEqualsPath") == limit
    }
    return {name for start in over for name in _between(drawn, start, breaker)} & over


def _longest_path(states: Json, drawn: nx.DiGraph, start: str, given: dict[str, int]) -> float:
    """Add up the slowest way from a state to an execution's end."""
    ways = drawn.subgraph({start} | nx.descendants(drawn, start)).copy()
    if not nx.is_directed_acyclic_graph(ways):
        again = nx.find_cycle(ways, start)[0][0]
        raise ValueError(f"an execution may come to {again} again and again")
    for _, target, data in ways.edges(data=True):
        data["weight"] = longest(states[target], given)
    rest: float = nx.dag_longest_path_length(ways)
    return longest(states[start], given) + rest


def _only(found: list[Any], what: str) -> Any:
    if len(found) != 1:
        raise ValueError(f"there is not one {what}, but {len(found)}")
    return found[0]


RULES: dict[str, Rule] = {"claim": _claim, "lease": _lease, "express": _express}
