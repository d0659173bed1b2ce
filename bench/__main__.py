"""Measures the contenders side by side: `make bench`, `make bench-full`."""

import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from bench import page, results
from bench.delivery import NAMES
from bench.laboratory import Laboratory, laboratory
from bench.measures import measures
from bench.results import Measures
from bench.turns import take_turn
from bench.workloads import BOUND, QUICK, QUICK_SIZE, Workload, workload
from bench.workloads import NAMES as WORKLOADS
from inorder import PROJECT

FOLDER = PROJECT / "out" / "bench"


def names(allowed: Sequence[str], default: Sequence[str], given: str | None) -> list[str]:
    """Split names, and refuse unknown ones."""
    chosen = given.split() if given else list(default)
    if unknown := set(chosen) - set(allowed):
        raise click.BadParameter(f"{' '.join(sorted(unknown))}. There are: {' '.join(allowed)}")
    return chosen


@click.command()
@click.option("--workloads", help="Their names, with spaces between them.")
@click.option("--contenders", help="Their names, with spaces between them.")
@click.option("--runs", type=click.IntRange(1), help="How often each turn is repeated.")
@click.option("--size", type=click.FloatRange(0.01, 1), help="The share of their keys.")
@click.option(
    "--full", is_flag=True, help="What is missing, or older code did, in full size, three runs."
)
def main(
    workloads: str | None, contenders: str | None, runs: int | None, size: float | None, full: bool
) -> None:
    """Run the workloads, merge what was measured into bench/results.json, and write the page."""
    chosen = names(WORKLOADS, results.old(WORKLOADS, NAMES) if full else QUICK, workloads)
    taking_part = names(NAMES, NAMES, contenders)
    # Like an interrupt: the local AWS and its functions end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with laboratory(FOLDER, taking_part) as made:
        made.warm("first", BOUND)
        say(f"deployed, and {BOUND} workers are warm")
        wrong = {}
        for name in chosen:
            this = workload(name, size or (1 if full else QUICK_SIZE))
            measured = [
                run_once(made, this, taking_part, run) for run in range(runs or (3 if full else 1))
            ]
            results.merge(name, results.summary(measured), WORKLOADS)
            wrong[name] = sorted({each for one in measured for each in results.wrong(one)})
    results.describe()
    page.write()
    say(f"wrote {page.DOCUMENT.relative_to(PROJECT)}")
    if left := {name: each for name, each in wrong.items() if each}:
        sys.exit(f"Outputs are stale or missing: {left}")


def run_once(
    made: Laboratory, this: Workload, taking_part: list[str], run: int
) -> dict[str, Measures]:
    """Give a workload to each contender, one after the other; each run begins with another one."""
    first = run % len(taking_part)
    measured: dict[str, Measures] = {}
    for contender in taking_part[first:] + taking_part[:first]:
        found = measures(take_turn(made, contender, this, run))
        measured[contender] = results.measured_now(contender, found)
        shown = [
            f"{heading} {page.cell(measured, contender, name, form)}"
            for name, heading, form in (*page.SHOWN, *page.OF_PRODUCT)
        ]
        say(f"{this.name} {contender}: {', '.join(shown)}")
        if any(upload.dies for upload in this.uploads):
            made.warm(f"{this.name}-{run}-{contender}", BOUND)
    return {contender: measured[contender] for contender in taking_part}


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{datetime.now(UTC):%X}  {text}", flush=True)


if __name__ == "__main__":
    main()
