"""Makes an index of a JSON Lines document: one JSON object a line (https://jsonlines.org)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from typing import NoReturn

STEP = 1000  # rows
MAXIMUM_ROWS = 1_000_000  # so that the work ends in time, whatever the document contains


class InvalidDocument(ValueError):
    """It cannot be indexed. Another attempt would not help."""


@dataclass(frozen=True)
class Index:
    """A JSON object, and its media type."""

    content: bytes
    content_type: str = "application/json"


def index(content: bytes) -> Index:
    """Index a document, so that a reader finds its rows without reading all of it.

    Parameters
    ----------
    content : bytes
        Lines in UTF-8. Empty ones do not count as rows.

    Returns
    -------
    Index
        ``rows``, how many there are; ``bytes``, the size; and ``offsets``, the byte at which every
        ``step``-th row begins, for a ranged read.

    Raises
    ------
    InvalidDocument
        A line is not a JSON object, or there are too many rows.
    """
    rows, position = 0, 0
    offsets: list[int] = []
    for number, line in enumerate(BytesIO(content), start=1):
        if line.strip():
            _check(line, number)
            if rows % STEP == 0:
                offsets.append(position)
            rows += 1
            if rows > MAXIMUM_ROWS:
                raise InvalidDocument(f"It has more than {MAXIMUM_ROWS} rows.")
        position += len(line)
    found = {"rows": rows, "bytes": position, "step": STEP, "offsets": offsets}
    return Index(json.dumps(found).encode())


def with_event(content: bytes, stamp: bytes) -> bytes:
    """Add the stamp of the event to an index, as its field ``event``."""
    return json.dumps(json.loads(content) | {"event": stamp.decode()}).encode()


def _check(line: bytes, number: int) -> None:
    try:
        row = json.loads(line.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"Line {number} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InvalidDocument(f"Line {number} is JSON, but not an object.")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
