"""What the policy latest_wins promises: docs/proof.md lists I1 to I5 in words."""

from __future__ import annotations

import json

from inorder import PROJECT
from tests.model.engine import Step
from tests.model.explorer import Run, State, attribute
from tests.model.fence import NEWEST
from tests.model.locking import Locking
from tests.model.mutation import Mutant
from tests.model.newest import Newest
from tests.model.scenario import Scenario
from tests.model.suite import EDGES, Suite


class LatestWins(Locking, Newest):
    """Of all events of a key the output ends as that of the newest."""

    definition = (PROJECT / "statemachine" / "latest_wins.asl.json").read_text()
    holding = frozenset({"Invert Image", "Release Lock"})

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check I3, and that a free key can be claimed."""
        if run.state == "Claim Key" and step.following == "Record Newest Event":
            free = run.event not in state.done and attribute(item, "lock_token") is None
            newest = attribute(item, "newest") or ""
            sequencer = self.scenario.sequencer(run.event)
            # What others have left need not be free, unless it says of which older event it is.
            known = not self.scenario.item or (attribute(item, "sequencer") or "9") < sequencer
            if free and known and newest <= sequencer:
                return f"I5: {run.execution} cannot claim a free key"
        if step.following == "Invert Image" and run.event in state.done:
            return f"I3: {run.event} is done and worked on again"
        return super().steps(state, run, item, step)

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check that who gives up had to, and that its event is not over."""
        if following == "Give Up Waiting":
            item = json.dumps(json.loads(run.data)["record"].get("Item", {}))
            sequencer = self.scenario.sequencer(run.event)
            done = attribute(item, "sequencer") == sequencer and attribute(item, "status") == "DONE"
            if attribute(item, "newest") not in {None, sequencer} or done:
                return f"I4: {run.execution} gives up an event that is over"
        return super().passes(state, run, following)

    def rests(self, state: State) -> str | None:
        """Check I1, and that only the dead have locks."""
        return super().rests(state) or self.free(state)

    def is_recorded(self, state: State, run: Run) -> bool:
        """Tell whether the item knows of a run's event, or of a newer one."""
        item = dict(state.items).get(self.scenario.key(run.event))
        known = max(attribute(item, "newest") or "", attribute(item, "sequencer") or "")
        return known >= self.scenario.sequencer(run.event)

    def is_done(self, run: Run) -> bool:
        """Tell whether the event is done once the run's Task has written."""
        return run.state == "Release Lock"

    def loses(self, run: Run) -> str:
        """Name what an execution that fails here leaves behind."""
        return {"Release Failed Key": "not freed", "Not Parked": "not parked"}.get(run.state, "")

    def is_kept(self, state: State, event: int) -> bool:
        """Tell whether a lost event is in the log, or `inorder redrive` finds it in its item."""
        hows = {how for lost, _, how in state.lost if lost == event}
        item = dict(state.items).get(self.scenario.key(event))
        newest, claimed = attribute(item, "newest"), attribute(item, "sequencer")
        stuck = attribute(item, "status") == "IN_PROGRESS" or newest != claimed
        found = attribute(item, "newest_event") or attribute(item, "event") or "{}"
        kept = stuck and json.loads(found) == self.scenario.event(event)
        return "not parked" in hows or bool(hows and kept)

    def is_reason(self, state: State, run: Run) -> bool:
        """Tell whether an event was parked for a reason that is one."""
        if json.loads(run.data).get("fault", {}).get("Error") == "KeyLocked":
            return self.could_be_locked(state)
        return super().is_reason(state, run)


def fails_before_park() -> Mutant:
    """Free the key of an event that fails before the event is in the queue."""
    definition = json.loads(
        LatestWins.definition.replace('"Next": "Park Event"', '"Next": "Release Failed Key"')
    )
    park, fail = (definition["States"][name] for name in ("Park Event", "Release Failed Key"))
    park["Next"] = "Parked"
    fail["Next"] = fail["Catch"][0]["Next"] = "Park Event"
    return Mutant("Release Failed Key", "Park Event before it", json.dumps(definition))


