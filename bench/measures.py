"""The measures of one turn, from what was recorded. Nothing here calls a service."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import NamedTuple

from bench.contenders.recorder import Processing
from inorder.cost import bill

MILLION, GB = 1_000_000, 1_000_000_000


@dataclass(frozen=True)
class Uploaded:
    """The newest upload of a key: when it was there, and the ETag of its content."""

    at: float
    etag: str


class Invocation(NamedTuple):
    """An invocation of a function: what it took, and the function's memory in MB."""

    seconds: float
    memory: int


@dataclass
class Turn:
    """What was recorded while a contender had its turn."""

    began: float = 0
    events: int = 0
    newest: dict[str, Uploaded] = field(default_factory=dict)
    invocations: list[Invocation] = field(default_factory=list)
    processings: list[Processing] = field(default_factory=list)
    # For each key whether its output is ``right``, ``stale`` or ``missing``.
    outputs: dict[str, str] = field(default_factory=dict)
    # What AWS bills besides the events and the functions' time, by the names in `cost.LINES`; logs
    # in bytes.
    used: dict[str, float] = field(default_factory=lambda: defaultdict(float))


def measures(turn: Turn) -> dict[str, float]:
    """Compute all measures of a turn."""
    states = Counter(turn.outputs.values())
    delays = {key: seconds for key in turn.newest if (seconds := delay(turn, key)) is not None}
    ends = [turn.newest[key].at + seconds - turn.began for key, seconds in delays.items()]
    return {
        "keys": len(turn.newest),
        "events": turn.events,
        "stale": states["stale"],
        "missing": states["missing"],
        "invocations": len(turn.invocations),
        "function_seconds": sum(invocation.seconds for invocation in turn.invocations),
        "reads": turn.used["reads"],
        "writes": turn.used["writes"],
        "express_gb_seconds": turn.used["express_gb_seconds"],
        "log_kb": (turn.used["execution_log"] + turn.used["function_log"]) / 1000 / turn.events,
        "dollars": dollars(turn),
        "dollars_without_log": dollars(turn, without="execution_log"),
        "makespan": max(ends, default=0),
        **percentiles("delay", [*delays.values()]),
    }


def dollars(turn: Turn, without: str = "") -> float:
    """Price a million such events at the list prices, each of which comes by a rule."""
    logs = {name: turn.used[name] / GB for name in ("execution_log", "function_log")}
    used = (
        turn.used
        | logs
        | {
            "events": turn.events,
            "lambda_requests": len(turn.invocations),
            "lambda_gb_seconds": sum(
                invocation.memory / 1024 * math.ceil(1000 * invocation.seconds) / 1000
                for invocation in turn.invocations
            ),
        }
    )
    billed = {name: number for name, number in used.items() if name != without}
    return bill("", billed).dollars * MILLION / turn.events


def delay(turn: Turn, key: str) -> float | None:
    """Compute how many seconds a key's newest upload took to become the output; None if never.

    The processing that wrote its content counts, whichever event caused it.
    """
    newest = turn.newest[key]
    written = (
        processing.written
        for processing in turn.processings
        if processing.key == key and processing.written and processing.etag == newest.etag
    )
    first = min(written, default=None)
    return None if first is None else first - newest.at


def percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    """Give the 50th and the 99th percentile, if there are values."""
    if not values:
        return {}
    cut = quantiles(values, n=100, method="inclusive") if len(values) > 1 else [*values] * 99
    return {f"{name}_p50": cut[49], f"{name}_p99": cut[98]}
