"""Lambda handler: inverts each picture that is uploaded, with the fence and nothing else."""

import os
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import boto3
from PIL import Image, ImageOps

from inorder_fence import S3_CONFIG, Fence, ObjectEvent, Rejection


@dataclass(frozen=True)
class Picture:
    """An output: its content, and its media type."""

    content: bytes
    content_type: str


def work(content: bytes) -> Picture:
    """Invert a picture. Your own work goes here; it must be safe to repeat."""
    file = BytesIO()
    try:
        with Image.open(BytesIO(content)) as image:
            ImageOps.invert(image.convert("RGB")).save(file, image.format)
            return Picture(file.getvalue(), Image.MIME[image.format or ""])
    except (OSError, Image.DecompressionBombError) as error:
        raise Rejection(f"The object is no picture: {error}") from error


fence = Fence(
    boto3.client("s3", config=S3_CONFIG),
    output_bucket=os.environ["OUTPUT_BUCKET"],
    maximum_bytes=30_000_000,  # a larger object is rejected
    work=work,
    handles_deletions=True,
)


def handler(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda gives both
    """Process one event. Lambda tries what fails twice more, then sends it to FailedEvents."""
    output = fence.write_newest(ObjectEvent.from_event(event))
    print(output.outcome, event["detail"]["object"]["key"])  # noqa: T201 - the log
