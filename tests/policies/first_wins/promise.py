"""What first_wins promises, its scenarios and its mutants."""

from inorder import PROJECT
from tests.proof.model.engine import StepResult
from tests.proof.model.newest import KEY, Newest
from tests.proof.model.promise import known_record
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import (
    BLIND,
    EDGES,
    LARGE,
    LATE,
    LATE_LONG,
    ODD_TWICE,
    Suite,
    breakages,
    damaged,
)


class FirstWins(Newest):
    """One event of a key is processed."""

    definition = (PROJECT / "statemachine" / "first_wins.asl.json").read_text()
    holding = frozenset({"Invert Image"})
    until = "done_until"

    def key(self, event: int) -> str:
        return f"first:{self.scenario.key(event)}"

    def ids(self, run: Run) -> dict[str, str]:
        record_id = self.run_key(run)
        return {"object_key": record_id.removeprefix("first:"), "record_id": record_id}

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        done = self._done(state, run.event)
        free = not done and attribute(item, "lock_token") is None
        if run.state == "Claim Key" and step.following == "First Poll?" and free:
            return f"I5: {run.execution} cannot claim a free key"
        if step.following == "Invert Image" and done:
            return f"I3: {run.event} is processed although {min(done)} is done"
        return super().steps(state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        if following == "Give Up Waiting" and attribute(known_record(run), "status") == "DONE":
            return f"I4: {run.execution} gives up an event that is a duplicate"
        return super().passes(state, run, following)

    def _done(self, state: State, event: int) -> set[int]:
        """List the events of the same key that are done, which is one at most."""
        key = self.scenario.key(event)
        return {each for each in state.done if self.scenario.key(each) == key}

    def outcomes(self, state: State, run: Run) -> dict[str, bool]:
        """Only an event of a key that is done is a duplicate."""
        return super().outcomes(state, run) | {"Duplicate": bool(self._done(state, run.event))}

    def has_time(self, state: State, run: Run) -> bool:
        """Let only seconds pass between the message about a lost event and the end of its lock."""
        keys = [self.scenario.key(each.event) for each in state.runs if each.state == "Break Lock"]
        return self.scenario.key(run.event) not in keys

    def rests(self, state: State) -> str | None:
        """Check that one event of the key was processed, and that the output is that event's."""
        newest = self.scenario.last
        if state.expiries < self.scenario.expiries:
            return self.free(state)
        if not self._done(state, newest):
            # A holder whose lock was broken may have processed its event all the same.
            if newest not in state.parked | state.effective | state.logged:
                return f"I4: all is quiet, nothing is done, and {newest} is not parked"
        elif not self.is_disturbed(state) and not self.scenario.is_versioned(newest):
            output = dict(state.outputs).get(KEY)
            if not output or self.written(state, output) not in state.done:
                return f"I1: the output is of {self.output(state)}, which is not done"
        return self.free(state)


# A dead holder's lock: of another policy, which keeps no event, or of this one.
LEFT = (
    Scenario((1,), item='{"lock_token": {"S": "left behind"}}'),
    Scenario((1,), item='{"lock_token": {"S": "left behind"}, "event": {"S": "{}"}}', faults=1),
)
# `scenarios` explains the codes: in "12 aB", no image and then one, the events come in any order.
# Events and deliveries of a key meet, without a fault, or with one.
MEETING = scenarios("1, 1 a, 11 12, 12 aB Ab AA")
FAULTY = scenarios("11 crashes=1 breaks=1, 12 crashes=1, 12 breaks=1, 12 expiries=1")
# Two versions of an object, and then also without the bucket's versioning: each has one event.
VERSIONS = scenarios("12 versioned, 12 AB versioned switched=2")
FIRST = (
    *MEETING,
    *damaged('detail-type="Object Deleted"'),
    *(*EDGES, *BLIND, *LATE, *LEFT, *VERSIONS, *FAULTY),
)
# The same with two faults, or with three events.
SEVERAL_FAULTS = scenarios(
    "1 crashes=1 faults=1, 12 crashes=1 breaks=1, 11 12 crashes=1 faults=1, 11 breaks=1 faults=1, "
    "11 restarts=1 expiries=1, 11 crashes=1 restarts=1, 11 12 faults=1"
)
THREE_EVENTS = scenarios("123, 122 crashes=1, 123 ABC versioned switched=2")
BROKEN = breakages("""
    "StringEquals": "DONE" => "StringEquals": "FAILED"
        11: I4: 1a gives up an event that is a duplicate
    "Next": "Retry Lost Event" => "Next": "Claim Key"
        12 crashes=1 failed: I4: all is quiet, nothing is done, and 2 is not parked
    "Next": "Release Superseded Key" => "Next": "Release Lock"
        12: I4: 1a ends in Processed, which is not true
    Exception"], "MaxAttempts": 0 => Exception"], "MaxAttempts": 1
        1 faults=1 refusals=2: I5: 1a retries a refused write, for which there is no time
    OR done_until < => OR done_until >
        11: I3: 1 is processed although 1 is done
""")
SUITE = Suite(
    FirstWins,
    short=tuple(scenario for scenario in FIRST if scenario not in LARGE),
    full=(*(*LATE_LONG, *LARGE, *ODD_TWICE, *SEVERAL_FAULTS, *THREE_EVENTS),),
    breakages=BROKEN,
)
