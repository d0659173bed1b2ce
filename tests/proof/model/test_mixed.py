"""Searches what two policies, or two versions of one, do at once with one table and one output.

After a change, what runs goes on under the policy before. Only latest-wins and every-version share
records; all others share outputs, which the fence orders whoever writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.policies.every_version.promise import EveryVersion
from tests.policies.latest_wins.promise import LatestWins
from tests.proof.model.engine import OTHER, Engine, StepResult
from tests.proof.model.newest import KEY
from tests.proof.model.promise import Promise
from tests.proof.model.scenario import Scenario
from tests.proof.model.search import Result, search
from tests.proof.model.state import Run, State, Stored
from tests.proof.model.suite import LONG


class Mixture(NamedTuple):
    """Two policies or versions, and which events are delivered to the second one."""

    policies: tuple[type[Promise], type[Promise]]
    scenario: Scenario
    others: frozenset[int]  # empty if each event may be delivered to either

    def __str__(self) -> str:
        names = " and ".join(policy.__name__ for policy in self.policies)
        return f"{names} (with {sorted(self.others) or 'all'}); {self.scenario}"


def _asking(check: str) -> Any:
    return lambda mixed, *given: mixed.ask(check, *given)


class Mixed(Promise):
    """Each execution keeps the promise of its own policy, whatever the other policy's do."""

    def __init__(self, engine: Engine, mixture: Mixture) -> None:
        super().__init__(engine, mixture.scenario)
        self.mixture = mixture
        same: dict[str, Any] = {
            "holding": frozenset[str]().union(*(each.holding for each in mixture.policies))
        }
        if EveryVersion in mixture.policies:  # the key's next event breaks a lock that stays
            same["may_stay"] = EveryVersion.may_stay
        self.parts: list[Promise] = []
        for number, policy in enumerate(mixture.policies):
            events, others = mixture.scenario.events, mixture.others
            own = tuple(each for each in events if not others or self.number(each) == number)
            # Twice, because an execution may also wait for one of the other policy.
            scenario = replace(mixture.scenario, events=own * 2)
            part = type(policy.__name__, (policy,), same)
            self.parts.append(part(_view(engine, number), scenario))

    def of(self, name: str) -> Promise:
        return self.parts[name.endswith(OTHER)]

    def number(self, event: int) -> int:
        return int(event in self.mixture.others)

    def entries(self, event: int) -> list[str]:
        starts = self.engine.starts
        return [starts[self.number(event)]] if self.mixture.others else starts

    def seen(self, given: Any, part: Promise) -> Any:
        """Give something as a policy knows it: without the names, and the outputs, of the other."""
        match given:
            case State():
                known = given._replace(runs=tuple(self.seen(each, part) for each in given.runs))
                if not self.mixture.others:
                    return known
                own = {each for each in given.effective if self.parts[self.number(each)] is part}
                return known._replace(effective=frozenset(own))
            case Run():
                return given._replace(state=_name(given.state))
            case StepResult():
                return given._replace(following=given.following and _name(given.following))
            case str():
                return _name(given)
        return given

    def ask(self, check: str, *given: Any) -> Any:
        """Let the policy of a run check something."""
        part = self.of(next(each for each in given if isinstance(each, Run)).state)
        return getattr(part, check)(*(self.seen(each, part) for each in given))

    starts, steps, passes, ends = map(_asking, ("starts", "steps", "passes", "ends"))
    awaits, has_time, is_done = map(_asking, ("awaits", "has_time", "is_done"))

    def holds(self, before: Run, after: Run) -> Run:
        held = self.ask("holds", before, after)
        return after._replace(held=held.held, watched=held.watched)

    def may_need(self, state: State, removed: str, seconds: float) -> bool:
        part = self.parts[0]
        return part.may_need(self.seen(state, part), removed, seconds)

    def remembers(self, state: State, run: Run, step: StepResult) -> tuple[State, Run]:
        known, moved = self.ask("remembers", state, run, step)
        runs = (
            each._replace(in_line=new.in_line)
            for each, new in zip(state.runs, known.runs, strict=True)
        )
        moved = run._replace(in_line=moved.in_line, held=moved.held)
        return state._replace(runs=tuple(runs)), moved

    def writes(self, state: State, key: str, before: Stored | None, after: Stored) -> str | None:
        part = next(each for each in self.parts if isinstance(each, EveryVersion) != (key == KEY))
        return part.writes(self.seen(state, part), key, before, after)

    def owes(self, state: State, after: Stored | None) -> bool:
        event = self.scenario.number(dict(after.metadata)["sequencer"]) if after else 0
        return self.parts[self.number(event)].owes(state, after)

    def shows(self, state: State) -> set[int]:
        return set().union(*(part.shows(state) for part in self.parts))

    def rests(self, state: State) -> str | None:
        """Check each policy's own events; the one output is of the newest if that has had it."""
        for part in self.parts:
            events = part.scenario.events
            checked = isinstance(part, EveryVersion) or max(events) == self.scenario.last
            if checked and (wrong := part.rests(state)):
                return wrong
        return None


