"""What all policies promise whose function keeps the newest output."""

from tests.proof.model.promise import Promise
from tests.proof.model.state import Run, State, Stored

KEY = "out-k"


class Newest(Promise):
    """The one output of a key is made from its newest event."""

    def written(self, state: State, output: Stored) -> int:
        """Give the upload that an output was made from: its event's, or the last one like it."""
        etag, version = _made_of(output)
        if version == "null":
            return max(self._like(state, etag))
        sequencer = dict(output.metadata)["sequencer"]
        return int(version) if version else self.scenario.number(sequencer)

    def _like(self, state: State, etag: str) -> list[int]:
        """List the uploads without a version that have a content."""
        return [
            event
            for event in range(1, state.happened + 1)
            if not self.scenario.is_deletion(event) and not self.scenario.is_named(event)
            if etag == f"etag-{self.scenario.content(event)}"
        ]

    def output(self, state: State) -> int | None:
        output = dict(state.outputs).get(KEY)
        return self.written(state, output) if output else None

    def check_output(
        self, state: State, key: str, before: Stored | None, after: Stored
    ) -> str | None:
        """Check I2, and that no output is written twice.

        An output that names the null version, but no event of it, is written again by one that has
        the same content.

        A writer that has stalled since there was no output may write one after a deletion, until it
        checks the source, as it must (`must_check_source`).
        """
        new, current = self.written(state, after), self.scenario.current(state.happened)
        if key != KEY:
            return f"I3: {new} is written to {key}"
        if before is None:
            if new != current and not any(self._deletions(state)):
                return self._is_back(max(state.effective, default=0), new)
            return None
        return self._replaces(state, before, after, new)

    def _replaces(self, state: State, before: Stored, after: Stored, new: int) -> str | None:
        if _made_of(before)[1] == "null" and _made_of(after) == (_made_of(before)[0], None):
            return None
        old = self.written(state, before)
        if old == new:
            return f"I3: the output of {old} is written again"
        versioned = self.scenario.is_versioned(state.happened)
        gone = versioned and self.scenario.is_deleted(old, state.happened)
        return None if gone else self._is_back(old, new)

    def _is_back(self, old: int, new: int) -> str | None:
        return f"I2: the output of {old} becomes {new}'s" if new < old else None

    def must_check_source(self, state: State, after: Stored | None) -> bool:
        """Tell whether the source had changed already when the output was written."""
        return (self.written(state, after) if after else None) != self.scenario.current(
            state.happened
        )

    def shown_events(self, state: State) -> set[int]:
        """List the event of the output, and the deletions if the output is the current object's."""
        output = self.output(state)
        is_current = output == self.scenario.current(state.happened)
        shown = set(self._deletions(state)) if is_current else set()
        return shown | ({output} if output else set())

    def _deletions(self, state: State) -> list[int]:
        happened = range(1, state.happened + 1)
        return [event for event in happened if self.scenario.is_deletion(event)]

    def true_outcomes(self, state: State, run: Run) -> dict[str, bool]:
        newer = state.happened > run.event
        shown = run.event in state.effective
        # A version's deletion may leave the output as it is.
        versioned = self.scenario.is_versioned(state.happened)
        unchanged = versioned and self.scenario.is_deletion(run.event) and shown
        return {"Processed": shown, "Superseded": newer or unchanged, "Duplicate": newer or shown}

    def is_rejection(self, state: State, run: Run, reason: str | None) -> bool:
        if reason == "InvalidImage":
            versions = range(1, state.happened + 1)
            read = versions if self.scenario.is_deletion(run.event) else [run.event]
            return any(map(self.scenario.is_no_image, read))
        return super().is_rejection(state, run, reason)

    def check_quiet(self, state: State) -> str | None:
        """Check I1: the output is the current object's, unless that was rejected."""
        output = dict(state.outputs).get(KEY)
        written = self.output(state)
        current = self.scenario.current(self.scenario.last)
        right = written == current
        if output and current and right:
            right = output.content.startswith(f"inverse of {self.scenario.content(current)}")
        newest = self.scenario.last
        while newest > 1 and self.scenario.current(newest - 1) == current:
            newest -= 1
        # The deletion of a version may be rejected, because the current one can have no output.
        gone = written and self.scenario.is_deleted(written, self.scenario.last)
        stays = gone and self.scenario.is_versioned(self.scenario.last) and not self.scenario.odd
        if stays or (not right and newest not in state.parked | state.logged):
            return f"I1: all is quiet and the output was made from {written}, not from {current}"
        return self.check_released(state)


def _made_of(output: Stored) -> tuple[str, str | None]:
    metadata = dict(output.metadata)
    return metadata["source-etag"], metadata.get("source-version-id")
