"""What all policies with a lock promise about it."""

from __future__ import annotations

import json
from typing import ClassVar

from tests.proof.model.engine import Step, read
from tests.proof.model.promise import Promise
from tests.proof.model.state import Run, State, attribute

REFUSED = "DynamoDB.ConditionalCheckFailedException"


class Locking(Promise):
    """One execution at a time works on a key, and none waits for ever."""

    done: ClassVar[str] = "Release Lock"  # marks the event as done
    claim: ClassVar[str] = "Claim Key"
    waiting: ClassVar[str] = ""  # the Task before a Wait, if there is one
    holding: ClassVar[frozenset[str]]  # the Tasks from a claim or renewal to the end of the work

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check I3, that no refused write is retried, and that a broken lock was watched."""
        if step.error == REFUSED and self.engine.attempts(run.state, REFUSED)[1]:
            return f"I5: {run.execution} retries a refused write, for which there is no time"
        if run.state == "Break Lock":
            return self._breaks(state, run, item, step)
        before, after = attribute(item, "lock_token"), attribute(step.item, "lock_token")
        is_other = before is not None and not run.owns(before)
        if run.state != self.claim and is_other and after != before:
            return f"I3: {run.execution} releases or renews another execution's lock"
        takes = step.following in self.holding or run.owns(after)
        if takes and run.state == self.claim:
            others = [
                other
                for other in state.runs
                if other.state in self.holding
                and (other.is_repair or other.event not in state.done)
                and not any(map(other.owns, state.broken))
                and self.run_key(other) == self.run_key(run)
            ]
            if others and not self.is_restarted(state):
                return f"I3: {run.execution} works while {others[0].execution} does"
        return None

    def _breaks(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        data = read(run.data)
        watched = data["watched_lock"]
        if not watched["lock_token"] or data["polls"] < watched["break_at_poll"]:
            return f"I5: {run.execution} breaks a lock that it has not watched for a lease"
        for holder in state.runs:
            works = holder.state in self.holding and holder.owns(watched["lock_token"])
            if works and step.item != item and watched["lock_token"] not in state.broken:
                return f"I5: {holder.execution} loses its lock while it works"
        if step.following == self.claim and attribute(step.item, "lock_token"):
            return f"I5: {run.execution} has broken a lock that is still there"
        return None

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check that no run waits for itself, or gives up at a lock that it could have broken."""
        waits = self.engine.states[following]["Type"] == "Wait" or following == self.waiting
        if waits and run.owns(attribute(known_record(run), "lock_token")):
            return f"I5: {run.execution} waits for its own lock"
        if following == "Give Up Waiting" and run.locked and not self.is_faulty(state):
            return f"I5: {run.execution} gives up at a lock that it has seen for a lease"
        return None

    def awaits(self, state: State, run: Run, patience: int) -> tuple[int, str]:
        """Wait for a lease of the watched lock."""
        watched = read(run.data).get("watched_lock", {})
        token = attribute(dict(state.items).get(self.run_key(run)), "lock_token")
        lives = token == watched.get("lock_token") and any(each.owns(token) for each in state.runs)
        breaks = (token or "") if lives else ""
        return min(watched.get("break_at_poll", patience), patience), breaks

    def may_need(self, state: State, removed: str, seconds: float) -> bool:
        """Tell whether a holder may still work after so many seconds; `steps` finds that."""
        return any(
            each.owns(removed)
            and each.state in self.holding
            and seconds <= each.held + self.engine.seconds[each.state]
            for each in state.runs
        )

    def holds(self, before: Run, after: Run) -> Run:
        """Add up the longest times of the Tasks since the claim or the renewal."""
        if "watched_lock" not in read(after.data):
            after = after._replace(watched=0)
        needs = {*self.holding, "Renew Lock"}
        if after.state not in needs:
            return after._replace(held=0)
        earlier = before.held if before.state in needs else 0
        return after._replace(held=earlier + self.engine.seconds[before.state])

    def remembers(self, state: State, run: Run, step: Step) -> tuple[State, Run]:
        """Remember that a lock with another token has a lease of its own."""
        token = attribute(step.item, "lock_token")
        is_new = run.state == "Renew Lock" and run.owns(token) and token != run.token
        return state, run._replace(held=0) if is_new else run

    def is_done(self, run: Run) -> bool:
        """Tell whether the run's Task marks its event as done; a repair marks its own record."""
        return run.state == self.done and not run.is_repair

    def is_fault(self, state: State, run: Run, reason: str | None) -> bool:
        if reason in {"KeyLocked", "ContentLocked"}:
            return self._could_be_locked(state)
        # An execution that has waited for a lease has no time for a second attempt.
        return super().is_fault(state, run, reason) or (run.waited and self.had_error(state))

    def _could_be_locked(self, state: State) -> bool:
        """Tell whether there was another run that an execution may have waited for in vain."""
        several = len(self.scenario.events) + self.scenario.repairs > 1 or self.scenario.is_closed
        failed = self.is_faulty(state) or self.is_restarted(state)
        return several or failed or state.crashes < self.scenario.crashes

    def free(self, state: State) -> str | None:
        """Check, when all is quiet, that no lock is left, and no record in the index."""
        for _, item in state.items:
            token = attribute(item, "lock_token")
            stays = bool(token) and self.may_stay(state, item)
            if token and not stays:
                return f"I5: all is quiet and {token} has the lock"
            if (attribute(item, "status") == "IN_PROGRESS" and not stays) or is_indexed(item):
                return "I4: all is quiet and an event is still in progress, or in the index"
        return None

    def may_stay(self, state: State, record: str) -> bool:
        """Tell whether the lock of a dead execution may stay in a record.

        It does if no message with the event could be sent. The key's next event breaks it.
        """
        event = json.loads(attribute(record, "event") or "{}")
        return any(self.scenario.event(each).items() <= event.items() for each in state.logged)


def is_indexed(record: str | None) -> bool:
    """Tell whether a record is in the index that the schedule reads."""
    return attribute(record, "in_progress_since") is not None


def known_record(run: Run) -> str:
    """Give the key's record as the run read it last."""
    return json.dumps(read(run.data).get("record", {}).get("Item", {}))
