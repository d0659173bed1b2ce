"""The measures of one turn, from what was recorded. Nothing here calls a service."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from bench.contenders.recorder import Run

# Express bills memory in steps of 64 MB, of which such an execution needs one, and time in steps
# of 100 ms. https://aws.amazon.com/step-functions/pricing/
EXPRESS_GB = 64 / 1024
EXPRESS_STEP = 0.1


@dataclass(frozen=True)
class Uploaded:
    """The newest upload of a key: when it was there, and the ETag of its content."""

    at: float
    etag: str


@dataclass
class Turn:
    """What was recorded while a contender had its turn."""

    began: float  # when the first upload began
    events: int = 0
    newest: dict[str, Uploaded] = field(default_factory=dict)
    # When each invocation of a function began and ended.
    invocations: list[tuple[float, float]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    # For each key whether its output is ``right``, ``stale`` or ``missing``.
    outputs: dict[str, str] = field(default_factory=dict)
    # The seconds that each execution of a state machine took.
    executions: list[float] = field(default_factory=list)
    # Calls and bytes by kind: ``read``, ``write``, ``s3 GET``, ``sqs``, ``checkpoint``, ``log``.
    calls: Counter[str] = field(default_factory=Counter)


def measures(turn: Turn) -> dict[str, float]:
    """Compute all measures of a turn."""
    states = Counter(turn.outputs.values())
    delays = [each for key in turn.newest if (each := delay(turn, key))]
    return {
        "keys": len(turn.newest),
        "events": turn.events,
        "stale": states["stale"],
        "missing": states["missing"],
        "invocations": len(turn.invocations),
        "function_seconds": sum(end - begin for begin, end in turn.invocations),
        "peak_concurrency": peak(turn.invocations),
        "reads": turn.calls["read"],
        "writes": turn.calls["write"],
        "executions": len(turn.executions),
        "express_gb_seconds": express_gb_seconds(turn.executions),
        "log_bytes": turn.calls["log"],
        "s3_requests": turn.calls["s3"],
        "sqs_requests": turn.calls["sqs"],
        "checkpoints": turn.calls["checkpoint"],
        "makespan": max((end for _, end in turn.invocations), default=turn.began) - turn.began,
        **percentiles("delay", [actual for actual, _ in delays]),
        **percentiles("delay_least", [least for _, least in delays]),
        **percentiles("delay_over_least", [actual - least for actual, least in delays]),
    }


def delay(turn: Turn, key: str) -> tuple[float, float] | None:
    """Compute how long a key's newest upload took to become the output, and the least possible.

    The least possible is its own run, after the run that blocked it. Its own run is the one that
    wrote its content, whichever event caused it. The run that blocked it is the first one of the
    key that was not over when it was uploaded, and was over when its own run began. Further runs
    that a contender puts in between are not necessary: it could have skipped them.

    Returns
    -------
    tuple of float or None
        Seconds from the upload; None if its content was never written.
    """
    newest = turn.newest[key]
    runs = sorted((run for run in turn.runs if run.key == key), key=lambda run: run.ended)
    own = next((run for run in runs if run.written and run.etag == newest.etag), None)
    if own is None:
        return None
    blocking = [run.ended for run in runs if newest.at < run.ended <= own.started]
    free = min(blocking, default=newest.at)
    actual, least = own.ended - newest.at, free + (own.ended - own.started) - newest.at
    return actual, min(actual, least)  # it may have begun a moment before the upload was answered


def peak(intervals: Iterable[tuple[float, float]]) -> int:
    """Count how many intervals overlap at most."""
    steps = sorted(step for begin, end in intervals for step in ((begin, 1), (end, -1)))
    now = most = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def express_gb_seconds(executions: Iterable[float]) -> float:
    """Compute what Express bills for executions, from the seconds of each."""
    steps = sum(math.ceil(round(seconds / EXPRESS_STEP, 6)) for seconds in executions)
    return steps * EXPRESS_STEP * EXPRESS_GB


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
