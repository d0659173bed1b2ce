"""How long may an execution take? Express ends it after five minutes, and no Catch sees that."""

from collections import Counter
from collections.abc import Iterator
from math import inf

from inorder.asl.definition import EXPRESS_SECONDS, Json, Rule, Violation
from inorder.asl.walk import Visit, walk

# Lambda refuses what it throttles at once, so only the delay after such an attempt takes time:
# https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html
THROTTLED = ["Lambda.TooManyRequestsException"]


def longest(state: Json) -> float:
    """Compute the seconds after which a state has ended or its Catch goes on.

    Each attempt may take the state's timeout, and each delay its longest, as jitter only shortens
    it. A Task without TimeoutSeconds may take for ever.
    """
    if state["Type"] == "Wait":
        return float(state.get("Seconds", inf))
    if state["Type"] != "Task":
        return 0
    timeout = total = float(state.get("TimeoutSeconds", inf))
    for retrier in state.get("Retry", []):
        delay = retrier.get("IntervalSeconds", 1)
        # No delay is below a second, so that more attempts than that are too many in any case.
        for _ in range(min(retrier.get("MaxAttempts", 3), EXPRESS_SECONDS)):
            total += min(delay, retrier.get("MaxDelaySeconds", delay))
            total += 0 if retrier["ErrorEquals"] == THROTTLED else timeout
            delay *= retrier.get("BackoffRate", 2)
    return total


def slowest(definition: Json) -> dict[str, float]:
    """Compute the seconds that the slowest way through a file spends in each state."""
    walked = walk(definition)

    def seconds(visit: Visit) -> float:
        state = walked.states[visit.state]
        pause = walked.read(visit, state["SecondsPath"]) if "SecondsPath" in state else None
        return float(pause) if type(pause) is int else longest(state)

    ways: dict[Visit, tuple[float, Visit | None]] = {}  # the slowest to a visit, without it
    spent = Counter[str]()
    for visit in walked.ordered:
        arrivals = [(ways[prior][0] + seconds(prior), prior) for prior in walked.before[visit]]
        ways[visit] = max(arrivals, key=lambda way: way[0], default=(0, None))
    last: Visit | None = max(ways, key=lambda visit: ways[visit][0] + seconds(visit), default=None)
    while last:
        spent[last.state] += seconds(last)  # type: ignore[assignment]
        last = ways[last][1]
    return spent  # type: ignore[return-value]


def longest_execution(definition: Json) -> float:
    """Compute the seconds that the slowest way through a file takes."""
    return inf if walk(definition).endless else sum(slowest(definition).values())


def _seconds(definition: Json) -> Iterator[Violation]:
    most = definition.get("TimeoutSeconds", EXPRESS_SECONDS)
    if most > EXPRESS_SECONDS:
        yield "", f"TimeoutSeconds is {most}, but Express ends an execution after {EXPRESS_SECONDS}"
    if again := walk(definition).endless:
        yield (
            again,
            "nothing bounds how often an execution may come here: count, and stop at a number",
        )
        return
    spent = slowest(definition)
    for name in (name for name, seconds in spent.items() if seconds == inf):
        yield name, "nothing bounds its seconds: give a Task TimeoutSeconds, and a Wait Seconds"
    if most <= (total := sum(spent.values())) < inf:
        parts = sorted(spent.items(), key=lambda part: -part[1])[:4]
        told = ", ".join(f"{name} {seconds:g}" for name, seconds in parts)
        yield (
            "",
            f"the longest execution takes {total:g} s, and must end before {most} s: {told}."
            " Shorten a timeout, a wait or a Retry",
        )


RULES: dict[str, Rule] = {"seconds": _seconds}
