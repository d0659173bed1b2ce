"""Searches what two policies, or a file before and after an edit, do at once with one table.

After a change of the parameter, what runs goes on under the policy before. latest-wins and
every-version are one file with two fences: they share the records, and their outputs have other
names.
"""

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
from tests.proof.model.scenario import A, B, Deletion, Scenario
from tests.proof.model.search import Result, search
from tests.proof.model.state import Run, State, Stored
from tests.proof.model.suite import LONG
from tests.support.replacing import replaced


class Mixture(NamedTuple):
    """Two policies or versions, and which events are delivered to the second one."""

    policies: tuple[type[Promise], type[Promise]]
    scenario: Scenario
    others: frozenset[int]  # empty if each event may be delivered to either

    def __str__(self) -> str:
        names = " and ".join(policy.__name__ for policy in self.policies)
        return f"{names} (with {sorted(self.others) or 'all'}); {self.scenario}"


def _asking(check: str) -> Any:
    return lambda mixed, *arguments: mixed.ask(check, *arguments)


class Mixed(Promise):
    """Each execution keeps the promise of its own policy, whatever the other policy's do."""

    def __init__(self, engine: Engine, mixture: Mixture) -> None:
        super().__init__(engine, mixture.scenario)
        self.mixture = mixture
        self.parts: list[Promise] = []
        for number, policy in enumerate(mixture.policies):
            events, others = mixture.scenario.events, mixture.others
            own = tuple(event for event in events if not others or self.number(event) == number)
            # Twice, because an execution may also wait for one of the other policy.
            scenario = replace(mixture.scenario, delivered=own * 2)
            self.parts.append(policy(_view(engine, number), scenario))

    def of(self, name: str) -> Promise:
        return self.parts[name.endswith(OTHER)]

    def number(self, event: int) -> int:
        return int(event in self.mixture.others)

    def first_states(self, event: int) -> list[str]:
        starts = self.engine.starts
        return [starts[self.number(event)]] if self.mixture.others else starts

    def seen(self, value: Any, part: Promise) -> Any:
        """Give something as a policy knows it: without the names, and the outputs, of the other."""
        match value:
            case State():
                seen = value._replace(runs=tuple(self.seen(member, part) for member in value.runs))
                if not self.mixture.others:
                    return seen
                own = {
                    member for member in value.effective if self.parts[self.number(member)] is part
                }
                return seen._replace(effective=frozenset(own))
            case Run():
                return value._replace(state=_name(value.state))
            case StepResult():
                return value._replace(following=value.following and _name(value.following))
            case str():
                return _name(value)
        return value

    def ask(self, check: str, *arguments: Any) -> Any:
        """Let the policy of a run check something."""
        part = self.of(next(argument for argument in arguments if isinstance(argument, Run)).state)
        return getattr(part, check)(*(self.seen(argument, part) for argument in arguments))

    check_start, check_task, check_waiting, check_outcome, is_done = map(
        _asking, ("check_start", "check_task", "check_waiting", "check_outcome", "is_done")
    )

    def writer(self, key: str) -> Promise:
        """Give the policy that an output is of, by the output's key."""
        return next(part for part in self.parts if isinstance(part, EveryVersion) != (key == KEY))

    def check_output(
        self, state: State, key: str, before: Stored | None, after: Stored
    ) -> str | None:
        writer = self.writer(key)
        return writer.check_output(self.seen(state, writer), key, before, after)

    def must_check_source(self, state: State, after: Stored | None) -> bool:
        return any(part.must_check_source(state, after) for part in self.parts)

    def shown_events(self, state: State) -> set[int]:
        return set().union(*(part.shown_events(state) for part in self.parts))

    def check_quiet(self, state: State) -> str | None:
        """Check that no event is lost and, if it is known who had it, that its output is right."""
        of_version = {self.scenario.version(event): event for event in sorted(self.scenario.events)}
        for event in of_version.values():
            if event not in state.done | state.parked | state.logged:
                return f"I4: all is quiet and {event} is neither done nor parked"
        for part in self.parts if self.mixture.others else ():
            is_checked = isinstance(part, EveryVersion) or part.scenario.last == self.scenario.last
            if is_checked and (wrong := part.check_quiet(state)):
                return wrong
        return self.check_released(state)


def _name(name: str) -> str:
    return name.removesuffix(OTHER)


def _view(engine: Engine, number: int) -> Any:
    """Give what a promise asks the engine, by the names in its own policy's file."""
    return SimpleNamespace(
        states={
            _name(name): state
            for name, state in engine.states.items()
            if name.endswith(OTHER) == bool(number)
        },
        attempts=lambda name, error: engine.attempts(name + OTHER * number, error),
    )


LATEST, EVERY = LatestWins.definition, EveryVersion.definition


def mixtures(**adversary: Any) -> Iterator[Mixture]:
    """Let the events of one version, or of two, meet under two policies, either way round."""
    same = Scenario([A], delivered=[1, 1], versioned=True, **adversary)
    yield Mixture((LatestWins, EveryVersion), same, frozenset())
    for changes in ([A, B], [A, Deletion(1)]):
        for other in (1, 2):
            scenario = Scenario(changes, versioned=True, **adversary)
            yield Mixture((LatestWins, EveryVersion), scenario, frozenset({other}))


ONE_OF_THREE = Mixture(
    (LatestWins, EveryVersion), Scenario([A, B, Deletion(1)], versioned=True), frozenset({1, 3})
)
SHORT = (*mixtures(), *mixtures(crashes=1))
FULL = (ONE_OF_THREE, *mixtures(crashes=1, faults=1), *mixtures(lates=1))


def search_mixture(engine: Engine, mixture: Mixture, first: str, second: str) -> Result:
    engine.load(first, second)
    return search(Mixed(engine, mixture), 400_000)


@pytest.mark.policy("latest-wins", "every-version")
@pytest.mark.parametrize("mixture", SHORT + FULL * LONG, ids=str)
def test_executions_of_two_policies_keep_their_promises(engine: Engine, mixture: Mixture) -> None:
    search_mixture(engine, mixture, LATEST, EVERY).assert_right()


TWO_VERSIONS = Mixture((LatestWins, LatestWins), Scenario([A], delivered=[1, 1]), frozenset())
# What an edit must not do while executions of the file before it run.
EDITS = {
    "an attribute of the records gets another name": (
        replaced(LATEST, '"#status": "status"', '"#status": "state"'),
        "I3: 1 is done and processed again",
    ),
    "an outcome gets another name": (
        replaced(LATEST, '"Duplicate"', '"Repeated"'),
        "I4: 1a ends in Repeated, which is not true",
    ),
    "the records get other names": (
        replaced(LATEST, "States.Format('{}/{}',", "States.Format('{}//{}',"),
        "I3: 1a works under another event's IDs",
    ),
}


@pytest.mark.policy("latest-wins")
def test_executions_of_one_file_twice_keep_their_promises(engine: Engine) -> None:
    search_mixture(engine, TWO_VERSIONS, LATEST, LATEST).assert_right()


@pytest.mark.policy("latest-wins")
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_that_breaks_the_file_before_is_found(engine: Engine, edit: str) -> None:
    second, problem = EDITS[edit]
    assert search_mixture(engine, TWO_VERSIONS, LATEST, second).problem == problem