# What somebody else has left.
LEFT = (
    Scenario((1,), item='{"status": {"S": "DONE"}}'),
    Scenario((1,), item='{"status": {"S": "DONE"}, "sequencer": {"S": "00"}}'),
    Scenario((1,), item='{"newest": {"S": "01"}}'),
    Scenario((1,), item='{"lock_token": {"S": "left behind"}}'),
)
# A deletion stalls, or a creation does until there has been one.
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
# Those whose whole paths are searched, for one that does not end.
WHOLE = (
    *(Scenario((1, 1)), Scenario((1, 2))),
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 1), (1, 2))),
    Scenario((1, 2), contents="A-", breaks=1, faults=1),
    Scenario((1, 2, 3), contents="A-A", breaks=1),
    Scenario((1, 2, 3), contents="AB2", versioned=True),
    Scenario((1, 2, 3), contents="AB2", breaks=1, versioned=True),
)
SOUGHT = (
    *(Scenario((1,)), Scenario((1,), contents="a")),
    *(Scenario((1, 1)), Scenario((1, 2))),
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 1), (1, 2))),
    *EDGES,
    *LEFT,
    *DELETIONS,
    *(Scenario((1, 2, 3), contents=contents, versioned=True) for contents in ("A-A", "AB2")),
    Scenario((1, 1), contents="a", crashes=1),
    Scenario((1, 2), contents="Ab", breaks=1),
    Scenario((1, 2), crashes=1, expiries=1),
    Scenario((1, 2, 3), breaks=1, contents="ABA"),
    Scenario((1, 2), versioned=True, crashes=1, breaks=1),
    Scenario((1, 2), versioned=True, contents="AA", crashes=1, breaks=1),
    Scenario((1, 2), contents="AA", crashes=1, breaks=1),
    *(Scenario(events, faults=1) for events in ((1, 1), (1, 2))),
    *(Scenario(events, crashes=1, restarts=1) for events in ((1, 1), (1, 2))),
    *(Scenario((1, 2, 2)), Scenario((1, 1, 2))),
    Scenario((1, 2, 3), breaks=1),
    Scenario((1, 2, 2), crashes=1, breaks=1),
)
SHORT = (
    *(
        Scenario(events, crashes=1, breaks=1)
        for events in ((1, 2), (1, 1), (1, 2, 2), (1, 1, 2), (1, 2, 3))
    ),
    Scenario((1, 2), crashes=1, breaks=1, faults=1),
    Scenario((1, 2), crashes=1, breaks=1, versioned=True),
    Scenario((1, 2), crashes=1, expiries=1),
    Scenario((1, 2, 3), breaks=1, contents="ABA"),
    *EDGES,
    *LEFT,
    *DELETIONS,
    Scenario((1, 2), contents="A-", crashes=1, breaks=1, versioned=True),
)
FULL = (
    Scenario((1, 1), crashes=1, breaks=1, faults=1),
    Scenario((1, 1), restarts=1, expiries=1),
    Scenario((1, 2), crashes=1, breaks=1, faults=1, contents="Ab"),
    Scenario((1, 2, 3), breaks=1, expiries=1),
    *(Scenario((1, 2, 3), contents=contents, versioned=True) for contents in ("A-A", "AB2")),
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

# What kills quickly; all are in the long run.
REPRESENTATIVE = frozenset(
    {
        "Claim Key with ConditionExpression: no "
        "(attribute_not_exists(newest) OR newest <= :sequencer)",
        "Claim Key with ConditionExpression: no attribute_not_exists(lock_token)",
        "Claim Key with ConditionExpression: no (sequencer < :sequencer OR #status <> :done)",
        "Claim Key without Catch of DynamoDB.ConditionalCheckFailedException",
        "Claim Key without Retry of States.TaskFailed, States.Timeout",
        "Record Newest Event with ConditionExpression: none",
        "S3 Object Event? without rule 1: $.detail.object.key IsPresent",
        "S3 Object Event? without rule 1: $.detail.object.sequencer IsString",
        "Key State? without rule 5, to Break Lock",
        "Outcome? without rule 2: $.inversion.Payload.cause IsPresent",
        "Release Lock with ConditionExpression: none",
        "Release Failed Key without Park Event before it",
        "fenced_output.py without 1: a newer output supersedes",
        "fenced_output.py without 3: If-Match",
        "fenced_output.py without 3: the stamp",
        "fenced_output.py without 4: the check",
        "fenced_output.py without 4: the check after a deletion",
    }
)

SUITE = Suite(
    LatestWins,
    *(SHORT, FULL, SOUGHT, REPRESENTATIVE, NEWEST),
    frozenset(
        {
            "fenced_output.py without 2: a right output is not checked",
            "fenced_output.py without 4: a stale event is superseded",
            "Claim Key with ConditionExpression: no attribute_not_exists(id)",
            "Claim Key with no Parameters.Item.claimed_at",
            "Record Newest Event with ConditionExpression: comparison 1, <, as <=",
            "Break Lock with UpdateExpression: no REMOVE execution",
            "Release Lock with UpdateExpression: "
            "no SET expires_at = if_not_exists(expires_at, :expires_at)",
            "Release Failed Key with UpdateExpression: no REMOVE execution",
        }
    ),
    more=(fails_before_park(),),
    whole=WHOLE,
)
