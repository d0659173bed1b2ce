"""Simulates bursts, prints what they take, and plots their backlogs: `make bench-bursts`."""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from inorder import PROJECT
from tests.proof.simulation.cloud import Cloud, Settings

# Express bills memory in steps of 64 MB, of which such an execution needs one.
# https://docs.aws.amazon.com/step-functions/latest/dg/sfn-pricing.html
EXPRESS_GB = 64 / 1024
BURSTS = [(1_000, 10, 0.5), (20_000, 1_000, 1.0), (100_000, 1_000, 1.0)]
CONSUMERS = [2, 10]  # the template's MaximumConcurrency, and another one
HEADER = (
    "| uploads | function | retries at once | makespan / ideal | parked | executions | invocations"
    " | refusals | Express GB-s, of which waste | seconds to simulate |"
)


@dataclass
class Burst:
    """A simulated burst."""

    name: str
    cloud: Cloud
    ideal: float  # the seconds that the function needs at least
    # At each time: events that are not finished, messages in the retry queue, and invocations.
    times: list[float]
    backlog: list[int]
    queued: list[int]
    working: list[int]


def simulate(uploads: int, settings: Settings) -> Burst:
    """Upload objects of different keys at once, and wait until all is quiet."""
    cloud = Cloud(settings)
    for number in range(uploads):
        cloud.upload(f"{number}.png")
    ideal = uploads * settings.seconds / settings.concurrency
    name = (
        f"{uploads:,} uploads, {settings.concurrency:,} invocations of {settings.seconds:g} s"
        f" and {settings.maximum_concurrency} batches of retries at once"
    )
    burst = Burst(name, cloud, ideal, [], [], [], [])
    step = ideal / 50
    while not cloud.is_quiet():
        cloud.clock.env.run(until=cloud.clock.now + step)
        burst.times.append(cloud.clock.now)
        burst.backlog.append(uploads - len(cloud.finished) - len(cloud.parked))
        burst.queued.append(cloud.retries.size)
        burst.working.append(cloud.working)
    return burst


def row(uploads: int, burst: Burst, seconds: float) -> str:
    """Describe a burst in a row of a table."""
    cloud, settings = burst.cloud, burst.cloud.settings
    spent = sum((each.ended or 0) - each.started for each in cloud.executions) * EXPRESS_GB
    needed = uploads * (settings.seconds + 0.04) * EXPRESS_GB  # with three calls besides
    return (
        f"| {uploads:,} | {settings.concurrency:,} at once, {settings.seconds:g} s"
        f" | {settings.maximum_concurrency}"
        f" | {cloud.makespan:.0f} s / {burst.ideal:.0f} s = {cloud.makespan / burst.ideal:.2f}"
        f" | {len(cloud.parked)} | {len(cloud.executions):,}"
        f" | {cloud.clock.total('invocations'):,} | {cloud.clock.total('refusals'):,}"
        f" | {spent:,.0f}, {spent - needed:,.0f} | {seconds:.0f} |"
    )


def plot(bursts: list[Burst], file: Path) -> None:
    """Plot the backlogs."""
    figure = Figure(figsize=(11, 4 * len(bursts)), layout="constrained")
    for burst, axes in zip(bursts, figure.subplots(len(bursts), 1, squeeze=False), strict=True):
        below = axes[0]
        below.set_title(burst.name)
        below.plot(burst.times, burst.backlog, label="events that are not finished")
        below.plot(burst.times, burst.queued, label="messages in the retry queue")
        below.plot(burst.times, burst.working, label="invocations of the function")
        below.axvline(burst.ideal, color="#888888", linestyle="--", label="ideal makespan")
        below.set_xlabel("seconds")
        below.set_ylim(bottom=0)
        below.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def main(policy: str = "latest-wins") -> None:
    """Simulate all bursts."""
    gc.set_threshold(500_000)  # it would search hundreds of thousands of executions too often
    bursts = []
    print(f"Policy {policy}\n\n{HEADER}\n|{' --- |' * HEADER.count(' | ')} --- |", flush=True)
    for uploads, concurrency, seconds in BURSTS:
        for consumers in CONSUMERS:
            began = time.monotonic()
            settings = Settings(policy, concurrency, seconds, maximum_concurrency=consumers)
            burst = simulate(uploads, settings)
            print(row(uploads, burst, time.monotonic() - began), flush=True)
            bursts.append(burst)
    file = PROJECT / "out" / f"bursts-{policy}.png"
    plot(bursts, file)
    print(f"\nThe backlogs are in {file.relative_to(PROJECT)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
