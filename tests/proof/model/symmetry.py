"""Names executions anew, so that states that differ in names only are equal.

Names are only compared with each other. So any names may stand for any others of the same event, as
long as they differ.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.proof.model.explorer import Run, State

_NAME = re.compile(r"\b[1-9][a-z]\b")
_GONE = "gone"  # a name in a lock that is there no more, and that nobody will take again


def free_name(state: State, event: int) -> str | None:
    """Name an execution as no other one that anything in a state refers to.

    Returns
    -------
    str or None
        None if there are more than a search of anything right has.
    """
    known = set(
        _NAME.findall(repr((state.items, state.runs, state.broken, state.known, state.late)))
    )
    names = (f"{event}{letter}" for letter in ascii_lowercase)
    return next((name for name in names if name not in known), None)


def renamed(state: State) -> State:
    """Name the executions of each event in the order of what they do."""
    kept = _all_names(item for _, item in state.items)
    used = kept | {run.execution for run in (*state.runs, *state.late)}
    used |= {name for name, *_ in state.known}
    does: dict[str, list[Any]] = {name: [] for name in used}
    for run in (*state.runs, *state.late):
        does[run.execution].append(_masked(run))
    new: dict[str, str] = {}
    letters = dict.fromkeys("123456789", 0)
    for name in sorted(used, key=lambda each: (each not in kept, does[each], each)):
        new[name] = f"{name[0]}{ascii_lowercase[letters[name[0]]]}"
        letters[name[0]] += 1
    texts = (text for run in (*state.runs, *state.late) for text in (run.data, run.locked or ""))
    others = _all_names(texts) | _all_names(state.broken)
    if others <= used and all(name == other for name, other in new.items()):
        return state

    def rename(text: str) -> str:
        return _NAME.sub(lambda found: new.get(found[0], _GONE), text)

    def rename_run(run: Run) -> Run:
        locked = run.locked and rename(run.locked)
        return run._replace(execution=new[run.execution], data=rename(run.data), locked=locked)

    return state._replace(
        items=tuple((key, rename(item)) for key, item in state.items),
        runs=tuple(
            sorted(map(rename_run, state.runs), key=lambda run: (run.execution, run.number))
        ),
        late=tuple(sorted(map(rename_run, state.late))),
        broken=frozenset(map(rename, state.broken)),
        known=tuple(sorted((new[name], what, number) for name, what, number in state.known)),
    )


@functools.lru_cache(maxsize=100_000)
def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text))


def _all_names(texts: Iterable[str]) -> set[str]:
    return set().union(*map(_names, texts))


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
