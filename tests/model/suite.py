"""Negative controls: a policy without one thing, which the explorer must find out.

`mutation` makes those of the state machine, `fence` those of the function's fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.engine import Engine
from tests.model.explorer import Promise, Result, explore, shortest
from tests.model.fence import Function
from tests.model.mutation import Mutant, expression_changes_of, mutants_of
from tests.model.scenario import Scenario

STATES_AT_MOST = 5_000
FENCE = "fenced_output.py"

Found = tuple[Scenario, Result] | None


@dataclass(frozen=True)
class Suite:
    """What is checked of a policy.

    Attributes
    ----------
    policy : type of Promise
        What it promises.
    short, full : tuple of Scenario
        Those of which every state is searched, always and in the long run.
    sought : tuple of Scenario
        Those in which mutants are sought, breadth first, in this order; small ones first.
    fences : tuple of Function
        The mutants of the fence.
    representative : frozenset of str
        The mutants that are tried always.
    survivors : frozenset of str
        Those that no condition of the promise needs; docs/proof.md says what they are for.
    more : tuple of Mutant
        Mutants of another kind.
    whole : tuple of Scenario
        Those of which every state is searched for what is left, as a path that does not end.
    """

    policy: type[Promise]
    short: tuple[Scenario, ...]
    full: tuple[Scenario, ...]
    sought: tuple[Scenario, ...]
    representative: frozenset[str]
    fences: tuple[Function, ...] = ()
    survivors: frozenset[str] = frozenset()
    more: tuple[Mutant, ...] = ()
    whole: tuple[Scenario, ...] = ()

    def __str__(self) -> str:
        return self.policy.__name__

    def mutants(self) -> Iterator[Mutant]:
        """Make all mutants."""
        for fence in self.fences:
            yield Mutant(FENCE, fence.name, function=fence)
        yield from self.more
        yield from mutants_of(self.policy.definition)
        yield from expression_changes_of(self.policy.definition)

    def find_out(self, engine: Engine, mutant: Mutant) -> Found:
        """Search for the shortest trace against a mutant, or any if only a whole path shows it."""
        policy = self.policy
        engine.load(mutant.definition or policy.definition, mutant.function or policy.function)
        try:
            for scenario in self.sought:
                result = shortest(policy(engine, scenario), STATES_AT_MOST)
                if result.problem:
                    return scenario, result
            for scenario in self.whole:
                result = explore(policy(engine, scenario))
                if result.problem:
                    return scenario, result
        finally:
            engine.load(policy.definition, policy.function)
        return None


def damaged(*paths: str) -> tuple[Scenario, ...]:
    """Make events in which something is absent, or of a wrong type."""
    return tuple(Scenario((1,), damaged=path) for path in paths)


# Of an event of S3; that a version is absent is no damage.
DAMAGED = (
    *damaged("detail-type", "detail", "detail.bucket", "detail.bucket.name", "detail.object"),
    *damaged("detail.object.key", "detail.object.etag", "detail.object.sequencer"),
    *damaged("detail-type=5", 'detail-type="Object Restore Completed"', "detail.bucket.name=5"),
    *damaged("detail.object.key=5", "detail.object.etag=5", "detail.object.sequencer=5"),
    *damaged('detail.object.sequencer=""', "detail.object.version-id=null"),
    *damaged("detail.object.version-id=5"),
)

FAILED, TIMEOUT, THROTTLED = (
    *("States.TaskFailed", "States.Timeout"),
    "Lambda.TooManyRequestsException",
)
# What is small, and shows a clause that nothing else does.
EDGES = (
    *DAMAGED,
    Scenario((1,), damaged="detail.object.key", faults=1),
    Scenario((1,), damaged="detail.object.key", transient=(TIMEOUT,)),
    Scenario((1,), damaged="detail.object.key", transient=(FAILED,)),
    Scenario((1,), transient=(THROTTLED,) * 4),
    Scenario((1,), contents="a", transient=(TIMEOUT,)),
    Scenario((1,), contents="a", crashes=1),
    Scenario((1, 2), crashes=1, transient=(FAILED,)),
    Scenario((1, 2), crashes=1, transient=(TIMEOUT,)),
    Scenario((1, 1), faults=1, odd=True),
    Scenario((1,), contents="a", faults=1, odd=True),
)
