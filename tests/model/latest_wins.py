"""What the policy latest_wins promises: docs/proof.md lists I1 to I5 in words."""

from __future__ import annotations

import json

from inorder.stack import PROJECT
from tests.model.engine import INVALID, Step
from tests.model.explorer import Output, Promise, Run, State, attribute

HOLDING = {"Invert Image", "Release Lock"}
REFUSED = "DynamoDB.ConditionalCheckFailedException"


class LatestWins(Promise):
    """Of all events of a key the output ends as that of the newest."""

    definition = (PROJECT / "statemachine" / "latest_wins.asl.json").read_text()

    def starts(self, run: Run) -> str | None:
        """Check I4 for what is no event, and that an event is worked on under its own key."""
        is_parked = "sqs" in self.engine.states[run.state]["Resource"]
        if not self.scenario.valid and not is_parked:
            return f"I4: {run.execution} works on what is no event"
        if not is_parked and json.loads(run.data)["object_key"] != self.scenario.key(run.event):
            return f"I3: {run.execution} works under another key"
        return None

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

    def ends(self, state: State, run: Run) -> str | None:
        """Check I4: an execution's outcome is true."""
        written = self.written(state.output) if state.output else 0
        newer = state.uploads > run.event
        valid = self.scenario.valid
        true = {
            "Processed": valid and written >= run.event,
            "Superseded": valid and newer,
            "Duplicate": valid and (newer or written >= run.event),
            "Parked": valid and run.event in state.parked and self._is_reason(state, run),
            "Invalid Event": not valid and run.event in state.parked,
            "Not Parked": self.is_faulty(state),
        }
        if true.get(run.state, False):
            return None
        return f"I4: {run.execution} ends in {run.state}, which is not so"

    def writes(self, before: Output, after: Output) -> str | None:
        """Check I2, and that no event's output is written twice."""
        old, new = self.written(before), self.written(after)
        if new == old:
            return f"I3: the output of {old} is written again"
        return f"I2: the output of {old} becomes {new}'s" if new < old else None

    def rests(self, state: State) -> str | None:
        """Check I1, and that only the dead have locks."""
        newest = max(self.scenario.events)
        written = self.written(state.output) if state.output else None
        content = f"inverse of {self.scenario.content(newest)}"
        right = state.output and written == newest and state.output.content.startswith(content)
        if not right and newest not in state.parked and not self._is_kept(state, newest):
            return f"I1: all is quiet and the output is that of {written}, not of {newest}"
        dead = {token for _, token, _ in state.lost}
        for _, item in state.items:
            # A lost answer to a claim may leave a lock behind, which a waiter breaks in time.
            token = attribute(item, "lock_token")
            if not self.is_faulty(state) and token not in {None, *dead}:
                return f"all is quiet and {token} has the lock"
        return None

    def is_done(self, run: Run) -> bool:
        """Tell whether the event is done once the run's Task has written."""
        return run.state == "Release Lock"

    def loses(self, run: Run) -> str:
        """Name what an execution that fails here leaves behind."""
        return {"Fail Key": "not freed", "Not Parked": "not parked"}.get(run.state, "")

    def _is_kept(self, state: State, event: int) -> bool:
        """Tell whether a lost event is in the log, or `inorder redrive` finds it in its item."""
        hows = {how for lost, _, how in state.lost if lost == event}
        item = dict(state.items).get(self.scenario.key(event))
        newest, claimed = attribute(item, "newest"), attribute(item, "sequencer")
        stuck = attribute(item, "status") == "IN_PROGRESS" or newest != claimed
        found = attribute(item, "newest_event") or attribute(item, "event") or "{}"
        kept = stuck and json.loads(found) == self.scenario.detail(event)
        return "not parked" in hows or bool(hows and kept)

    def _is_reason(self, state: State, run: Run) -> bool:
        """Tell whether an event was parked for a reason that is one."""
        reason = json.loads(run.data).get("fault", {}).get("Error")
        if reason == "InvalidImage":
            return self.scenario.content(run.event).startswith(INVALID)
        if reason == "KeyLocked":
            alone = len(self.scenario.events) == 1 and not self.scenario.item
            return not alone or self.is_restarted(state)
        return self.is_faulty(state)
