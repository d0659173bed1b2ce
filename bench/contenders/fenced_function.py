"""A rule and a function with the product's fence, as in examples/fence_alone.

Lambda tries what fails twice more, after one and after two minutes. Then the event waits in a queue
for a person.
"""

from __future__ import annotations

from typing import Any

from bench.contenders import image


def handler(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda gives both
    """Process each event as it comes, behind the fence."""
    image.process_fenced(event)
