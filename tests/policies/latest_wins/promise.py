"""What latest_wins promises (I1 to I5 of docs/proof.md), its scenarios and its mutants."""

from inorder import PROJECT
from tests.proof.model.engine import StepResult, read
from tests.proof.model.newest import Newest
from tests.proof.model.promise import known_record
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import BLIND, EDGES, LATE, LATE_LONG, ODD_TWICE, Suite, breakages


class LatestWins(Newest):
    """The output of a key ends as its newest event says."""

    definition = (PROJECT / "statemachine" / "latest_wins.asl.json").read_text()
    holding = frozenset({"Invert Image"})

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        if step.started:
            sequencer = read(step.started)["detail"]["object"]["sequencer"]
            if sequencer <= self.sequencer(run):
                return f"I5: {run.execution} starts an event that is not newer"
        if step.following == "Invert Image" and run.event in state.done:
            return f"I3: {run.event} is done and processed again"
        if step.following == "Invert Image" and not run.owns(attribute(step.item, "lock_token")):
            return f"I3: {run.execution} works without the lock"
        if run.state == "Claim Key" and not run.owns(attribute(step.item, "lock_token")):
            known, own = attribute(item, "sequencer") or "", self.sequencer(run)
            is_next = known < own or (known == own and run.event not in state.done)
            if is_next and attribute(item, "lock_token") is None:
                return f"I5: {run.execution} cannot claim a free key"
        return super().steps(state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        if following == "Give Up Waiting":
            item, sequencer = known_record(run), self.sequencer(run)
            newest, status = attribute(item, "sequencer"), attribute(item, "status")
            if newest not in {None, sequencer} or status == "DONE":
                return f"I4: {run.execution} gives up an event that is superseded or done"
        return super().passes(state, run, following)

    def is_done(self, run: Run) -> bool:
        """Of a newer event's record, the end of the work only removes the lock."""
        unlocks = run.state == "Release Lock Only" and "sent" not in read(run.data)
        return super().is_done(run) or unlocks or run.state == "Release Superseded Key"

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
# A holder stalls, beside another fault or several changes.
STALLED = scenarios(
    "12 A- breaks=1 faults=1, 123 breaks=1, 123 AB2 breaks=1 versioned, "
    "123 AB2 breaks=1 versioned switched=2"
)
BROKEN = breakages("""
    { "Variable": "$.detail.object.sequencer", "IsString": true }, =>
        1 damaged=detail.object.sequencer=5: I4: 1a works on an invalid event
    "StringEquals": "DONE" => "StringEquals": "FAILED"
        1 crashes=1 faults=1: I4: 1a gives up an event that is superseded or done
    "id": { "S.$": "$.object_key" } => "id": { "S.$": "$.sequencer" }
        12: I3: 2a works while 1a does
    "(attribute_not_exists(lock_token) AND => "(attribute_not_exists(hand_overs) AND
        12: I3: 2a works while 1a does
    attribute_not_exists(sequencer) OR sequencer < :sequencer" => sequencer = :sequencer"
        12: I4: 2a ends in Superseded, which is not true
    sequencer < : => sequencer > :
        12: I4: 2a ends in Superseded, which is not true
    AND #status <> :done => AND #status = :done
        1 crashes=1 faults=1: I5: 1a cannot claim a free key
    "lease_polls": 16 => "lease_polls": 14
        11: I5: 1a loses its lock while it works
    "lease_polls": 16 => "lease_polls": 18
        1 crashes=1 faults=1: I5: 1b gives up at a lock that it has seen for a lease
    REMOVE lock_token, execution, hand_overs => REMOVE hand_overs
        1 crashes=1 faults=1: I5: 1b has broken a lock that is still there
    execution, in_progress_since => execution
        1: I7: a sweep is needed
    States.StringToJson($.newest.event) => $$.Execution.Input
        12: I5: 1a starts an event that is not newer
    "Next": "Send By EventBridge" => "Next": "Not Parked"
        1 a refusals=2: I4: 1a does not try to send by EventBridge
    sqs.send_message => dict
        1 crashes=1 faults=1: I1: all is quiet and the output was made from None, not from 1
    {"IfMatch": self.etag} => {}
        12 crashes=1 breaks=1 starts=1: I3: the output of 2 is written again
    stamp(event) => b""
        13 ABA switched=2: I3: the output of 3 is written again
    IfMatch=_quoted(source.etag) =>
        12 crashes=1 breaks=1 versioned: I2: the output of 2 becomes 1's
    named_version(self.metadata.get("source-version-id")) => source.object_id[0]
        123 AA1 versioned: I4: 3a ends in Superseded, which is not true
    if condition and => if None and
        13 ABA switched=2: I2: the output of 3 becomes 1's
    if output.order(source) => if source.version_id or output.order(source)
        12 A- breaks=1 versioned: I1: all is quiet and the output was made from 1, not from None
    attempt = self._follow_source =>
        12 crashes=1 breaks=1 versioned: I5: this may go on for ever
""")
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
        *(*THREE_CHANGES, *RESTARTED, *STALLED),
        *scenarios("123 starts=2, 122 112, 11 12 faults=1, 1 crashes=1 faults=2, 12 Ab breaks=1"),
        *scenarios("11 crashes=1 restarts=1, 12 AA crashes=1 breaks=1"),
    ),
    breakages=BROKEN,
)
