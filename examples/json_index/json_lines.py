"""Makes an index of a JSON Lines document: one JSON object a line (https://jsonlines.org)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NoReturn

STEP = 1000  # rows
# So that the work ends in time, whatever the document contains.
MAXIMUM_ROWS = 1_000_000
MAXIMUM_FIELDS = 1_000
_TYPES = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "number",
    list: "array",
    str: "string",
    type(None): "null",
}


class InvalidDocument(ValueError):
    """It cannot be indexed. Another attempt would not help."""


@dataclass(frozen=True)
class Index:
    """A JSON object, and its media type."""

    content: bytes
    content_type: str = "application/json"


def index(content: bytes) -> Index:
    """Index a document, so that a reader finds its rows and fields without reading all of it.

    Parameters
    ----------
    content : bytes
        Lines in UTF-8. Empty ones do not count as rows.

    Returns
    -------
    Index
        ``rows``, how many there are; ``bytes``, the size; ``offsets``, the byte at which every
        ``step``-th row begins, for a ranged read; and ``fields``, with the number of rows that have
        the field and the types of its values.

    Raises
    ------
    InvalidDocument
        A line is not a JSON object, or there are too many rows or fields.
    """
    rows, position = 0, 0
    offsets: list[int] = []
    counts: dict[str, int] = {}
    types: dict[str, set[str]] = {}
    for number, line in enumerate(BytesIO(content), start=1):
        if line.strip():
            if rows % STEP == 0:
                offsets.append(position)
            rows += 1
            for name, value in _parsed(line, number).items():
                counts[name] = counts.get(name, 0) + 1
                types.setdefault(name, set()).add(_TYPES[type(value)])
            if rows > MAXIMUM_ROWS or len(counts) > MAXIMUM_FIELDS:
                raise InvalidDocument(
                    f"It has more than {MAXIMUM_ROWS} rows or {MAXIMUM_FIELDS} different fields."
                )
        position += len(line)
    fields = {name: {"rows": counts[name], "types": sorted(types[name])} for name in sorted(counts)}
    found = {"rows": rows, "bytes": position, "step": STEP, "offsets": offsets, "fields": fields}
    return Index(json.dumps(found).encode())


def with_event(content: bytes, stamp: bytes) -> bytes:
    """Add the stamp of the event to an index, as its field ``event``."""
    return json.dumps(json.loads(content) | {"event": stamp.decode()}).encode()


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"Line {number} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InvalidDocument(f"Line {number} is JSON, but not an object.")
    return row


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
