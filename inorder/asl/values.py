"""What is known of a value: what it is, or where it is from and how large it may be."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

DataPath = tuple[str, ...]

# The name under which an object has all fields that it does not name.
REST = ""
SHORT_BYTES = 1_024  # an S3 key has at most 1,024 bytes, and an ARN or a time has fewer
# https://docs.aws.amazon.com/step-functions/latest/apireference/API_TaskFailedEventDetails.html
ERROR_CHARACTERS, CAUSE_CHARACTERS = 256, 32_768

_STEP = re.compile(r"\.([\w-]+)|\['([^']+)'\]|\[(\d+)\]")


class Size(NamedTuple):
    """The most bytes of a value as JSON: so many events, and answers of functions, and others."""

    events: int = 0
    answers: int = 0
    other: int = 0


@dataclass(frozen=True)
class Unknown:
    """A value that the file does not write: how large it may be, and where it is from.

    The source is the execution's input, or the state that has made it, and the path there; () if
    nothing is known of its fields.
    """

    size: Size
    source: DataPath = ()


class Fields(frozenset[tuple[str, Any]]):
    """An object, or a list: the names and values of its fields.

    All others are those of the value under `REST`, if it is there.
    """


SHORT = Unknown(Size(other=SHORT_BYTES))
EVENT = Unknown(Size(events=1), ("$$.Execution.Input",))
FAULT = Fields(
    (name, Unknown(Size(other=most)))
    for name, most in (("Error", ERROR_CHARACTERS), ("Cause", CAUSE_CHARACTERS))
)


@cache
def steps_of(path: str) -> DataPath | None:
    """Take a path apart, without its root; None if it is not plain."""
    steps = path.lstrip("$")
    return None if _STEP.sub("", steps) else tuple("".join(step) for step in _STEP.findall(steps))


def unknown(value: Any) -> Iterator[Unknown]:
    """List the unknown values in a value."""
    if isinstance(value, Fields):
        for _, part in value:
            yield from unknown(part)
    elif isinstance(value, Unknown):
        yield value


def sources(value: Any) -> set[str]:
    """List where the unknown values in a value are from."""
    return {part.source[0] for part in unknown(value) if part.source}


def without_source(value: Any, name: str) -> Any:
    """Forget that values are from a source."""
    if isinstance(value, Fields):
        return Fields((field, without_source(part, name)) for field, part in value)
    is_from = isinstance(value, Unknown) and value.source[:1] == (name,)
    return Unknown(value.size) if is_from else value


@lru_cache(maxsize=10_000)  # many states hand on the same data
def size_of(value: Any) -> Size:
    """Tell the most bytes of a value as JSON.

    Parts of one answer of a function, of which none is in another, are together as large as it.
    """
    parts = [*unknown(value)]
    events = sum(part.size.events for part in parts)
    other = _written(value) + sum(part.size.other for part in parts)
    answers = sum(part.size.answers for part in parts if not part.source)
    for name in sources(value):
        ways = [part.source for part in parts if part.source[:1] == (name,) and part.size.answers]
        answers += max((sum(way[: len(base)] == base for base in ways) for way in ways), default=0)
    return Size(events, answers, other)


def _written(value: Any) -> int:
    """Count the bytes of what the file itself writes."""
    if isinstance(value, Fields):
        return 2 + sum(len(json.dumps(name)) + 2 + _written(part) for name, part in value)
    return 0 if isinstance(value, Unknown) else len(json.dumps(value))
