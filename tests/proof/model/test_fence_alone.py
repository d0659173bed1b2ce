"""Searches the fence without a lock, as in examples/fence_alone: executions race for an output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from inorder import PROJECT
from inorder.model.policies import asl_file
from tests.proof.model.conftest import Searched
from tests.proof.model.engine import Engine, read
from tests.proof.model.fence import NEWEST, REPAIRS
from tests.proof.model.mutation import Mutant
from tests.proof.model.newest import KEY, Newest
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.source import Code
from tests.proof.model.state import Run, State, Stored
from tests.proof.model.suite import Suite


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


@dataclass(frozen=True)
class Mended(Scenario):
    """Version 1 of the code has made the first upload's output; all events want version 2."""

    happened, effective = 1, frozenset({1})

    @property
    def outputs(self) -> tuple[tuple[str, Stored], ...]:
        # A repair has a sequencer of its own, which is newer.
        sequencer, version = f"00{self.sequencer(1)}", "1" if self.is_named(1) else ""
        metadata = {"sequencer": sequencer, "source-etag": f"etag-{self.content(1)}"}
        metadata |= {"source-version-id": version} if version else {}
        content = f"inverse of {self.content(1)}\n{sequencer}#{version}"
        return ((KEY, Stored(content, tuple(sorted(metadata.items())))),)

    def event(self, number: int) -> dict[str, Any]:
        made = super().event(number)
        return made | {"detail": made["detail"] | {"code-version": "2"}}


class Repaired(FenceAlone):
    """Repairs race with each other and with events: each output is made again, and once."""

    def _replaces(self, state: State, before: Stored, after: Stored, new: int) -> str | None:
        is_repair = is_of_version_1(before) and self.written(state, before) == new
        return None if is_repair else super()._replaces(state, before, after, new)

    def rests(self, state: State) -> str | None:
        outdated = [key for key, output in state.outputs if is_of_version_1(output)]
        return "I1: an output is outdated" if outdated else super().rests(state)


def is_of_version_1(output: Stored) -> bool:
    return "code-version" not in dict(output.metadata)


MENDED = tuple(
    Mended(**vars(each))
    for each in scenarios("11, 12 112 AB A-, 11 versioned, 112 AB A- A1 versioned")
)
MENDED_SUITE = Suite(
    Repaired, short=MENDED, full=(), sought=MENDED, representative=frozenset(), fences=REPAIRS
)
SEARCHES = [(suite, each) for suite in (SUITE, MENDED_SUITE) for each in suite.short]


@pytest.mark.parametrize(("suite", "scenario"), SEARCHES, ids=str)
def test_no_race_leaves_a_stale_output(
    engine: Engine, suite: Suite, scenario: Scenario, searched: Searched
) -> None:
    searched(str(suite), scenario, suite.search(engine, scenario))


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


@pytest.mark.parametrize("fence", REPAIRS, ids=lambda fence: fence.name)
def test_a_race_shows_that_a_rule_of_repairs_is_missing(engine: Engine, fence: Code) -> None:
    assert MENDED_SUITE.find(engine, Mutant(fence.file, f"without {fence.name}", function=fence))
