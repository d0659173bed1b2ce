"""What the fence `write_newest` promises to all policies that use it."""

from __future__ import annotations

import json

from tests.proof.model.explorer import Output, Promise, Run, State
from tests.proof.model.scenario import INVALID

KEY = "out-k"


class Newest(Promise):
    """The one output of a key is that of its newest event."""

    def written(self, output: Output) -> int:
        """Give the upload of an output."""
        metadata = dict(output.metadata)
        version = metadata.get("source-version-id")
        return int(version) if version else self.scenario.number(metadata["sequencer"])

    def output(self, state: State) -> int | None:
        """Give the upload of the output that is there."""
        output = dict(state.outputs).get(KEY)
        return self.written(output) if output else None

    def starts(self, run: Run) -> str | None:
        """Check I4 for what is no event, and that an event is worked on under its own key."""
        is_parked = "sqs" in self.engine.states[run.state]["Resource"]
        if not self.scenario.valid and not is_parked:
            return f"I4: {run.execution} works on what is no event"
        if not is_parked and json.loads(run.data)["ids"]["key"] != self.key(run.event):
            return f"I3: {run.execution} works under another key"
        return None

    def writes(self, state: State, key: str, before: Output | None, after: Output) -> str | None:
        """Check I2, and that no output is written twice.

        A writer that has stalled since there was no output may write one after a deletion, for as
        long as it takes to look once more; it `owes` that look.
        """
        new, current = self.written(after), self.scenario.current(state.happened)
        if key != KEY:
            return f"I3: {new} is written to {key}"
        if before is None:
            if new != current and not any(self._deletions(state)):
                return self._is_back(max(state.effective, default=0), new)
            return None
        old = self.written(before)
        if old == new:
            return f"I3: the output of {old} is written again"
        gone = old not in self.scenario.versions(state.happened) and self.scenario.versioned
        return None if gone else self._is_back(old, new)

    def _is_back(self, old: int, new: int) -> str | None:
        return f"I2: the output of {old} becomes {new}'s" if new < old else None

    def owes(self, state: State, after: Output | None) -> bool:
        """Tell whether the source was another one already when the output was written."""
        return (self.written(after) if after else None) != self.scenario.current(state.happened)

    def shows(self, state: State) -> set[int]:
        """Give the event of the output, and the deletions if the output is the current object's."""
        output = self.output(state)
        is_current = output == self.scenario.current(state.happened)
        shown = set(self._deletions(state)) if is_current else set()
        return shown | ({output} if output else set())

    def _deletions(self, state: State) -> list[int]:
        happened = range(1, state.happened + 1)
        return [event for event in happened if self.scenario.is_deletion(event)]

    def ends(self, state: State, run: Run) -> str | None:
        """Check I4: an execution's outcome is true."""
        valid, newer = self.scenario.valid, state.happened > run.event
        shown = run.event in state.effective
        deletion = self.scenario.versioned and self.scenario.is_deletion(run.event)
        true = {
            "Processed": valid and shown,
            # A version's deletion may leave the output as it is.
            "Superseded": valid and (newer or (deletion and shown)),
            "Duplicate": valid and (newer or shown),
            "Parked": valid and run.event in state.parked and self.is_reason(state, run),
            "Invalid Event": not valid and run.event in state.parked,
            "Not Parked": self.is_faulty(state),
        }
        if true.get(run.state, False):
            return None
        return f"I4: {run.execution} ends in {run.state}, which is not so"

    def is_reason(self, state: State, run: Run) -> bool:
        """Tell whether an event was parked for a reason that is one."""
        reason = json.loads(run.data).get("fault", {}).get("Error")
        if reason == "InvalidImage":
            versions = range(1, state.happened + 1)
            read = versions if self.scenario.is_deletion(run.event) else [run.event]
            return any(self.scenario.content(each).startswith(INVALID) for each in read)
        # "x" is a function's own word, which no rule may take for a reason.
        return self.is_faulty(state) and reason != "x"

    def rests(self, state: State) -> str | None:
        """Check I1: the output is the current object's, unless the event that made it is kept."""
        output = dict(state.outputs).get(KEY)
        written = self.output(state)
        current = self.scenario.current(self.scenario.last)
        right = written == current
        if output and current and right:
            right = output.content.startswith(f"inverse of {self.scenario.content(current)}")
        newest = self.scenario.last
        while newest > 1 and self.scenario.current(newest - 1) == current:
            newest -= 1
        if not right and newest not in state.parked and not self.is_kept(state, newest):
            return f"I1: all is quiet and the output is that of {written}, not of {current}"
        return None

    def is_kept(self, state: State, event: int) -> bool:
        """Tell whether a lost event is where it is looked for."""
        raise NotImplementedError
