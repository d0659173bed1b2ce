"""Tries all mutants of the given policies: `make mutants`."""

import sys

import click

from inorder.model import policies
from tests.policies.tables import TABLES
from tests.proof.mutants import state_machines
from tests.proof.mutants.harness import UNCHANGED, Tests

WORKERS = 2


def main(names: list[str]) -> int:
    """Print how many mutants are killed; fail if others survive than are expected."""
    if unknown := set(names) - {*policies.names()}:
        sys.exit(f"There is no policy named {', '.join(sorted(unknown))}.")
    wrong = 0
    with state_machines.prepared():
        for name in names:
            tests = Tests([*state_machines.TESTED_BY, "--policy", name])
            verdicts: dict[str, bool] = {}
            for mutant, survives in tests.survivors(state_machines.mutants(name), WORKERS):
                if mutant.name != UNCHANGED:
                    verdicts[mutant.name] = survives
                elif not survives:
                    sys.exit(f"The tests of {name} fail without a mutant, too: {mutant.where}")
            wrong += _others_survive(name, verdicts)
    return int(bool(wrong))


def _others_survive(name: str, verdicts: dict[str, bool]) -> bool:
    survivors = {mutant for mutant, survives in verdicts.items() if survives}
    click.echo(f"{name}: {len(verdicts)} mutants, {len(survivors)} survive")
    expected = TABLES[name].survivors
    for mutant in sorted(survivors & expected.keys()):
        click.echo(f"survives, as expected: {name}: {mutant}: {expected[mutant]}")
    for mutant in sorted(survivors - expected.keys()):
        click.echo(f"SURVIVES: {name}: {mutant}")
    for mutant in sorted(expected.keys() - survivors):
        click.echo(f"DOES NOT SURVIVE: {name}: {mutant}")
    return survivors != expected.keys()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or policies.names()))
