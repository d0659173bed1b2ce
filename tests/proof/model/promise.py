"""What every policy promises. Each policy has a subclass, with its ASL file and its function."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.proof.model.engine import Answer, Call, Engine, Step, is_sender, read
from tests.proof.model.scenario import Scenario
from tests.proof.model.source import FUNCTION, Code
from tests.proof.model.state import SENT, Output, Run, State

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
    """What a policy promises in a scenario. Its checks return what is wrong, or None."""

    definition: ClassVar[str]
    function: ClassVar[Code] = FUNCTION
    # Whether a schedule finds, in a record, an execution that died while it waited.
    records_waiters: ClassVar[bool] = True
    odd: ClassVar[tuple[Any, ...]] = ODD

    def __init__(self, engine: Engine, scenario: Scenario) -> None:
        self.engine = engine
        self.scenario = scenario

    def call(self, event: str, answers: tuple[Answer, ...]) -> Call | dict[str, str] | Exception:
        return self.engine.call(event, answers)

    def key(self, event: int) -> str:
        """Give the ID of the key's record under which an event is worked on."""
        return self.scenario.key(event)

    def audited(self, version: str | None) -> str:
        """Give the ID of the record that an audit reads."""
        return "b/k" + (f"#{version}" if version else "")

    def subjects(self, state: State) -> list[str | None]:  # noqa: ARG002
        """List the versions that have outputs of their own, if each has; else there is one."""
        return [None]

    def sequencer(self, run: Run) -> str:
        """Give the sequencer of a run's event."""
        if run.is_repair:
            found: str = read(run.more)["detail"]["object"]["sequencer"]
            return found
        return self.scenario.sequencer(run.event)

    def run_key(self, run: Run) -> str:
        """Give the ID of the key's record under which a run works."""
        if run.is_repair:
            return self.audited(read(run.more)["detail"]["object"].get("version-id"))
        return self.key(run.event)

    def record_key(self, event: int) -> str:
        """Give the ID of the record that says whether an event is done."""
        return self.key(event)

    def ids(self, run: Run) -> dict[str, str]:
        """Give the IDs of all records of a run's event."""
        return {"object_key": self.run_key(run)}

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

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:  # noqa: ARG002
        """Check a Task: `item` is the record before it, `state` was before it, without the run."""
        return None

    def passes(self, state: State, run: Run, following: str) -> str | None:  # noqa: ARG002
        """Check the state that follows a Pass, a Choice or a Wait."""
        return None

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

    def is_fault(self, state: State, run: Run, reason: str | None) -> bool:  # noqa: ARG002
        """Tell whether an event is retried for a true reason."""
        # "x" comes from an odd answer; no rule may take it for a reason.
        return self.is_faulty(state) and reason != "x"

    def writes(self, state: State, key: str, before: Output | None, after: Output) -> str | None:
        """Check an output that is written, and the output that it replaces, if any."""
        raise NotImplementedError

    def owes(self, state: State, after: Output | None) -> bool:
        """Tell whether the writer or remover of an output must check the source afterwards."""
        raise NotImplementedError

    def shows(self, state: State) -> set[int]:  # noqa: ARG002
        """List the events that the outputs show, if there are outputs."""
        return set()

    def rests(self, state: State) -> str | None:
        """Check a state in which all is quiet."""
        raise NotImplementedError

    def awaits(self, state: State, run: Run, patience: int) -> tuple[int, str]:
        """Tell at which poll a waiting run removes the lock or the waiter that it watches.

        Also tell what is then removed although its execution lives, or "".
        """
        raise NotImplementedError

    def holds(self, before: Run, after: Run) -> Run:  # noqa: ARG002
        """Note how long a run has needed its lock at the end of a Task."""
        return after

    def may_need(self, state: State, removed: str, seconds: float) -> bool:  # noqa: ARG002
        """Tell whether what is removed after so many seconds may still be needed by then."""
        return False

    def has_time(self, state: State, run: Run) -> bool:  # noqa: ARG002
        """Tell whether a lease may pass before any other run moves."""
        return True

    def remembers(self, state: State, run: Run, step: Step) -> tuple[State, Run]:  # noqa: ARG002
        """Remember what the promise refers to after a Task; `state` is without the run."""
        return state, run

    def is_done(self, run: Run) -> bool:  # noqa: ARG002
        """Tell whether an event is done when its run's Task has written to the table."""
        return False

    def is_faulty(self, state: State) -> bool:
        """Tell whether there was a fault, which excuses some outcomes."""
        return self.faults(state) > 0 or state.lates < self.scenario.lates

    def faults(self, state: State) -> int:
        """Count the faults."""
        scenario = self.scenario
        return scenario.faults + scenario.refusals - state.faults - state.refusals

    def is_disturbed(self, state: State) -> bool:
        """Tell whether there was more than an error of one attempt."""
        died = state.crashes < self.scenario.crashes or bool(state.broken)
        return died or self.is_faulty(state) or self.is_restarted(state)

    def had_error(self, state: State) -> bool:
        """Tell whether one attempt of a Task has failed."""
        return len(state.transient) < len(self.scenario.transient)

    def has_failed(self, state: State) -> bool:
        """Tell whether anything went wrong, so that a sweep may have something to do."""
        return self.is_disturbed(state) or self.had_error(state) or bool(self.scenario.item)

    def is_restarted(self, state: State) -> bool:
        """Tell whether an execution was restarted."""
        return state.restarts < self.scenario.restarts
