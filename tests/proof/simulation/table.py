"""The key table: moto parses its expressions, once each, because that takes it a millisecond."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from inorder_fence.stuck import INDEX, SINCE
from tests.proof.simulation.clock import Clock, ServiceError
from tests.support import moto_parts

DynamoType = moto_parts.part(moto_parts.VALUE)
parse_condition, parse_update = (
    moto_parts.part(each) for each in (moto_parts.CONDITION, moto_parts.UPDATE)
)

Json = dict[str, Any]
Attributes = dict[str, Any]  # DynamoTypes
Names = tuple[tuple[str, str], ...]


class Item:
    """What moto's conditions read."""

    def __init__(self, attrs: Attributes) -> None:
        self.attrs = attrs


class Table:
    """The records by their IDs, for a state machine, and as boto3's client for a function."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.exceptions = SimpleNamespace(ConditionalCheckFailedException=ServiceError)
        self.items: dict[str, Item] = {}

    # For a state machine

    def put(self, request: Json) -> Json:
        """Do PutItem."""
        key = request["Item"]["id"]["S"]
        self._check(request, self.items.get(key))
        self.items[key] = Item({name: DynamoType(each) for name, each in request["Item"].items()})
        return {}

    def update(self, request: Json) -> Json:
        """Do UpdateItem."""
        key = request["Key"]["id"]["S"]
        self._check(request, self.items.get(key))
        item = self.items.setdefault(key, Item({"id": DynamoType(request["Key"]["id"])}))
        values = request.get("ExpressionAttributeValues", {})
        apply = _update(request["UpdateExpression"], _names(request))
        apply(item.attrs, {name: DynamoType(each) for name, each in values.items()})
        return {"Attributes": _json(item)} if request.get("ReturnValues") == "ALL_NEW" else {}

    def get(self, request: Json) -> Json:
        """Do GetItem."""
        names = dict(_names(request))
        wanted = {names.get(each, each) for each in request["ProjectionExpression"].split(", ")}
        item = self.items.get(request["Key"]["id"]["S"])
        return {"Item": _json(item, wanted)} if item else {}

    def _check(self, request: Json, item: Item | None) -> None:
        if "ConditionExpression" not in request:
            return
        values = request.get("ExpressionAttributeValues", {})
        condition, operands = _condition(
            request["ConditionExpression"], _names(request), tuple(values)
        )
        for name, operand in operands:
            [(operand.type, operand.value)] = values[name].items()
        if not condition.expr(item):
            raise ServiceError("DynamoDB.ConditionalCheckFailedException")

    # For a function

    def get_item(self, Key: Json, **_: Any) -> Json:  # noqa: N803
        item = self._clock.call("dynamodb", lambda: self.items.get(Key["id"]["S"]), attempts=2)
        return {"Item": _json(item)} if item else {}

    def get_paginator(self, _: str) -> Table:
        return self

    def paginate(self, IndexName: str, **_: Any) -> Iterator[Json]:  # noqa: N803
        assert IndexName == INDEX
        found = self._clock.call("dynamodb", lambda: self.having(SINCE), attempts=2)
        yield {"Items": [_json(item, {"id", SINCE}) for item in found]}

    def put_item(self, **request: Any) -> None:
        self._clock.call("dynamodb", lambda: self.put(request))

    def update_item(self, **request: Any) -> None:
        self._clock.call("dynamodb", lambda: self.update(request), attempts=2)

    # For a test

    def having(self, attribute: str) -> list[Item]:
        """List the records that have an attribute."""
        return [item for item in self.items.values() if attribute in item.attrs]

    def is_quiet(self) -> bool:
        """Tell whether no record is in the index."""
        return not self.having(SINCE)


def _names(request: Json) -> Names:
    return tuple(request.get("ExpressionAttributeNames", {}).items())


def _json(item: Item, wanted: set[str] | None = None) -> Json:
    return {
        name: {each.type: each.value}
        for name, each in item.attrs.items()
        if wanted is None or name in wanted
    }


@cache
def _condition(
    text: str, names: Names, values: tuple[str, ...]
) -> tuple[Any, list[tuple[str, Any]]]:
    """Parse a condition, and list its operands, which get other values each time."""
    condition = parse_condition(text, dict(names), {name: {"S": name} for name in values})
    return condition, [(operand.value, operand) for operand in _operands(condition, values)]


def _operands(node: Any, names: tuple[str, ...]) -> Iterator[Any]:
    if getattr(node, "value", None) in names:
        yield node
    sides = [getattr(node, name) for name in ("lhs", "rhs") if hasattr(node, name)]
    for each in (*sides, *getattr(node, "arguments", ())):
        yield from _operands(each, names)


Value = Callable[[Attributes, Attributes], Any]


@cache
def _update(text: str, names: Names) -> Callable[[Attributes, Attributes], None]:
    """Parse an update."""
    known, tree = dict(names), parse_update(text)
    sets = [each.children for each in _nodes(tree, "UpdateExpressionSetAction")]
    values = [(_path(path, known), _value(value, known)) for path, value in sets]
    removes = _nodes(tree, "UpdateExpressionRemoveAction")
    removed = [_path(each.children[0], known) for each in removes]

    def apply(item: Attributes, given: Attributes) -> None:
        item.update([(name, value(item, given)) for name, value in values])
        for name in removed:
            item.pop(name, None)

    return apply


def _nodes(node: Any, kind: str) -> Iterator[Any]:
    """List the nodes of a kind in moto's tree, whose classes have no types."""
    if node.type == kind:
        yield node
    for child in node.children:
        if hasattr(child, "children"):
            yield from _nodes(child, kind)


def _path(path: Any, names: dict[str, str]) -> str:
    [name] = path.children
    text: str = name.children[0]
    return names.get(text, text)


def _value(value: Any, names: dict[str, str]) -> Value:
    if value.type == "UpdateExpressionValue":
        [value] = value.children
    if value.type == "ExpressionAttributeValue":
        name = value.children[0]
        return lambda _, given: given[name]
    function, path, other = value.children
    assert function == "if_not_exists"
    present, absent = _path(path, names), _value(other, names)
    return lambda item, given: item.get(present) or absent(item, given)
