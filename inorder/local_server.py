"""ministack, without two faults that users would take for faults of this project.

`local_aws` starts it. ministack leaves the version out of S3's events for EventBridge, so each
upload to a versioned bucket would look like one from before the bucket had versions. And it reads
names such as ``$['detail-type']`` with Python's `ast`, which raises a SystemError now and then if
two threads use it at once, so an execution would end (https://github.com/python/cpython/issues/106905).
"""

import ast
import json
import threading
from types import SimpleNamespace
from typing import Any

from ministack.app import main

from inorder.ministack_parts import put, replaces

_event = threading.local()  # a thread fires an event, and dispatches it
_one_reader = threading.Lock()


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

    def literal_eval(text: str) -> Any:
        with _one_reader:
            return ast.literal_eval(text)

    put("services.stepfunctions.ast", SimpleNamespace(literal_eval=literal_eval))
    main()


if __name__ == "__main__":
    serve()
