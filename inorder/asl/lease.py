"""Is the lock held while the work takes? A lease covers that, and Express the whole execution.

A lease covers the claim and one attempt of the work. A further attempt renews the lock first: it
gives the lock another token, with which the waiters' leases start again. What comes after the work
needs no lease if each of its writes asks for the lock token, and the fence knows its own output. An
effect that no fence protects must be marked as done within the lease, too.

The numbers are fields of the prepared data. A Pass writes ``limits``, with ``poll_seconds`` (the
wait between two polls), ``lease_polls`` (after so many polls a waiter breaks an unchanged lock) and
``maximum_polls`` (after so many polls it gives up). The states must read them from there. A wait of
other seconds is no part of a lease: none may lie between two polls that are counted.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import networkx as nx

from inorder.asl import walk
from inorder.asl.definition import (
    CONDITION_FAILED,
    EXPRESS_SECONDS,
    INVOKE,
    Json,
    Rule,
    Violation,
    conditions,
    graph,
    is_end,
    targets,
    values_written,
)
from inorder.asl.roles import HANDS_OVER, TOKEN, Role, does, doing, working

NO_TIMEOUT = 99_999_999  # what AWS takes for a Task without TimeoutSeconds
THROTTLED = ["Lambda.TooManyRequestsException"]
# DynamoDB has not done what it refuses with one of these.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
NOT_WRITTEN = {
    "DynamoDB.ConditionalCheckFailedException",
    "DynamoDB.ProvisionedThroughputExceededException",
    "DynamoDB.RequestLimitExceeded",
    "DynamoDB.ThrottlingException",
}
LIMITS = "$.limits"
FREES = (Role.RELEASES, Role.BREAKS)  # both remove the lock token


class LeaseNumbers(NamedTuple):
    """What a file's timeouts, retries and limits add up to, in seconds."""

    # The longest that a living execution needs its lock: for a claim or a renewal, and for an
    # attempt.
    holder: float
    lease: float  # the least for which a waiter has seen the same lock before it breaks it
    waiter: float  # the least for which an execution waits before it gives up
    longest_execution: float  # the slowest way through the file


def limits(definition: Json) -> dict[str, int]:
    """Read the limits that a Pass prepares; an empty dict if none does.

    A ValueError says that two states write them, or that one is not a positive whole number.
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
    it. But a throttled invocation is refused at once, so that only its delays count. A Wait may
    read its seconds from the file's `limits`, which are `given`.
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

    A ValueError says that an execution may come to a state again and again.
    """
    return sum(_slowest(definition).values())


def _slowest(definition: Json) -> dict[str, float]:
    """Compute the seconds that the slowest way spends in each state."""
    states, given = definition["States"], limits(definition)
    start, drawn = walk.ways(definition)
    return walk.slowest(drawn, start, lambda name: longest(states[name], given))


def lease_numbers(definition: Json) -> LeaseNumbers | None:
    """Compute what must be in order: holder < lease < waiter, and all of it within Express.

    None if the file claims no key, or breaks no lock. A ValueError names what is missing if it does
    so in a way that this cannot compute.
    """
    states: Json = definition["States"]
    claims = doing(states, Role.CLAIMS)
    breaks = _breaks(states)
    if not claims or not breaks:
        return None
    claim = _only(claims, "state that claims a key")
    choice, condition = _only(breaks, "rule that breaks a lock")
    waits = [name for name, state in states.items() if state["Type"] == "Wait"]
    wait = _only([name for name in waits if "Seconds" not in states[name]], "Wait of a lease")
    given = limits(definition)
    if missing := [*_unused_limits(states, given, choice, condition, wait)]:
        raise ValueError("; ".join(missing))
    return LeaseNumbers(
        holder=max(_held(states, name) for name in (claim, *doing(states, Role.RENEWS))),
        # A lock that is seen at the first poll has the shortest lease.
        lease=given["lease_polls"] * given["poll_seconds"],
        waiter=(given["maximum_polls"] - 1) * given["poll_seconds"],
        longest_execution=longest_execution(definition),
    )


