"""The key table, for the DynamoDB expressions that the shipped files use."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from inorder_fence.stuck import INDEX, SINCE
from tests.proof.simulation.clock import Clock, ServiceError

# Of records in one partition, so of one record, in a second. A refused write costs a unit, too.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
WRITES_A_SECOND = 1_000
THROTTLED = "DynamoDB.ProvisionedThroughputExceededException"
Json = dict[str, Any]
Names = tuple[tuple[str, str], ...]

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CLAUSE = re.compile(
    r"attribute_(?P<exists>exists|not_exists)\((?P<name>[\w#]+)\)"
    r"|begins_with\((?P<text>[\w#]+), (?P<start>:\w+)\)"
    r"|(?P<one>[\w#]+) (?P<compare>[<=>]+) (?P<other>:\w+)"
)
_UPDATE = re.compile(r"(?:SET (.+?))?(?: ?REMOVE ([\w#, ]+))?")
_ASSIGNMENT = re.compile(r"([\w#]+) = (?:if_not_exists\(([\w#]+), (:\w+)\)|(:\w+))(?:, |$)")


class Table:
    """The records by their IDs, for a state machine, and as boto3's client for a function."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.exceptions = SimpleNamespace(ConditionalCheckFailedException=ServiceError)
        self.items: dict[str, Json] = {}
        self._written: dict[str, tuple[int, int]] = {}  # the last second, and the writes in it

    # For a state machine

    def call(self, operation: str, request: Json) -> Json:
        calls = {"putItem": self.put, "updateItem": self.update, "getItem": self.get}
        return calls[operation](request)

    def put(self, request: Json) -> Json:
        key = request["Item"]["id"]["S"]
        self._check(request, key)
        self.items[key] = dict(request["Item"])
        return {}

    def update(self, request: Json) -> Json:
        key = request["Key"]["id"]["S"]
        self._check(request, key)
        item = self.items.get(key) or dict[str, Any](request["Key"])
        values = request.get(_VALUES, {})
        assigned, removed = _update(request["UpdateExpression"], _names(request))
        new = {
            name: item[present] if present in item else values[value]
            for name, present, value in assigned
        }
        self.items[key] = {k: v for k, v in (item | new).items() if k not in removed}
        all_new = request.get("ReturnValues") == "ALL_NEW"
        return {"Attributes": dict(self.items[key])} if all_new else {}

    def get(self, request: Json) -> Json:
        self._clock.count("reads")
        names = dict(_names(request))
        wanted = {names.get(name, name) for name in request["ProjectionExpression"].split(", ")}
        item = self.items.get(request["Key"]["id"]["S"])
        return {"Item": _projected(item, wanted)} if item else {}

    def _check(self, request: Json, key: str) -> None:
        self._clock.count("writes")
        now = int(self._clock.now)
        second, writes = self._written.get(key, (now, 0))
        writes = writes if second == now else 0
        if writes >= WRITES_A_SECOND:
            self._clock.count("throttled writes")
            raise ServiceError(THROTTLED)
        self._written[key] = now, writes + 1
        if text := request.get("ConditionExpression"):
            holds = _condition(text, _names(request))
            if not holds(self.items.get(key, {}), request.get(_VALUES, {})):
                refusal = ServiceError("DynamoDB.ConditionalCheckFailedException")
                if request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
                    refusal.response["Item"] = self.items.get(key)
                raise refusal

    # For a function

    def get_item(self, Key: Json, **_: Any) -> Json:  # noqa: N803
        item = self._clock.call("dynamodb", lambda: self.items.get(Key["id"]["S"]), attempts=2)
        return {"Item": dict(item)} if item else {}

    def get_paginator(self, _: str) -> Table:
        return self

    def paginate(self, IndexName: str, **_: Any) -> Iterator[Json]:  # noqa: N803
        assert IndexName == INDEX
        items = self._clock.call("dynamodb", lambda: self.having(SINCE), attempts=2)
        yield {"Items": [_projected(item, {"id", SINCE}) for item in items]}

    def put_item(self, **request: Any) -> None:
        self._clock.call("dynamodb", lambda: self.put(request))

    def update_item(self, **request: Any) -> None:
        self._clock.call("dynamodb", lambda: self.update(request), attempts=2)

    # For a test

    def having(self, attribute: str) -> list[Json]:
        return [item for item in self.items.values() if attribute in item]


_VALUES = "ExpressionAttributeValues"


def _names(request: Json) -> Names:
    return tuple(request.get("ExpressionAttributeNames", {}).items())


def _projected(item: Json, wanted: set[str]) -> Json:
    return {name: value for name, value in item.items() if name in wanted}


@cache
def _condition(text: str, names: Names) -> Callable[[Json, Json], bool]:
    """Compile a condition. Python's `and` and `or` bind as DynamoDB's do."""
    placeholders, clauses = dict(names), list[Callable[[Json, Json], bool]]()

    def compiled(match: re.Match[str]) -> str:
        clauses.append(_clause(match, placeholders))
        return f"holds[{len(clauses) - 1}]"

    formula = re.sub("AND|OR", lambda word: word[0].lower(), _CLAUSE.sub(compiled, text))
    assert re.fullmatch(r"(holds\[\d+\]|and|or|[ ()])+", formula), text
    code = compile(formula, text, "eval")
    return lambda item, values: eval(code, {"holds": [clause(item, values) for clause in clauses]})  # noqa: S307


def _clause(match: re.Match[str], names: dict[str, str]) -> Callable[[Json, Json], bool]:
    name = match["name"] or match["text"] or match["one"]
    name = names.get(name, name)
    if match["exists"]:
        return lambda item, _: (name in item) == (match["exists"] == "exists")
    if start := match["start"]:
        return lambda item, values: (
            item.get(name, {}).get("S", "").startswith(values[start]["S"]) and name in item
        )
    compare, is_unequal = _COMPARED[match["compare"]], match["compare"] == "<>"

    def compared(item: Json, values: Json) -> bool:
        """Compare as DynamoDB: only `<>` is true of a missing attribute, or of another type."""
        one, other = _typed(item.get(name, {})), _typed(values[match["other"]])
        return compare(one[1], other[1]) if one[0] == other[0] else is_unequal

    return compared


def _typed(value: Json) -> tuple[str, Any]:
    [(kind, content)] = value.items() or [("", "")]
    return kind, float(content) if kind == "N" else content


@cache
def _update(text: str, names: Names) -> tuple[list[tuple[str, str, str]], set[str]]:
    """Give what an update assigns, each unless another attribute is present, and removes."""
    placeholders, match = dict(names), _UPDATE.fullmatch(text)
    assert match, text
    sets, removes = match.groups(default="")
    assignments = list(_ASSIGNMENT.finditer(sets))
    assert "".join(part[0] for part in assignments) == sets, text
    assigned = [
        (
            placeholders.get(part[1], part[1]),
            placeholders.get(part[2], part[2]) or "",
            part[3] or part[4],
        )
        for part in assignments
    ]
    return assigned, {placeholders.get(part, part) for part in removes.split(", ")}
