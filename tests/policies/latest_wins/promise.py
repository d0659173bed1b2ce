"""What latest_wins promises (I1 to I5 of docs/proof.md), its scenarios and its mutants."""

from inorder.model import policies
from tests.proof.model.engine import StepResult, read
from tests.proof.model.newest import Newest
from tests.proof.model.promise import CLAIM, known_record
from tests.proof.model.scenario import scenarios
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import BLIND, EDGES, LATE, LATE_LONG, ODD_TWICE, SWEPT, Suite


class LatestWins(Newest):
    """The output of a key ends as its newest event says."""

    definition = policies.asl("latest-wins")

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        if step.started:
            sequencer = read(step.started)["detail"]["object"]["sequencer"]
            if sequencer <= self.sequencer(run):
                return f"I5: {run.execution} starts an event that is not newer"
        if step.following == "Invert Image" and run.event in state.done:
            return f"I3: {run.event} is done and processed again"
        if run.state == CLAIM and not run.owns(attribute(step.item, "lock_token")):
            known, own = attribute(item, "sequencer") or "", self.sequencer(run)
            is_next = known < own or (known == own and run.event not in state.done)
            if is_next and attribute(item, "lock_token") is None:
                return f"I5: {run.execution} cannot claim a free key"
        return super().steps(state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        if following == "Give Up Waiting":
            item, sequencer = known_record(run), self.sequencer(run)
            newest, status = attribute(item, "sequencer"), attribute(item, "status")
            if newest not in {None, sequencer} or status == "DONE":
                return f"I4: {run.execution} gives up an event that is superseded or done"
        return super().passes(state, run, following)

    def rests(self, state: State) -> str | None:
        return super().rests(state) or self.free(state)


# `scenarios` explains the codes: "12 A-" is an upload and a deletion, with events in any order.

# An object is deleted, and perhaps created again, while a holder dies.
DELETED_OBJECT = scenarios("12 A- crashes=1, 123 A-A AB-")
# In a versioned bucket, a version or a delete marker is deleted, so that an older one is current.
DELETED_VERSION = scenarios("12 A- A1 a- a1 versioned, 123 AA1 A-2 A-1 AB2 versioned")
# The bucket's versioning is suspended, or enabled: the null version changes places with others.
SUSPENDED = scenarios(
    "12 AB versioned switched=2, 24 A1CD versioned switched=3, 34 AB1D versioned switched=2"
)
ENABLED = scenarios("13 ABA switched=2")
SWITCHED_AND_DELETED = scenarios("123 AB2 A-2 A-C switched=2, 123 AB2 A-2 A-C versioned switched=2")
# Two events of a key, or two deliveries of one, meet while an execution dies.
MEETING = scenarios("12 11 crashes=1, 123, 123 ABA, 12 crashes=1 versioned, 12 A- Ab")
# A record expires, before or after a second event that may not be an image.
EXPIRED = scenarios("12 crashes=1 expiries=1, 12 aB crashes=1 expiries=1")
# A holder starts the newest event itself, once; later attempts fail.
STARTED = scenarios("12 crashes=1 starts=1, 123 starts=1")
# Step Functions starts an execution again that has ended, or died.
RESTARTED = scenarios(
    "11 restarts=1 expiries=1, 11 crashes=1 restarts=1 expiries=1, 12 crashes=1 restarts=1, "
    "11 crashes=1 restarts=1"
)
# A write takes effect after its timeout, beside another fault.
LATE_AND_MORE = scenarios(
    "11 12 lates=2, 1 lates=1 crashes=2, 12 lates=1 starts=1, 12 lates=1 faults=1"
)
# Two or three faults of different kinds.
SEVERAL_FAULTS = scenarios(
    "12 crashes=1 faults=1 starts=1, 12 A- crashes=1 starts=1, 122 123 crashes=1 starts=1, "
    "122 112 crashes=1, 11 12 crashes=1 faults=1, 12 Ab A- crashes=1 faults=1, "
    "11 12 faults=1 repeats=1, 1 crashes=1 faults=1 refusals=2 repeats=1, 11 12 crashes=2, "
    "123 crashes=1, 123 expiries=1, 122 112 123 crashes=1 faults=1"
)
# Three changes of a versioned bucket, or with a deletion, and faults.
THREE_CHANGES = scenarios(
    "123 A-A AB2 crashes=1 versioned, 123 A-A AB- crashes=1, "
    "123 AB2 AB1 A-2 A-1 crashes=1 versioned"
)
# A sweep reads a record, and acts after others have acted.
SLOWLY_SWEPT = scenarios("12 crashes=2 sweeps=1, 11 12 crashes=1 faults=1 sweeps=1")
SUITE = Suite(
    LatestWins,
    short=(
        *scenarios("1 crashes=1 faults=1, 12 lates=1"),
        *(*STARTED, *MEETING, *EXPIRED, *EDGES, *BLIND, *LATE, *SWEPT),
        *(*DELETED_OBJECT, *DELETED_VERSION, *SUSPENDED, *ENABLED),
        *scenarios("12 A- crashes=1 versioned"),
    ),
    full=(
        *(*LATE_LONG, *ODD_TWICE, *SWITCHED_AND_DELETED, *LATE_AND_MORE, *SEVERAL_FAULTS),
        *(*THREE_CHANGES, *RESTARTED, *SLOWLY_SWEPT),
        *scenarios("123 starts=2, 122 112, 11 12 faults=1, 1 crashes=1 faults=2"),
        *scenarios("12 AA crashes=1, 12 A- faults=1, 123 AB2 versioned switched=2"),
    ),
    breakages=(),
)
