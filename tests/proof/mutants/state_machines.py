"""Breaks the ASL files: each mutant is one small change of one state."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from inorder import local_aws
from inorder.model import policies
from tests.proof.mutants.harness import UNCHANGED, Mutant
from tests.proof.mutants.mutation import is_refused, mutants_of
from tests.support.in_process import InProcess

TESTED_BY = [
    "tests/policies",
    "--ignore=tests/policies/test_engines.py",  # tells the stories of test_every_policy.py
    "--ignore=tests/policies/test_recipes.py",  # edits copies of the project, without a mutant
    # It simulates; all mutants that it kills are killed sooner.
    "--deselect=tests/policies/test_policy_facts.py::test_an_event_costs_what_the_facts_say",
]
WAIT_SCALE = 0.2


def mutants(policy: str) -> Iterator[Mutant]:
    definition = policies.asl(policy)
    yield Mutant(UNCHANGED, f"{policy}:", partial(_install, policy, definition))
    for state, change, broken in mutants_of(definition):
        yield Mutant(f"{state} {change}", f"{policy}:{state}", partial(_install, policy, broken))


_TEXTS: dict[str, str] = {}  # the policies whose ASL is another one
_asl = policies.asl


@contextmanager
def prepared() -> Iterator[None]:
    """Let all tests use one local AWS, and read the texts of `_TEXTS`."""
    with (
        tempfile.TemporaryDirectory(prefix="inorder-mutants-") as folder,
        local_aws.start(Path(folder), wait_scale=WAIT_SCALE) as local,
        # Each process has connections of its own.
        patch.object(local_aws, "start", lambda *_, **__: nullcontext(replace(local))),
        patch.object(policies, "asl", lambda name, *_: _TEXTS.get(name) or _asl(name)),
        patch.object(InProcess, "wait_scale", WAIT_SCALE),
    ):
        yield


def _install(policy: str, text: str) -> str:
    """Let all that is imported later read another file; tell whether `inorder check` finds it."""
    _TEXTS[policy] = text
    return "inorder check" if is_refused(text) else ""
