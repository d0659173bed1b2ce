"""What is searched of a policy, and what the search must find if something is broken.

The tables of the policies, the fence's tests and `inorder check` find every small change. What is
broken here shows that the search finds each kind of violation.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from tests.proof.changing import changed
from tests.proof.model.engine import Engine
from tests.proof.model.promise import Promise
from tests.proof.model.scenario import Scenario, scenarios
from tests.proof.model.search import Result, search
from tests.proof.model.source import FENCE, SWEEP, Code

# A search ends at so many states, by the number of events; `make model` allows twenty times more.
# So a broken file is searched for about as long as a good one.
LIMITS = {1: 20_000, 2: 60_000, 3: 40_000}
LONG = bool(os.environ.get("MODEL"))  # `make model`


class Breakage(NamedTuple):
    """A text of the ASL file, of the fence or of the schedule with another one in its place."""

    text: str
    instead: str
    scenario: str  # as `scenarios` reads it
    problem: str  # which the search finds in this scenario


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
        text = changed(parts[name], old, new)
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
        [scenario] = scenarios(breakage.scenario)
        return search(self.policy(engine, scenario), limit(scenario))


def breakages(text: str) -> tuple[Breakage, ...]:
    """Read breakages: a line ``text => instead``, and a line ``scenario: problem``."""
    lines = [line.strip() for line in text.strip().splitlines()]
    changes = (line.partition(" =>") for line in lines[::2])
    found = (line.partition(": ") for line in lines[1::2])
    return tuple(
        Breakage(before, after.strip(), scenario, problem)
        for (before, _, after), (scenario, _, problem) in zip(changes, found, strict=True)
    )


def limit(scenario: Scenario) -> int:
    return LIMITS[len(scenario.events)] * (20 if LONG else 1)


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
    "1 damaged=detail.object.key refusals=1 timeout, 1 a refusals=2, 1 a refusals=1, "
    "1 a refusals=1 failed, 1 a refusals=1 timeout, 1 faults=1 refusals=2, 1 faults=1 repeats=1"
)
# A write takes effect at any time after its timeout.
LATE = scenarios("1 lates=1, 1 lates=1 crashes=1, 11 lates=1")
LATE_LONG = scenarios("11 12 lates=1 crashes=1")
# A sweep reads a record of a dead execution, and hands its event over later.
SWEPT = scenarios("1 crashes=1 faults=1 sweeps=1, 12 crashes=1 sweeps=1")
# A waiter's reads fail as often as they like, while a holder lives.
BLIND = scenarios("12 blind")
# Small scenarios, with one fault or a few.
EDGES = (
    *DAMAGED,
    *REFUSED,
    *scenarios("1 crashes=2, 1 damaged=detail.object.key faults=1"),
    *scenarios("1 damaged=detail.object.key timeout, 1 damaged=detail.object.key failed"),
    *scenarios("1 throttled=4, 1 a timeout, 1 a crashes=1, 12 crashes=1 failed"),
    *scenarios("12 crashes=1 timeout, 1 faults=1 odd, 1 a faults=1 odd"),
)
ODD_TWICE = scenarios("11 faults=1 odd")
