"""What optimistic promises with the fence alone, its scenarios and its mutants."""

from __future__ import annotations

from inorder import PROJECT
from tests.policies.latest_wins.promise import SWITCHED, SWITCHED_LONG
from tests.policies.searches import OF_NEWEST, UNSENT, named
from tests.proof.model.fence import NEWEST
from tests.proof.model.newest import Newest
from tests.proof.model.promise import ODD
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.suite import DAMAGED, FAILED, REFUSED, THROTTLED, TIMEOUT, Suite


class Optimistic(Newest):
    """The output of a key ends as that of its newest event, although executions race for it."""

    has_records = False
    definition = (PROJECT / "statemachine" / "optimistic.asl.json").read_text()
    # It has no record, so it needs no expiry.
    odd = tuple(
        answer
        for answer in ODD
        if not isinstance(answer, dict)
        or answer.get("outcome") not in {"Processed", "Superseded", "Rejected"}
        or (answer["outcome"] == "Rejected" and not {"error", "cause"} <= set(answer))
    )

    def key(self, event: int) -> str:  # noqa: ARG002
        return "b/k"

    def audited(self, version: str | None) -> str:  # noqa: ARG002
        return "b/k"


RACES = (
    *scenarios("1, 1 a, 11 12, 12 A- Ab AA, 12 AB AA A- A1 a1 versioned"),
    *scenarios("11 12 crashes=1 faults=1, 12 A- crashes=1 faults=1"),
)
EDGES = (
    *DAMAGED,
    *REFUSED,
    Scenario((1,), damaged="detail.object.key", faults=1),
    Scenario((1,), damaged="detail.object.key", transient=(TIMEOUT,)),
    Scenario((1,), transient=(THROTTLED,) * 6),
    Scenario((1,), contents="a", transient=(TIMEOUT,)),
    Scenario((1,), transient=(FAILED,) * 5),
    *scenarios("1 faults=1 odd, 1 a faults=1 odd"),
)
THREE = scenarios("123 ABC ABA A-A AB-, 123 A-A AB2 A-2 AB1 AA2 versioned")
SUITE = Suite(
    Optimistic,
    short=(*RACES, *EDGES, *SWITCHED),
    full=(*THREE, *SWITCHED_LONG, *scenarios("112 crashes=1")),
    sought=(*RACES, *SWITCHED, *EDGES, *SWITCHED_LONG, *THREE),
    fences=NEWEST,
    representative=named(
        "fenced_output.py without 1: a newer output supersedes",
        "fenced_output.py without 2: the null version is overwritten",
        "fenced_output.py without 3: If-Match",
        "fenced_output.py without 3: the stamp",
        "fenced_output.py without 4: the check",
        "fenced_output.py without 4: the check after a deletion",
        "fenced_output.py without 4: the check after the write of a version",
    ),
    survivors=named(*OF_NEWEST, *UNSENT),
)
