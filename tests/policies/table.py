"""What the table of a policy has, ``tests/policies/<policy>/cases.py``.

`test_states` runs it through TestState. `paths` makes ways through the state machine of it, which
`test_paths` takes on ministack, and `mock_config` writes for Step Functions Local.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Data = dict[str, Any]
# What follows each state that is no Choice, or "" at an end: "Sent: Parked; Busy*2 TimedOut: Lost"
# by the responses to its Task. "Busy*2" is the answer to each of two attempts. The engine itself
# makes "TimedOut".
Flow = Mapping[str, str]


class Row(NamedTuple):
    """A state, its input, and the state that follows; a Task also has a response."""

    state: str
    input: Any
    following: str | None
    response: str = ""


class Output(NamedTuple):
    """A state, its input and output, a Task's response, and the event if not the table's."""

    state: str
    input: Any
    output: Any
    response: str = ""
    event: Any = None


class Write(NamedTuple):
    """A Task that writes, and the record before and after, without its ID; None is no record."""

    state: str
    before: Data | None
    after: Data | None
    is_refused: bool = False


class Way(NamedTuple):
    """What follows a state after a response to each of some attempts."""

    state: str
    response: str
    attempts: int
    following: str | None


@dataclass(frozen=True)
class Cases:
    """The table of a policy.

    `data` is input that suits every state but the Choices, and `events` are inputs of executions.
    There is what follows each Choice and each other state, what each Pass gives and each Task whose
    result is read later, and what conditional writes change.
    """

    data: Data
    choices: list[Row]
    flow: Flow
    outputs: list[Output]
    writes: list[Write]
    events: list[Any]

    @property
    def event(self) -> Any:
        return self.events[0]

    @property
    def ways(self) -> Iterator[Way]:
        for state, follows in self.flow.items():
            for part in follows.split("; "):
                responses, _, following = part.rpartition(": ")
                for told in responses.split() or [""]:
                    response, _, attempts = told.partition("*")
                    yield Way(state, response, int(attempts or 1), following or None)

    @property
    def rows(self) -> list[Row]:
        others = (Row(way.state, self.data, way.following, way.response) for way in self.ways)
        return [*self.choices, *others]