def _name(name: str) -> str:
    return name.removesuffix(OTHER)


def _view(engine: Engine, number: int) -> SimpleNamespace:
    """Give what a promise asks the engine, by the names in its own policy's file."""
    end = OTHER * number
    return SimpleNamespace(
        states={
            _name(name): state
            for name, state in engine.states.items()
            if name.endswith(OTHER) == bool(number)
        },
        seconds={_name(name): seconds for name, seconds in sorted(engine.seconds.items())},
        attempts=lambda name, error: engine.attempts(name + end, error),
    )


LATEST, EACH = LatestWins.definition, EveryVersion.definition
SLOWER = LATEST.replace('"poll_seconds": 6', '"poll_seconds": 7')  # so its lease is longer


def mixtures(**adversary: Any) -> Iterator[Mixture]:
    """Let two events meet: of two policies, either way round, or of two versions."""
    for other in (1, 2):
        scenario = Scenario((1, 2), contents="AA", **adversary)
        yield Mixture((LatestWins, EveryVersion), scenario, frozenset({other}))
    for events in ((1, 1), (1, 2)):
        yield Mixture((LatestWins, LatestWins), Scenario(events, **adversary), frozenset())


ONE_OF_THREE = Mixture(
    (LatestWins, EveryVersion), Scenario((1, 2, 3), contents="AAA"), frozenset({1, 3})
)
SHORT = (*mixtures(crashes=1, breaks=1), ONE_OF_THREE)
FULL = (*mixtures(crashes=1, faults=1), *mixtures(lates=1))


def found(engine: Engine, mixture: Mixture, first: str, second: str) -> Result:
    engine.load(first, second)
    return search(Mixed(engine, mixture), 100_000)


@pytest.mark.policy("latest-wins", "every-version")
@pytest.mark.parametrize(
    "mixture", SHORT + FULL * LONG, ids=lambda each: f"{each}; {each.scenario}"
)
def test_executions_of_two_policies_or_versions_keep_their_promises(
    engine: Engine, mixture: Mixture
) -> None:
    second = EACH if EveryVersion in mixture.policies else SLOWER
    found(engine, mixture, LATEST, second).assert_right()


def changed(definition: str, old: str, new: str) -> str:
    assert old in definition
    return definition.replace(old, new)


# The mixture of `SHORT`, what the first and the second file are, and what the search finds.
BREAKAGES = {
    "a claim removes the event that the other policy has recorded": (
        *(0, LATEST, changed(EACH, "REMOVE oldest_waiting", "REMOVE event, oldest_waiting")),
        "I1: all is quiet and the output was made from None, not from 2",
    ),
    "an attempt takes longer than the other version's lease": (
        *(3, LATEST, changed(LATEST, '"TimeoutSeconds": 62', '"TimeoutSeconds": 90')),
        "I5: 1a loses its lock while it works",
    ),
    "the other version's attribute has another name": (
        *(2, LATEST, changed(LATEST, '"#status": "status"', '"#status": "state"')),
        "I3: 1 is done and processed again",
    ),
    "the other version has no such outcome": (
        *(2, LATEST, changed(LATEST, '"Duplicate"', '"Repeated"')),
        "I4: 1a ends in Repeated, which is not true",
    ),
}


@pytest.mark.policy("latest-wins", "every-version")
@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_breakage_is_found(engine: Engine, breakage: str) -> None:
    mixture, first, second, problem = BREAKAGES[breakage]
    assert found(engine, SHORT[mixture], first, second).problem == problem
