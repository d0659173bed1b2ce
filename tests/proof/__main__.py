"""Runs all that is known about one policy: `make prove POLICY=name`."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

import click

from inorder import PROJECT
from inorder.model import policies

PYTEST = (sys.executable, "-m", "pytest", "-qq", "-n", "2", "--maxfail", "5", "--tb", "short")
STATES, PATHS, ENGINES = (
    f"tests/policies/test_{each}.py" for each in ("states", "paths", "engines")
)
EMPTY = 5  # what pytest exits with if no test is about the policy


@dataclass(frozen=True)
class Step:
    """A part of the proof."""

    name: str
    what: str  # it does
    advice: str  # if it fails
    command: tuple[str, ...]


def steps(policy: str) -> list[Step]:
    """List the parts of the proof of a policy, the quick ones first."""
    file, stem = policies.asl_file(policy), policies.stem(policy)
    folder = f"tests/policies/{stem}"
    only = ("--policy", policy)
    apart = (STATES, PATHS, ENGINES, "tests/unit/test_new_policy.py")
    others = [f"--ignore={each}" for each in apart]
    return [
        Step(
            "check",
            "what the file and the template alone tell",
            f"Each line names a state of {file}, a rule, and what to change.",
            (sys.executable, "-m", "inorder.commands.main", "check", file),
        ),
        Step(
            "states",
            "each state alone, by TestState",
            f"Either {file} is wrong, or {folder}/cases.py must say what the state now does.",
            (*PYTEST, *only, STATES),
        ),
        Step(
            "paths",
            "paths with mocked services, on ministack; they take every branch",
            f"Mend {file}, or FLOW and `events` of {folder}/cases.py, of which the paths are made.",
            (*PYTEST, *only, PATHS),
        ),
        Step(
            "behaviour",
            "what it does with the real functions, conditional writes and crashes",
            f"Mend {file}, or template.yaml if the test is of tests/template. If it promises"
            f" something else by now, change the tests in {folder} and the facts in"
            f" {policies.FACTS}: with `like` there, the tests of the shipped policy run with it.",
            (*PYTEST, *only, *others, "tests/policies", "tests/template", "tests/unit"),
        ),
        Step(
            "engines",
            "stories that end on ministack as on moto",
            f"An engine understands {file} otherwise: write that state in another way.",
            (*PYTEST, *only, ENGINES),
        ),
        Step(
            "model",
            "every interleaving of a few events, and mutants that must break a promise",
            f"The trace shows how {folder}/promise.py is broken. If a mutant or a state is not"
            " known, change the names there.",
            (*PYTEST, *only, "tests/proof/model"),
        ),
        Step(
            "mutants",
            f"{file} broken in every small way: a test must fail each time",
            f"No test notices what SURVIVES names: add a case to {folder}/cases.py, or give the"
            " reason in tests/proof/mutants/survivors.py.",
            (sys.executable, "-m", "tests.proof.mutants", policy),
        ),
    ]


def prove(policy: str) -> int:
    """Run all parts until one fails, and print what each did; give the exit code."""
    begun, left = time.monotonic(), steps(policy)
    while left:
        step = left.pop(0)
        click.secho(f"{step.name}: {step.what} ...", bold=True)
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
    click.secho(f"{policy} has passed all, in {time.monotonic() - begun:.0f} s.", bold=True)
    return 0


if __name__ == "__main__":
    [name] = sys.argv[1:]
    if name not in policies.names():
        sys.exit(f"There is no policy {name!r}: {', '.join(policies.names())}.")
    sys.exit(prove(name))
