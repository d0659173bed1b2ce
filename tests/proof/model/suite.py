"""What is searched of a policy, and its mutants, in which the search must find a violation.

`mutation` makes mutants of the state machine, `fence` of the function's fence, and `healing` of the
schedule.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.proof.model.engine import Engine
from tests.proof.model.healing import sweeps_of
from tests.proof.model.mutation import ALL_KINDS, Mutant
from tests.proof.model.promise import Promise
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.search import Result, search
from tests.proof.model.source import FUNCTION, SWEEP, Code

STATES_AT_MOST = 5_000  # of a scenario in which a mutant is sought
# A search ends at so many states, by the number of events; `make model` allows ten times as many.
# So a broken file is searched for about as long as a good one, which in CI has at most 3,176, 8,488
# and 19,057 states.
LIMITS = {1: 20_000, 2: 60_000, 3: 30_000}
LONG = bool(os.environ.get("MODEL"))  # `make model`


@dataclass(frozen=True)
class Suite:
    """What is searched of a policy, and its mutants."""

    policy: type[Promise]
    short: tuple[Scenario, ...]  # searched always
    full: tuple[Scenario, ...]  # searched by `make model`
    sought: tuple[Scenario, ...]  # in which each mutant is sought, in this order; small ones first
    representative: frozenset[str]  # the mutants that are always tried; `make model` tries all
    fences: tuple[Code, ...] = ()  # the mutants of the fence
    # The mutants that break no promise; comments say what the shipped code is for.
    survivors: frozenset[str] = frozenset()
    whole: tuple[Scenario, ...] = ()  # for deep mutants: each state of these is searched
    changes: tuple[Callable[[str], Iterator[Mutant]], ...] = ALL_KINDS

    def __str__(self) -> str:
        return self.policy.__name__

    def mutants(self) -> Iterator[Mutant]:
        for fence in self.fences:
            yield Mutant(fence.file, f"without {fence.name}", function=fence)
        for sweep in sweeps_of(self.policy.definition):
            yield Mutant(sweep.file, f"without {sweep.name}", sweep=sweep)
        for changes in self.changes:
            yield from changes(self.policy.definition)

    def search(self, engine: Engine, scenario: Scenario) -> Result:
        """Search every state of a scenario for the first violation."""
        engine.load(self.policy.definition)
        return search(self.policy(engine, scenario), limit(scenario))

    def find(self, engine: Engine, mutant: Mutant) -> tuple[Scenario, Result] | None:
        policy = self.policy
        engine.load(
            mutant.definition or policy.definition,
            function=mutant.function or FUNCTION,
            sweep=mutant.sweep or SWEEP,
        )
        for sought, most in ((self.sought, lambda _: STATES_AT_MOST), (self.whole, limit)):
            for scenario in sought:
                result = search(policy(engine, scenario), most(scenario))
                if result.problem:
                    return scenario, result
        return None


def limit(scenario: Scenario) -> int:
    return LIMITS[len(scenario.events)] * (10 if LONG else 1)


def damaged(*paths: str) -> tuple[Scenario, ...]:
    """Make scenarios of one event in which a field is absent or has the given value."""
    return tuple(Scenario((1,), damaged=path) for path in paths)


# An event may lack a version.
DAMAGED = (
    *damaged("detail-type", "detail", "detail.bucket", "detail.bucket.name", "detail.object"),
    *damaged("detail.object.key", "detail.object.etag", "detail.object.sequencer"),
    *damaged("detail-type=5", 'detail-type="Object Restore Completed"', "detail.bucket.name=5"),
    *damaged("detail.object.key=5", "detail.object.etag=5", "detail.object.sequencer=5"),
    *damaged(*(f'detail.{each}=""' for each in ("bucket.name", "object.key"))),
    *damaged('detail.object.sequencer=""', 'detail.object.etag=""'),
    *damaged("detail.object.version-id=null", 'detail.object.version-id=""'),
    *damaged("detail.object.version-id=5"),
)

# Messages are refused, come twice, or come back to a dead execution.
REFUSED = scenarios(
    "1 damaged=detail.object.key refusals=2, 1 damaged=detail.object.key refusals=1 failed, "
    "1 damaged=detail.object.key refusals=1 timeout, 1 a refusals=2, 1 a refusals=1 failed, "
    "1 a refusals=1 timeout, 1 faults=1 refusals=2, 1 faults=1 repeats=1"
)
# A write takes effect at any time after its timeout.
LATE = scenarios("1 lates=1, 1 lates=1 crashes=1, 11 lates=1")
LATE_LONG = scenarios("11 12 lates=1 crashes=1")
# A waiter's reads fail as often as they like, while a holder lives.
BLIND = scenarios("12 blind")
# Mutants whose executions would be too long, which `inorder check` computes.
SECOND_ATTEMPT = (
    "Invert Image without Retry of States.ALL",
    "Attempt Again? without rule 1: $.polls NumericLessThanEquals 6",
)
# Small scenarios, each of which finds a mutant that no other finds.
EDGES = (
    *DAMAGED,
    *REFUSED,
    *scenarios("1 crashes=2, 1 damaged=detail.object.key faults=1"),
    *scenarios("1 damaged=detail.object.key timeout, 1 damaged=detail.object.key failed"),
    *scenarios("1 throttled=4, 1 a timeout, 1 a crashes=1, 12 crashes=1 failed"),
    *scenarios("12 crashes=1 timeout, 1 faults=1 odd, 1 a faults=1 odd"),
)
# Of these, every_version and first_wins have so many states that only `make model` searches them.
LARGE = scenarios("1 faults=1 repeats=1, 12 crashes=1 failed, 12 crashes=1 timeout")
SMALL = tuple(scenario for scenario in EDGES if scenario not in LARGE)
ODD_TWICE = scenarios("11 faults=1 odd")
