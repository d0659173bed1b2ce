"""Tests the harness: it tells which stage kills a mutant, and which mutants survive."""

from __future__ import annotations

import json

import pytest

from inorder.model import policies
from tests.proof.model.mutation import Change
from tests.proof.mutants import functions
from tests.proof.mutants.harness import CHECK, FILE_TESTS, PATHS, POLICIES, STATES, examine, mutants
from tests.proof.mutants.survivors import EXPECTED

# For each stage, a mutant that it is the first to kill.
KILLED = {
    "Invert Image without Catch of States.ALL": CHECK,
    "Invert Image with no Retry.0.JitterStrategy": FILE_TESTS,
    "Lost with Cause changed": STATES,
    "Invert Image with Parameters.Payload.fence changed": PATHS,
}


def test_a_broken_state_is_noticed_and_another_comment_is_not() -> None:
    definition = policies.definition("uncoordinated")
    definition["States"]["Invert Image"]["Comment"] = "In other words."
    same = Change("Invert Image", "another Comment", json.dumps(definition))
    bad = [each for each in mutants("uncoordinated") if str(each) in KILLED]
    verdicts = examine([("uncoordinated", each) for each in (*bad, same)], workers=1)
    assert {each.mutant: each.stage for each in verdicts} == {**KILLED, str(same): None}


@pytest.mark.parametrize("policy", POLICIES)
def test_all_mutants_differ_from_each_other_and_from_the_shipped_file(policy: str) -> None:
    made = mutants(policy)
    shipped = policies.definition(policy)
    assert len({str(each) for each in made}) == len(made)
    assert len({each.definition for each in made}) == len(made)
    assert shipped not in [json.loads(each.definition or "") for each in made]


def test_a_function_has_a_mutant_for_each_page_that_is_not_read() -> None:
    made = [each.name for each in functions.mutants("heal_keys")]
    assert len(set(made)) == len(made)
    assert any("get_paginator" in each and "[*" in each for each in made)


def test_each_expected_survivor_is_a_mutant() -> None:
    made = {f"{policy}: {each}" for policy in POLICIES for each in mutants(policy)}
    own = {f"{each.name}: " for each in policies.policies() if each.like}
    assert {name for name in EXPECTED if not name.startswith(tuple(own))} <= made
