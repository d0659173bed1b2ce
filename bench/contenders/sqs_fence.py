"""A standard queue before a function with the product's fence.

The rule's target is the queue. What fails comes again once its message is visible again, for as
long as the queue keeps it: up to 14 days.
"""

from __future__ import annotations

import json
from typing import Any

from bench.contenders import image


def handler(batch: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda gives both
    """Process the messages of a batch, behind the fence."""
    for record in batch["Records"]:
        image.process_fenced(json.loads(record["body"]))
