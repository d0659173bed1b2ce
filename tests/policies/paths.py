"""Ways through a state machine with every service mocked, which together take every transition.

They are random walks, made of the responses in the policy's table. The simulation's interpreter
tells where a response leads, so an engine that goes another way reads the ASL otherwise.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from inorder import PROJECT
from inorder.asl.definition import targets
from inorder.model.policies import asl_file
from tests.policies.table import RESPONSES, TIMED_OUT, Cases, Data
from tests.policies.tables import STATES, TABLES
from tests.proof.simulation.clock import Clock, ServiceError, Steps
from tests.proof.simulation.machine import Context, Execution, Machine
from tests.support.state_machines import substitute

# A walk polls so often at the most: once more than the last poll with a second attempt.
FEWER = {"maximum_polls": 9, "lease_polls": 3, "turn_polls": 2}
MOST_WALKS = 20_000

Responses = tuple[str, ...]


class PassedState(NamedTuple):
    """A state, the responses to the attempts of its Task, and the state that follows."""

    state: str
    responses: Responses
    following: str | None

    @property
    def shows(self) -> set[Any]:
        return {(self.state, self.responses), (self.state, self.following)}


@dataclass(frozen=True)
class Path:
    """A way through a state machine from an input."""

    event: Any
    steps: list[PassedState]

    @property
    def shows(self) -> set[Any]:
        return _all(step.shows for step in self.steps)

    def responses(self, *, of_attempts: bool = True) -> dict[str, list[str]]:
        """Give all responses of each Task, in order; or the first one whenever it is entered."""
        given: dict[str, list[str]] = defaultdict(list)
        for step in (each for each in self.steps if each.responses):
            given[step.state] += step.responses[: None if of_attempts else 1]
        return given


def mocked_definition(policy: str) -> str:
    """Read a policy's ASL file for mocked services, which cannot know a random lock token."""
    text = substitute(PROJECT / asl_file(policy), {})
    for limit, fewer in FEWER.items():
        text = re.sub(rf'"{limit}": \d+', f'"{limit}": {fewer}', text)
    return text.replace('"lock_token.$": "States.UUID()"', '"lock_token": "mine"')


@cache
def paths(policy: str) -> dict[str, Path]:
    """Make paths that have each transition, and each response to each Task."""
    walker, found = _Walker(policy), dict[str, Path]()
    missing = _all({(name, each) for each in all_} for name, all_ in walker.options.items())
    missing |= _all({(name, each) for each in targets(s)} for name, s in STATES[policy].items())
    for _ in range(MOST_WALKS):
        if not missing:
            break
        path = walker.walk()
        if new := path.shows & missing:
            found[_name(path, new)] = path
            missing -= new
    assert not missing, f"{policy}: no walk has {sorted(missing, key=str)}"
    return dict(_needed(found))


def _all(parts: Iterable[set[Any]]) -> set[Any]:
    return set[Any]().union(*parts)


def _options(table: Cases) -> dict[str, list[Responses]]:
    """List the responses to each Task, the same in all attempts."""
    options: dict[str, list[Responses]] = defaultdict(list)
    for way in table.ways:
        if way.response and way.response != TIMED_OUT:
            options[way.state].append((way.response,) * way.attempts)
    return options


def _name(path: Path, new: set[Any]) -> str:
    """Name a path, with letters and digits only, by the first step that no other has."""
    step = next(each for each in path.steps if each.shows & new)
    way = "".join(step.responses[:1]) or f"Then{step.following}"
    return re.sub(r"\W", "", step.state + way)


def _needed(found: dict[str, Path]) -> Iterable[tuple[str, Path]]:
    """Leave out the paths of which others show everything; the first ones show the least."""
    for name, path in list(found.items()):
        if path.shows <= _all(each.shows for other, each in found.items() if other != name):
            del found[name]
    return found.items()


class _Walker:
    """Runs a state machine, and answers for its services at random."""

    ended: tuple[str | None, Any]  # the state that follows the last one, and its output

    def __init__(self, policy: str) -> None:
        self._chance = random.Random(policy)  # noqa: S311
        self._events = TABLES[policy].events
        self.options = _options(TABLES[policy])
        self._machine = Machine(json.loads(mocked_definition(policy)))
        self.clock = Clock(0)
        self._left: list[str] = []

    def walk(self) -> Path:
        event = self._chance.choice(self._events)
        name, data, steps = self._machine.start, event, list[PassedState]()
        context, last = Context(Execution("test", event, 0), self.clock, ""), dict[str, Responses]()
        while True:
            # The same again, often: a lease is over after some polls that see the same.
            if name not in last or self._chance.random() < 0.3:
                last[name] = self._chance.choice(self.options.get(name, [()]))
            self._left = list(last[name])
            list(self._run(name, data, context))
            following, data = self.ended
            assert not self._left, f"{name} makes no attempt that gets {self._left}"
            steps.append(PassedState(name, last[name], following))
            if following is None:
                return Path(event, steps)
            name = following

    def call(self, resource: str, parameters: Data, seconds: float) -> Steps:  # noqa: ARG002
        [(kind, content)] = RESPONSES[self._left.pop(0)].items()
        if kind == "Throw":
            raise ServiceError(content["Error"], content["Cause"])
        yield from ()
        return content

    def dies(self, execution: Execution, state: str) -> bool:  # noqa: ARG002
        return False

    def _run(self, name: str, data: Any, context: Context) -> Steps:
        """Run a state; who iterates lets no time pass."""
        self.ended = yield from self._machine.states[name].run(data, context, self)


if __name__ == "__main__":
    sys.stdout.write(mocked_definition(sys.argv[1]))
