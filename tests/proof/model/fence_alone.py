"""Searches the fence without a lock, as in examples/fence_alone: executions race for an output."""

from inorder.model.policies import asl
from tests.proof.changing import changed
from tests.proof.model.engine import read
from tests.proof.model.newest import Newest
from tests.proof.model.scenario import scenarios
from tests.proof.model.state import Run, State
from tests.proof.model.suite import Suite, breakages


class FenceAlone(Newest):
    """The output of a key ends as its newest event's, although nothing keeps events apart."""

    holding = frozenset()  # there is no lock
    definition = changed(asl("uncoordinated"), '"none"', '"newest"')

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
