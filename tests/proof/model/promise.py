"""What every policy promises. Each policy has a subclass, with its ASL file."""

import json
from typing import Any, ClassVar

from tests.proof.model.engine import Engine, StepResult, is_sender, read
from tests.proof.model.scenario import Scenario
from tests.proof.model.state import SENT, Run, State, Stored, attribute

CLAIM = "Claim Key"
REFUSED = "DynamoDB.ConditionalCheckFailedException"
INVALID_EVENT = "InvalidEvent"
# What fails the one attempt of the work. A write has a second attempt after throttling.
ONE_ATTEMPT, TWO_ATTEMPTS = {"States.TaskFailed", "States.Timeout"}, 2
# Answers that are not in the function's contract.
ODD: tuple[Any, ...] = (
    *(None, "text", {}, {"expires_at": "1"}, {"outcome": "Processed"}, {"outcome": "Superseded"}),
    *({"outcome": outcome, "expires_at": 5} for outcome in ("Processed", "Superseded")),
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
    holding: ClassVar[frozenset[str]] = frozenset({"Invert Image"})  # the Tasks that work

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

    def ids(self, run: Run) -> dict[str, str]:
        """Give the IDs of all records of a run's event."""
        return {"object_key": self.run_key(run)}

    # An execution, step by step

    def first_states(self, event: int) -> list[str]:  # noqa: ARG002
        """Name the states in which an execution of an event may start."""
        return self.engine.starts

    def check_start(self, run: Run) -> str | None:
        """Check a run at its first Task: it parks an invalid event, and has its event's IDs."""
        if is_sender(self.engine.states[run.state]):
            return None
        if not self.scenario.valid:
            return f"I4: {run.execution} works on an invalid event"
        if not self.ids(run).items() <= read(run.data).items():
            return f"I3: {run.execution} works under another event's IDs"
        return None

    def check_task(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        """Check a Task: no refused write is retried, and whatever else it may do wrong.

        `item` is the record before it, `state` was before it, without the run.
        """
        if step.error == REFUSED and self.engine.attempts(run.state, REFUSED)[1]:
            return f"I5: {run.execution} retries a refused write, for which there is no time"
        if step.started:
            started: str = read(step.started)["detail"]["object"]["sequencer"]
            if started <= self.sequencer(run):
                return f"I5: {run.execution} starts an event that is not newer"
        check = self.check_claim if run.state == CLAIM else self.check_release
        return check(state, run, item, step)

    def check_claim(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        """Check I3, and that a free key can be claimed."""
        before, after = attribute(item, "lock_token"), attribute(step.item, "lock_token")
        if step.following in self.holding:
            if wrong := self.check_work(state, run):
                return wrong
            if not run.owns(after):
                return f"I3: {run.execution} works without the lock"
        elif before is None and not run.owns(after) and self.is_next(state, run, item):
            return f"I5: {run.execution} cannot claim a free key"
        has_key = run.owns(before) and attribute(item, "sequencer") == self.sequencer(run)
        if has_key and step.error == REFUSED:
            return f"I5: {run.execution} cannot claim the key that it has"
        if run.owns(after):
            others = [
                other
                for other in state.runs
                if other.state in self.holding
                and other.event not in state.done
                and self.run_key(other) == self.run_key(run)
            ]
            if others and not self.is_restarted(state):
                return f"I3: {run.execution} works while {others[0].execution} does"
        return None

    def check_work(self, state: State, run: Run) -> str | None:
        """Check that an event whose work begins is not done."""
        return f"I3: {run.event} is done and processed again" if run.event in state.done else None

    def is_next(self, state: State, run: Run, item: str | None) -> bool:
        """Tell whether a run's event is the next one of a free key, by the key's record."""
        recorded, own = attribute(item, "sequencer") or "", self.sequencer(run)
        return recorded < own or (recorded == own and run.event not in state.done)

    def check_release(
        self,
        state: State,  # noqa: ARG002
        run: Run,
        item: str | None,
        step: StepResult,
    ) -> str | None:
        """Check that a write, which may be late, releases no other execution's lock."""
        before, after = attribute(item, "lock_token"), attribute(step.item, "lock_token")
        is_other = before is not None and not run.owns(before) and after != before
        return f"I3: {run.execution} releases another execution's lock" if is_other else None

    def check_waiting(self, run: Run, following: str) -> str | None:
        """Check what follows a Pass, a Choice or a Wait: that a run waits only if it must."""
        record = known_record(run)
        if self.engine.states[following]["Type"] == "Wait":
            if run.owns(attribute(record, "lock_token")):
                return f"I5: {run.execution} waits for its own lock"
        elif following == "Give Up Waiting":
            is_newest = attribute(record, "sequencer") in {None, self.sequencer(run)}
            if not is_newest or attribute(record, "status") == "DONE":
                return f"I4: {run.execution} gives up an event that is superseded or done"
        return None

    def is_done(self, run: Run) -> bool:
        """Tell whether the run's Task, which has written, marks its event as done.

        If a newer event is recorded, the end of the work only removes the lock.
        """
        data = read(run.data)
        if run.state == "Release Unprocessed Key":
            return bool(data["inversion"]["status"] == "DONE")
        is_left = run.state == "Release Lock Only" and "inversion" in data and "fault" not in data
        return run.state == "Release Lock" or is_left

    # The end of an execution

    def true_outcomes(self, state: State, run: Run) -> dict[str, bool]:
        """Tell which outcomes of a run are true, if its event is valid and not parked."""
        raise NotImplementedError

    def check_outcome(self, state: State, run: Run) -> str | None:
        """Check an execution's end: I4, its outcome is true; I5, it has released its lock."""
        valid, sent = self.scenario.valid, run.done == SENT
        reason = read(run.data).get("fault", {}).get("Error")
        is_parked = sent and run.event in state.parked
        is_rejected = self.is_rejection(state, run, reason) if valid else reason == INVALID_EVENT
        true = {
            "Parked": is_parked and is_rejected,
            "Retrying": valid and sent and self.is_fault(state, run, reason),
            "Not Parked": run.refused > 1,  # by the queue, and by EventBridge
        }
        if valid:
            true |= self.true_outcomes(state, run)
        if not true.get(run.state):
            return f"I4: {run.execution} ends in {run.state}, which is not true"
        if run.owns(attribute(state.item(self.run_key(run)), "lock_token")):
            return self._check_lock_left(state, run)
        return None

    def _check_lock_left(self, state: State, run: Run) -> str | None:
        """Check that a run could not know of its lock, or could not release it.

        If it has seen the lock of a claim that was written late, the release must be late, too.
        """
        is_known = run.owns(attribute(known_record(run), "lock_token"))
        is_late = self.scenario.lates - state.lates > is_known
        has_failed = self.errors(state) >= TWO_ATTEMPTS or state.faults < self.scenario.faults
        if is_late or has_failed:
            return None
        return f"I5: {run.execution} ends, and leaves its lock to a sweep"

    def is_rejection(self, state: State, run: Run, reason: str | None) -> bool:  # noqa: ARG002
        """Tell whether an event was rejected for a true reason."""
        return reason == "UnknownResult" and self.scenario.odd and self.is_faulty(state)

    def is_fault(self, state: State, run: Run, reason: str | None) -> bool:  # noqa: ARG002
        """Tell whether an event is retried for a true reason."""
        if reason in {"KeyLocked", "OutputContended"}:
            # Another run had the lock, or all attempts of the fence met another run's writes.
            return len(self.scenario.events) > 1 or self.has_failed(state)
        # The work has one attempt. A throttled Task has more.
        had_error = self.errors(state) >= (1 if reason in ONE_ATTEMPT else TWO_ATTEMPTS)
        # "x" comes from an odd answer; no rule may take it for a reason.
        return reason != "x" and (self.is_faulty(state) or had_error)

    # Outputs

    def check_output(
        self, state: State, key: str, before: Stored | None, after: Stored
    ) -> str | None:
        """Check an output that is written, and the output that it replaces, if any."""
        raise NotImplementedError

    def must_check_source(self, state: State, after: Stored | None) -> bool:
        """Tell whether the writer or remover of an output must check the source afterwards."""
        raise NotImplementedError

    def shown_events(self, state: State) -> set[int]:  # noqa: ARG002
        """List the events that the outputs show, if there are outputs."""
        return set()

    # When all is quiet

    def check_quiet(self, state: State) -> str | None:
        """Check a state in which all is quiet."""
        raise NotImplementedError

    def check_released(self, state: State) -> str | None:
        """Check, when all is quiet, that no lock is left, and no record in the index."""
        for _, item in state.items:
            if token := attribute(item, "lock_token"):
                return f"I5: all is quiet and {token} has the lock"
            in_progress = attribute(item, "status") == "IN_PROGRESS"
            if in_progress or attribute(item, "in_progress_since") is not None:
                return "I4: all is quiet and an event is still in progress, or in the index"
        return None

    # What the adversary has done, which excuses some outcomes

    def is_faulty(self, state: State) -> bool:
        """Tell whether a service or the function has failed; a refused message is no fault."""
        return state.faults < self.scenario.faults or state.lates < self.scenario.lates

    def is_restarted(self, state: State) -> bool:
        return state.restarts < self.scenario.restarts

    def errors(self, state: State) -> int:
        """Give how many attempts of Tasks have failed."""
        return len(self.scenario.transient) - len(state.transient)

    def is_disturbed(self, state: State) -> bool:
        """Tell whether there was more than an error of one attempt."""
        died = state.crashes < self.scenario.crashes
        return died or self.is_faulty(state) or self.is_restarted(state)

    def has_failed(self, state: State) -> bool:
        """Tell whether anything went wrong, so that a sweep may have something to do."""
        is_refused = state.refusals < self.scenario.refusals
        return self.is_disturbed(state) or is_refused or self.errors(state) > 0


def known_record(run: Run) -> str:
    """Give the key's record as the run read it last."""
    return json.dumps(read(run.data).get("record", {}).get("Item", {}))