def _held(states: Json, taker: str) -> float:
    """Compute the longest for which the lock is needed that a claim or a renewal has taken.

    That ends with the last Task that does work, or, if no fence protects that work, with the
    release that marks it as done.
    """
    renewals = doing(states, Role.RENEWS)

    def following(name: str, state: Json) -> list[str]:
        if name == taker:
            return [state["Next"]]
        after = _while_held(states, taker, name, state)
        return [each for each in after if each not in renewals]

    ways = graph(states, following)
    reached = {taker} | nx.descendants(ways, taker)
    works = reached & set(working(states))
    ends = {name for name in reached if does(states[name], *FREES)}
    last = works if all(_is_fenced(states[name]) for name in works) else works | ends
    before = last.union(*(nx.ancestors(ways, name) for name in last))
    needed = ways.subgraph(reached & before)
    if not last:
        return 0
    return sum(walk.slowest(needed, taker, lambda name: longest(states[name])).values())


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
    added = re.escape(f"States.MathAdd({count}, {LIMITS}.lease_polls)").replace(r"\ ", " *")
    sums = [each for each in values_written(states, broken_at) if each != "0"]
    if len(sums) != 1 or not re.fullmatch(added, sums[0]):
        yield f"no Pass sets {broken_at} to {count} plus {LIMITS}.lease_polls"
    one_more = re.escape(f"States.MathAdd({count}, 1)").replace(r"\ ", " *")
    sums = [each for each in values_written(states, count) if each not in {count, "0"}]
    if len(sums) != 1 or not re.fullmatch(one_more, sums[0]):
        yield f"{count} must begin with 0, and one Pass adds 1 to it"
    if states[wait].get("SecondsPath") != f"{LIMITS}.poll_seconds":
        yield f"{wait} does not wait for {LIMITS}.poll_seconds"


def _ways(definition: Json) -> tuple[Any, nx.DiGraph]:
    """Draw all ways; none where nothing bounds a count, which the seconds of the lease tell."""
    try:
        return walk.ways(definition)
    except ValueError:
        return None, nx.DiGraph()


def _in_turn(definition: Json, names: list[str]) -> set[tuple[str, str]]:
    """List the pairs of some states of which one may follow the other in an execution."""
    drawn = _ways(definition)[1]
    visits = [visit for visit in drawn if visit.state in names]
    after = {visit: nx.descendants(drawn, visit) for visit in visits}
    return {(one.state, two.state) for one in visits for two in visits if two in after[one]}


def _poll(definition: Json) -> Iterator[Violation]:
    """Follow an execution from each count of a poll to the next: it must wait in between.

    Otherwise polls would pass faster than the seconds of which a lease is made, for instance while
    no read succeeds, and the lock of a living holder would be broken. A claim that is tried only
    when the watched lock is gone may come instead of a wait: a lock seen later has its own lease.
    """
    states: Json = definition["States"]
    for _, condition in _breaks(states):
        count, broken_at = condition["Variable"], condition["NumericGreaterThanEqualsPath"]
        watched = _while_watched(states, broken_at.rpartition(".")[0] + ".lock_token")
        claims = {*doing(states, Role.CLAIMS)} - watched
        counters = {
            name
            for name, state in states.items()
            if any(f"MathAdd({count}," in each for each in values_written({name: state}, count))
        }
        # One that waits for other seconds does not wait for a poll.
        waits = {name for name, state in states.items() if state.get("SecondsPath")}
        drawn = _ways(definition)[1]
        drawn = drawn.subgraph(at for at in drawn if at.state not in waits | claims).copy()
        polls = [visit for visit in drawn if visit.state in counters]
        drawn.add_edges_from([("", after) for visit in polls for after in drawn.successors(visit)])
        found = nx.single_source_shortest_path(drawn, "") if polls else {}
        if ways := [found[visit] for visit in polls if visit in found]:
            _, *way, again = min(ways, key=len)
            via = ", ".join(each.state for each in way)
            yield again.state, f"a poll may follow another one without a wait, by {via}"


def _claim(definition: Json) -> Iterator[Violation]:
    """Follow each claim until its lock is released or its event is parked.

    A release frees the key if it succeeds, and if its condition fails the lock was another's. A
    park counts even if it fails, as nothing better can be done: then the lease ends the lock.
    """
    states: Json = definition["States"]
    claims = doing(states, Role.CLAIMS)
    for claim in claims:
        errors = {*CONDITION_FAILED, "States.TaskFailed", "States.ALL"}
        catches = (each for each in states[claim]["Catch"] if errors & set(each["ErrorEquals"]))
        if does(states[next(catches)["Next"]], *HANDS_OVER):
            yield claim, "a refusal counts as a fault, so a duplicate is retried until it is parked"
        if does(states[claim], Role.SHARES) and not _is_comparison(
            states, claim, states[claim]["Next"]
        ):
            yield (
                claim,
                "it may leave the lock to another execution, and the next state does not tell",
            )

        def following(name: str, state: Json, claim: str = claim) -> list[str]:
            return _while_held(states, claim, name, state, CONDITION_FAILED)

        reached = {claim} | nx.descendants(graph(states, following), claim)
        for name in sorted(reached):
            state = states[name]
            if is_end(state) and not does(state, *FREES, *HANDS_OVER):
                yield claim, f"its lock is neither released nor its event parked on a way to {name}"
        yield from _without_lock(states, claim)


