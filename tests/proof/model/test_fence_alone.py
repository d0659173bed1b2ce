"""Searches the fence without a lock, as in examples/fence_alone: executions race for an output."""

from __future__ import annotations

import pytest

from inorder import PROJECT
from inorder.model.policies import asl_file
from tests.proof.model.conftest import Searched
from tests.proof.model.engine import Engine, read
from tests.proof.model.fence import NEWEST
from tests.proof.model.mutation import Mutant
from tests.proof.model.newest import Newest
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.search import search
from tests.proof.model.state import Run, State
from tests.proof.model.suite import Suite, limit


class FenceAlone(Newest):
    """The output of a key ends as its newest event's, although nothing keeps events apart."""

    holding = frozenset()  # there is no lock
    definition = (PROJECT / asl_file("uncoordinated")).read_text().replace('"none"', '"newest"')

    def key(self, event: int) -> str:  # noqa: ARG002
        return "b/k"

    def ids(self, run: Run) -> dict[str, str]:  # noqa: ARG002
        return {}  # of no record

    def ends(self, state: State, run: Run) -> str | None:
        """Check the function's outcome, as each execution ends in one state."""
        outcome = read(run.data)["Payload"]["outcome"]
        return super().ends(state, run._replace(state=outcome))


RACES = scenarios("1, 11 12, 12 A- AA, 12 AB AA A- A1 versioned, 12 AB versioned switched=2")
THREE = scenarios("123 ABA A-A, 123 A-A AB2 A-2 AB1 AA2 versioned, 13 ABA switched=2")
SUITE = Suite(
    FenceAlone,
    short=(*RACES, *THREE),
    full=(),
    sought=(*RACES, *THREE),
    representative=frozenset(),
    fences=NEWEST,
)


@pytest.mark.parametrize("scenario", SUITE.short, ids=str)
def test_no_race_leaves_a_stale_output(
    engine: Engine, scenario: Scenario, searched: Searched
) -> None:
    engine.load(FenceAlone.definition)
    searched(str(SUITE), scenario, search(FenceAlone(engine, scenario), limit(scenario)))


@pytest.mark.parametrize(
    "name",
    [
        "1: a newer output supersedes",
        "3: If-Match",
        "3: the stamp",
        "4: the check after a deletion",
    ],
)
def test_a_race_shows_that_a_step_of_the_fence_is_missing(engine: Engine, name: str) -> None:
    [fence] = [each for each in NEWEST if each.name.endswith(name)]
    assert SUITE.find(engine, Mutant(fence.file, f"without {fence.name}", function=fence))
