"""Names executions anew, so that states that differ in names only are equal.

Names are only compared with each other. So any names may stand for any others of the same event, as
long as they differ.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from string import ascii_lowercase
from typing import Any

from tests.proof.model.state import Run, State

_NAME = re.compile(r"\b[1-9][a-z]\b")
_GONE = "gone"  # a name in a lock that is there no more, and that nobody will take again


def free_name(state: State, event: int) -> str | None:
    """Name an execution as no other one that anything in a state refers to.

    It is None if there are more than a search of anything right has.
    """
    known = set(
        _NAME.findall(repr((state.items, state.runs, state.broken, state.known, state.late)))
    )
    names = (f"{event}{letter}" for letter in ascii_lowercase)
    return next((name for name in names if name not in known), None)


def renamed(state: State) -> State:
    """Name the executions of each event in the order of what they do."""
    named = (state.items, state.runs, state.late, state.known, state.broken)
    if (new := _renamed(*named)) == named:
        return state
    items, runs, late, known, broken = new
    return state._replace(items=items, runs=runs, late=late, known=known, broken=broken)


@functools.lru_cache(maxsize=100_000)
def _renamed(
    items: tuple[tuple[str, str], ...],
    runs: tuple[Run, ...],
    late: tuple[Run, ...],
    known: tuple[Any, ...],
    broken: frozenset[str],
) -> tuple[Any, ...]:
    kept = _all_names(item for _, item in items)
    used = kept | {run.execution for run in (*runs, *late)} | {name for name, *_ in known}
    does: dict[str, list[Any]] = {name: [] for name in used}
    for run in (*runs, *late):
        does[run.execution].append(_masked(run))
    new: dict[str, str] = {}
    letters = dict.fromkeys("123456789", 0)
    for name in sorted(used, key=lambda each: (each not in kept, does[each], each)):
        new[name] = f"{name[0]}{ascii_lowercase[letters[name[0]]]}"
        letters[name[0]] += 1
    texts = (text for run in (*runs, *late) for text in (run.data, run.locked or ""))
    others = _all_names((*texts, *broken))
    if others <= used and all(name == other for name, other in new.items()):
        return items, runs, late, known, broken

    def rename(text: str) -> str:
        return _NAME.sub(lambda found: new.get(found[0], _GONE), text)

    def rename_run(run: Run) -> Run:
        locked = run.locked and rename(run.locked)
        return run._replace(execution=new[run.execution], data=rename(run.data), locked=locked)

    return (
        tuple((key, rename(item)) for key, item in items),
        tuple(sorted(map(rename_run, runs), key=lambda run: run[:2])),
        tuple(sorted(map(rename_run, late))),
        tuple(sorted((new[name], what, number) for name, what, number in known)),
        frozenset(map(rename, broken)),
    )


def _all_names(texts: Iterable[str]) -> set[str]:
    return set().union(*map(_names, texts))


@functools.lru_cache(maxsize=100_000)
def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text))


@functools.lru_cache(maxsize=100_000)
def _masked(run: Run) -> tuple[Any, ...]:
    """Tell what a run does, without its name."""
    data, locked = (text.replace(run.execution, "") for text in (run.data, run.locked or ""))
    answers = tuple(map(repr, run.answers))
    return (
        run.state,
        data,
        run.more,
        run.number,
        locked,
        answers,
        run.tried,
        *run[run._fields.index("in_line") :],
    )
