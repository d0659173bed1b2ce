"""The product: its handler, which the state machine of a policy invokes.

Only the work is replaced, by one that inverts the image in the same way and obeys its orders.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.contenders import image, recorder
from invert_image import app

app.fence = replace(app.fence, work=image.work)


def handler(payload: dict[str, Any], context: Any) -> dict[str, str]:
    """Answer the state machine."""
    with recorder.processing(payload["event"]):
        answer: dict[str, str] = app.handler(payload, context)
        return answer
