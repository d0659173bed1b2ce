"""What a state of a search has, and what it remembers for the promise."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from string import ascii_lowercase
from typing import Any, NamedTuple, TypeVar

from tests.proof.model.engine import Metadata, S3Answer, read

# What an execution has done to tables and queues: nothing; something; it has recorded its event in
# a table, and so in an index; it has sent its event to a queue.
NOTHING, ACTED, RECORDED, SENT = range(4)
Part = TypeVar("Part")


class Arrival(NamedTuple):
    """An execution that will start."""

    event: int  # its number
    more: str = "{}"  # the fields, as JSON, that `retry_events` has added to the event

    @property
    def label(self) -> str:
        return "retried" if "retry" in read(self.more) else "delivered"


class Run(NamedTuple):
    """A live run of an execution, which may be restarted and then has several."""

    execution: str
    number: int
    event: int
    more: str  # as in its `Arrival`
    state: str
    data: str
    answers: tuple[S3Answer, ...] = ()  # what its function has received from S3 so far
    tried: tuple[int, ...] = ()  # the retriers of the state that it has used
    done: int = NOTHING  # the most that it has done
    refused: int = 0  # how often its event could not be sent
    waited: bool = False  # it has waited, in a scenario in which that makes a difference

    @property
    def token(self) -> str:
        return f"token of {self.execution}, run {self.number}"

    def owns(self, token: str | None) -> bool:
        """Tell whether a lock is this run's."""
        return token == self.token


class Orphan(NamedTuple):
    """An invocation of the function whose execution no longer waits for it.

    It may stop although it owes a check of the source, if its execution has invoked the function
    again. Otherwise it must go on: the product does not withstand a function that stalls, is
    abandoned, and then dies between its write and the check.
    """

    event: str
    answers: tuple[S3Answer, ...]
    may_stop: bool = False

    @property
    def owes(self) -> bool:
        return not self.may_stop and any(answer.owes for answer in self.answers)


class Stored(NamedTuple):
    """An output's content and metadata. Its ETag is its content's, as in S3."""

    content: str
    metadata: Metadata

    @property
    def etag(self) -> str:
        return f'"{self.content}"'


