"""What first_wins promises, its scenarios and its mutants."""

from __future__ import annotations

from inorder import PROJECT
from tests.proof.model.engine import Step
from tests.proof.model.locking import Locking, known_record
from tests.proof.model.newest import KEY, Newest
from tests.proof.model.scenario import Scenario
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import (
    BLIND,
    EDGES,
    LARGE,
    LATE,
    LATE_LONG,
    ODD_TWICE,
    SECOND_ATTEMPT,
    Suite,
    damaged,
)


class FirstWins(Locking, Newest):
    """One event of a key is processed."""

    definition = (PROJECT / "statemachine" / "first_wins.asl.json").read_text()
    holding = frozenset({"Invert Image"})
    records_waiters = False

    def key(self, event: int) -> str:
        """Give the ID of the key's record, which no other policy shares."""
        return f"first:{self.scenario.key(event)}"

    def audited(self, version: str | None) -> str:
        """Give the ID of the record that an audit reads."""
        return f"first:{super().audited(version)}"

    def ids(self, run: Run) -> dict[str, str]:
        """Give the key and the ID of its record."""
        record_id = self.run_key(run)
        return {"object_key": record_id.removeprefix("first:"), "record_id": record_id}

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check I3, that one event is processed, and that a free key can be claimed."""
        done = self._done(state, run.event)
        free = not done and attribute(item, "lock_token") is None
        if run.state == "Claim Key" and step.following == "First Poll?" and free:
            return f"I5: {run.execution} cannot claim a free key"
        if step.following == "Invert Image" and done:
            return f"I3: {run.event} is processed although {min(done)} is done"
        return super().steps(state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check that no run gives up at a key that is done."""
        if following == "Give Up Waiting" and attribute(known_record(run), "status") == "DONE":
            return f"I4: {run.execution} gives up an event that is a duplicate"
        return super().passes(state, run, following)

    def _done(self, state: State, event: int) -> set[int]:
        """List the events of the same key that are done, which is one at most."""
        key = self.scenario.key(event)
        return {each for each in state.done if self.scenario.key(each) == key}

    def is_done(self, run: Run) -> bool:
        """Tell whether the run's Task marks the key as done, which a repair does, too."""
        return run.state == self.done

    def outcomes(self, state: State, run: Run) -> dict[str, bool]:
        """Tell which outcomes are true; only an event of a key that is done is a duplicate."""
        return super().outcomes(state, run) | {"Duplicate": bool(self._done(state, run.event))}

    def has_time(self, state: State, run: Run) -> bool:
        """Let no lease pass between the message about a lost event and the end of its lock.

        That takes seconds. Otherwise, all who waited would send a message, again and again.
        """
        keys = [self.scenario.key(each.event) for each in state.runs if each.state == "Break Lock"]
        return self.scenario.key(run.event) not in keys

    def rests(self, state: State) -> str | None:
        """Check that one event of the key was processed, and that the output is that event's."""
        newest = self.scenario.last
        is_lost = self.scenario.lost and not state.covered
        if state.expiries < self.scenario.expiries or is_lost:
            return self.free(state)
        if not self._done(state, newest):
            # A holder whose lock was broken may have processed its event all the same.
            if newest not in state.parked | state.effective | state.logged:
                return f"I4: all is quiet, nothing is done, and {newest} is not parked"
        elif not self.is_disturbed(state) and not self.scenario.is_versioned(newest):
            output = dict(state.outputs).get(KEY)
            if not output or self.written(state, output) not in state.done:
                return f"I1: the output is that of {self.output(state)}, which is not done"
        return self.free(state)


