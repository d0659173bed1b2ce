"""Searches the fence without a lock, as in examples/fence_alone: executions race for an output."""

from inorder.model.policies import asl
from tests.proof.model.engine import read
from tests.proof.model.newest import Newest
from tests.proof.model.scenario import DELETED, A, B, Deletion, Scenario
from tests.proof.model.state import Run, State
from tests.proof.model.suite import Breakage, Suite
from tests.support.replacing import replaced


class FenceAlone(Newest):
    """The output of a key ends as its newest event's, although nothing keeps events apart."""

    holding = frozenset()  # there is no lock
    definition = replaced(asl("uncoordinated"), '"none"', '"newest"')

    def key(self, event: int) -> str:  # noqa: ARG002
        return "b/k"

    def ids(self, run: Run) -> dict[str, str]:  # noqa: ARG002
        return {}  # of no record

    def check_outcome(self, state: State, run: Run) -> str | None:
        """Check the function's outcome, as each execution ends in one state."""
        outcome = read(run.data)["Payload"]["outcome"]
        return super().check_outcome(state, run._replace(state=outcome))


VERSIONED = (
    *([A, A], [A, B], [A, DELETED], [A, Deletion(1)]),
    *([A, DELETED, A], [A, B, Deletion(2)], [A, DELETED, Deletion(2)]),
    *([A, B, Deletion(1)], [A, A, Deletion(2)]),
)
SHORT = (
    *(Scenario(changes) for changes in ([A], [A, B], [A, DELETED], [A, A])),
    *(Scenario(changes) for changes in ([A, B, A], [A, DELETED, A])),
    Scenario([A], delivered=[1, 1]),
    *(Scenario(changes, versioned=True) for changes in VERSIONED),
    Scenario([A, B], versioned=True, switched=2),
    Scenario([A, B, A], delivered=[1, 3], switched=2),
)
BROKEN = (
    Breakage(
        '{"IfMatch": self.etag}',
        "{}",
        Scenario([A, B], versioned=True),
        "I3: the output of 2 is written again",
    ),
    Breakage(
        '{"IfNoneMatch": "*"}',
        "{}",
        Scenario([A], delivered=[1, 1]),
        "I3: the output of 1 is written again",
    ),
    Breakage(
        "stamp(event)",
        'b""',
        Scenario([A, A], versioned=True),
        "I3: the output of 2 is written again",
    ),
    Breakage(
        "is Order.OLDER",
        "is not None",
        Scenario([A, DELETED]),
        "I1: all is quiet and the output was made from 1, not from None",
    ),
    Breakage(
        "if is_same",
        "if True",
        Scenario([A, DELETED, A]),
        "I4: 2a ends in Processed, which is not true",
    ),
    Breakage(
        "key, IfMatch=etag",
        "key",
        Scenario([A, DELETED, A]),
        "I1: all is quiet and the output was made from None, not from 3",
    ),
)
SUITE = Suite(FenceAlone, SHORT, full=(), breakages=BROKEN)
