"""The mutation check itself: it tells what is killed, and what nothing can kill."""

from __future__ import annotations

import json

import pytest

from inorder import PROJECT
from inorder.policies import asl_file
from tests.model.mutation import Change
from tests.mutation.harness import CHECK, FILE_TESTS, PATHS, POLICIES, STATES, examine, mutants
from tests.mutation.survivors import EXPECTED

# One that each stage is the first to kill.
KILLED = {
    "Invert Image without Catch of States.ALL": CHECK,
    "Invert Image with no Retry.0.JitterStrategy": FILE_TESTS,
    "Lost with Error changed": STATES,
    "Invert Image with Parameters.Payload.fence changed": PATHS,
}


def test_a_bad_mutant_is_killed_and_one_that_does_the_same_survives() -> None:
    definition = json.loads((PROJECT / asl_file("uncoordinated")).read_text(encoding="utf-8"))
    definition["States"]["Invert Image"]["Comment"] = "In other words."
    same = Change("Invert Image", "another Comment", json.dumps(definition))
    bad = [each for each in mutants("uncoordinated") if str(each) in KILLED]
    verdicts = examine([("uncoordinated", each) for each in (*bad, same)], workers=1)
    assert {each.mutant: each.stage for each in verdicts} == {**KILLED, str(same): None}


@pytest.mark.parametrize("policy", POLICIES)
def test_each_mutant_is_another_one(policy: str) -> None:
    made = mutants(policy)
    shipped = json.loads((PROJECT / asl_file(policy)).read_text(encoding="utf-8"))
    assert len({str(each) for each in made}) == len(made)
    assert len({each.definition for each in made}) == len(made)
    assert shipped not in [json.loads(each.definition or "") for each in made]


def test_each_survivor_is_a_mutant() -> None:
    assert set(EXPECTED) <= {f"{policy}: {each}" for policy in POLICIES for each in mutants(policy)}
