"""May two versions of a policy run at the same time? After a deployment, both do for five minutes.

What the old version left is older: records, and events in the retry queue. The comparison knows
what both read and write, not what it means: two versions that it finds equal may still differ in
the order of their states. The searches of the model checker tell more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from inorder.asl.definition import (
    GET,
    INVOKE,
    PUT,
    SEND,
    UPDATE,
    Json,
    expressions,
    is_end,
    payload_paths,
    written,
)
from inorder.asl.lease import lease_numbers

# Of an expression: a name with its sign, which is no keyword and no function.
_NAME = re.compile(r"(?<![\w:#])(#?[a-z_]\w*)\b(?!\s*\()")
_OF_A_RECORD = re.compile(r"\.(?:Item|Attributes)(?:\.|\[')(\w+)")


def differences(old: Json, new: Json) -> Iterator[str]:
    """Say what breaks while executions of both definitions run on the same records.

    Parameters
    ----------
    old, new : dict
        Two definitions in which `check_file` finds nothing, substituted or not.

    Yields
    ------
    str
        A sentence with what differs, and what that does.
    """
    for holder, waiter, who in ((new, old, "old"), (old, new, "new")):
        working, waiting = lease_numbers(holder), lease_numbers(waiter)
        if working and waiting and working.holder >= waiting.lease:
            yield (
                f"lease: a holder of the other version may need its lock for {working.holder:g} s,"
                f" and a waiter of the {who} one breaks it after {waiting.lease:g} s"
            )
    if _ids(old) != _ids(new):
        yield (
            f"records: the id is {_listed(_ids(new))} instead of {_listed(_ids(old))},"
            " so no version sees the locks of the other, and finished events are processed again"
        )
    yield from _attributes(old, new, "the old version does not write it")
    yield from _attributes(new, old, "the new version does not write it")
    for name, found in (
        ("values in records", _values),
        ("fields of retried events", _messages),
        ("fields that the function gets", _invocations),
    ):
        if missing := found(old) - found(new):
            yield f"{name}: {_listed(missing)} is gone, which the old version writes or sends"
        if added := found(new) - found(old):
            yield f"{name}: {_listed(added)} is new, which nothing of the old version has"
    for name in sorted(_ends(old) - _ends(new)):
        yield f"outcomes: {name} is gone, which alarms, queries and commands may read"


def _attributes(writer: Json, reader: Json, why: str) -> Iterator[str]:
    known, readers = _written(reader) - _written(writer), _read(reader)
    for attribute in sorted(known):
        if states := [name for name, attributes in readers.items() if attribute in attributes]:
            yield f"records: {attribute} is read by {_listed(set(states))}, and {why}"


def _tasks(definition: Json, *resources: str) -> Iterator[tuple[str, Json, Json]]:
    for name, state in definition["States"].items():
        if state.get("Resource") in resources:
            yield name, state, state["Parameters"]


def _written(definition: Json) -> set[str]:
    found = {each for _, state, _ in _tasks(definition, UPDATE) for each in written(state, "SET")}
    return (found - {""}).union(
        *(parameters["Item"] for _, _, parameters in _tasks(definition, PUT))
    )


def _read(definition: Json) -> dict[str, set[str]]:
    """List the attributes of records that each state reads."""
    found: dict[str, set[str]] = {}
    for name, state in definition["States"].items():
        parameters = state.get("Parameters", {})
        attributes = set(_OF_A_RECORD.findall(" ".join(expressions(state))))
        if state.get("Resource") in {PUT, UPDATE, GET}:
            names = parameters.get("ExpressionAttributeNames", {})
            texts = [
                parameters.get(f"{each}Expression", "") for each in ("Condition", "Projection")
            ]
            attributes |= {names.get(each, each) for each in _NAME.findall(" , ".join(texts))}
        found[name] = attributes
    return found


def _ids(definition: Json) -> set[str]:
    """List the expressions that make the ids of records."""
    made: dict[str, set[str]] = {}
    for state in definition["States"].values():
        for field, value in _fields(state.get("Parameters") if state["Type"] == "Pass" else {}):
            made.setdefault(field, set()).add(value)
    found: set[str] = set()
    for _, _, parameters in _tasks(definition, PUT, UPDATE, GET):
        for expression in (parameters.get("Key") or parameters["Item"])["id"].values():
            field = str(expression).rpartition(".")[2]
            makers = {each for each in made.get(field, set()) if not each.startswith("$.")}
            found |= makers or {str(expression)}
    return found


def _fields(template: Any) -> Iterator[tuple[str, str]]:
    for name, value in (template or {}).items():
        if isinstance(value, dict):
            yield from _fields(value)
        elif name.endswith(".$"):
            yield name.removesuffix(".$"), value


def _values(definition: Json) -> set[str]:
    """List the constants that are written into records or compared with them."""
    return {
        constant["S"]
        for _, _, parameters in _tasks(definition, PUT, UPDATE)
        for place in ("Item", "ExpressionAttributeValues")
        for constant in parameters.get(place, {}).values()
        if "S" in constant
    }


def _messages(definition: Json) -> set[str]:
    bodies = [
        parameters["MessageBody"]
        for _, _, parameters in _tasks(definition, SEND)
        if isinstance(parameters.get("MessageBody"), dict)
    ]
    return {field.removesuffix(".$") for body in bodies for field in body}


def _invocations(definition: Json) -> set[str]:
    payloads = [parameters["Payload"] for _, _, parameters in _tasks(definition, INVOKE)]
    return {
        field.removesuffix(".$") if field.endswith(".$") else f"{field} = {value}"
        for payload in payloads
        for field, value in payload.items()
        if not list(payload_paths({field: value})) or field.endswith(".$")
    }


def _ends(definition: Json) -> set[str]:
    return {name for name, state in definition["States"].items() if is_end(state)}


def _listed(found: set[str]) -> str:
    return ", ".join(sorted(found)) or "none"
