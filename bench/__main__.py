"""Measures the contenders side by side: `make bench`, `make bench-full`."""

import signal
import sys
from datetime import UTC, datetime

import click

from bench import page, results
from bench.delivery import NAMES
from bench.laboratory import Laboratory, laboratory
from bench.measures import measures
from bench.results import Measures
from bench.turns import take_turn
from bench.workloads import BOUND, QUICK_SIZE, WORKLOADS
from inorder import PROJECT

FOLDER = PROJECT / "out" / "bench"


@click.command()
@click.option(
    "--workload", "workloads", type=click.Choice([*WORKLOADS]), multiple=True, default=WORKLOADS
)
@click.option("--contender", "contenders", type=click.Choice(NAMES), multiple=True, default=NAMES)
@click.option("--runs", type=click.IntRange(1), default=1, help="How often each turn is repeated.")
@click.option(
    "--full", is_flag=True, help="In full size, what bench/results.json lacks; and write it there."
)
def main(workloads: tuple[str, ...], contenders: tuple[str, ...], runs: int, full: bool) -> None:
    """Let each contender process each workload, one after the other, and print what it took."""
    # Each run begins with another contender.
    turns = [
        (workload, contender, run)
        for workload in workloads
        for run in range(runs)
        for first in [run % len(contenders)]
        for contender in contenders[first:] + contenders[:first]
        if not (full and results.has(workload, contender, run))
    ]
    if not turns:
        say("nothing is left to measure")
        return
    # Like an interrupt: the local AWS and its functions end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    wrong = []
    with laboratory(FOLDER, contenders) as lab:
        lab.warm("first", BOUND)
        say(f"deployed, and {BOUND} workers are warm; turns to take: {len(turns)}")
        for workload, contender, run in turns:
            measured = take(lab, workload, contender, run, 1 if full else QUICK_SIZE)
            if full:
                results.add(workload, contender, run, measured)
                page.write()
            if results.wrong(contender, measured):
                wrong.append(f"{workload} of {contender}")
    if wrong:
        sys.exit(f"Outputs are stale or missing: {', '.join(wrong)}")


def take(lab: Laboratory, name: str, contender: str, run: int, size: float) -> Measures:
    """Let a contender process a workload, and print what was measured."""
    workload = WORKLOADS[name]
    uploads = workload.uploads(size)
    mark = f"{name}-{run}-{contender}"
    measured = measures(take_turn(lab, contender, mark, uploads, workload.bound))
    shown = (
        f"{heading} {form.format(measured[measure])}"
        for measure, heading, form in (*page.SHOWN, *page.OF_PRODUCT)
        if measure in measured
    )
    say(f"{name} {contender}: {', '.join(shown)}")
    if any(upload.dies for upload in uploads):
        lab.warm(mark, BOUND)
    return measured


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{datetime.now(UTC):%X}  {text}", flush=True)


if __name__ == "__main__":
    main()
