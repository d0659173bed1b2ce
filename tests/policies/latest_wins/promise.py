"""What latest_wins promises (I1 to I5 of docs/proof.md), its scenarios and its mutants."""

from __future__ import annotations

from inorder import PROJECT
from tests.proof.model.engine import Step, read
from tests.proof.model.fence import NEWEST
from tests.proof.model.locking import Locking, known_record
from tests.proof.model.newest import Newest
from tests.proof.model.scenario import Scenario
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import BLIND, EDGES, LATE, LATE_LONG, ODD_TWICE, SECOND_ATTEMPT, Suite


class LatestWins(Locking, Newest):
    """The output of a key ends as that of its newest event."""

    definition = (PROJECT / "statemachine" / "latest_wins.asl.json").read_text()
    holding = frozenset({"Invert Image"})

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check that a free key can be claimed, and that only newer events are started."""
        if step.started:
            sequencer = read(step.started)["detail"]["object"]["sequencer"]
            if sequencer <= self.sequencer(run):
                return f"I5: {run.execution} starts an event that is not newer"
        if run.state == "Claim Key" and not run.owns(attribute(step.item, "lock_token")):
            known, own = attribute(item, "sequencer") or "", self.sequencer(run)
            is_next = known < own or (known == own and run.event not in state.done)
            if is_next and attribute(item, "lock_token") is None and not run.is_repair:
                return f"I5: {run.execution} cannot claim a free key"
        return super().steps(state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check I3, and that no run gives up an event that is superseded or done."""
        if following == "Invert Image":
            record = dict(state.items).get(self.run_key(run))
            if run.event in state.done and not run.is_repair:
                return f"I3: {run.event} is done and processed again"
            if not run.owns(attribute(record, "lock_token")):
                return f"I3: {run.execution} works without the lock"
        if following == "Give Up Waiting":
            item, sequencer = known_record(run), self.sequencer(run)
            newest, status = attribute(item, "sequencer"), attribute(item, "status")
            if newest not in {None, sequencer} or status == "DONE":
                return f"I4: {run.execution} gives up an event that is superseded or done"
        return super().passes(state, run, following)

    def is_done(self, run: Run) -> bool:
        """Tell whether the run's Task ends the work; of a newer event's record it only unlocks."""
        has_failed = "sent" in read(run.data)
        unlocks = run.state == "Release Lock Only" and not has_failed
        return super().is_done(run) or (unlocks and not run.is_repair)

    def rests(self, state: State) -> str | None:
        """Check I1, and that only the dead have locks."""
        return super().rests(state) or self.free(state)


