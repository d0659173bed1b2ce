"""Tries all mutants of the given policies, or of all: `make mutants`."""

from __future__ import annotations

import sys
from collections import Counter

import click

from tests.proof.mutants.harness import POLICIES, STAGES, examine, mutants
from tests.proof.mutants.survivors import EXPECTED

WORKERS = 2


def main(policies: list[str]) -> int:
    """Print how many mutants each stage kills; fail if others survive than are expected."""
    chosen = [(policy, mutant) for policy in policies for mutant in mutants(policy)]
    click.echo(f"{len(chosen)} mutants, in {WORKERS} processes ...", err=True)
    verdicts = examine(chosen, WORKERS)
    counted = Counter((each.policy, each.stage) for each in verdicts)
    columns = (*STAGES, None)
    click.echo(_row("policy", "mutants", *(each or "survived" for each in columns)))
    click.echo(_row("---", *["---:"] * (1 + len(columns))))
    for policy in policies:
        row = [counted[policy, stage] for stage in columns]
        click.echo(_row(policy, sum(row), *row))
    survivors = {f"{each.policy}: {each.mutant}" for each in verdicts if each.stage is None}
    tried = {f"{each.policy}: {each.mutant}" for each in verdicts}
    expected = EXPECTED.keys() & tried
    for name in sorted(survivors & expected):
        click.echo(f"survives, as expected: {name}: {EXPECTED[name]}")
    for name in sorted(survivors - expected):
        click.echo(f"SURVIVES: {name}")
    for name in sorted(expected - survivors):
        click.echo(f"DOES NOT SURVIVE: {name}")
    return int(survivors != expected)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or POLICIES))
