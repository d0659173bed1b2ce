"""ministack, without three faults that users would take for faults of this project.

`local_aws` starts it. ministack leaves the version out of S3's events for EventBridge, so each
upload to a versioned bucket would look like one from before the bucket had versions. And it reads
names such as ``$['detail-type']`` with Python's `ast`, which raises a SystemError now and then if
two threads use it at once, so an execution would end (https://github.com/python/cpython/issues/106905).
And its state machines cannot read and write objects, which the work of `inorder try` may do.
"""

import ast
import json
import os
import threading
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.exceptions import ClientError
from ministack.app import main

from inorder.loopback import HOST
from inorder.ministack_parts import part, put, replaces

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

    @replaces("services.stepfunctions._invoke_resource")
    def invoke(original: Any, resource: str, given: Any) -> Any:
        if resource not in {f"arn:aws:states:::aws-sdk:s3:{each}Object" for each in ("get", "put")}:
            return original(resource, given)
        s3 = boto3.client("s3", endpoint_url=f"http://{HOST}:{os.environ['GATEWAY_PORT']}")
        try:
            if resource.endswith("getObject"):
                return {"Body": s3.get_object(**given)["Body"].read().decode()}
            # A text is written as JSON, too: https://github.com/localstack/localstack/pull/12035
            body = json.dumps(given["Body"], ensure_ascii=False, separators=(",", ":"))
            return {"ETag": s3.put_object(**given | {"Body": body})["ETag"]}
        except ClientError as error:
            failure = part("services.stepfunctions._ExecutionError")
            raise failure(f"S3.{error.response['Error']['Code']}Exception", str(error)) from None

    put("services.stepfunctions.ast", SimpleNamespace(literal_eval=literal_eval))
    main()


if __name__ == "__main__":
    serve()