# A record that others left.
LEFT = (
    Scenario((1,), item='{"status": {"S": "DONE"}}'),
    Scenario((1,), item='{"status": {"S": "DONE"}, "sequencer": {"S": "00"}}'),
    Scenario((1,), item='{"lock_token": {"S": "left behind"}}'),
)
# A deletion stalls, or a creation stalls until there has been a deletion.
DELETIONS = (
    Scenario((1, 2), contents="A-"),
    Scenario((1, 2), contents="A-", breaks=1),
    Scenario((1, 2), contents="A-", crashes=1, breaks=1),
    Scenario((1, 2, 3), contents="A-A", breaks=1),
    Scenario((1, 2, 3), contents="AB-", breaks=1),
    *(
        Scenario((1, 2), contents=contents, breaks=1, versioned=True)
        for contents in ("A-", "A1", "a-", "a1")
    ),
    *(Scenario((1, 2, 3), contents=contents, versioned=True) for contents in ("AA1", "A-2", "A-1")),
)
# The bucket's versioning is enabled, or suspended: the null version changes places with others.
SWITCHED = (
    Scenario((1, 2), contents="AB", versioned=True, switched=2),
    Scenario((2, 4), contents="A1CD", versioned=True, switched=3),
    Scenario((3, 4), contents="AB1D", versioned=True, switched=2),
    Scenario((1, 3), contents="ABA", switched=2),
)
SWITCHED_LONG = tuple(
    Scenario((1, 2, 3), contents=contents, versioned=versioned, switched=2)
    for contents in ("AB2", "A-2", "A-C")
    for versioned in (False, True)
)
# Every state of these is searched, because some mutants show only deep in them.
WHOLE = (
    Scenario((1, 2), contents="A-", breaks=1, faults=1),
    Scenario((1, 2, 3), contents="A-A", breaks=1),
    Scenario((1, 2, 3), contents="AB2", versioned=True),
    Scenario((1, 2, 3), contents="AB2", breaks=1, versioned=True),
    Scenario((1, 2, 3), contents="AB2", breaks=1, versioned=True, switched=2),
)
SOUGHT = (
    *(Scenario((1,)), Scenario((1,), contents="a"), Scenario((1,), crashes=1, faults=1)),
    *(Scenario((1, 1)), Scenario((1, 2))),
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 1), (1, 2))),
    *EDGES,
    *BLIND,
    *LATE,
    *LATE_LONG,
    *ODD_TWICE,
    *LEFT,
    *DELETIONS,
    *(Scenario((1, 2, 3), contents=contents, versioned=True) for contents in ("A-A", "AB2", "AA2")),
    *SWITCHED,
    Scenario((1, 1), contents="a", crashes=1),
    Scenario((1,), crashes=1, faults=2),
    Scenario((1, 2), contents="Ab", breaks=1),
    *(Scenario((1, 2), contents=contents, crashes=1, expiries=1) for contents in ("", "aB")),
    Scenario((1, 2, 3), breaks=1, contents="ABA"),
    Scenario((1, 2), versioned=True, crashes=1, breaks=1),
    Scenario((1, 2), versioned=True, contents="AA", crashes=1, breaks=1),
    Scenario((1, 2), contents="AA", crashes=1, breaks=1),
    *(Scenario(events, faults=1) for events in ((1, 1), (1, 2))),
    *(Scenario(events, crashes=1, restarts=1) for events in ((1, 1), (1, 2))),
    *(Scenario((1, 2, 2)), Scenario((1, 1, 2))),
    Scenario((1, 2), crashes=1, starts=1),
    Scenario((1, 2, 3), breaks=1),
    Scenario((1, 2, 2), crashes=1, breaks=1),
)
SHORT = (
    Scenario((1,), crashes=1, faults=1),
    Scenario((1, 2), crashes=1, breaks=1, starts=1),
    Scenario((1, 2, 3), starts=1),
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 2), (1, 1), (1, 2, 3))),
    Scenario((1, 2), crashes=1, breaks=1, versioned=True),
    *(Scenario((1, 2), contents=contents, crashes=1, expiries=1) for contents in ("", "aB")),
    Scenario((1, 2, 3), breaks=1, contents="ABA"),
    *EDGES,
    *BLIND,
    *LATE,
    *LEFT,
    *DELETIONS,
    *SWITCHED,
    Scenario((1, 2), contents="A-", crashes=1, breaks=1, versioned=True),
)
FULL = (
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 2, 2), (1, 1, 2))),
    *LATE_LONG,
    *(Scenario(events, lates=2) for events in ((1, 1), (1, 2))),
    Scenario((1, 2), lates=1, crashes=2),
    Scenario((1, 2), lates=1, crashes=1, starts=1),
    Scenario((1, 2), lates=1, faults=1),
    Scenario((1, 2), lates=1, crashes=1, breaks=1),
    Scenario((1, 2), crashes=1, faults=1, starts=1),
    Scenario((1, 2), crashes=1, breaks=1, contents="A-", starts=1),
    Scenario((1, 2, 2), crashes=1, breaks=1, starts=1),
    Scenario((1, 2, 3), crashes=1, breaks=1, starts=1),
    Scenario((1, 2, 3), starts=2),
    Scenario((1, 2), crashes=1, breaks=1, faults=1),
    *(Scenario(events, faults=1, repeats=1) for events in ((1, 1), (1, 2))),
    *(Scenario(events, crashes=2, breaks=1) for events in ((1, 1), (1, 2))),
    *ODD_TWICE,
    Scenario((1,), crashes=1, faults=1, refusals=2, repeats=1),
    Scenario((1, 1), crashes=1, breaks=1, faults=1),
    Scenario((1, 1), restarts=1, expiries=1),
    Scenario((1, 2), crashes=1, breaks=1, faults=1, contents="Ab"),
    Scenario((1, 2, 3), breaks=1, expiries=1),
    *(Scenario((1, 2, 3), contents=contents, versioned=True) for contents in ("A-A", "AB2")),
    *SWITCHED_LONG,
    *(Scenario((1, 2, 3), contents=contents, crashes=1, breaks=1) for contents in ("A-A", "AB-")),
    *(
        Scenario((1, 2, 3), contents=contents, crashes=1, breaks=1, versioned=True)
        for contents in ("AB2", "AB1", "A-2", "A-1")
    ),
    Scenario((1, 2), contents="A-", crashes=1, breaks=1, faults=1),
    Scenario((1, 2), crashes=1, restarts=1),
    Scenario((1, 1), crashes=1, restarts=1, expiries=1),
    Scenario((1, 2), crashes=1, breaks=1, restarts=1),
    Scenario((1, 1), crashes=1, breaks=1, restarts=1, expiries=1),
    *(Scenario(events, crashes=1, faults=1) for events in ((1, 2, 2), (1, 1, 2), (1, 2, 3))),
    Scenario((1, 2, 3), crashes=1, breaks=2),
)

