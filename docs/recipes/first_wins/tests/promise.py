"""What first_wins promises, its scenarios, and what breaks it."""

from inorder.model import policies
from tests.proof.model.engine import read
from tests.proof.model.newest import KEY, Newest
from tests.proof.model.scenario import NO_IMAGE, A, B, C, Damage, Scenario
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import BLIND, EDGES, LATE, LATE_LONG, Breakage, Suite


class FirstWins(Newest):
    """One event of a key is processed."""

    definition = policies.asl("first-wins")

    def check_work(self, state: State, run: Run) -> str | None:
        done = self._done(state, run.event)
        return f"I3: {run.event} is processed although {min(done)} is done" if done else None

    def is_next(self, state: State, run: Run, item: str | None) -> bool:
        recorded = attribute(item, "sequencer") or ""
        return recorded <= self.sequencer(run) and not self._done(state, run.event)

    def is_done(self, run: Run) -> bool:
        """An event that is superseded leaves the key to the newer one."""
        is_rejected = read(run.data).get("inversion", {}).get("status") != "DONE"
        return run.state == "Release Lock" or (
            run.state == "Release Unprocessed Key" and not is_rejected
        )

    def true_outcomes(self, state: State, run: Run) -> dict[str, bool]:
        """Only an event of a key that is done is a duplicate."""
        return super().true_outcomes(state, run) | {"Duplicate": bool(self._done(state, run.event))}

    def check_quiet(self, state: State) -> str | None:
        """Check that one event of the key was processed, and that the output is that event's."""
        newest = self.scenario.last
        if state.expiries < self.scenario.expiries:
            return self.check_released(state)
        if not self._done(state, newest):
            if newest not in state.parked | state.logged:
                return f"I4: all is quiet, nothing is done, and {newest} is not parked"
        elif not self.is_disturbed(state) and not self.scenario.is_versioned(newest):
            output = dict(state.outputs).get(KEY)
            if not output or self.written(state, output) not in state.done:
                return f"I1: the output is of {self.output(state)}, which is not done"
        return self.check_released(state)

    def _done(self, state: State, event: int) -> set[int]:
        """List the events of the same key that are done, which is one at most."""
        key = self.scenario.key(event)
        return {event for event in state.done if self.scenario.key(event) == key}


# Events and deliveries of a key meet, without a fault, or with one.
MEETING = (
    *(Scenario(changes) for changes in ([A], [NO_IMAGE], [A, B], [A, A])),
    *(Scenario(changes) for changes in ([NO_IMAGE, B], [A, NO_IMAGE])),
    *(Scenario([A], delivered=[1, 1], crashes=crashes) for crashes in (0, 1)),
    Scenario([A, B], crashes=1),
    Scenario([A, B], expiries=1),
)
# Two versions of an object, and then also without the bucket's versioning: each has one event.
VERSIONS = (Scenario([A, B], versioned=True), Scenario([A, B], versioned=True, switched=2))
# The same with two faults, or with three events.
MORE = (
    Scenario([A], crashes=1, faults=1),
    Scenario([A], delivered=[1, 1], faults=1),
    Scenario([A], delivered=[1, 1], crashes=1, faults=1),
    Scenario([A], delivered=[1, 1], crashes=1, restarts=1),
    Scenario([A], delivered=[1, 1], restarts=1, expiries=1),
    Scenario([A, B], faults=1),
    Scenario([A, B], crashes=1, faults=1),
    Scenario([A, B], delivered=[1, 2, 2], crashes=1),
    Scenario([A, B, C]),
    Scenario([A, B, C], versioned=True, switched=2),
)
BROKEN = (
    Breakage(
        '"StringEquals": "DONE"',
        '"StringEquals": "FAILED"',
        Scenario([A], delivered=[1, 1]),
        "I4: 1a gives up an event that is superseded or done",
    ),
    Breakage(
        '"status": "FAILED" }',
        '"status": "DONE" }',
        Scenario([A, B]),
        "I1: the output is of None, which is not done",
    ),
    Breakage(
        "<= :sequencer AND #status <> :done",
        "<= :sequencer",
        Scenario([A], delivered=[1, 1]),
        "I3: 1 is processed although 1 is done",
    ),
)
SUITE = Suite(
    FirstWins,
    short=(
        *(*MEETING, *VERSIONS, *EDGES, *BLIND, *LATE),
        Scenario([A], damaged=Damage("detail-type", "Object Deleted")),
    ),
    full=(*LATE_LONG, *MORE),
    breakages=BROKEN,
)