def _end(definition: Json) -> Iterator[Violation]:
    """Check that an execution has done what its outcome says: else the event would be lost."""
    states: Json = definition["States"]
    start, drawn = _ways(definition)
    parks, retries = doing(states, Role.PARKS), doing(states, Role.RETRIES)
    doers = {"Processed": working(states), "Parked": parks, "Retrying": retries}
    for outcome, names in doers.items():
        others = drawn.subgraph(each for each in drawn if each.state not in names)
        reached = nx.descendants(others, start) if start in others else set()
        if outcome in {visit.state for visit in reached} and is_end(states[outcome]):
            yield outcome, f"an execution may end there without {' or '.join(names) or outcome}"


def _late(definition: Json) -> Iterator[Violation]:
    """Check that no claim, and no write that records an event, is repeated without an answer.

    A write without an answer may take effect at any later time: also after its execution has failed
    and another one has recorded the same event, whose record the first one would then release.
    """
    states: Json = definition["States"]
    for name in sorted(doing(states, Role.CLAIMS, Role.RECORDS)):
        for retrier in states[name].get("Retry", []):
            errors = sorted(set(retrier["ErrorEquals"]) - NOT_WRITTEN)
            if errors and retrier.get("MaxAttempts", 3):
                yield name, f"it may still be written after {errors[0]}, so do not repeat it"


def _without_lock(states: Json, claim: str) -> Iterator[Violation]:
    """Follow a claim that failed: nothing may be worked on before another claim, or a renewal.

    The same holds after a renewal that failed.
    """
    takers, works = {claim, *doing(states, Role.RENEWS)}, working(states)
    free = graph(states, lambda name, state: [] if name in takers else targets(state))
    for taker in sorted(takers):
        for catcher in states[taker].get("Catch", []):
            after = {catcher["Next"]} | nx.descendants(free, catcher["Next"])
            for name in sorted(after - takers):
                compares = _is_comparison(states, claim, catcher["Next"])
                if name in works and not compares:
                    yield taker, f"if it fails, {name} may work without the lock"


def _renewal(definition: Json) -> Iterator[Violation]:
    """Check that a renewal gives the lock another token.

    The new token begins with the old one, so that a release by the claim's token works before and
    after the renewal, also if the renewal's answer was lost. Each renewal on a way has a token of
    its own: with the token that waiters know, their leases would not start again.
    """
    states: Json = definition["States"]
    tokens: dict[str, str] = {}
    for name in (renewals := doing(states, Role.RENEWS)):
        values = states[name]["Parameters"].get("ExpressionAttributeValues", {})
        clause = states[name]["Parameters"]["UpdateExpression"]
        set_to = re.search(r"lock_token = (:\w+)", clause)
        token = values.get(set_to[1], {}).get("S.$", "") if set_to else ""
        if not re.fullmatch(r"States\.Format\('\{\}[^{}']+', \$\.lock_token\)", token):
            yield name, "its new token is not $.lock_token with a text behind it"
        tokens[name] = token
    for first, second in sorted(_in_turn(definition, renewals)):
        if tokens[first] == tokens[second]:
            wrong = f"{second} may follow with the same token, so that no lease starts again"
            yield first, f"{wrong}: each attempt needs a state with a text of its own"


