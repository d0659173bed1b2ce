"""Simulates bursts, and prints what they take: `make bench-bursts`."""

import gc
import sys
import time

from tests.proof.simulation.cloud import Cloud, Settings

# Express bills memory in steps of 64 MB, of which such an execution needs one.
# https://docs.aws.amazon.com/step-functions/latest/dg/sfn-pricing.html
EXPRESS_GB = 64 / 1024
BURSTS = [
    (1_000, 10, 0.5),
    (1_000, 100, 1.0),
    (10_000, 100, 1.0),
    (10_000, 1_000, 1.0),
    (100_000, 1_000, 1.0),
]
HEADER = (
    "| uploads | function | makespan / ideal | parked | executions | invocations | refusals"
    " | table calls an event | Express GB-s, of which waste | seconds to simulate |"
)


def simulate(uploads: int, settings: Settings) -> Cloud:
    """Upload objects of different keys at once, and wait until all is quiet."""
    cloud = Cloud(settings)
    for number in range(uploads):
        cloud.upload(f"{number}.png")
    while not cloud.is_quiet():
        cloud.clock.env.run(until=cloud.clock.now + 1)
    return cloud


def row(uploads: int, cloud: Cloud, seconds: float) -> str:
    """Describe a burst in a row of a table."""
    settings = cloud.settings
    ideal = uploads * settings.seconds / settings.concurrency  # that the function needs at least
    spent = sum((each.ended or 0) - each.started for each in cloud.executions) * EXPRESS_GB
    needed = uploads * (settings.seconds + 0.04) * EXPRESS_GB  # with three calls besides
    return (
        f"| {uploads:,} | {settings.concurrency:,} at once, {settings.seconds:g} s"
        f" | {cloud.makespan:.0f} s / {ideal:.0f} s = {cloud.makespan / ideal:.2f}"
        f" | {len(cloud.parked)} | {len(cloud.executions):,}"
        f" | {cloud.clock.total('invocations'):,} | {cloud.clock.total('refusals'):,}"
        f" | {cloud.clock.total('dynamodb') / uploads:.1f}"
        f" | {spent:,.0f}, {spent - needed:,.0f} | {seconds:.0f} |"
    )


def main(policy: str = "latest-wins") -> None:
    """Simulate all bursts."""
    gc.set_threshold(500_000)  # it would search hundreds of thousands of executions too often
    print(f"Policy {policy}\n\n{HEADER}\n|{' --- |' * HEADER.count(' | ')} --- |", flush=True)
    for uploads, concurrency, seconds in BURSTS:
        began = time.monotonic()
        cloud = simulate(uploads, Settings(policy, concurrency, seconds))
        print(row(uploads, cloud, time.monotonic() - began), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
