"""What the policy first_wins promises."""

from __future__ import annotations

import json

from inorder import PROJECT
from tests.model.engine import Step
from tests.model.explorer import Run, State, attribute
from tests.model.locking import Locking
from tests.model.newest import KEY, Newest
from tests.model.scenario import Scenario
from tests.model.suite import EDGES, Suite, damaged


class FirstWins(Locking, Newest):
    """Of all events of a key one is processed."""

    definition = (PROJECT / "statemachine" / "first_wins.asl.json").read_text()
    holding = frozenset({"Invert Image", "Release Lock"})

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check I3, that one event is processed, and that a free key can be claimed."""
        done = self._done(state, run.event)
        free = not done and attribute(item, "lock_token") is None
        if run.state == "Claim Key" and step.following == "Count Poll" and free:
            return f"I5: {run.execution} cannot claim a free key"
        if step.following == "Invert Image" and done:
            return f"I3: {run.event} is worked on though {min(done)} is done"
        return super().steps(state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check that nobody gives up what is done."""
        item = json.dumps(json.loads(run.data).get("record", {}).get("Item", {}))
        if following == "Give Up Waiting" and attribute(item, "status") == "DONE":
            return f"I4: {run.execution} gives up an event that is over"
        return super().passes(state, run, following)

    def _done(self, state: State, event: int) -> set[int]:
        """Give the events of the same key that are done: it should be one."""
        key = self.scenario.key(event)
        return {each for each in state.done if self.scenario.key(each) == key}

    def ends(self, state: State, run: Run) -> str | None:
        """Check I4, and that there are duplicates of what is done only."""
        if run.state == "Duplicate" and not self._done(state, run.event):
            return f"I4: {run.execution} is a duplicate, of nothing"
        return super().ends(state, run) if run.state != "Duplicate" else None

    def rests(self, state: State) -> str | None:
        """Check that an event of each key was processed, and that the output is its."""
        newest = self.scenario.last
        if state.expiries < self.scenario.expiries:
            return self.free(state)
        if not self._done(state, newest):
            kept = any(self.is_kept(state, event) for event in self.scenario.events)
            # One whose lock was broken has processed its event all the same.
            if newest not in state.parked | state.effective and not kept:
                return f"I4: all is quiet, nothing is done, and {newest} is not parked"
        elif not self._is_disturbed(state) and not self.scenario.versioned:
            output = dict(state.outputs).get(KEY)
            if not output or self.written(output) not in state.done:
                return f"I1: the output is that of {self.output(state)}, which is not done"
        return self.free(state)

    def _is_disturbed(self, state: State) -> bool:
        crashed = state.crashes < self.scenario.crashes
        return bool(state.broken or crashed or self.is_faulty(state) or self.is_restarted(state))

    def is_recorded(self, state: State, run: Run) -> bool:
        """Tell whether the run has the lock; one that waits is in no record."""
        item = dict(state.items).get(self.scenario.key(run.event))
        return attribute(item, "lock_token") == run.token

    def is_done(self, run: Run) -> bool:
        """Tell whether the event is done once the run's Task has written."""
        return run.state == "Release Lock"

    def loses(self, run: Run) -> str:
        """Name what an execution that fails here leaves behind."""
        return {"Release Failed Key": "not freed", "Not Parked": "not parked"}.get(run.state, "")

    def is_kept(self, state: State, event: int) -> bool:
        """Tell whether a lost event is in the log, or `inorder stuck` finds it in its item."""
        hows = {how for lost, _, how in state.lost if lost == event}
        item = dict(state.items).get(self.scenario.key(event))
        found = json.loads(attribute(item, "event") or "{}") == self.scenario.event(event)
        kept = attribute(item, "status") == "IN_PROGRESS" and found
        return "not parked" in hows or event in state.parked or bool(hows and kept)

    def is_reason(self, state: State, run: Run) -> bool:
        """Tell whether an event was parked for a reason that is one."""
        if json.loads(run.data).get("fault", {}).get("Error") == "KeyLocked":
            return self.could_be_locked(state)
        return super().is_reason(state, run)


# A dead holder's lock, of another policy, which keeps no event, or of this one.
LEFT = (
    Scenario((1,), item='{"lock_token": {"S": "left behind"}}'),
    Scenario((1,), item='{"lock_token": {"S": "left behind"}, "event": {"S": "{}"}}', faults=1),
)
FIRST = (
    *(Scenario((1,)), Scenario((1,), contents="a"), Scenario((1, 1)), Scenario((1, 2))),
    *damaged('detail-type="Object Deleted"'),
    *EDGES,
    *LEFT,
    *(Scenario((1, 2), contents=contents) for contents in ("aB", "Ab", "AA")),
    Scenario((1, 2), versioned=True),
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 1), (1, 2))),
    Scenario((1, 2), expiries=1),
)
SUITE = Suite(
    FirstWins,
    short=FIRST,
    full=(
        Scenario((1, 2, 3)),
        Scenario((1, 2, 3), crashes=1, breaks=1),
        *(Scenario(events, crashes=1, breaks=1, faults=1) for events in ((1, 1), (1, 2))),
        Scenario((1, 1), restarts=1, expiries=1),
        Scenario((1, 2), crashes=1, restarts=1),
    ),
    sought=(
        *FIRST,
        *(Scenario(events, faults=1) for events in ((1, 1), (1, 2))),
        Scenario((1, 1), restarts=1),
        Scenario((1, 1, 2), crashes=1, breaks=1),
    ),
    representative=frozenset(
        {
            "Claim Key with ConditionExpression: no #status <> :done",
            "Claim Key with ConditionExpression: no attribute_not_exists(lock_token)",
            "Release Lock with ExpressionAttributeValues: :done FAILED",
            "Release Superseded Key with UpdateExpression: no SET #status = :open",
        }
    ),
    survivors=frozenset(
        {
            "Claim Key with ConditionExpression: no attribute_not_exists(id)",
            "Claim Key with no Parameters.Item.sequencer",
            "Claim Key with no Parameters.Item.claimed_at",
            "Break Lock with UpdateExpression: no REMOVE execution",
            "Release Lock with UpdateExpression: no SET expires_at = :expires_at",
            "Release Superseded Key with UpdateExpression: no SET expires_at = :expires_at",
            "Release Superseded Key with UpdateExpression: no REMOVE execution",
            "Release Failed Key with UpdateExpression: no REMOVE execution",
        }
    ),
)
