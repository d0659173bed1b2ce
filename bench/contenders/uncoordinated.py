"""A rule and a function, and nothing else.

The design of AWS's own tutorial on a function that makes thumbnails:
https://docs.aws.amazon.com/lambda/latest/dg/with-s3-tutorial.html
"""

from __future__ import annotations

from typing import Any

from bench.contenders import image


def handler(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda gives both
    """Process each event as it comes."""
    image.process(event)