class State(NamedTuple):
    """A state of the search; the numbers are what the adversary may still do."""

    waiting: tuple[Arrival, ...]  # what will be delivered
    items: tuple[tuple[str, str], ...]
    crashes: int
    restarts: int
    faults: int
    refusals: int
    repeats: int
    expiries: int
    starts: int
    lates: int
    sweeps: int
    transient: tuple[str, ...]
    happened: int = 0  # how much of the object's history has happened
    outputs: tuple[tuple[str, Stored], ...] = ()
    parked: frozenset[int] = frozenset()
    runs: tuple[Run, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    late: tuple[Run, ...] = ()  # writes that will take effect, as the run that made each was before
    swept: tuple[tuple[str, str], ...] = ()  # a record that a sweep has read, and will hand over
    # What may be restarted: name, delivery, number of runs.
    restartable: tuple[tuple[str, Arrival, int], ...] = ()
    # What the promise refers to:
    # - events whose work is marked as done, or that the outputs have shown at some time
    done: frozenset[int] = frozenset()
    effective: frozenset[int] = frozenset()
    # - events of failed executions that are in no record and no queue: only the log has them
    logged: frozenset[int] = frozenset()

    @property
    def is_quiet(self) -> bool:
        owing = any(orphan.owes for orphan in self.orphans)
        return not (self.runs or self.waiting or owing)

    def item(self, key: str) -> str | None:
        return dict(self.items).get(key)

    def spend(self, budget: str) -> State:
        return self._replace(**{budget: getattr(self, budget) - 1})

    def without(self, run: Run) -> State:
        return self._replace(runs=less(self.runs, run))

    def with_run(self, run: Run) -> State:
        return self._replace(runs=tuple(sorted((*self.runs, run), key=lambda other: other[:2])))

    def with_delivery(self, delivery: Arrival) -> State:
        return self._replace(waiting=tuple(sorted((*self.waiting, delivery))))

    def with_orphans(self, orphans: Iterable[Orphan]) -> State:
        return self._replace(orphans=tuple(sorted(set(orphans), key=repr)))


def less(parts: tuple[Part, ...], one: Part) -> tuple[Part, ...]:
    """Leave out one of several parts, which may be equal."""
    at = parts.index(one)
    return (*parts[:at], *parts[at + 1 :])


Move = tuple[str, State, str | None]  # what happens, the next state, what is wrong with it


def attribute(item: str | None, name: str) -> str | None:
    """Read an attribute of a record, which is a string."""
    value: str | None = read(item or "{}").get(name, {}).get("S")
    return value


# Names are only compared with each other. So any names may stand for any others of the same event,
# as long as they differ, and states that differ in names only are equal.

_NAME = re.compile(r"\b[1-9][a-z]\b")
_GONE = "gone"  # a name in a lock that is there no more, and that nobody will take again


def free_name(state: State, event: int) -> str | None:
    """Name an execution as no other one that anything in a state refers to.

    It is None if there are more than a search of anything right has.
    """
    referring = (state.items, state.swept, state.runs, state.restartable, state.late)
    taken = set(_NAME.findall(repr(referring)))
    names = (f"{event}{letter}" for letter in ascii_lowercase)
    return next((name for name in names if name not in taken), None)


def renamed(state: State) -> State:
    """Name the executions of each event in the order of what they do."""
    named = (state.items, state.swept, state.runs, state.late, state.restartable)
    new = _renamed(*named)
    fields = ("items", "swept", "runs", "late", "restartable")
    return state if new == named else state._replace(**dict(zip(fields, new, strict=True)))


@functools.lru_cache(maxsize=100_000)
def _renamed(
    items: tuple[tuple[str, str], ...],
    swept: tuple[tuple[str, str], ...],
    runs: tuple[Run, ...],
    late: tuple[Run, ...],
    restartable: tuple[Any, ...],
) -> tuple[Any, ...]:
    kept = _all_names(item for _, item in (*items, *swept))
    used = kept | {run.execution for run in (*runs, *late)} | {name for name, *_ in restartable}
    does: dict[str, list[Any]] = {name: [] for name in used}
    for run in (*runs, *late):
        does[run.execution].append(_masked(run))
    new: dict[str, str] = {}
    letters = dict.fromkeys("123456789", 0)
    for name in sorted(used, key=lambda name: (name not in kept, does[name], name)):
        new[name] = f"{name[0]}{ascii_lowercase[letters[name[0]]]}"
        letters[name[0]] += 1
    others = _all_names(run.data for run in (*runs, *late))
    if others <= used and all(name == other for name, other in new.items()):
        return items, swept, runs, late, restartable

    def rename(text: str) -> str:
        return _NAME.sub(lambda match: new.get(match[0], _GONE), text)

    def rename_run(run: Run) -> Run:
        return run._replace(execution=new[run.execution], data=rename(run.data))

    return (
        tuple((key, rename(item)) for key, item in items),
        tuple((key, rename(item)) for key, item in swept),
        tuple(sorted(map(rename_run, runs), key=lambda run: run[:2])),
        tuple(sorted(map(rename_run, late))),
        tuple(sorted((new[name], arrival, number) for name, arrival, number in restartable)),
    )


def _all_names(texts: Iterable[str]) -> set[str]:
    return set().union(*map(_names, texts))


@functools.lru_cache(maxsize=100_000)
def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text))


@functools.lru_cache(maxsize=100_000)
def _masked(run: Run) -> tuple[Any, ...]:
    """Tell what a run does, without its name."""
    data = "".join(run.data.split(run.execution))
    answers = tuple(map(repr, run.answers))
    does = run._replace(execution="", data=data, answers=())
    return (run.state, data, run.more, run.number, answers, *does)
