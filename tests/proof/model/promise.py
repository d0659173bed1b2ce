"""What every policy promises. Each policy has a subclass, with its ASL file."""

import json
from typing import Any, ClassVar

from tests.proof.model.engine import Engine, StepResult, is_sender, read
from tests.proof.model.scenario import Scenario
from tests.proof.model.state import SENT, Run, State, Stored, attribute

CLAIM = "Claim Key"
REFUSED = "DynamoDB.ConditionalCheckFailedException"
# Answers that are not in the function's contract.
ODD: tuple[Any, ...] = (
    *(None, "text", {}, {"expires_at": "1"}, {"outcome": "Processed"}, {"outcome": "Superseded"}),
    *({"outcome": each, "expires_at": 5} for each in ("Processed", "Superseded")),
    {"outcome": "Rejected", "cause": "x", "expires_at": "1"},
    {"outcome": "Rejected", "error": "x", "expires_at": "1"},
    {"outcome": "Rejected", "error": "x", "cause": "x"},
    {"outcome": "Rejected", "error": "x", "cause": "x", "expires_at": 5},
    {"outcome": "Other", "expires_at": "1", "error": "x", "cause": "x"},
)


class Promise:
    """What a policy promises in a scenario. Its checks return what is wrong, or None.

    One execution at a time works on a key, and none waits for ever.
    """

    definition: ClassVar[str]
    done: ClassVar[str] = "Release Lock"  # marks the event as done
    # The attribute that says, as text, until when a record counts; without one, it counts for ever.
    until: ClassVar[str] = ""
    waiting: ClassVar[str] = ""  # the Task before a Wait, if there is one
    holding: ClassVar[frozenset[str]]  # the Tasks from a claim or renewal to the end of the work

    def __init__(self, engine: Engine, scenario: Scenario) -> None:
        self.engine = engine
        self.scenario = scenario

    # The records

    def key(self, event: int) -> str:
        """Give the ID of the key's record under which an event is worked on."""
        return self.scenario.key(event)

    def sequencer(self, run: Run) -> str:
        return self.scenario.sequencer(run.event)

    def run_key(self, run: Run) -> str:
        """Give the ID of the key's record under which a run works."""
        return self.key(run.event)

    def record_key(self, event: int) -> str:
        """Give the ID of the record that says whether an event is done."""
        return self.key(event)

    def ids(self, run: Run) -> dict[str, str]:
        """Give the IDs of all records of a run's event."""
        return {"object_key": self.run_key(run)}

    # An execution, step by step

    def entries(self, event: int) -> list[str]:  # noqa: ARG002
        """Name the states in which an execution of an event may start."""
        return self.engine.starts

    def starts(self, run: Run) -> str | None:
        """Check a run at its first Task: it parks an invalid event, and has its event's IDs."""
        if is_sender(self.engine.states[run.state]):
            return None
        if not self.scenario.valid:
            return f"I4: {run.execution} works on an invalid event"
        if not self.ids(run).items() <= read(run.data).items():
            return f"I3: {run.execution} works under another event's IDs"
        return None

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        """Check a Task: I3, that no refused write is retried, and that a broken lock was watched.

        `item` is the record before it, `state` was before it, without the run.
        """
        if step.error == REFUSED and self.engine.attempts(run.state, REFUSED)[1]:
            return f"I5: {run.execution} retries a refused write, for which there is no time"
        if run.state == "Break Lock":
            return self._breaks(state, run, item, step)
        before, after = attribute(item, "lock_token"), attribute(step.item, "lock_token")
        if run.state != CLAIM:
            is_other = before is not None and not run.owns(before) and after != before
            who = run.execution
            return f"I3: {who} releases or renews another execution's lock" if is_other else None
        if step.following in self.holding or run.owns(after):
            others = [
                other
                for other in state.runs
                if other.state in self.holding
                and other.event not in state.done
                and not any(map(other.owns, state.broken))
                and self.run_key(other) == self.run_key(run)
            ]
            if others and not self.is_restarted(state):
                return f"I3: {run.execution} works while {others[0].execution} does"
        return None

    def _breaks(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        data = read(run.data)
        watched = data["watched_lock"]
        if not watched["lock_token"] or data["polls"] < watched["break_at_poll"]:
            return f"I5: {run.execution} breaks a lock that it has not watched for a lease"
        for holder in state.runs:
            works = holder.state in self.holding and holder.owns(watched["lock_token"])
            if works and step.item != item and watched["lock_token"] not in state.broken:
                return f"I5: {holder.execution} loses its lock while it works"
        if step.following == CLAIM and attribute(step.item, "lock_token"):
            return f"I5: {run.execution} has broken a lock that is still there"
        return None

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check what follows a Pass, a Choice or a Wait.

        No run waits for itself, or gives up at a lock that it could have broken.
        """
        waits = self.engine.states[following]["Type"] == "Wait" or following == self.waiting
        if waits and run.owns(attribute(known_record(run), "lock_token")):
            return f"I5: {run.execution} waits for its own lock"
        if following == "Give Up Waiting" and run.locked and not self.is_faulty(state):
            return f"I5: {run.execution} gives up at a lock that it has seen for a lease"
        return None

    def remembers(self, state: State, run: Run, step: StepResult) -> tuple[State, Run]:
        """Remember what the promise refers to after a Task; `state` is without the run.

        A lock with another token has a lease of its own.
        """
        token = attribute(step.item, "lock_token")
        is_new = run.state == "Renew Lock" and run.owns(token) and token != run.token
        return state, run._replace(held=0) if is_new else run

    def is_done(self, run: Run) -> bool:
        """Tell whether the run's Task marks its event as done."""
        return run.state == self.done

    # The end of an execution

    def outcomes(self, state: State, run: Run) -> dict[str, bool]:
        """Tell which outcomes of a run are true, if its event is valid and not parked."""
        raise NotImplementedError

    def ends(self, state: State, run: Run) -> str | None:
        """Check I4 at an execution's end: its outcome is true."""
        valid, sent = self.scenario.valid, run.done == SENT
        reason = read(run.data).get("fault", {}).get("Error")
        is_parked = sent and run.event in state.parked
        true = {
            "Parked": valid and is_parked and self.is_rejection(state, run, reason),
            "Retrying": valid and sent and self.is_fault(state, run, reason),
            "Invalid Event": not valid and sent,
            "Not Parked": self.faults(state) > 1,  # of the queue and of EventBridge
        }
        if valid:
            true |= self.outcomes(state, run)
        if not true.get(run.state):
            return f"I4: {run.execution} ends in {run.state}, which is not true"
        return None

    def is_rejection(self, state: State, run: Run, reason: str | None) -> bool:  # noqa: ARG002
        """Tell whether an event was rejected for a true reason."""
        return reason == "UnknownResult" and self.scenario.odd and self.is_faulty(state)

    def is_fault(self, state: State, run: Run, reason: str | None) -> bool:
        """Tell whether an event is retried for a true reason."""
        if reason == "KeyLocked":
            # There was another run that this one may have waited for in vain.
            several = len(self.scenario.events) > 1
            died = state.crashes < self.scenario.crashes or self.is_restarted(state)
            return several or died or self.scenario.is_closed or self.is_faulty(state)
        # "x" comes from an odd answer; no rule may take it for a reason.
        is_excused = self.is_faulty(state) and reason != "x"
        # An execution that has waited for a lease has no time for a second attempt.
        return is_excused or (run.waited and self.had_error(state))

    # Outputs

    def writes(self, state: State, key: str, before: Stored | None, after: Stored) -> str | None:
        """Check an output that is written, and the output that it replaces, if any."""
        raise NotImplementedError

    def owes(self, state: State, after: Stored | None) -> bool:
        """Tell whether the writer or remover of an output must check the source afterwards."""
        raise NotImplementedError

    def shows(self, state: State) -> set[int]:  # noqa: ARG002
        """List the events that the outputs show, if there are outputs."""
        return set()

    # Leases

    def awaits(self, state: State, run: Run, patience: int) -> tuple[int, str]:
        """Tell at which poll a waiting run removes the lock or the waiter that it watches.

        Also tell what is then removed although its execution lives, or "".
        """
        watched = read(run.data).get("watched_lock", {})
        token = attribute(state.item(self.run_key(run)), "lock_token")
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

    def has_time(self, state: State, run: Run) -> bool:  # noqa: ARG002
        """Tell whether a lease may pass before any other run moves."""
        return True

    # When all is quiet

    def rests(self, state: State) -> str | None:
        """Check a state in which all is quiet."""
        raise NotImplementedError

    def free(self, state: State) -> str | None:
        """Check, when all is quiet, that no lock is left, and no record in the index."""
        for _, item in state.items:
            token = attribute(item, "lock_token")
            stays = bool(token) and self.may_stay(state, item)
            if token and not stays:
                return f"I5: all is quiet and {token} has the lock"
            in_progress = attribute(item, "status") == "IN_PROGRESS" and not stays
            if in_progress or attribute(item, "in_progress_since") is not None:
                return "I4: all is quiet and an event is still in progress, or in the index"
        return None

    def may_stay(self, state: State, record: str) -> bool:
        """Tell whether the lock of a dead execution may stay in a record.

        It does if no message with the event could be sent. The key's next event breaks it.
        """
        event = json.loads(attribute(record, "event") or "{}")
        return any(self.scenario.event(each).items() <= event.items() for each in state.logged)

    # What the adversary has done, which excuses some outcomes

    def is_faulty(self, state: State) -> bool:
        return self.faults(state) > 0 or state.lates < self.scenario.lates

    def faults(self, state: State) -> int:
        scenario = self.scenario
        return scenario.faults + scenario.refusals - state.faults - state.refusals

    def is_restarted(self, state: State) -> bool:
        return state.restarts < self.scenario.restarts

    def had_error(self, state: State) -> bool:
        """Tell whether one attempt of a Task has failed."""
        return len(state.transient) < len(self.scenario.transient)

    def is_disturbed(self, state: State) -> bool:
        """Tell whether there was more than an error of one attempt."""
        died = state.crashes < self.scenario.crashes or bool(state.broken)
        return died or self.is_faulty(state) or self.is_restarted(state)

    def has_failed(self, state: State) -> bool:
        """Tell whether anything went wrong, so that a sweep may have something to do."""
        return self.is_disturbed(state) or self.had_error(state) or bool(self.scenario.item)


def known_record(run: Run) -> str:
    """Give the key's record as the run read it last."""
    return json.dumps(read(run.data).get("record", {}).get("Item", {}))
