"""What latest_wins promises (I1 to I5 of docs/proof.md), its scenarios and its mutants."""

from __future__ import annotations

from inorder import PROJECT
from tests.policies.searches import LOCKING, OF_NEWEST, named, no_retry, no_update
from tests.proof.model.engine import StepResult, read
from tests.proof.model.fence import NEWEST
from tests.proof.model.newest import Newest
from tests.proof.model.promise import known_record
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import BLIND, EDGES, LATE, LATE_LONG, ODD_TWICE, Suite


class LatestWins(Newest):
    """The output of a key ends as its newest event says."""

    definition = (PROJECT / "statemachine" / "latest_wins.asl.json").read_text()
    holding = frozenset({"Invert Image"})

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        if step.started:
            sequencer = read(step.started)["detail"]["object"]["sequencer"]
            if sequencer <= self.sequencer(run):
                return f"I5: {run.execution} starts an event that is not newer"
        if run.state == "Claim Key" and not run.owns(attribute(step.item, "lock_token")):
            known, own = attribute(item, "sequencer") or "", self.sequencer(run)
            is_next = known < own or (known == own and run.event not in state.done)
            if is_next and attribute(item, "lock_token") is None:
                return f"I5: {run.execution} cannot claim a free key"
        return super().steps(state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        if following == "Invert Image":
            record = dict(state.items).get(self.run_key(run))
            if run.event in state.done:
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
        """Of a newer event's record, the end of the work only removes the lock."""
        unlocks = run.state == "Release Lock Only" and "sent" not in read(run.data)
        return super().is_done(run) or unlocks

    def rests(self, state: State) -> str | None:
        return super().rests(state) or self.free(state)


# `scenarios` explains the codes: "12 A-" is an upload and a deletion, with events in any order.

# Another policy, or a dead execution, has left a record: of an event that is done, or a lock.
LEFT_RECORD = (
    Scenario((1,), item='{"status": {"S": "DONE"}}'),
    Scenario((1,), item='{"status": {"S": "DONE"}, "sequencer": {"S": "00"}}'),
    Scenario((1,), item='{"lock_token": {"S": "left behind"}}'),
)
# An object is deleted, and perhaps created again, while a holder stalls or dies.
DELETED_OBJECT = scenarios("12 A-, 12 A- breaks=1, 12 A- crashes=1 breaks=1, 123 A-A AB- breaks=1")
# In a versioned bucket, a version or a delete marker is deleted, so that an older one is current.
DELETED_VERSION = scenarios("12 A- A1 a- a1 breaks=1 versioned, 123 AA1 A-2 A-1 versioned")
# The bucket's versioning is suspended, or enabled: the null version changes places with others.
SUSPENDED = scenarios(
    "12 AB versioned switched=2, 24 A1CD versioned switched=3, 34 AB1D versioned switched=2"
)
ENABLED = scenarios("13 ABA switched=2")
SWITCHED_AND_DELETED = scenarios("123 AB2 A-2 A-C switched=2, 123 AB2 A-2 A-C versioned switched=2")
# Two events of a key, or two deliveries of one, meet while an execution dies or stalls.
MEETING = scenarios(
    "12 11 123 crashes=1 breaks=1, 12 crashes=1 breaks=1 versioned, 123 ABA breaks=1"
)
# A record expires, before or after a second event that may not be an image.
EXPIRED = scenarios("12 crashes=1 expiries=1, 12 aB crashes=1 expiries=1")
# A holder starts the newest event itself, once; later attempts fail.
STARTED = scenarios("12 crashes=1 breaks=1 starts=1, 123 starts=1")
# Step Functions starts an execution again that has ended, or died.
RESTARTED = scenarios(
    "11 restarts=1 expiries=1, 11 crashes=1 restarts=1 expiries=1, 12 crashes=1 restarts=1, "
    "12 crashes=1 breaks=1 restarts=1, 11 crashes=1 breaks=1 restarts=1 expiries=1"
)
# A write takes effect after its timeout, beside another fault.
LATE_AND_MORE = scenarios(
    "11 12 lates=2, 12 lates=1 crashes=2, 12 lates=1 crashes=1 starts=1, 12 lates=1 faults=1, "
    "12 lates=1 crashes=1 breaks=1"
)
# Two or three faults of different kinds.
SEVERAL_FAULTS = scenarios(
    "12 crashes=1 faults=1 starts=1, 12 A- crashes=1 breaks=1 starts=1, "
    "122 123 crashes=1 breaks=1 starts=1, 122 112 crashes=1 breaks=1, "
    "11 12 crashes=1 breaks=1 faults=1, 12 Ab A- crashes=1 breaks=1 faults=1, "
    "11 12 faults=1 repeats=1, 1 crashes=1 faults=1 refusals=2 repeats=1, "
    "11 12 crashes=2 breaks=1, 123 crashes=1 breaks=2, 123 breaks=1 expiries=1, "
    "122 112 123 crashes=1 faults=1"
)
# Three changes of a versioned bucket, or with a deletion, and faults.
THREE_CHANGES = scenarios(
    "123 A-A AB2 versioned, 123 A-A AB- crashes=1 breaks=1, "
    "123 AB2 AB1 A-2 A-1 crashes=1 breaks=1 versioned"
)
# Every state of these is searched, because some mutants show only deep in them.
WHOLE = (
    *scenarios("12 A- breaks=1 faults=1, 123 A-A breaks=1, 123 AB2 versioned"),
    *scenarios("123 AB2 breaks=1 versioned, 123 AB2 breaks=1 versioned switched=2"),
)
EXECUTION = "SET execution = if_not_exists(execution, :execution)"
SUITE = Suite(
    LatestWins,
    short=(
        *scenarios("1 crashes=1 faults=1"),
        *(*STARTED, *MEETING, *EXPIRED, *EDGES, *BLIND, *LATE, *LEFT_RECORD),
        *(*DELETED_OBJECT, *DELETED_VERSION, *SUSPENDED, *ENABLED),
        *scenarios("12 A- crashes=1 breaks=1 versioned"),
    ),
    full=(
        *(*LATE_LONG, *ODD_TWICE, *SWITCHED_AND_DELETED, *LATE_AND_MORE, *SEVERAL_FAULTS),
        *(*THREE_CHANGES, *RESTARTED),
        *scenarios("123 starts=2"),
    ),
    sought=(
        *scenarios("1, 1 a, 1 crashes=1 faults=1, 11 12, 11 12 crashes=1 breaks=1"),
        *(*EDGES, *BLIND, *LATE, *LATE_LONG, *ODD_TWICE, *LEFT_RECORD),
        *(*DELETED_OBJECT, *DELETED_VERSION),
        *scenarios("123 A-A AB2 AA2 versioned"),
        *(*SUSPENDED, *ENABLED),
        *scenarios("11 a crashes=1, 1 crashes=1 faults=2, 12 Ab breaks=1"),
        *EXPIRED,
        *scenarios("123 ABA breaks=1, 12 crashes=1 breaks=1 versioned"),
        *scenarios("12 AA crashes=1 breaks=1 versioned, 12 AA crashes=1 breaks=1, 11 12 faults=1"),
        *scenarios("11 12 crashes=1 restarts=1, 122 112, 12 crashes=1 starts=1, 123 breaks=1"),
        *scenarios("122 crashes=1 breaks=1"),
    ),
    # These are found quickly; `make model` tries all mutants.
    representative=named(
        "Claim Key without Catch of DynamoDB.ConditionalCheckFailedException",
        "S3 Object Event? without rule 1: $.detail.object.key IsPresent",
        "S3 Object Event? without rule 1: $.detail.object.sequencer IsString",
        "Key State? without rule 7, to Break Lock",
        "Key State? without rule 8, to Wait For Lock",
        "Expiry? without rule 3: $.inversion.Payload.cause IsPresent",
        "Release Lock with ConditionExpression: none",
        "Renew Lock with no renewal",
        "First Poll with 10 as its lease_polls",
        "Count Poll with no wait if a read fails",
        "Retry Event with Release Retried Key before it",
        "fenced_output.py without 1: a newer output supersedes",
        "fenced_output.py without 2: the null version is overwritten",
        "fenced_output.py without 3: If-Match",
        "fenced_output.py without 3: the stamp",
        "fenced_output.py without 4: the check",
        "fenced_output.py without 4: the check after a deletion",
        "fenced_output.py without 4: the check after the write of a version",
    ),
    fences=NEWEST,
    whole=WHOLE,
    survivors=named(
        *LOCKING,
        *OF_NEWEST,
        # A claim that Step Functions' own client has sent twice is not refused.
        "Claim Key with ConditionExpression: no lock_token = :lock_token",
        # A delivery that is refused changes neither the time of the claim nor the event.
        "Claim Key with ConditionExpression: no attribute_not_exists(lock_token)",
        # For sweeps, whose tests show it: the model has one state machine, and counts nothing.
        *no_update("SET state_machine = :state_machine", "Claim Key"),
        *no_update("REMOVE hand_overs", "Break Lock", "Claim Key"),
        # For a record that has left the index: its event was parked, and is started by hand.
        *no_update("SET in_progress_since = :now", "Break Lock"),
        # The event's retry does not wait for a lease.
        *no_update("REMOVE lock_token", "Release Retried Key"),
        *no_retry("Release Retried Key"),
        # The newer event, or the schedule, breaks the lock after a lease.
        *no_update("REMOVE lock_token", "Release Lock Only"),
        *no_retry("Release Failed Key", "Release Lock Only"),
        *(
            f"{state} without Catch of DynamoDB.ConditionalCheckFailedException"
            for state in ("Release Failed Key", "Release Retried Key")
        ),
        # The waiting execution claims the key at its next poll.
        *no_retry("Start Newest Event"),
        # The event goes to the retry queue instead.
        *no_retry("Break Lock", "Renew Lock"),
        # For people who read the table: `execution`, and any status but DONE.
        *no_update(EXECUTION, "Claim Key"),
        f"Claim Key with UpdateExpression: always {EXECUTION.removeprefix('SET ')}",
        "Claim Key with ExpressionAttributeValues: :in_progress FAILED",
        *no_update("REMOVE execution", "Release Lock", "Release Lock Only"),
        *no_update("REMOVE execution", "Release Retried Key"),
        # Either keeps polls from following one another without a wait; without both is found.
        "Lock Taken? without rule 2, to Wait For Lock",
        "Key State? without rule 5, to Wait For Lock",
        # `inorder check` wants these tests, for the states that follow.
        *(
            f"Lock Taken? without rule 2: $.{each} IsPresent"
            for each in (
                *(f"limits.{name}" for name in ("poll_seconds", "lease_polls", "maximum_polls")),
                *("polls", "watched_lock.lock_token", "watched_lock.break_at_poll"),
            )
        ),
        "Final Outcome? without rule 1: $.fault IsPresent",
        "Final Outcome? without rule 2: $.fault IsPresent",
        "Final Outcome? without rule 3: $.inversion.Payload.outcome IsPresent",
    ),
)
