"""Simulates bursts, prints what they take, and writes it to bench/bursts.json: `make bench-bursts`.

The simulation is seeded, so it comes to the same numbers until the code changes.
"""

import gc
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench import results
from inorder.cost import STEP_MS, prices
from inorder.model.policies import policy
from tests.proof.simulation.cloud import CONSUMER_SECONDS, RESOURCES, Cloud, Settings
from tests.support.events import created
from tests.support.log_size import size_of

# Express bills memory in steps of 64 MB, of which such an execution needs one.
# https://docs.aws.amazon.com/step-functions/latest/dg/sfn-pricing.html
EXPRESS_GB = 64 / 1024
REQUESTS_OF_MESSAGE = 3  # it is sent, received and deleted
FILE = Path(__file__).with_name("bursts.json")  # what bursts of the shipped policy take
POLICY = "latest-wins"
INDEX_WRITES = 2  # an execution that claims the key sets its entry, and removes it or sets it again


class Burst(NamedTuple):
    """Uploads of different keys at once, and the function that has to process them."""

    uploads: int
    concurrency: int
    seconds: float

    @property
    def ideal(self) -> float:
        """The seconds that the function needs at least."""
        return math.ceil(self.uploads / self.concurrency) * self.seconds


SMALL = [Burst(20, 10, 0.5), Burst(100, 10, 0.5), Burst(300, 10, 0.5)]
BURSTS = [
    Burst(1_000, 10, 0.5),
    Burst(1_000, 100, 1.0),
    Burst(10_000, 100, 1.0),
    Burst(10_000, 1_000, 1.0),
    Burst(100_000, 1_000, 1.0),
]
HEADER = (
    "| uploads | function | makespan / least | parked | executions | invocations | refusals"
    " | table calls an event | Express s, of which waste | dollars a million at ALL | at ERROR"
    " | seconds to simulate |"
)


def simulate(burst: Burst, policy: str = "latest-wins") -> Cloud:
    """Upload objects of different keys at once, and wait until all is quiet."""
    cloud = Cloud(Settings(policy, burst.concurrency, burst.seconds))
    for number in range(burst.uploads):
        cloud.upload(f"{number}.png")
    while not cloud.is_quiet():
        cloud.clock.env.run(until=cloud.clock.now + 1)
    return cloud


def express_seconds(cloud: Cloud) -> float:
    """Add up what Express bills: the executions' durations, each rounded up."""
    steps = (
        math.ceil(1000 * ((execution.ended or 0) - execution.started) / STEP_MS)
        for execution in cloud.executions
    )
    return sum(steps) * STEP_MS / 1000


def dollars(cloud: Cloud, log_level: str) -> float:
    """Price a burst, without the function's own work, which is the same however it is reached."""
    total = cloud.clock.total
    memory = RESOURCES["RetryEventsFunction"]["MemorySize"] / 1024
    log = total("refusals") * _bytes_of_refusal(log_level)
    if log_level == "ALL":
        log += 1000 * policy(cloud.settings.policy).log.uncontended * len(cloud.executions)
    quantities = {
        "express_requests": len(cloud.executions),
        "express_gb_seconds": express_seconds(cloud) * EXPRESS_GB,
        "dynamodb_writes": total("writes") + INDEX_WRITES * len(cloud.executions),
        "dynamodb_reads": total("reads"),
        "sqs_requests": REQUESTS_OF_MESSAGE * total("sqs"),
        "lambda_requests": total("retry batches"),
        "lambda_gb_seconds": total("retry batches") * memory * CONSUMER_SECONDS,
        "log_gb": log / 1e9,
    }
    return sum(prices()[name].dollars(quantity) for name, quantity in quantities.items())


def _bytes_of_refusal(log_level: str) -> int:
    """Give the size of the entries of an attempt that was throttled; at ERROR, of its failure."""
    named = {"resourceType": "lambda", "resource": "invoke"}
    failed = {"error": "Lambda.TooManyRequestsException", "cause": "Rate Exceeded. " + "x" * 200}
    size = size_of("TaskFailed", named | failed)
    if log_level == "ALL":
        payload = {"event": created("k" * 50), "execution": "x" * 200, "fence": "newest"}
        parameters = {"parameters": json.dumps({"FunctionName": "x" * 80, "Payload": payload})}
        size += size_of("TaskScheduled", named | parameters) + size_of("TaskStarted", named)
    return size


def measures(burst: Burst, cloud: Cloud) -> dict[str, Any]:
    """Compute what a burst took; what an event took, from what all took."""
    total, million = cloud.clock.total, 1e6 / burst.uploads
    needed = burst.uploads * (burst.seconds + 0.04)  # with three calls besides
    spent = express_seconds(cloud)
    return {
        **burst._asdict(),
        "makespan": round(cloud.makespan, 2),
        "least": burst.ideal,
        "parked": len(cloud.parked),
        "executions": len(cloud.executions),
        "invocations": total("invocations"),
        "refusals": total("refusals"),
        "table_calls": total("dynamodb"),
        "express_seconds": round(spent, 1),
        "express_waste": round(spent - needed, 1),
        "dollars_all": round(dollars(cloud, "ALL") * million, 2),
        "dollars_error": round(dollars(cloud, "ERROR") * million, 2),
    }


def line(taken: dict[str, Any], seconds: float) -> str:
    """Describe a burst in a row of a table."""
    uploads = taken["uploads"]
    cells = [
        f"{uploads:,}",
        f"{taken['concurrency']:,} at once, {taken['seconds']:g} s",
        f"{taken['makespan']:.1f} s / {taken['least']:g} s = {over_least(taken):.2f}",
        *(f"{taken[name]:,}" for name in ("parked", "executions", "invocations", "refusals")),
        f"{taken['table_calls'] / uploads:.1f}",
        f"{taken['express_seconds']:,.0f}, {taken['express_waste']:,.0f}",
        *(f"{taken[name]:.2f}" for name in ("dollars_all", "dollars_error")),
        f"{seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def over_least(taken: dict[str, Any]) -> float:
    """Give how many times as long as the least possible a burst took."""
    return float(taken["makespan"] / taken["least"])


def read() -> list[dict[str, Any]]:
    """Read what the bursts took."""
    rows: list[dict[str, Any]] = json.loads(FILE.read_text())
    return rows


def main(policy: str = POLICY) -> None:
    """Simulate all bursts."""
    gc.set_threshold(500_000)  # it would search hundreds of thousands of executions too often
    print(f"Policy {policy}\n\n{HEADER}\n|{' --- |' * HEADER.count(' | ')} --- |", flush=True)
    rows = []
    for burst in SMALL + BURSTS:
        began = time.monotonic()
        taken = measures(burst, simulate(burst, policy))
        rows.append(taken)
        print(line(taken, time.monotonic() - began), flush=True)
        if policy == POLICY:
            results.write(FILE, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
