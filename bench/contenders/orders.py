"""What an uploaded image says about the work on it.

The orders stand behind the image, after a mark, where readers of images ignore them: for how many
``seconds`` the work takes, and whether its first attempt ``dies`` with its process.
So the same image causes the same work and the same trouble in every contender.
"""

from __future__ import annotations

import json
from typing import Any

MARK = b"\n#orders "


def with_orders(picture: bytes, orders: dict[str, Any]) -> bytes:
    """Put orders behind an image."""
    return picture + MARK + json.dumps(orders).encode()


def orders_of(content: bytes) -> dict[str, Any]:
    """Read the orders behind an image."""
    orders: dict[str, Any] = json.loads(content.partition(MARK)[2])
    return orders
