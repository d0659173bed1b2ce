"""What is searched of a policy, and what the search must find if something is broken.

The tables of the policies, the fence's tests and `inorder check` find every small change. What is
broken here shows that the search finds each kind of violation.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from tests.proof.model.engine import Engine
from tests.proof.model.promise import Promise
from tests.proof.model.scenario import (
    ABSENT,
    FAILED,
    NO_IMAGE,
    THROTTLED,
    TIMED_OUT,
    A,
    B,
    Damage,
    Scenario,
)
from tests.proof.model.search import Result, search
from tests.proof.model.source import FENCE, SWEEP, Code
from tests.support.replacing import replaced

LONG = bool(os.environ.get("MODEL"))  # `make model`
# A search ends at so many states, by the number of events, so a broken file is searched for about
# as long as a good one. A million states need a gigabyte of memory.
LIMITS = {1: 20_000, 2: 60_000, 3: 40_000}
LONG_LIMIT = 8_000_000


class Breakage(NamedTuple):
    """A text of the ASL file, of the fence or of the sweep with another one in its place."""

    text: str
    instead: str
    scenario: Scenario
    problem: str  # which the search finds in this scenario

    def __str__(self) -> str:
        return f"{self.scenario}: {self.problem}"


class Shipped(NamedTuple):
    """What the search runs of a policy."""

    file: str
    fence: Code = FENCE
    sweep: Code = SWEEP

    @classmethod
    def of(cls, policy: type[Promise]) -> Shipped:
        return cls(policy.definition)

    def changed(self, old: str, new: str) -> Shipped:
        """Change the one part that has a text."""
        parts = {"file": self.file, "fence": self.fence.text, "sweep": self.sweep.text}
        name = next((name for name, text in parts.items() if old in text), "file")
        text = replaced(parts[name], old, new)
        if name == "file":
            return self._replace(file=text)
        return self._replace(**{name: getattr(self, name)._replace(text=text)})


@dataclass(frozen=True)
class Suite:
    """What is searched of a policy."""

    policy: type[Promise]
    short: tuple[Scenario, ...]  # searched always
    full: tuple[Scenario, ...]  # searched by `make model`
    breakages: tuple[Breakage, ...]

    def __str__(self) -> str:
        return self.policy.__name__

    def search(self, engine: Engine, scenario: Scenario) -> Result:
        """Search every state of a scenario for the first violation."""
        engine.load(self.policy.definition)
        return search(self.policy(engine, scenario), limit(scenario))

    def search_broken(self, engine: Engine, breakage: Breakage) -> Result:
        broken = Shipped.of(self.policy).changed(breakage.text, breakage.instead)
        engine.load(broken.file, fence=broken.fence, sweep=broken.sweep)
        return search(self.policy(engine, breakage.scenario), limit(breakage.scenario))


def limit(scenario: Scenario) -> int:
    return LONG_LIMIT if LONG else LIMITS[len(scenario.events)]


# An event may lack a version, or have one that is none.
DAMAGED = tuple(
    Scenario([A], damaged=damage)
    for damage in (
        *map(Damage, ("detail-type", "detail", "detail.bucket", "detail.bucket.name")),
        *(Damage("detail-type", value) for value in (5, "Object Restore Completed")),
        *(Damage("detail.bucket.name", value) for value in (5, "")),
        Damage("detail.object"),
        Damage("detail.object.sequencer", "test"),
        *(
            Damage(f"detail.object.{name}", value)
            for name in ("key", "etag", "sequencer")
            for value in (ABSENT, 5, "")
        ),
        *(Damage("detail.object.version-id", value) for value in (None, 5, "")),
    )
)
NO_KEY = Damage("detail.object.key")

# Messages are refused, come twice, or come back to a dead execution.
REFUSED = (
    Scenario([A], damaged=NO_KEY, refusals=2),
    Scenario([A], damaged=NO_KEY, refusals=1, transient=(FAILED,)),
    Scenario([A], damaged=NO_KEY, refusals=1, transient=(TIMED_OUT,)),
    Scenario([NO_IMAGE], refusals=2),
    Scenario([NO_IMAGE], refusals=1),
    Scenario([NO_IMAGE], refusals=1, transient=(FAILED,)),
    Scenario([NO_IMAGE], refusals=1, transient=(TIMED_OUT,)),
    Scenario([A], faults=1, refusals=2),
    Scenario([A], faults=1, repeats=1),
)
# A write takes effect at any time after its timeout.
LATE = (
    Scenario([A], lates=1),
    Scenario([A], lates=1, crashes=1),
    Scenario([A], delivered=[1, 1], lates=1),
)
LATE_LONG = (
    Scenario([A], delivered=[1, 1], lates=1, crashes=1),
    Scenario([A, B], lates=1, crashes=1),
)
# A sweep reads a record of a dead execution, and hands its event over later.
SWEPT = (Scenario([A], crashes=1, faults=1, sweeps=1), Scenario([A, B], crashes=1, sweeps=1))
# A waiter's reads fail as often as they like, while a holder lives.
BLIND = (Scenario([A, B], blind=True),)
# Small scenarios, with one fault or a few.
EDGES = (
    *DAMAGED,
    *REFUSED,
    Scenario([A], crashes=2),
    Scenario([A], damaged=NO_KEY, faults=1),
    *(Scenario([A], damaged=NO_KEY, transient=(error,)) for error in (TIMED_OUT, FAILED)),
    Scenario([A], transient=(THROTTLED,) * 4),
    Scenario([NO_IMAGE], transient=(TIMED_OUT,)),
    Scenario([NO_IMAGE], crashes=1),
    *(Scenario([A, B], crashes=1, transient=(error,)) for error in (TIMED_OUT, FAILED)),
    *(Scenario([image], faults=1, odd=True) for image in (A, NO_IMAGE)),
)
ODD_TWICE = (Scenario([A], delivered=[1, 1], faults=1, odd=True),)
