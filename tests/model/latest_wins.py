"""What the policy latest_wins promises: docs/proof.md lists I1 to I5 in words."""

from __future__ import annotations

import json

from inorder.stack import PROJECT
from tests.model.engine import Step
from tests.model.explorer import Run, State, attribute
from tests.model.newest import Newest

HOLDING = {"Invert Image", "Release Lock"}
REFUSED = "DynamoDB.ConditionalCheckFailedException"


class LatestWins(Newest):
    """Of all events of a key the output ends as that of the newest."""

    definition = (PROJECT / "statemachine" / "latest_wins.asl.json").read_text()

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check I3, that a free key can be claimed, and that a broken lock was watched."""
        if step.error == REFUSED and self.engine.attempts(run.state, REFUSED)[1]:
            return f"I5: {run.execution} tries again what was refused, for which there is no time"
        if run.state == "Claim Key" and step.following == "Record Sequencer":
            free = run.event not in state.done and attribute(item, "lock_token") is None
            newest = attribute(item, "newest") or ""
            if free and newest <= self.scenario.sequencer(run.event) and not self.scenario.item:
                return f"I5: {run.execution} cannot claim a free key"
        if run.state == "Break Lock":
            return self._breaks(run, step)
        if step.following in HOLDING and run.state not in HOLDING:
            if run.event in state.done:
                return f"I3: {run.event} is done and worked on again"
            others = [
                other
                for other in state.runs
                if other.state in HOLDING
                and other.event not in state.done
                and self.scenario.key(other.event) == self.scenario.key(run.event)
            ]
            if others and not state.broken and not self.is_restarted(state):
                return f"I3: {run.execution} works while {others[0].execution} does"
        return None

    def _breaks(self, run: Run, step: Step) -> str | None:
        data = json.loads(run.data)
        watched = data["watched"]
        if not watched["lock_token"] or data["looks"]["count"] < watched["break_at_look"]:
            return f"I5: {run.execution} breaks a lock that it has not watched"
        if step.following == "Claim Key" and attribute(step.item, "lock_token"):
            return f"I5: {run.execution} has broken a lock that is still there"
        return None

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check that nobody waits for itself, and who gives up had to.

        Its event must not be over, and there was no one lock that it could have broken.
        """
        if following == "Wait For Lock":
            seen = json.loads(run.data)["record"].get("Item", {}).get("lock_token", {}).get("S")
            if seen == run.token:
                return f"I5: {run.execution} waits for its own lock"
        if following != "Give Up Waiting":
            return None
        item = json.dumps(json.loads(run.data)["record"].get("Item", {}))
        sequencer = self.scenario.sequencer(run.event)
        done = attribute(item, "sequencer") == sequencer and attribute(item, "status") == "DONE"
        if attribute(item, "newest") not in {None, sequencer} or done:
            return f"I4: {run.execution} gives up an event that is over"
        if run.locked and not self.is_faulty(state):
            return f"I5: {run.execution} gives up at a lock that it has seen for a lease"
        return None

    def rests(self, state: State) -> str | None:
        """Check I1, and that only the dead have locks."""
        if wrong := super().rests(state):
            return wrong
        dead = {token for _, token, _ in state.lost}
        for _, item in state.items:
            # A lost answer to a claim may leave a lock behind, which a waiter breaks in time.
            token = attribute(item, "lock_token")
            if not self.is_faulty(state) and token not in {None, *dead}:
                return f"all is quiet and {token} has the lock"
        return None

    def is_recorded(self, state: State, run: Run) -> bool:
        """Tell whether the item knows of a run's event, or of a newer one."""
        item = dict(state.items).get(self.scenario.key(run.event))
        known = max(attribute(item, "newest") or "", attribute(item, "sequencer") or "")
        return known >= self.scenario.sequencer(run.event)

    def is_done(self, run: Run) -> bool:
        """Tell whether the event is done once the run's Task has written."""
        return run.state == "Release Lock"

    def loses(self, run: Run) -> str:
        """Name what an execution that fails here leaves behind."""
        return {"Fail Key": "not freed", "Not Parked": "not parked"}.get(run.state, "")

    def is_kept(self, state: State, event: int) -> bool:
        """Tell whether a lost event is in the log, or `inorder redrive` finds it in its item."""
        hows = {how for lost, _, how in state.lost if lost == event}
        item = dict(state.items).get(self.scenario.key(event))
        newest, claimed = attribute(item, "newest"), attribute(item, "sequencer")
        stuck = attribute(item, "status") == "IN_PROGRESS" or newest != claimed
        found = attribute(item, "newest_event") or attribute(item, "event") or "{}"
        kept = stuck and json.loads(found) == self.scenario.event(event)
        return "not parked" in hows or bool(hows and kept)

    def is_reason(self, state: State, run: Run) -> bool:
        """Tell whether an event was parked for a reason that is one."""
        if json.loads(run.data).get("fault", {}).get("Error") == "KeyLocked":
            alone = len(self.scenario.events) == 1 and not self.scenario.item
            return not alone or self.is_restarted(state)
        return super().is_reason(state, run)
