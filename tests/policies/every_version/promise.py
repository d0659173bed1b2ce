"""What every_version promises, its scenarios and its mutants."""

from __future__ import annotations

from inorder import PROJECT
from tests.proof.model.engine import StepResult, read
from tests.proof.model.promise import Promise
from tests.proof.model.scenario import INVALID, Scenario, scenarios
from tests.proof.model.state import Run, State, Stored, attribute
from tests.proof.model.suite import (
    LARGE,
    LATE,
    LATE_LONG,
    ODD_TWICE,
    SMALL,
    Suite,
    breakages,
)


class EveryVersion(Promise):
    """Each event is processed once, one at a time, in order among those that wait."""

    definition = (PROJECT / "statemachine" / "every_version.asl.json").read_text()
    holding = frozenset({"Read Event Record", "Invert Image"})
    done = "Mark Event Done"
    waiting = "Record Oldest Waiter"

    def record_key(self, event: int) -> str:
        return f"event:{self.scenario.key(event)}@{self.scenario.sequencer(event)}"

    def output_key(self, event: int) -> str:
        name = self.scenario.version(event)
        return f"out-k/{name if self.scenario.is_named(event) else self.scenario.sequencer(event)}"

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        sequencer = self.sequencer(run)
        if run.state == "Claim Key" and step.following == "First Poll?":
            oldest = attribute(item, "oldest_waiting") or sequencer
            if attribute(item, "lock_token") is None and oldest >= sequencer:
                return f"I5: {run.execution} cannot claim a free key"
        if run.state == "Claim Key" and step.following == "Read Event Record":
            overtaken = [
                other.execution
                for other in state.runs
                if other.in_line
                and self.run_key(other) == self.run_key(run)
                and self.sequencer(other) < sequencer
            ]
            if overtaken and not self.is_disturbed(state):
                return f"order: {run.execution} overtakes {overtaken[0]}, which waits for its turn"
        if run.state == "Clear Dead Waiter":
            return self._clears(run, item, step)
        return super().steps(state, run, item, step)

    def _clears(self, run: Run, item: str | None, step: StepResult) -> str | None:
        data = read(run.data)
        # The model drops fields that no state reads, in a mutant perhaps this one.
        watched, oldest = data.get("watched_waiter", {}), attribute(item, "oldest_waiting")
        is_other = step.item != item and oldest != watched.get("sequencer")
        if is_other or data["polls"] < watched.get("clear_at_poll", 0):
            return f"order: {run.execution} clears the waiter {oldest}, which it has not watched"
        return None

    def is_disturbed(self, state: State) -> bool:
        return self.had_error(state) or super().is_disturbed(state)

    def remembers(self, state: State, run: Run, step: StepResult) -> tuple[State, Run]:
        """Remember which runs have waited for their turn since the oldest waiter was cleared."""
        if run.state == "Record Oldest Waiter":
            return state, run._replace(in_line=True)
        is_claimed = run.state == "Claim Key" and step.following == "Read Event Record"
        if is_claimed or (
            run.state == "Clear Dead Waiter" and not attribute(step.item, "oldest_waiting")
        ):
            runs = (
                each._replace(in_line=False) if self.run_key(each) == self.run_key(run) else each
                for each in state.runs
            )
            return state._replace(runs=tuple(runs)), run._replace(in_line=False)
        return super().remembers(state, run, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        if following == "Invert Image" and run.event in state.done:
            return f"I3: {run.event} is done and processed again"
        return super().passes(state, run, following)

    def awaits(self, state: State, run: Run, patience: int) -> tuple[int, str]:
        """Wait for a lease of the watched lock, or for the watched waiter to take its turn."""
        item = dict(state.items).get(self.run_key(run))
        if attribute(item, "lock_token"):
            return super().awaits(state, run, patience)
        watched = read(run.data)["watched_waiter"]
        oldest = attribute(item, "oldest_waiting")
        if oldest is None or oldest != watched["sequencer"]:
            return 0, ""
        lives = oldest in {self.sequencer(each) for each in state.runs}
        return min(watched["clear_at_poll"], patience), "waiter" if lives else ""

    def writes(self, state: State, key: str, before: Stored | None, after: Stored) -> str | None:  # noqa: ARG002
        event = self.written(after)
        if key != self.output_key(event):
            return f"I3: {event} is written to {key}"
        return f"I3: the output of {event} is written again" if before else None

    def is_deleted(self, state: State, event: int) -> bool:
        return self.scenario.is_deleted(event, state.happened)

    def owes(self, state: State, after: Stored | None) -> bool:
        """Tell whether the object had been deleted when its output was written."""
        return after is not None and self.is_deleted(state, self.written(after))

    def written(self, output: Stored) -> int:
        made_of = dict(output.metadata)
        version = made_of.get("source-version-id")
        return int(version) if version else self.scenario.number(made_of["sequencer"])

    def removed(self, deletion: int) -> list[int]:
        version, is_named = self.scenario.version(deletion), self.scenario.is_named
        before = [version] if is_named(deletion) else range(1, deletion)
        uploads = (each for each in before if not self.scenario.is_deletion(each))
        return [each for each in uploads if is_named(each) == is_named(deletion)]

    def shows(self, state: State) -> set[int]:
        """List the creations that have an output, and the deletions whose objects have none."""
        keys = {key for key, _ in state.outputs}
        return {
            event
            for event in range(1, state.happened + 1)
            if (
                not any(self.output_key(each) in keys for each in self.removed(event))
                if self.scenario.is_deletion(event)
                else self.output_key(event) in keys
            )
        }

    def outcomes(self, state: State, run: Run) -> dict[str, bool]:
        is_creation = not self.scenario.is_deletion(run.event)
        return {
            "Processed": run.event in state.effective,
            "Superseded": is_creation and self.is_deleted(state, run.event),
            "Duplicate": run.event in state.done,
        }

    def ends(self, state: State, run: Run) -> str | None:
        if wrong := super().ends(state, run):
            return wrong
        record = dict(state.items).get(self.record_key(run.event))
        alone = run.event not in {other.event for other in state.runs}
        failed = attribute(record, "status") == "FAILED" or self.is_disturbed(state)
        if run.state == "Parked" and alone and not failed:
            return f"I4: {run.execution} is parked, and its record is not FAILED"
        if run.state in self.outcomes(state, run) and attribute(record, "status") != "DONE":
            return f"I4: {run.execution} ends in {run.state}, and its record is not DONE"
        return None

    def is_rejection(self, state: State, run: Run, reason: str | None) -> bool:
        if reason == "InvalidImage":
            return self.scenario.content(run.event).startswith(INVALID)
        if reason == "SourceChanged":
            later = range(run.event + 1, state.happened + 1)
            is_named = self.scenario.is_named
            return not is_named(run.event) and not all(map(is_named, later))
        return super().is_rejection(state, run, reason)

    def rests(self, state: State) -> str | None:
        outputs = dict(state.outputs)
        for event in {*self.scenario.events}:
            if event in state.parked | state.logged:
                continue
            if event not in state.done:
                if state.expiries < self.scenario.expiries:
                    continue
                return f"I4: all is quiet and {event} is neither done nor parked"
            if self.scenario.is_deletion(event):
                if wrong := self._stays(state, event):
                    return wrong
            elif not self.is_deleted(state, event):
                output = outputs.get(self.output_key(event))
                content = f"inverse of {self.scenario.content(event)}"
                if not output or not output.content.startswith(content):
                    return f"I1: all is quiet and {event} has no output"
        return self.free(state)

    def may_stay(self, state: State, record: str) -> bool:  # noqa: ARG002
        """Let a dead execution, whose event is done or parked, keep its lock until the next one."""
        return state.crashes < self.scenario.crashes or self.is_faulty(state)

    def _stays(self, state: State, deletion: int) -> str | None:
        """Check that no output of a deleted object stays.

        Without versions, one that was created again looks overwritten, or as if it never changed.
        """
        keys = {key for key, _ in state.outputs}
        is_named = self.scenario.is_named(deletion)
        null = self.scenario.find("null", state.happened)
        again = not is_named and null and not self.scenario.is_deletion(null)
        stays = [each for each in self.removed(deletion) if self.output_key(each) in keys]
        if stays and not again:
            return f"I1: all is quiet and {deletion} has left the output of {stays[0]}"
        return None


# `scenarios` explains the codes: "12 A-" is an upload and a deletion, with events in any order.

# An object is deleted while a holder stalls or dies; in a versioned bucket, a version, or a marker.
DELETED_OBJECT = scenarios(
    "12 A- breaks=1, 12 A1 crashes=1 breaks=1 versioned, 12 A- versioned, 123 A-2 AB1 versioned"
)
# The bucket's versioning is enabled after the first upload, or is suspended.
SWITCHED = scenarios("12 AB A- switched=2, 12 A- versioned switched=1, 23 AB1 switched=2")
# A service fails beside an execution that dies or stalls; an execution starts again.
SEVERAL_FAULTS = scenarios(
    "11 12 crashes=1 faults=1, 11 breaks=1 faults=1, 11 restarts=1 expiries=1"
)
THREE_EVENTS = scenarios("123, 123 A-A A-C AB-, 123 AB1 switched=2")
# What a dead execution left: its lock, or itself as the oldest waiter.
LOCK, WAITER = '{"lock_token": {"S": "left behind"}}', '{"oldest_waiting": {"S": "00"}}'
LEFT = tuple(Scenario((1,), item=item) for item in (LOCK, WAITER))
LEFT_FOR_TWO = tuple(Scenario((1, 2), item=item) for item in (LOCK, WAITER))
BROKEN = breakages("""
    event:{}@{} => event:{}{}
        1: I4: 1a ends in Processed, and its record is not DONE
    OR #status <> :done => OR #status = :done
        1 crashes=1 faults=1: I4: 1b ends in Duplicate, which is not true
    "Next": "Skip Duplicate" => "Next": "Invert Image"
        11: I3: 1 is done and processed again
    oldest_waiting >= : => oldest_waiting > :
        11: I5: 1b cannot claim a free key
    oldest_waiting >= : => oldest_waiting <> :execution OR oldest_waiting = :
        123: order: 3a overtakes 2a, which waits for its turn
    "Next": "Renew Lock" => "Next": "Record Oldest Waiter"
        1 faults=1 refusals=2: I5: 1a waits for its own lock
    AND #status <> :done => OR #status = :done
        1 faults=1 refusals=2: I3: 1 is done and processed again
    "Release Failed Key" => "Mark Event Failed"
        1 a refusals=2: I5: all is quiet and token of 1a, run 1 has the lock
    sqs.send_message => dict
        1 crashes=1 faults=1: I4: all is quiet and 1 is neither done nor parked
    , source, **output.unchanged() => , source
        1 crashes=1 faults=1: I3: the output of 1 is written again
    self.find_source(event, **version) => True
        12 A- breaks=1: I1: all is quiet and 2 has left the output of 1
    prefix + (event.version_id or event.sequencer) => prefix + event.sequencer
        12 crashes=1 breaks=1 versioned: I3: 1 is written to out-k/81
""")
SUITE = Suite(
    EveryVersion,
    short=(
        *scenarios("1 crashes=1 faults=1, 11 12 crashes=1 breaks=1, 12 AA"),
        *scenarios("12 crashes=1 breaks=1 versioned"),
        *(*SMALL, *LATE, *LEFT, *DELETED_OBJECT, *SWITCHED),
    ),
    full=(
        *(*LATE_LONG, *LARGE, *LEFT_FOR_TWO, *ODD_TWICE, *SEVERAL_FAULTS, *THREE_EVENTS),
        *scenarios("1 a, 12 A- faults=1, 11 12 faults=1, 12 versioned, 23 A-C"),
        *scenarios("12 A- crashes=1 breaks=1 versioned switched=1"),
    ),
    breakages=BROKEN,
)
