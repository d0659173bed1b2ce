"""What is done with an object's content. It must be safe to repeat."""

import json
from dataclasses import dataclass
from io import BytesIO

from inorder_fence import Rejection


@dataclass(frozen=True)
class Index:
    """A JSON object, and its media type."""

    content: bytes
    content_type: str = "application/json"


def index(content: bytes) -> Index:
    """List the bytes at which the rows of a document begin, so that a reader can begin at each."""
    offsets, position = list[int](), 0
    for line in BytesIO(content):
        if line.strip():
            try:
                json.loads(line)
            except (ValueError, RecursionError) as error:
                raise Rejection(f"Row {len(offsets) + 1} is not JSON: {error}") from error
            offsets.append(position)
        position += len(line)
    return Index(json.dumps({"rows": len(offsets), "offsets": offsets}).encode())


def with_event(content: bytes, stamp: bytes) -> bytes:
    """Add the stamp of the event to an index, as its field ``event``."""
    return json.dumps(json.loads(content) | {"event": stamp.decode()}).encode()
