"""Searches every interleaving of the executions of a few events of one object.

A policy's `Promise` says what must hold in each state; `Explorer` lists the moves.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.proof.model.executions import ENDLESS
from tests.proof.model.explorer import Explorer
from tests.proof.model.promise import Promise
from tests.proof.model.state import State, renamed

LONGEST = 400  # steps of a path; the shipped state machines need at most 300
STUCK = "I7: from here, nothing leads to a state in which all is quiet and right"


@dataclass(frozen=True)
class Result:
    """What a search found: what is wrong at the end of the trace, or nothing."""

    states: int
    transitions: int
    depth: int
    problem: str | None = None
    trace: tuple[str, ...] = ()
    ended: bool = True  # it has seen all states that there are

    def assert_right(self) -> None:
        """Fail unless all states were seen, and nothing is wrong; with `-rP`, print the sizes."""
        print(self)  # noqa: T201
        assert (self.problem, self.ended) == (None, True)

    def __str__(self) -> str:
        searched = f"{self.states} states, {self.transitions} transitions, depth {self.depth}"
        if self.ended and not self.problem:
            return searched
        problem = self.problem or "The search found nothing, but has not ended; it is here:"
        return "\n".join((problem, *self.trace, f"({searched})"))


class Search:
    """Searches breadth first for the shortest path to a violation.

    Then it searches for a path without an end, and for a state from which there is no good end.
    """

    def __init__(self, promise: Promise) -> None:
        self._explorer = Explorer(promise)
        first = self._explorer.first()
        self._numbers = {first: 0}
        self._states = [first]
        self._came = [(0, "")]  # the state before, and what happened
        self._edges = array("L")  # pairs of states, one of which follows the other
        self._may_repeat = bytearray()  # of each pair, whether the move may come back to a state
        self._transitions = self._depth = 0

    def run(self, limit: int) -> Result:
        """Search until there is a violation, or no more state, or so many states."""
        at = level = 0  # `level` is the last state that is so many steps from the first
        while at < len(self._states) < limit:
            if wrong := self._visit(at):
                return self._result(at, *wrong)
            if at == level:
                self._depth, level = self._depth + 1, len(self._states) - 1
            at += 1
        if at < len(self._states):
            return self._result(at)
        if circle := self._circle():
            return self._result(circle[0], ENDLESS, *circle[1])
        if (stuck := self._stuck()) is not None:
            return self._result(stuck, STUCK)
        return self._result(0)

    def _visit(self, at: int) -> tuple[str, str] | None:
        """Make all moves of a state; give what is wrong, and the move that leads to it."""
        moved = False
        for label, state, number, problem in self._moves(at):
            if number == at:
                continue
            moved = True
            self._transitions += 1
            if problem:
                return problem, label
            if number == len(self._states):
                self._states.append(state)
                self._came.append((at, label))
                if wrong := self._explorer.judge(state):
                    return wrong, label
            self._edges.extend((at, number))
            self._may_repeat.append(may_repeat(label))
        here = self._states[at]
        if not moved and (here.runs or here.waiting):
            return "I5: nothing can go on", ""
        return (ENDLESS, "") if self._depth > LONGEST else None

    def _moves(self, at: int) -> Iterator[tuple[str, State, int, str | None]]:
        """List the moves of a state, and the numbers of the states that they lead to."""
        for label, state, problem in self._explorer.moves(self._states[at]):
            same = renamed(state)
            yield label, same, self._numbers.setdefault(same, len(self._states)), problem

    def _circle(self) -> tuple[int, list[str]] | None:
        """Find a path that comes back to the state in which it begins, and its moves."""
        first, before = self._before(repeats=False)
        left = array("L", bytes(8 * len(self._states)))  # how many states follow, of those not gone
        for at, _, is_left_out in self._pairs():
            left[at] += not is_left_out
        todo = [at for at, states in enumerate(left) if not states]
        while todo:
            to = todo.pop()
            for at in before[first[to] : first[to + 1]]:
                left[at] -= 1
                if not left[at]:
                    todo.append(at)
        start = next((at for at, states in enumerate(left) if states), None)
        return None if start is None else self._follow(start, left)

    def _follow(self, at: int, left: Sequence[int]) -> tuple[int, list[str]]:
        """Go on from a state, to others that are left, until one comes again."""
        passed, labels = dict[int, int](), list[str]()
        while at not in passed:
            passed[at] = len(labels)
            label, at = next(
                (label, number)
                for label, _, number, _ in self._moves(at)
                if number != at and left[number] and not may_repeat(label)
            )
            labels.append(label)
        return at, labels[passed[at] :]

    def _stuck(self) -> int | None:
        """Find the nearest state from which no good one can be reached."""
        first, before = self._before(repeats=True)
        todo = [at for at, state in enumerate(self._states) if self._explorer.is_good(state)]
        ends_well = bytearray(len(self._states))
        for at in todo:
            ends_well[at] = True
        while todo:
            to = todo.pop()
            for at in before[first[to] : first[to + 1]]:
                if not ends_well[at]:
                    ends_well[at] = True
                    todo.append(at)
        return next((at for at, is_good in enumerate(ends_well) if not is_good), None)

    def _before(self, repeats: bool) -> tuple[Sequence[int], Sequence[int]]:
        """List the states before each state, one after the other, and where each one's begin.

        There are millions, for which lists of lists would need gigabytes. `repeats` says whether
        the moves that may come back to a state count.
        """
        first = array("L", bytes(8 * (len(self._states) + 1)))
        for _, to, is_left_out in self._pairs():
            first[to + 1] += repeats or not is_left_out
        for to in range(len(self._states)):
            first[to + 1] += first[to]
        before, free = array("L", bytes(8 * first[-1])), first[:]
        for at, to, is_left_out in self._pairs():
            if repeats or not is_left_out:
                before[free[to]] = at
                free[to] += 1
        return first, before

    def _pairs(self) -> Iterator[tuple[int, int, int]]:
        return zip(self._edges[::2], self._edges[1::2], self._may_repeat, strict=True)

    def _result(self, at: int, problem: str | None = None, *labels: str) -> Result:
        trace = [*reversed(labels)]
        ended = at == 0 or problem is not None
        while at:
            at, label = self._came[at]
            trace.append(label)
        sizes = (len(self._states), self._transitions, self._depth)
        return Result(*sizes, problem, tuple(reversed(trace)), ended)


def may_repeat(label: str) -> bool:
    """Tell whether a move may come back to a state.

    Polls are repeats, so waiting ends, but here one count stands for many; and what may be
    unreadable as often as it likes may be so for ever. An event that has waited in vain is retried,
    as often as it takes until a sweep frees a dead execution's lock: `STUCK` says if none does.
    """
    return any(repeat in label for repeat in (": later ", ": for the last time ", " cannot read"))


def search(promise: Promise, limit: int) -> Result:
    """Search the states of a promise's scenario, `limit` at most, for a violation."""
    return Search(promise).run(limit)
