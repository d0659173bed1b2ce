"""What content_hash promises, its scenarios and its mutants."""

import json

from inorder import PROJECT
from tests.proof.model.engine import S3Answer, StepResult
from tests.proof.model.promise import Promise, known_record
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.state import Run, State, attribute
from tests.proof.model.suite import (
    BLIND,
    LATE,
    LATE_LONG,
    Suite,
    breakages,
    damaged,
)


class ContentHash(Promise):
    """Of the events with one content, one is forwarded."""

    definition = (PROJECT / "statemachine" / "content_hash.asl.json").read_text()
    claim = "Claim Content"
    # No fence protects the forwarding, so the lock is needed until it is marked as done.
    holding = frozenset({"Forward Event", "Release Lock"})
    odd = (None, "text", {}, {"hash": "h", "now": "1", "expires_at": 5})

    def call(self, event: str, answers: tuple[S3Answer, ...]) -> dict[str, str]:  # noqa: ARG002
        etag = json.loads(event)["detail"]["object"]["etag"]
        return {"hash": f"hash of {etag}", "now": "1", "expires_at": "1"}

    def key(self, event: int) -> str:
        return f"content:aws.s3/Object Created/hash of etag-{self.scenario.content(event)}"

    def ids(self, run: Run) -> dict[str, str]:  # noqa: ARG002
        """Give what is known before the content is hashed."""
        return {"content": "aws.s3/Object Created"}

    def steps(self, state: State, run: Run, item: str | None, step: StepResult) -> str | None:
        forwarded = self.forwarded(state, run.event)
        if run.state == "Forward Event" and forwarded and not self.may_repeat(state):
            return f"I3: {run.event} is forwarded although {min(forwarded)} was"
        if run.state == self.claim and not run.owns(attribute(step.item, "lock_token")):
            is_done = bool({e for e in state.done if self.key(e) == self.key(run.event)})
            if attribute(item, "lock_token") is None and not is_done:
                return f"I5: {run.execution} cannot claim a free content"
        return super().steps(state, run, item, step)

    def forwarded(self, state: State, event: int) -> set[int]:
        return {each for each in state.effective if self.key(each) == self.key(event)}

    def may_repeat(self, state: State) -> bool:
        """Tell whether anything happened after which a content may be forwarded twice."""
        is_expired = state.expiries < self.scenario.expiries
        return is_expired or self.had_error(state) or self.is_disturbed(state)

    def remembers(self, state: State, run: Run, step: StepResult) -> tuple[State, Run]:
        if run.state == "Forward Event" and step.following == "Release Lock":
            state = state._replace(effective=state.effective | {run.event})
        return state, run

    def passes(self, state: State, run: Run, following: str) -> str | None:
        if following == "Give Up Waiting" and attribute(known_record(run), "status") == "DONE":
            return f"I4: {run.execution} gives up an event that is a duplicate"
        return super().passes(state, run, following)

    def outcomes(self, state: State, run: Run) -> dict[str, bool]:
        is_forwarded = bool(self.forwarded(state, run.event))
        return {"Processed": is_forwarded, "Duplicate": is_forwarded}

    def rests(self, state: State) -> str | None:
        for event in set(self.scenario.events):
            if not self.forwarded(state, event) and event not in state.parked | state.logged:
                return f"I4: all is quiet and the content of {event} was not forwarded"
        return self.free(state)


# A dead execution has left its lock.
LEFT = (Scenario((1,), item='{"lock_token": {"S": "left behind"}}'),)
# One event, or two of one content (AA) or of two: without a fault, with what `suite` has for all
# policies, with damaged events that no queue takes, and with one or two faults.
SMALL = (
    *scenarios("1, 11 12, 12 AA"),
    *damaged("detail-type", "detail"),
    *(*LEFT, *BLIND, *LATE),
    *scenarios("12 AA blind"),
    *scenarios("1 damaged=detail refusals=2, 1 damaged=detail refusals=1 failed"),
    *scenarios("1 damaged=detail refusals=1 timeout, 1 damaged=detail failed"),
    *scenarios("1 damaged=detail timeout, 1 failed, 1 timeout, 1 throttled=4"),
    *scenarios("1 faults=1, 1 faults=1 odd, 1 crashes=2, 1 faults=1 refusals=2"),
    *scenarios("1 crashes=1 faults=1, 11 12 AA crashes=1 breaks=1, 11 expiries=1"),
)
BROKEN = breakages("""
    "StringEquals": "DONE" => "StringEquals": "FAILED"
        11: I4: 1a gives up an event that is a duplicate
    OR expires_at < => OR expires_at >=
        11: I3: 1 is forwarded although 1 was
    OR (attribute_not_exists(lock_token) AND => OR (attribute_exists(id) AND
        11: I3: 1b works while 1a does
    sqs.send_message => dict
        1 lates=1 crashes=1: I4: all is quiet and the content of 1 was not forwarded
""")
SUITE = Suite(
    ContentHash,
    short=SMALL,
    full=(
        *LATE_LONG,
        *scenarios("123 AAA, 123 ABA crashes=1, 11 faults=1 crashes=1, 11 faults=1 breaks=1"),
        *scenarios("11 faults=1, 11 restarts=1 expiries=1"),
    ),
    breakages=BROKEN,
)
