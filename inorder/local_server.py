"""ministack, with the version in S3's events, which it leaves out of those for EventBridge.

`local_aws` starts it. Without this, each upload to a versioned bucket would look like one from
before the bucket had versions.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from ministack.app import main

from inorder.ministack_parts import replaces

_event = threading.local()  # a thread fires an event, and dispatches it


def serve() -> None:
    """Serve until the process is ended."""

    @replaces("services.s3._fire_s3_event")
    def fire(original: Any, *arguments: Any, version_id: str | None = None, **named: Any) -> None:
        _event.version = version_id
        original(*arguments, version_id=version_id, **named)

    @replaces("services.eventbridge._dispatch_event")
    def dispatch(original: Any, event: dict[str, Any], *arguments: Any, **named: Any) -> Any:
        version = getattr(_event, "version", None)
        if event["Source"] == "aws.s3" and version not in {None, "null"}:
            detail = json.loads(event["Detail"])
            detail["object"]["version-id"] = version
            event = event | {"Detail": json.dumps(detail)}
        return original(event, *arguments, **named)

    main()


if __name__ == "__main__":
    serve()
