"""ministack, with the version in S3's events, which it leaves out of those for EventBridge.

`local_aws` starts it. Without this, each upload to a versioned bucket would look like one from
before the bucket had versions.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from ministack import app
from ministack.services import eventbridge, s3

_fire, _dispatch = s3._fire_s3_event, eventbridge._dispatch_event
_event = threading.local()  # a thread fires an event, and dispatches it


def _fire_with_version(*arguments: Any, version_id: str | None = None, **named: Any) -> None:
    _event.version = version_id
    _fire(*arguments, version_id=version_id, **named)


def _dispatch_with_version(event: dict[str, Any], *arguments: Any, **named: Any) -> Any:
    version = getattr(_event, "version", None)
    if event["Source"] == "aws.s3" and version not in {None, "null"}:
        detail = json.loads(event["Detail"])
        detail["object"]["version-id"] = version
        event = event | {"Detail": json.dumps(detail)}
    return _dispatch(event, *arguments, **named)


if __name__ == "__main__":
    s3._fire_s3_event, eventbridge._dispatch_event = _fire_with_version, _dispatch_with_version
    app.main()
