"""Runs all that is known about one policy, or some steps of it: `make prove POLICY=name`."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from typing import NamedTuple

import click

from inorder import PROJECT
from inorder.model import policies

PYTHON = (sys.executable, "-m")
PYTEST = (*PYTHON, "pytest", "-qq", "-n", "2", "--maxfail", "5", "--tb", "short", "--policy")
STATES, ENGINES = (f"tests/policies/test_{each}.py" for each in ("states", "engines"))
EMPTY = 5  # what pytest exits with if no test is about the policy


class Part(NamedTuple):
    """A part of the proof."""

    name: str
    advice: str  # if it fails
    command: tuple[str, ...]


def steps(policy: str) -> list[Part]:
    """List the parts of the proof of a policy, the quick ones first: docs/policies.md has them."""
    file = policies.asl_file(policy)
    folder = f"tests/policies/{policies.stem(policy)}"
    of_policy = (*PYTEST, policy)
    apart = (STATES, ENGINES, "tests/policies/test_recipes.py")
    others = (f"--ignore={each}" for each in apart)
    return [
        Part(
            "check",
            f"Each line names a state of {file}, a rule, and what to change.",
            (*PYTHON, "inorder.commands.main", "check", file),
        ),
        Part(
            "states",
            f"Either {file} is wrong, or {folder}/cases.py must say what the state now does.",
            (*of_policy, STATES),
        ),
        Part(
            "behaviour",
            f"Mend {file}, or template.yaml if the test is of tests/template. If the policy now"
            f" promises something else, change STORIES and the tests in {folder}, and the facts"
            f" in {policies.FACTS}.",
            (*of_policy, *others, "tests/policies", "tests/template"),
        ),
        Part(
            "engines",
            f"An engine understands {file} otherwise: write that state in another way.",
            (*of_policy, ENGINES),
        ),
        Part(
            "model",
            f"The trace shows how {folder}/promise.py is broken. If a mutant or a state is not"
            " known, change the names there.",
            (*of_policy, "tests/proof/model"),
        ),
        Part(
            "mutants",
            f"No test notices what SURVIVES names: add a case to {folder}/cases.py, or give the"
            " reason in SURVIVORS there.",
            (*PYTHON, "tests.proof.mutants", policy),
        ),
    ]


def prove(policy: str, *wanted: str) -> int:
    """Run all parts, or the wanted ones, until one fails; print what each runs, and did."""
    parts = steps(policy)
    if unknown := set(wanted) - {each.name for each in parts}:
        click.echo(f"A proof has no part {', '.join(sorted(unknown))}.", err=True)
        return 1
    left = [each for each in parts if not wanted or each.name in wanted]
    names = ", ".join(each.name for each in left)
    while left:
        step = left.pop(0)
        click.secho(f"{step.name} ...", bold=True)
        click.echo(shlex.join(step.command))
        since = time.monotonic()
        code = subprocess.run(step.command, cwd=PROJECT, check=False).returncode  # noqa: S603
        took = f"{time.monotonic() - since:.0f} s"
        if code == EMPTY:
            click.echo(f"{step.name}: {policy} has none.")
        elif code:
            click.secho(f"{step.name}: failed after {took}. {step.advice}", fg="red", bold=True)
            if left:
                click.echo(f"Not run: {', '.join(each.name for each in left)}.")
            return 1
        else:
            click.secho(f"{step.name}: passed in {took}", fg="green")
    click.secho(f"{policy} has passed: {names}.", bold=True)
    return 0


if __name__ == "__main__":
    policy, *wanted = sys.argv[1:]
    if policy not in policies.names():
        sys.exit(
            f"There is no policy {policy!r}. {policies.FACTS} has {', '.join(policies.names())}."
        )
    sys.exit(prove(policy, *wanted))