# A dead holder's lock: of another policy, which keeps no event, or of this one.
LEFT = (
    Scenario((1,), item='{"lock_token": {"S": "left behind"}}'),
    Scenario((1,), item='{"lock_token": {"S": "left behind"}, "event": {"S": "{}"}}', faults=1),
)
FIRST = (
    *(Scenario((1,)), Scenario((1,), contents="a"), Scenario((1, 1)), Scenario((1, 2))),
    *(Scenario((1, 2), contents=contents) for contents in ("aB", "Ab", "AA")),
    *damaged('detail-type="Object Deleted"'),
    *EDGES,
    *BLIND,
    *LATE,
    *LEFT,
    Scenario((1, 2), versioned=True),
    Scenario((1, 2), contents="AB", versioned=True, switched=2),
    Scenario((1, 1), crashes=1, breaks=1),
    *(Scenario((1, 2), crashes=1), Scenario((1, 2), breaks=1)),
    Scenario((1, 2), expiries=1),
)
SUITE = Suite(
    FirstWins,
    short=tuple(scenario for scenario in FIRST if scenario not in LARGE),
    full=(
        *LATE_LONG,
        *LARGE,
        Scenario((1, 2, 3)),
        Scenario((1, 2, 3), contents="ABC", versioned=True, switched=2),
        *(Scenario((1,), crashes=1, faults=1), Scenario((1, 2), crashes=1, breaks=1)),
        Scenario((1, 2, 3), crashes=1),
        *(Scenario(events, crashes=1, faults=1) for events in ((1, 1), (1, 2))),
        Scenario((1, 1), breaks=1, faults=1),
        *ODD_TWICE,
        Scenario((1, 1), restarts=1, expiries=1),
        Scenario((1, 1), crashes=1, restarts=1),
    ),
    sought=(
        *FIRST,
        *LATE_LONG,
        *(Scenario(events, faults=1) for events in ((1, 1), (1, 2))),
        *ODD_TWICE,
        Scenario((1, 1), breaks=1, faults=1),
        Scenario((1, 1), restarts=1),
        Scenario((1, 1, 2), crashes=1, breaks=1),
    ),
    representative=frozenset(
        {
            "Claim Key with ConditionExpression: no #status <> :done",
            "Claim Key with ConditionExpression: no attribute_not_exists(lock_token)",
            "Key State? without rule 7, to Wait For Lock",
            "Release Lock with ExpressionAttributeValues: :done FAILED",
            "Release Superseded Key with UpdateExpression: no SET #status = :open",
        }
    ),
    survivors=frozenset(
        {
            # For the reader: where no record is, `#status <> :done` holds too, on moto and
            # ministack.
            "Claim Key with ConditionExpression: no attribute_not_exists(id)",
            # For people who read the table: only the status DONE is compared.
            "Claim Key with no Parameters.Item.sequencer",
            "Claim Key with Item: status FAILED",
            "Claim Key with no Parameters.Item.status",
            # If a read fails, Key State? keeps polls from following one another without a wait.
            "First Poll? without rule 1, to Wait For Lock",
            # Retry Lost Event has sent the record's event before.
            "Break Lock with UpdateExpression: no SET in_progress_since = :now",
            # A claim that Step Functions' own client has sent twice is not refused.
            "Claim Key with ConditionExpression: no execution = :execution",
            "Claim Key with no Parameters.Item.execution",
            # A Retry with no attempts is the same as none; `inorder check` wants it stated.
            "Read Key Record without Retry of States.ALL",
            # The event goes to the retry queue instead.
            "Break Lock without Retry of States.TaskFailed, States.Timeout",
            "Renew Lock without Retry of States.TaskFailed, States.Timeout",
            "Retry Lost Event without Retry of States.TaskFailed, States.Timeout",
            *SECOND_ATTEMPT,
            # Saves a message, whose execution would end as a duplicate.
            "Key State? without rule 5: not $.record.Item.sequencer.S IsPresent and "
            '$.record.Item.sequencer.S StringEqualsPath "$.sequencer"',
            # EventBridge takes the event instead.
            "Retry Event without Retry of States.TaskFailed, States.Timeout",
            # The next event, or the schedule, breaks the lock.
            "Release Failed Key without Retry of States.TaskFailed, States.Timeout",
            # A record has `execution` only while it has a lock, and expires: the table does not
            # grow.
            "Break Lock with UpdateExpression: no REMOVE execution",
            "Release Lock with UpdateExpression: no SET expires_at = :expires_at",
            "Release Superseded Key with UpdateExpression: no SET expires_at = :expires_at",
            "Release Superseded Key with UpdateExpression: no REMOVE execution",
            "Release Failed Key with UpdateExpression: no SET expires_at = :expires_at",
            "Release Failed Key with UpdateExpression: no REMOVE execution",
        }
    ),
)
