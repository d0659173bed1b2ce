"""Is every path present where it is read? An absent one ends an execution, and no Catch sees it."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from inorder.asl.definition import INVOKE, SEND, UPDATE, Json, Rule, Violation, paths, payload
from inorder.asl.flow import Flow
from inorder.asl.roles import HANDS_OVER, OWN_LOCK, Role, assigned, does, doing, removed

DataPath = tuple[str, ...]
# Paths that are surely present, each with all its parents. Paths of the context begin with "$$".
Known = frozenset[DataPath]
INPUT: DataPath = ("$$", "Execution", "Input")

# What a Task's result surely has. GetItem answers without Item if the record does not exist.
RESULTS = {INVOKE: "Payload", SEND: "MessageId"}

_STEP = re.compile(r"\.([\w-]+)|\['([^']+)'\]|\[(\d+)\]")


def _guard(definition: Json) -> Iterator[Violation]:
    """Find paths that may be absent where they are read.

    A path is known to be present if on every way to the state it was tested by IsPresent, or
    compared, or written: by a Pass, by a Task whose result surely has it, or by a Catch. An update
    that returns a record surely returns what it sets and, if the lock must be its own, what the
    claim has set. Nothing is known of what else a Task reads, nor of the execution's input: what
    the first state finds there may be read later as ``$$.Execution.Input``. In a file that parks no
    event only comparisons are checked: it promises nothing for the events that it loses.
    """
    flow = _Presence(definition)
    inputs = flow.inputs(frozenset([()]))
    parks = doing(flow.states, *HANDS_OVER)
    for name, known in sorted(inputs.items()):
        state, absent = flow.states[name], flow.absent.get(name, set())
        if parks:
            seen = flow.at(known, state.get("InputPath", "$"))
            reads = paths(*payload(state.get("Parameters")))
            for field in set(state) - {"InputPath", "OutputPath", "ResultPath"}:
                reads += paths(state[field]) if field.endswith("Path") else []
            absent |= {path for path in reads if not _is_known(path, seen)}
            selected = paths(*payload(state.get("ResultSelector")))
            absent |= {path for path in selected if not _is_known(path, flow.result(state))}
        for path in sorted(absent):
            yield name, f"reads {path}, which may be absent"


class _Presence(Flow[Known]):
    unknown = frozenset([()])

    def __init__(self, definition: Json) -> None:
        super().__init__(definition)
        # What a state compares without knowing it. What is known only shrinks, so it stays absent.
        self.absent: dict[str, set[str]] = {}

    def at(self, known: Known, path: str | None) -> Known:
        steps = _path(path)
        inside = [each[len(steps) :] for each in known if each[: len(steps)] == steps]
        return frozenset([(), *inside]) | _context(known)

    def value(self, expression: str, known: Known) -> Known:
        return self.at(known, expression)

    def literal(self, _value: Any) -> Known:
        return self.unknown

    def fields(self, made: dict[str, Known]) -> Known:
        inside = [(name, *path) for name, each in made.items() for path in each - _context(each)]
        return frozenset([(), *inside])

    def placed(self, known: Known, path: str, value: Known) -> Known:
        steps = _path(path)
        others = [each for each in known - _context(known) if each[: len(steps)] != steps]
        added = [steps + each for each in value - _context(value)]
        return _with_parents([*others, *added]) | _context(known)

    def result(self, state: Json) -> Known:
        parameters = state.get("Parameters", {})
        if state.get("Resource") == UPDATE and parameters.get("ReturnValues") == "ALL_NEW":
            found = _updated(state)
            condition = parameters.get("ConditionExpression", "")
            if OWN_LOCK in condition.split(" AND ") and " OR " not in condition:
                found |= self._claimed()
            return _with_parents(("Attributes", *path) for path in found)
        field = RESULTS.get(state.get("Resource", ""))
        return _with_parents([(field,)] if field else [()])

    def judge(self, name: str, condition: Json, known: Known) -> tuple[Known, Known]:
        read = [condition["Variable"], *(condition[at] for at in condition if at.endswith("Path"))]
        learned = [_path(each) for each in read]
        if name == self.start:  # no state leads there, so its data is the execution's input
            learned += [INPUT + path for path in learned]
        read_then = known | _with_parents(learned)
        if "IsPresent" in condition:
            return (read_then, known) if condition["IsPresent"] else (known, read_then)
        absent = {path for path in read if not _is_known(path, known)}
        self.absent[name] = self.absent.get(name, set()) | absent
        return read_then, read_then

    def join(self, one: Known, other: Known) -> Known:
        return one & other

    def _claimed(self) -> set[DataPath]:
        """Tell which attributes a record has whose lock is this execution's: what a claim sets."""
        updates = [each for each in self.states.values() if each.get("Resource") == UPDATE]
        claims = [_updated(each) for each in updates if does(each, Role.CLAIMS)]
        gone = {name for each in updates for name in removed(each)}
        common = set.intersection(*claims) if claims else set()
        return {path for path in common if path[0] not in gone}


def _updated(state: Json) -> set[DataPath]:
    """Tell what a record surely has after an update: each attribute that it sets, and its type.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_UpdateItem.html
    """
    values = assigned(state).items()
    return {(name, kind.removesuffix(".$")) for name, typed in values for kind in typed}


def _context(known: Known) -> Known:
    return frozenset(each for each in known if each[:1] == INPUT[:1])


def _with_parents(data_paths: Iterable[DataPath]) -> Known:
    return frozenset(path[:length] for path in data_paths for length in range(len(path) + 1))


def _path(text: str | None) -> DataPath:
    """Take a path apart. Of one that is not plain, or no path at all, nothing is ever known."""
    root, steps = ("$$",) if str(text).startswith("$$") else (), str(text).lstrip("$")
    if not str(text).startswith("$") or _STEP.sub("", steps):
        return (str(text),)
    return root + tuple("".join(step) for step in _STEP.findall(steps))


def _is_known(path: str, known: Known) -> bool:
    found = _path(path)
    is_other_context = found[:1] == INPUT[:1] and (found[:3] != INPUT or found == INPUT)
    return is_other_context or found in known


RULES: dict[str, Rule] = {"guard": _guard}
