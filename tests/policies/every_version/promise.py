"""What every_version promises, in a versioned bucket, its scenarios, and what breaks it."""

from inorder.model import policies
from tests.proof.model.promise import Promise
from tests.proof.model.scenario import (
    DELETED,
    FAILED,
    NO_IMAGE,
    TIMED_OUT,
    A,
    B,
    Deletion,
    Scenario,
)
from tests.proof.model.state import Run, State, Stored
from tests.proof.model.suite import Breakage, Suite


class EveryVersion(Promise):
    """Each version is processed once, and has its own output."""

    definition = policies.asl("every-version")

    def output_key(self, event: int) -> str:
        return f"out-k/{self.scenario.version(event)}"

    def check_output(
        self,
        state: State,  # noqa: ARG002
        key: str,
        before: Stored | None,
        after: Stored,
    ) -> str | None:
        event = self.written(after)
        if key != self.output_key(event):
            return f"I3: {event} is written to {key}"
        return f"I3: the output of {event} is written again" if before else None

    def is_gone(self, state: State, event: int) -> bool:
        """Tell whether the version that an event has created, which may be a marker, is deleted."""
        is_creation = self.scenario.version(event) == event
        return is_creation and self.scenario.is_deleted(event, state.happened)

    def must_check_source(self, state: State, after: Stored | None) -> bool:
        """Tell whether the object had been deleted when its output was written."""
        return after is not None and self.is_gone(state, self.written(after))

    def written(self, output: Stored) -> int:
        return int(dict(output.metadata)["source-version-id"])

    def shown_events(self, state: State) -> set[int]:
        """List the creations that have an output, and the deletions whose objects have none."""
        keys = {key for key, _ in state.outputs}
        return {
            event
            for event in range(1, state.happened + 1)
            if (self.output_key(event) in keys) != self.scenario.is_deletion(event)
        }

    def true_outcomes(self, state: State, run: Run) -> dict[str, bool]:
        is_shown = run.event in state.effective
        return {
            "Processed": is_shown,
            "Superseded": self.is_gone(state, run.event),
            "Duplicate": run.event in state.done or is_shown,
        }

    def is_rejection(self, state: State, run: Run, reason: str | None) -> bool:
        if reason == "InvalidImage":
            return self.scenario.is_no_image(run.event)
        return super().is_rejection(state, run, reason)

    def check_quiet(self, state: State) -> str | None:
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
        return self.check_released(state)


TWO_VERSIONS = (
    Scenario([A], delivered=[1, 1], versioned=True),
    Scenario([A], delivered=[1, 1], crashes=1, versioned=True),
    Scenario([A, B], versioned=True),
    Scenario([A, B], crashes=1, versioned=True),
    *(Scenario(changes, versioned=True) for changes in ([A, DELETED], [A, NO_IMAGE], [A, A])),
)
DELETED_VERSION = (
    Scenario([A, Deletion(1)], versioned=True),
    Scenario([NO_IMAGE, Deletion(1)], versioned=True),
    Scenario([A, Deletion(1)], crashes=1, versioned=True),
    Scenario([A, DELETED, Deletion(2)], versioned=True),
)
FAULTY = (
    Scenario([NO_IMAGE], refusals=1, versioned=True),
    Scenario([NO_IMAGE], refusals=2, versioned=True),
    Scenario([A], crashes=1, faults=1, versioned=True),
    Scenario([A], faults=1, odd=True, versioned=True),
    Scenario([A], delivered=[1, 1], expiries=1, versioned=True),
    Scenario([A], lates=1, versioned=True),
    Scenario([A], crashes=1, faults=1, sweeps=1, versioned=True),
)
SEVERAL_FAULTS = (
    Scenario([A], crashes=2, versioned=True),
    Scenario([A], lates=2, versioned=True),
    Scenario([A], faults=1, repeats=1, versioned=True),
    Scenario([A], delivered=[1, 1], crashes=2, versioned=True),
    Scenario([A], delivered=[1, 1], faults=1, versioned=True),
    Scenario([A], delivered=[1, 1], lates=1, versioned=True),
    Scenario([A], delivered=[1, 1], crashes=1, restarts=1, versioned=True),
    Scenario([NO_IMAGE], faults=1, versioned=True),
    Scenario([NO_IMAGE], crashes=1, versioned=True),
    Scenario([A, B], faults=1, versioned=True),
    Scenario([A, B], lates=1, versioned=True),
    Scenario([A, B], transient=(FAILED,), versioned=True),
    Scenario([A, B], transient=(TIMED_OUT,), versioned=True),
    Scenario([A, B], crashes=1, starts=1, versioned=True),
    Scenario([A, Deletion(1)], lates=1, versioned=True),
    Scenario([A, Deletion(1)], faults=1, versioned=True),
    Scenario([A, Deletion(1)], crashes=2, versioned=True),
    Scenario([A, DELETED], faults=1, versioned=True),
    Scenario([A, DELETED], crashes=1, versioned=True),
    Scenario([A, NO_IMAGE], crashes=1, versioned=True),
)
THREE_EVENTS = (
    Scenario([A, B, Deletion(1)], versioned=True),
    Scenario([A, B, Deletion(2)], versioned=True),
    Scenario([A, DELETED, Deletion(1)], versioned=True),
    Scenario([A, A, Deletion(1)], versioned=True),
    Scenario([A, B, Deletion(1)], crashes=1, versioned=True),
)
BROKEN = (
    Breakage(
        "prefix + (event.version_id or event.sequencer)",
        "prefix + event.sequencer",
        Scenario([A], versioned=True),
        "I3: 1 is written to out-k/81",
    ),
    Breakage(
        ", source, **output.unchanged()",
        ", source",
        Scenario([A], crashes=1, faults=1, versioned=True),
        "I3: the output of 1 is written again",
    ),
    Breakage(
        "self.find_source(event, **version)",
        "True",
        Scenario([A, Deletion(1)], crashes=1, versioned=True),
        "I1: all is quiet and 2 has left the output of its version",
    ),
)
SUITE = Suite(
    EveryVersion,
    short=(*TWO_VERSIONS, *DELETED_VERSION, *FAULTY),
    full=(*SEVERAL_FAULTS, *THREE_EVENTS),
    breakages=BROKEN,
)
