"""The measures of one turn, from what was recorded. Nothing here calls a service."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from bench.contenders.recorder import Processing


@dataclass(frozen=True)
class Uploaded:
    """The newest upload of a key: when it was there, and the ETag of its content."""

    at: float
    etag: str


@dataclass
class Turn:
    """What was recorded while a contender had its turn."""

    events: int = 0
    newest: dict[str, Uploaded] = field(default_factory=dict)
    # When each invocation of a function began and ended.
    invocations: list[tuple[float, float]] = field(default_factory=list)
    processings: list[Processing] = field(default_factory=list)
    # For each key whether its output is ``right``, ``stale`` or ``missing``.
    outputs: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)  # of DynamoDB: ``read`` and ``write``


def measures(turn: Turn) -> dict[str, float]:
    """Compute all measures of a turn."""
    states = Counter(turn.outputs.values())
    delays = [each for key in turn.newest if (each := delay(turn, key)) is not None]
    return {
        "keys": len(turn.newest),
        "events": turn.events,
        "stale": states["stale"],
        "missing": states["missing"],
        "invocations": len(turn.invocations),
        "function_seconds": sum(end - begin for begin, end in turn.invocations),
        "reads": turn.calls["read"],
        "writes": turn.calls["write"],
        **percentiles("delay", delays),
    }


def delay(turn: Turn, key: str) -> float | None:
    """Compute how many seconds a key's newest upload took to become the output; None if never.

    The processing that wrote its content counts, whichever event caused it.
    """
    newest = turn.newest[key]
    ends = (
        each.ended
        for each in turn.processings
        if each.key == key and each.written and each.etag == newest.etag
    )
    ended = min(ends, default=None)
    return None if ended is None else ended - newest.at


def percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    """Give the 50th and the 99th percentile, if there are values."""
    if not values:
        return {}
    cut = quantiles(values, n=100, method="inclusive") if len(values) > 1 else [*values] * 99
    return {f"{name}_p50": cut[49], f"{name}_p99": cut[98]}


def intervals_of(records: Iterable[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Pair the beginnings and the ends of invocations: a process has one at a time."""
    begun: dict[int, list[float]] = defaultdict(list)
    found = []
    for record in records:
        if record["what"] == "begin":
            begun[record["process"]].append(record["at"])
        elif record["what"] == "end":
            found.append((begun[record["process"]].pop(), record["at"]))
    return found
