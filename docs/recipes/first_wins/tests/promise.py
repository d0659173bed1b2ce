"""What first_wins promises, its scenarios, and what breaks it."""

from inorder.model import policies
from tests.policies.latest_wins.promise import LatestWins
from tests.proof.model.engine import StepResult, read
from tests.proof.model.newest import KEY, Newest
from tests.proof.model.promise import known_record
from tests.proof.model.scenario import scenarios
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import BLIND, EDGES, LATE, LATE_LONG, Suite, breakages, damaged


class FirstWins(LatestWins):
    """One event of a key is processed."""

    definition = policies.asl("first-wins")

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        done = self._done(state, run.event)
        if step.following == "Invert Image" and done:
            return f"I3: {run.event} is processed although {min(done)} is done"
        if run.state == "Claim Key" and step.following == "Record Newest Event" and not done:
            is_free = attribute(item, "lock_token") is None
            if is_free and (attribute(item, "sequencer") or "") <= self.sequencer(run):
                return f"I5: {run.execution} cannot claim a free key"
        return Newest.steps(self, state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        if following == "Give Up Waiting" and attribute(known_record(run), "status") == "DONE":
            return f"I4: {run.execution} gives up an event that is a duplicate"
        return super().passes(state, run, following)

    def is_done(self, run: Run) -> bool:
        """An event that is superseded leaves the key to the newer one."""
        is_rejected = read(run.data).get("inversion", {}).get("status") != "DONE"
        return run.state == "Release Lock" or (
            run.state == "Release Unprocessed Key" and not is_rejected
        )

    def outcomes(self, state: State, run: Run) -> dict[str, bool]:
        """Only an event of a key that is done is a duplicate."""
        return super().outcomes(state, run) | {"Duplicate": bool(self._done(state, run.event))}

    def rests(self, state: State) -> str | None:
        """Check that one event of the key was processed, and that the output is that event's."""
        newest = self.scenario.last
        if state.expiries < self.scenario.expiries:
            return self.free(state)
        if not self._done(state, newest):
            if newest not in state.parked | state.logged:
                return f"I4: all is quiet, nothing is done, and {newest} is not parked"
        elif not self.is_disturbed(state) and not self.scenario.is_versioned(newest):
            output = dict(state.outputs).get(KEY)
            if not output or self.written(state, output) not in state.done:
                return f"I1: the output is of {self.output(state)}, which is not done"
        return self.free(state)

    def _done(self, state: State, event: int) -> set[int]:
        """List the events of the same key that are done, which is one at most."""
        key = self.scenario.key(event)
        return {each for each in state.done if self.scenario.key(each) == key}


# `scenarios` explains the codes: in "12 aB", no image and then one, the events come in any order.
# Events and deliveries of a key meet, without a fault, or with one.
MEETING = scenarios("1, 1 a, 11 12, 12 aB Ab AA, 11 crashes=1, 12 crashes=1, 12 expiries=1")
# Two versions of an object, and then also without the bucket's versioning: each has one event.
VERSIONS = scenarios("12 versioned, 12 AB versioned switched=2")
# The same with two faults, or with three events.
MORE = scenarios(
    "1 crashes=1 faults=1, 11 12 crashes=1 faults=1, 11 restarts=1 expiries=1, "
    "11 crashes=1 restarts=1, 11 12 faults=1, 123, 122 crashes=1, 123 ABC versioned switched=2"
)
BROKEN = breakages("""
    "StringEquals": "DONE" => "StringEquals": "FAILED"
        11: I4: 1a gives up an event that is a duplicate
    "status": "FAILED" } => "status": "DONE" }
        12: I1: the output is of None, which is not done
    <= :sequencer AND #status <> :done => <= :sequencer
        11: I3: 1 is processed although 1 is done
""")
SUITE = Suite(
    FirstWins,
    short=(
        *(*MEETING, *VERSIONS, *EDGES, *BLIND, *LATE),
        *damaged('detail-type="Object Deleted"'),
    ),
    full=(*LATE_LONG, *MORE),
    breakages=BROKEN,
)