# These are found quickly; `make model` tries all mutants. optimistic has more of the fence's.
REPRESENTATIVE = frozenset(
    {
        "Claim Key without Catch of DynamoDB.ConditionalCheckFailedException",
        "Claim Answered? with Default to Release Failed Key",
        "S3 Object Event? without rule 1: $.detail.object.key IsPresent",
        "S3 Object Event? without rule 1: $.detail.object.sequencer IsString",
        "Key State? without rule 6, to Break Lock",
        "Key State? without rule 7, to Wait For Lock",
        "Outcome? without rule 2: $.inversion.Payload.cause IsPresent",
        "Release Lock with ConditionExpression: none",
        "Renew Lock with no renewal",
        "Count Poll with 10 as its lease_polls",
        "Count Poll with no wait if a read fails",
        "Park Event with Release Failed Key before it",
        "fenced_output.py without 3: If-Match",
    }
)

# Of two states that keep polls from following each other without a wait, one is enough.
# Either keeps polls from following one another without a wait; without both is found.
ONE_GUARD = (
    "Lock Taken? without rule 2, to Wait For Lock",
    "Key State? without rule 4, to Wait For Lock",
)

SUITE = Suite(
    LatestWins,
    short=SHORT,
    full=FULL,
    sought=SOUGHT,
    representative=REPRESENTATIVE,
    fences=NEWEST,
    whole=WHOLE,
    survivors=frozenset(
        {
            # Saves a read of the source.
            "fenced_output.py without 2: a right output is not checked",
            # Without versions: saves the work that the later event does.
            "fenced_output.py without 2: a later upload has its own event",
            # The outcome's name, if an output has been there only briefly.
            "fenced_output.py without 4: a stale event is superseded",
            # A claim that Step Functions' own client has sent twice is not refused.
            "Claim Key with ConditionExpression: no lock_token = :lock_token",
            # The event's retry does not wait for a lease.
            "Release Unanswered Claim with UpdateExpression: no REMOVE lock_token",
            # A record has `execution` only while it has a lock (so in all releases and Break Lock).
            "Release Unanswered Claim with UpdateExpression: no REMOVE execution",
            # A Retry with no attempts is the same as none; `inorder check` wants it stated.
            "Release Unanswered Claim without Retry of States.ALL",
            # EventBridge takes the event instead.
            "Retry Event without Retry of States.TaskFailed, States.Timeout",
            # The next event, or the schedule, breaks the lock (so in Release Lock Only).
            "Release Failed Key without Retry of States.TaskFailed, States.Timeout",
            # For people who read the table: `execution`, and any status but DONE.
            "Claim Key with UpdateExpression: no SET execution = "
            "if_not_exists(execution, :execution)",
            "Claim Key with UpdateExpression: always execution = "
            "if_not_exists(execution, :execution)",
            "Claim Key with ExpressionAttributeValues: :in_progress FAILED",
            "Break Lock with UpdateExpression: no REMOVE execution",
            "Release Failed Key with UpdateExpression: no REMOVE execution",
            # The newer event breaks the lock, after a lease; so for Release Lock Only.
            "Release Failed Key without Catch of DynamoDB.ConditionalCheckFailedException",
            # The table does not grow for ever (so in Release Failed Key).
            "Release Lock with UpdateExpression: no SET expires_at = :expires_at",
            "Release Lock with UpdateExpression: no REMOVE execution",
            "Release Lock Only with UpdateExpression: no REMOVE lock_token",
            "Release Lock Only with UpdateExpression: no REMOVE execution",
            "Release Failed Key with UpdateExpression: no SET expires_at = :expires_at",
            "Release Lock Only without Retry of States.TaskFailed, States.Timeout",
            # The waiting execution claims the key at its next poll.
            "Start Newest Event without Retry of States.TaskFailed, States.Timeout",
            *ONE_GUARD,
            # A Retry with no attempts is the same as none; `inorder check` wants it stated.
            "Read Key Record without Retry of States.ALL",
            # The event goes to the retry queue instead.
            "Break Lock without Retry of States.TaskFailed, States.Timeout",
            "Renew Lock without Retry of States.TaskFailed, States.Timeout",
            *SECOND_ATTEMPT,
            # `inorder check` wants these tests, for the states that follow.
            *(
                f"Final Outcome? without rule {rule}: $.{field} IsPresent"
                for rule, field in ((1, "fault"), (2, "fault"), (3, "inversion.Payload.outcome"))
            ),
        }
    ),
)
