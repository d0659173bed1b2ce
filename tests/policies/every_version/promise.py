"""What every_version promises, in a versioned bucket, its scenarios and its mutants."""

from inorder.model import policies
from tests.proof.model.engine import StepResult
from tests.proof.model.promise import Promise
from tests.proof.model.scenario import INVALID, scenarios
from tests.proof.model.state import Run, State, Stored
from tests.proof.model.suite import Suite, breakages


class EveryVersion(Promise):
    """Each version is processed once, and has its own output."""

    definition = policies.asl("every-version")

    def output_key(self, event: int) -> str:
        return f"out-k/{self.scenario.version(event)}"

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        if step.following == "Invert Image" and run.event in state.done:
            return f"I3: {run.event} is done and processed again"
        return super().steps(state, run, item, step)

    def writes(self, state: State, key: str, before: Stored | None, after: Stored) -> str | None:  # noqa: ARG002
        event = self.written(after)
        if key != self.output_key(event):
            return f"I3: {event} is written to {key}"
        return f"I3: the output of {event} is written again" if before else None

    def is_gone(self, state: State, event: int) -> bool:
        """Tell whether the version that an event has created, which may be a marker, is deleted."""
        is_creation = self.scenario.version(event) == event
        return is_creation and self.scenario.is_deleted(event, state.happened)

    def owes(self, state: State, after: Stored | None) -> bool:
        """Tell whether the object had been deleted when its output was written."""
        return after is not None and self.is_gone(state, self.written(after))

    def written(self, output: Stored) -> int:
        return int(dict(output.metadata)["source-version-id"])

    def shows(self, state: State) -> set[int]:
        """List the creations that have an output, and the deletions whose objects have none."""
        keys = {key for key, _ in state.outputs}
        return {
            event
            for event in range(1, state.happened + 1)
            if (self.output_key(event) in keys) != self.scenario.is_deletion(event)
        }

    def outcomes(self, state: State, run: Run) -> dict[str, bool]:
        is_shown = run.event in state.effective
        return {
            "Processed": is_shown,
            "Superseded": self.is_gone(state, run.event),
            "Duplicate": run.event in state.done or is_shown,
        }

    def is_rejection(self, state: State, run: Run, reason: str | None) -> bool:
        if reason == "InvalidImage":
            return self.scenario.content(run.event).startswith(INVALID)
        return super().is_rejection(state, run, reason)

    def rests(self, state: State) -> str | None:
        """Check I1: each version that exists has its output, and no deleted one has."""
        outputs = dict(state.outputs)
        for event in {*self.scenario.events} - state.parked - state.logged:
            is_gone, output = self.is_gone(state, event), outputs.get(self.output_key(event))
            is_known = event in state.done or state.expiries < self.scenario.expiries
            if not is_gone and not is_known:
                return f"I4: all is quiet and {event} is neither done nor parked"
            if self.scenario.is_deletion(event):
                if output:
                    return f"I1: all is quiet and {event} has left the output of its version"
            elif not is_gone:
                content = f"inverse of {self.scenario.content(event)}"
                if not output or not output.content.startswith(content):
                    return f"I1: all is quiet and {event} has no output"
        return self.free(state)


# `scenarios` explains the codes: in "12 A1 versioned", the version of the first event is deleted.

TWO_VERSIONS = scenarios("11 12 versioned, 11 12 crashes=1 versioned, 12 A- Ab AA versioned")
DELETED_VERSION = scenarios("12 A1 a1 versioned, 12 A1 crashes=1 versioned, 123 A-2 versioned")
FAULTY = scenarios(
    "1 a refusals=1 versioned, 1 a refusals=2 versioned, 1 crashes=1 faults=1 versioned, "
    "1 faults=1 odd versioned, 11 expiries=1 versioned, 1 lates=1 versioned, "
    "1 crashes=1 faults=1 sweeps=1 versioned"
)
SEVERAL_FAULTS = scenarios(
    "1 crashes=2 versioned, 11 crashes=2 versioned, 11 12 faults=1 versioned, "
    "11 lates=1 versioned, 1 lates=2 versioned, 12 A1 lates=1 versioned, 12 lates=1 versioned, "
    "12 A1 A- faults=1 versioned, 1 a faults=1 versioned, 1 a crashes=1 versioned, "
    "1 faults=1 repeats=1 versioned, 11 crashes=1 restarts=1 versioned, "
    "12 A1 crashes=2 versioned, 12 A- Ab crashes=1 versioned, 12 failed versioned, "
    "12 timeout versioned, 12 crashes=1 starts=1 versioned"
)
THREE_EVENTS = scenarios("123 AB1 AB2 A-1 AA1 versioned, 123 AB1 crashes=1 versioned")
BROKEN = breakages("""
    prefix + (event.version_id or event.sequencer) => prefix + event.sequencer
        1 versioned: I3: 1 is written to out-k/81
    , source, **output.unchanged() => , source
        1 crashes=1 faults=1 versioned: I3: the output of 1 is written again
    self.find_source(event, **version) => True
        12 A1 crashes=1 versioned: I1: all is quiet and 2 has left the output of its version
""")
SUITE = Suite(
    EveryVersion,
    short=(*TWO_VERSIONS, *DELETED_VERSION, *FAULTY),
    full=(*SEVERAL_FAULTS, *THREE_EVENTS),
    breakages=BROKEN,
)
