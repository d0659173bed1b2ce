"""Tries all mutants of the given policies and functions: `make mutants`."""

from __future__ import annotations

import sys
from collections import Counter

import click

from inorder.model.policies import policies as known_policies
from tests.proof.mutants import functions
from tests.proof.mutants.forked import Tests
from tests.proof.mutants.harness import POLICIES, STAGES, examine, mutants
from tests.proof.mutants.survivors import EXPECTED, EXPECTED_OF_CODE

WORKERS = 2


def main(names: list[str]) -> int:
    """Print how many mutants are killed; fail if others survive than are expected."""
    policies = [name for name in names if name in POLICIES]
    code = [name for name in names if name in functions.TESTED_BY]
    wrong = _policies(policies) if policies else False
    if code:
        click.echo(_row("code", "mutants", "survived"))
        click.echo(_row("---", "---:", "---:"))
        wrong = any([wrong, *map(_code, code)])
    return int(wrong)


def _policies(policies: list[str]) -> bool:
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
    # A policy that was made from another has its survivors, as far as it has the mutants.
    shipped = {each.name for each in known_policies() if not each.like}.intersection(policies)
    expected = {
        name: reason
        for name, reason in EXPECTED.items()
        if name in tried or name.partition(": ")[0] in shipped
    }
    return _others_survive(survivors, expected)


def _code(name: str) -> bool:
    tests, chosen = Tests(functions.TESTED_BY[name]), functions.mutants(name)
    verdicts = {
        f"{name}: {mutant.name}": survives for mutant, survives in tests.survivors(chosen, WORKERS)
    }
    survivors = {each for each, survives in verdicts.items() if survives}
    click.echo(_row(name, len(verdicts), len(survivors)))
    reasons = {k: v for k, v in EXPECTED_OF_CODE.items() if k.startswith(f"{name}: ")}
    return _others_survive(survivors, reasons)


def _others_survive(survivors: set[str], expected: dict[str, str]) -> bool:
    for name in sorted(survivors & expected.keys()):
        click.echo(f"survives, as expected: {name}: {expected[name]}")
    for name in sorted(survivors - expected.keys()):
        click.echo(f"SURVIVES: {name}")
    for name in sorted(expected.keys() - survivors):
        click.echo(f"DOES NOT SURVIVE: {name}")
    return survivors != expected.keys()


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*POLICIES, *functions.TESTED_BY]))