def _lease(definition: Json) -> Iterator[Violation]:
    """Compare the seconds; without a lease, only the longest execution counts."""
    states: Json = definition["States"]
    claims = doing(states, Role.CLAIMS)
    about = claims[0] if claims and _breaks(states) else ""
    try:
        numbers, given = lease_numbers(definition), limits(definition)
        execution = numbers.longest_execution if numbers else longest_execution(definition)
    except ValueError as error:
        yield about, f"its seconds cannot be computed: {error}"
        return
    if numbers:
        polls = max(given["lease_polls"], int(numbers.holder // given["poll_seconds"]) + 1)
        needed = {"lease_polls": polls, "maximum_polls": max(given["maximum_polls"], polls + 2)}
        found = f"a holder's {numbers.holder:g} s, a lease's {numbers.lease:g}, a waiter's"
        for limit, least in needed.items():
            if given[limit] < least:
                wrong = f"not in order: {found} {numbers.waiter:g}"
                yield about, f"{wrong}: {LIMITS}.{limit} must be {least} or more"
    most = min(EXPRESS_SECONDS, definition.get("TimeoutSeconds", EXPRESS_SECONDS))
    if execution >= most:
        # No Catch sees the end of an execution whose own time is over.
        # https://docs.aws.amazon.com/step-functions/latest/dg/statemachine-structure.html
        limit = "Express's" if most == EXPRESS_SECONDS else "TimeoutSeconds,"
        spent = sorted(_slowest(definition).items(), key=lambda each: -each[1])
        parts = ", ".join(f"{name} {seconds:g}" for name, seconds in spent[:4])
        yield about, f"the longest execution takes {execution:g} of {limit} {most} s: {parts}"


def _break(definition: Json) -> Iterator[Violation]:
    """Check that a watched lock is broken only after its lease: by its token, and its polls."""
    states: Json = definition["States"]
    if (claims := doing(states, Role.CLAIMS)) and not _breaks(states):
        yield claims[0], "no rule breaks its lock after some polls: it stays if its holder dies"
    for name in doing(states, Role.BREAKS, Role.TAKES_OVER):
        parameters = states[name]["Parameters"]
        compared = re.findall(r"\block_token = (:\w+)", parameters.get("ConditionExpression", ""))
        values = parameters.get("ExpressionAttributeValues", {})
        tokens = {values[each].get("S.$", "") for each in compared}
        for token in tokens - {TOKEN}:
            early, watches = graph(states, partial(_early, token=token)), _watches(states, token)
            if not watches:
                yield name, f"no Pass writes the token that it compares, {token}, from the record"
            for watch in watches:
                if name in nx.descendants(early, watch):
                    *_, before, _ = nx.shortest_path(early, watch, name)
                    yield before, f"it leads to {name} before the lease of a watched lock is over"


def _watches(states: Json, token: str) -> list[str]:
    """List the Passes that write the token of a lock to be watched."""
    return [
        name
        for name, state in states.items()
        if set(values_written({name: state}, token)) - {token, ""}
    ]


def _while_watched(states: Json, token: str) -> set[str]:
    """List the states to which an execution may come while the lease lasts of a watched lock."""
    early = graph(states, partial(_early, token=token))
    return set().union(*(nx.descendants(early, each) for each in _watches(states, token)))


def _early(_: str, state: Json, token: str) -> list[str]:
    """List what may follow a state while the lease lasts of a lock that was watched.

    That is no rule about a free lock, if an earlier one is about a record that was not read.
    """
    watched = token.rpartition(".")[0]  # one Pass writes the token, and the poll to break it at
    early, unread = [], ("?",)
    for rule in state.get("Choices", []):
        parts = rule.get("And", [rule])
        polls = [each.get("NumericGreaterThanEqualsPath", "") for each in parts]
        is_over = any(each.rpartition(".")[0] == watched for each in polls)
        is_same = any(token == each.get("StringEqualsPath") for each in parts)
        absent = [each["Not"]["Variable"] for each in parts if "IsPresent" in each.get("Not", {})]
        is_free = any(each.endswith(".lock_token.S") and each.startswith(unread) for each in absent)
        early += [] if is_free or (is_over and is_same) else [rule]
        if len(parts) == 1:  # a further condition would let some such records pass
            unread += tuple(absent)
    return targets(state | {"Choices": early})


def _breaks(states: Json) -> list[tuple[str, Json]]:
    """List the Choices with a rule that breaks a lock, and its condition on the polls."""
    return [
        (name, condition)
        for name, state in states.items()
        for rule in state.get("Choices", [])
        for condition in conditions(rule)
        if "NumericGreaterThanEqualsPath" in condition
        and does(states[rule["Next"]], *FREES, Role.TAKES_OVER)
    ]


def _is_fenced(state: Json) -> bool:
    """Tell whether a Task hands its function a fence, so that it may be repeated."""
    payload = state.get("Parameters", {}).get("Payload")
    fence = payload.get("fence") if isinstance(payload, dict) else None
    return state.get("Resource") == INVOKE and fence in {"newest", "each"}


def _is_comparison(states: Json, claim: str, name: str) -> bool:
    """Tell whether the first rule of a Choice compares the lock token that a claim returned."""
    first = states[name].get("Choices", [{}])[0]
    returned = f"{states[claim].get('ResultPath')}.lock_token"
    compared = [
        {each.get("Variable"), each.get("StringEqualsPath")}
        for each in (first, *first.get("And", []))
    ]
    return {returned, TOKEN} in compared


def _while_held(
    states: Json, taker: str, name: str, state: Json, refused: list[str] | None = None
) -> list[str]:
    """List what may follow a state while the lock is held that a claim or a renewal has taken.

    A claim may leave the lock to another execution. Then a Choice after it compares the lock token
    that the claim returned, and a holder takes the first rule. A release ends the lock, unless it
    fails with another error than `refused`.
    """
    if does(state, *HANDS_OVER):
        return []
    if does(state, *FREES):
        return targets({"Catch": state.get("Catch", [])}, refused)
    if name == states[taker].get("Next") and _is_comparison(states, taker, name):
        return [state["Choices"][0]["Next"]]
    return targets(state, CONDITION_FAILED if name == taker else None)


def _only(found: list[Any], what: str) -> Any:
    if len(found) != 1:
        raise ValueError(f"there is not one {what}, but {len(found)}")
    return found[0]


RULES: dict[str, Rule] = {
    "claim": _claim,
    "end": _end,
    "late": _late,
    "renewal": _renewal,
    "break": _break,
    "poll": _poll,
    "lease": _lease,
}
