"""What is done to an object: read it, invert it with the product's own code, write the output."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

from aws_lambda_powertools import Logger

from bench.contenders import recorder
from bench.contenders.orders import orders_of
from inorder_fence import ObjectEvent, Rejection
from invert_image import app
from invert_image.inversion import InvertedImage, invert

logger = Logger()


def work(content: bytes) -> InvertedImage:
    """Invert an image, and obey its orders."""
    etag = recorder.processes(content)
    orders = orders_of(content)
    dies = orders["dies"] and recorder.once(f"{etag}.started")
    time.sleep(orders["seconds"])
    if dies:
        recorder.ends()
        recorder.once(f"{etag}.died")
        os._exit(1)
    return invert(content, app.MAXIMUM_PIXELS)


fence = replace(app.fence, work=work, rejection=Rejection)
recorder.counted(fence.s3)


def process(event: dict[str, Any]) -> None:
    """Write the output of the object as it is now, whatever output is there.

    Most functions do this. Which events may be processed, and when, is up to the contender.
    """
    with recorder.processing(event):
        fence.write_unfenced(ObjectEvent.from_event(event))
    log("Processed", event)


def process_fenced(event: dict[str, Any]) -> None:
    """Write the output behind the product's fence, as examples/fence_alone does."""
    with recorder.processing(event):
        outcome = fence.write_newest(ObjectEvent.from_event(event)).outcome
    log(outcome, event)


def log(outcome: str, event: dict[str, Any]) -> None:
    """Log what became of an event, in one line."""
    logger.info(outcome, extra={"source_key": event["detail"]["object"]["key"]})
