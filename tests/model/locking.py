"""What all policies with a lock promise of it."""

from __future__ import annotations

import json
from typing import ClassVar

from tests.model.engine import Step
from tests.model.explorer import Promise, Run, State, attribute

REFUSED = "DynamoDB.ConditionalCheckFailedException"


class Locking(Promise):
    """One run at a time works on a key, and nobody waits for ever."""

    claim: ClassVar[str] = "Claim Key"
    wait: ClassVar[str] = "Wait For Lock"
    watched: ClassVar[str] = "watched_lock"
    holding: ClassVar[frozenset[str]]  # the Tasks between a claim and what ends the work

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check I3, that nothing refused is tried again, and that a broken lock was watched."""
        if step.error == REFUSED and self.engine.attempts(run.state, REFUSED)[1]:
            return f"I5: {run.execution} tries again what was refused, for which there is no time"
        if run.state == "Break Lock":
            return self._breaks(run, step)
        before, after = attribute(item, "lock_token"), attribute(step.item, "lock_token")
        if run.state != self.claim and before not in {None, run.token} and after is None:
            return f"I3: {run.execution} frees the lock of another"
        if step.following in self.holding and run.state == self.claim:
            others = [
                other
                for other in state.runs
                if other.state in self.holding
                and other.event not in state.done
                and other.token not in state.broken
                and self.key(other.event) == self.key(run.event)
            ]
            if others and not self.is_restarted(state):
                return f"I3: {run.execution} works while {others[0].execution} does"
        return None

    def _breaks(self, run: Run, step: Step) -> str | None:
        data = json.loads(run.data)
        watched = data[self.watched]
        if not watched["lock_token"] or data["polls"]["count"] < watched["break_at_poll"]:
            return f"I5: {run.execution} breaks a lock that it has not watched"
        if step.following == self.claim and attribute(step.item, "lock_token"):
            return f"I5: {run.execution} has broken a lock that is still there"
        return None

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check that nobody waits for itself, nor gives up at a lock that it could have broken."""
        item = json.dumps(json.loads(run.data).get("record", {}).get("Item", {}))
        if following == self.wait and attribute(item, "lock_token") == run.token:
            return f"I5: {run.execution} waits for its own lock"
        if following == "Give Up Waiting" and run.locked and not self.is_faulty(state):
            return f"I5: {run.execution} gives up at a lock that it has seen for a lease"
        return None

    def awaits(self, state: State, run: Run, patience: int) -> tuple[int, str]:
        """Wait for a lease of the lock that is watched."""
        data = json.loads(run.data)
        watched = data.get(self.watched, {})
        token = attribute(dict(state.items).get(self.key(run.event)), "lock_token")
        lives = token == watched.get("lock_token") and token in {each.token for each in state.runs}
        breaks = (token or "") if lives else ""
        return min(watched.get("break_at_poll", patience), patience), breaks

    def free(self, state: State) -> str | None:
        """Check, when all is quiet, that only the dead have locks, or work that is in progress."""
        dead = {token for _, token, _ in state.lost}
        failed = self.is_faulty(state) or len(state.transient) < len(self.scenario.transient)
        excused = state.lost or state.broken or failed or self.is_restarted(state)
        for _, item in state.items:
            # A lost answer to a claim may leave a lock behind, which a waiter breaks in time.
            token = attribute(item, "lock_token")
            if not self.is_faulty(state) and token not in {None, *dead}:
                return f"all is quiet and {token} has the lock"
            if attribute(item, "status") == "IN_PROGRESS" and not excused:
                return "all is quiet and an event is still in progress"
        return None

    def could_be_locked(self, state: State) -> bool:
        """Tell whether there was another run that an execution may have waited for in vain."""
        # What somebody has left as done, but not of which event, cannot be claimed.
        is_closed = "DONE" in self.scenario.item
        failed = self.is_faulty(state) or self.is_restarted(state)
        return len(self.scenario.events) > 1 or is_closed or failed
