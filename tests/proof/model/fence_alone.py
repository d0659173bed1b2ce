"""Searches the fence without a lock, as in examples/fence_alone: executions race for an output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inorder import PROJECT
from inorder.model.policies import asl_file
from tests.proof.model.engine import read
from tests.proof.model.newest import KEY, Newest
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.state import Run, State, Stored
from tests.proof.model.suite import Suite, breakages


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


SHORT = scenarios(
    "1, 11 12, 12 A- AA, 12 AB AA A- A1 versioned, 12 AB versioned switched=2, "
    "123 ABA A-A, 123 A-A AB2 A-2 AB1 AA2 versioned, 13 ABA switched=2"
)
BROKEN = breakages("""
    {"IfMatch": self.etag} => {}
        12 AB versioned: I3: the output of 2 is written again
    {"IfNoneMatch": "*"} => {}
        11: I3: the output of 1 is written again
    stamp(event) => b""
        12 AA versioned: I3: the output of 2 is written again
    is Order.OLDER => is not None
        12 A-: I1: all is quiet and the output was made from 1, not from None
    if self.find_source(event) is None => if True
        123 A-A: I4: 2a ends in Processed, which is not true
    key, IfMatch=etag => key
        123 A-A: I1: all is quiet and the output was made from None, not from 3
""")
SUITE = Suite(FenceAlone, SHORT, full=(), breakages=BROKEN)


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
OUTDATED = breakages("""
    case Order.SAME if not output.is_outdated(event.code_version): => case Order.SAME:
        11 versioned: I1: an output is outdated
    if not output.is_outdated(event.code_version) => if False
        11: I4: 1a ends in Superseded, which is not true
""")
MENDED_SUITE = Suite(Repaired, MENDED, full=(), breakages=OUTDATED, kind=Mended)
