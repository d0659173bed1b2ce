"""Runs the function's handler in a process of its own, with S3 in memory, for bench/function.py.

``python bench/function_worker.py IMAGE TURNS GROUP`` prints one line of JSON last. GROUP is the
folder of a control group, which it and the process of its work join when they are warm.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError
from PIL import ImageOps
from PIL.JpegImagePlugin import JpegImageFile, get_sampling
from psutil import Process

from invert_image import app

CONTEXT = SimpleNamespace(
    function_name="f", memory_limit_in_mb=0, invoked_function_arn="a", aws_request_id="r"
)


@dataclass(frozen=True)
class OneObject:
    """S3 with one source, and no output: the calls of one event."""

    content: bytes
    etag: str = "source"

    def head_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: ARG002, D102, N803
        if Key.startswith("out-"):
            status: Any = {"Error": {"Code": "404"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
            raise ClientError(status, "HeadObject")
        return {"ETag": self.etag}

    def get_object(self, **_: Any) -> dict[str, Any]:  # noqa: D102
        return {"Body": BytesIO(self.content), "ContentLength": len(self.content)}

    def put_object(self, **_: Any) -> dict[str, Any]:  # noqa: D102
        return {"ETag": "written"}


def plain(content: bytes) -> bytes:
    """Invert a JPEG as the shortest program does that keeps its quality."""
    image = JpegImageFile(BytesIO(content))
    file = BytesIO()
    options: dict[str, Any] = {"qtables": image.quantization, "subsampling": get_sampling(image)}
    ImageOps.invert(image).save(file, "JPEG", **options)
    return file.getvalue()


def processes() -> list[int]:
    """List this process and the one that does the work."""
    return [os.getpid(), *(each.pid for each in Process().children())]


def processor_time() -> float:
    """Read the processor time of these processes, of which the kernel counts nanoseconds."""
    found = [Path(f"/proc/{each}/schedstat").read_text().split()[0] for each in processes()]
    return sum(map(int, found)) / 1e9


def processor_seconds(run: Callable[[], Any]) -> float:
    """Measure the processor time of a call."""
    began = processor_time()
    run()
    return processor_time() - began


def measure(content: bytes, turns: int, group: Path) -> dict[str, float]:
    """Let the handler and plain Pillow take turns.

    Returns
    -------
    dict
        The median ``ratio`` of the processor's seconds to plain Pillow's, the ``seconds`` of an
        invocation on average, and the ``share`` of a processor.
    """
    s3 = OneObject(content)
    app.fence = replace(app.fence, s3=s3)  # type: ignore[arg-type]
    described = {"key": "image.jpg", "sequencer": "0A", "etag": s3.etag}
    detail = {"bucket": {"name": "input"}, "object": described}
    event = {"event": {"detail-type": "Object Created", "detail": detail}, "fence": "newest"}

    def handle() -> None:
        if (answer := app.handler(event, CONTEXT))["outcome"] != "Processed":
            raise AssertionError(answer)

    handle()
    plain(content)
    for each in processes():
        (group / "cgroup.procs").write_text(str(each))
    taken, processor, others = 0.0, [], []
    for _ in range(turns):
        began = time.perf_counter()
        processor.append(processor_seconds(handle))
        taken += time.perf_counter() - began
        others.append(processor_seconds(lambda: plain(content)))
    return {
        "ratio": median(one / other for one, other in zip(processor, others, strict=True)),
        "seconds": taken / turns,
        "share": sum(processor) / taken,
    }


if __name__ == "__main__":
    image, turns, group = sys.argv[1:]
    print(json.dumps(measure(Path(image).read_bytes(), int(turns), Path(group))))
